"""A program in a pseudo-terminal of its own: a test reads what it prints, and presses keys."""

import asyncio
import contextlib
import os
import pty
import re
import signal
import termios
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

_LIMIT = 60.0  # seconds, for all that a test does with the program
_PAUSE = 0.05  # seconds in which a screen that rests prints nothing
_TITLE = re.compile(r"\x1b\]0;([^\x07\x1b]*)\x07")
_CONTROL = re.compile(r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b\[[0-9;?<=>]*[ -/]*[@-~]|\r")
# A program asks the terminal what it can do. The answers: kitty's keyboard protocol, without which Gemini CLI
# takes Enter soon after another key for a part of a paste; and what it is, which ends the asking.
_QUESTION = b"\x1b[c"
_ANSWERS = b"\x1b[?0u\x1b[?62c"


class Terminal:
    """The screen and the keyboard of a running program."""

    def __init__(self, descriptor: int, process: asyncio.subprocess.Process) -> None:
        self._descriptor = descriptor
        self._process = process
        self._printed = b""
        asyncio.get_running_loop().add_reader(descriptor, self._read)

    @property
    def text(self) -> str:
        """All that was printed since the last key: every state of the screen, one after the other."""
        return _CONTROL.sub("", self._printed.decode(errors="replace"))

    @property
    def title(self) -> str:
        """The newest title of the window since the last key."""
        return next(iter(reversed(_TITLE.findall(self._printed.decode(errors="replace")))), "")

    def press(self, keys: str) -> None:
        self._printed = b""
        os.write(self._descriptor, keys.encode())

    async def until(self, condition: Callable[[], Any]) -> None:
        """Wait for the condition, and for the screen to rest: what is just being drawn takes no keys yet."""
        before = None
        while not condition() or self._printed != before:
            before = self._printed
            await asyncio.sleep(_PAUSE)

    async def ended(self) -> int:
        """Wait for the program's end; gives its exit code."""
        return await self._process.wait()

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)

    def _read(self) -> None:
        try:
            printed = os.read(self._descriptor, 65536)
        except OSError:  # the last program in the terminal has ended
            asyncio.get_running_loop().remove_reader(self._descriptor)
            return
        self._printed += printed
        if _QUESTION in printed:
            os.write(self._descriptor, _ANSWERS)


@asynccontextmanager
async def in_terminal(
    command: list[str], folder: Path, environment: Mapping[str, str]
) -> AsyncIterator[Terminal]:
    """Start a program, in its own session; beside PATH and TERM it gets these variables only."""
    ours, its = pty.openpty()
    termios.tcsetwinsize(its, (40, 120))
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            env={"PATH": os.environ["PATH"], "TERM": "xterm-256color", **environment},
            cwd=folder,
            stdin=its,
            stdout=its,
            stderr=its,
            start_new_session=True,
        )
    finally:
        os.close(its)
    terminal = Terminal(ours, process)
    try:
        async with asyncio.timeout(_LIMIT):
            yield terminal
    except TimeoutError:
        raise AssertionError(f"waited in vain; printed since the last key:\n{terminal.text}") from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        terminal.close()
