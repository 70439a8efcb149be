"""The `hookgate` command as a user starts it, in its own process."""

import asyncio
import os
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from support.programs import warm

# Not where operators look, nor the upstream that a gateway names before itself.
_LISTENS = re.compile(
    r"(?<!admin listener on )(?<!open the panel: )http://127\.0\.0\.1:[1-9]\d*(?!.*upstream \(not)"
)

COMMAND = (sys.executable, "-m", "hookgate.proxy")

Process = asyncio.subprocess.Process | warm.WarmProcess


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def complaint(self) -> str:
        """The one line it printed on stderr, and nowhere a traceback."""
        assert self.out == ""
        assert self.err.count("\n") == 1, self.err
        return self.err.strip()


def environment(changes: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without any settings of hookgate's, and with the changes."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOOKGATE_")}
    return {**kept, "HOOKGATE_CONFIG": os.devnull, **(changes or {})}


async def run(
    *arguments: str,
    env: Mapping[str, str] | None = None,
    descriptors: tuple[int, int] | None = None,
    stdin: bytes = b"",
) -> Ended:
    """Run a command to its end; `descriptors` are the soft and the hard limit that it is started with."""
    with tempfile.TemporaryDirectory() as state:
        own = {"HOOKGATE_STATE": state} if arguments[:1] == ("serve",) else {}
        process = await _start(arguments, {**own, **(env or {})}, descriptors)
        try:
            async with asyncio.timeout(90):
                out, err = await process.communicate(stdin)
        finally:
            await _end(process)
    return Ended(process.returncode or 0, out.decode(), err.decode())


class Server:
    """A command that serves until it is interrupted; `url` is where it says it listens."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.log = ""
        self.url = ""

    async def started(self) -> None:
        while not (found := _LISTENS.search(self.log)):
            assert await self.next_line(), f"it ended instead of starting: {self.log}"
        self.url = found[0]

    async def next_line(self) -> str:
        """One more line of its log; empty at its end."""
        assert self._process.stderr
        line = (await self._process.stderr.readline()).decode()
        self.log += line
        return line

    @property
    def pid(self) -> int:
        return self._process.pid

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    async def ended(self) -> int:
        """Its exit code, once it has ended by itself."""
        while await self.next_line():
            pass
        return await self._process.wait()


@asynccontextmanager
async def serving(
    *arguments: str,
    env: Mapping[str, str] | None = None,
    descriptors: tuple[int, int] | None = None,
    patience: float = 60,
) -> AsyncIterator[Server]:
    """A serving command, up and listening; nothing may take longer than `patience` seconds.

    `descriptors` are the soft and the hard limit that it is started with.
    """
    with tempfile.TemporaryDirectory() as state:  # what it remembers must be no other's
        process = await _start(arguments, {"HOOKGATE_STATE": state, **(env or {})}, descriptors)
        server = Server(process)
        try:
            async with asyncio.timeout(patience):
                await server.started()
                yield server
        finally:
            await _end(process)


async def _start(
    words: tuple[str, ...], env: Mapping[str, str] | None, descriptors: tuple[int, int] | None = None
) -> Process:
    return await start(*words, env=environment(_ports(words, env or {})), descriptors=descriptors)


def _ports(words: tuple[str, ...], env: Mapping[str, str]) -> Mapping[str, str]:
    """The variables, and further ones in place of fixed ports: others may listen there."""
    if words[:1] != ("serve",):
        return env
    chosen = {"--listen", "--config"} & {*words} or {
        "HOOKGATE_LISTEN",
        "HOOKGATE_LISTEN__ADDRESS",
    } & env.keys()
    listen = {} if chosen or "HOOKGATE_CONFIG" in env else {"HOOKGATE_LISTEN": "127.0.0.1:0"}
    return {"HOOKGATE_ADMIN__ADDRESS": "off", **listen, **env}


async def start(
    *words: str,
    env: Mapping[str, str],
    folder: Path | None = None,
    descriptors: tuple[int, int] | None = None,
) -> Process:
    """Start a command with exactly this environment; its stdin, stdout and stderr are pipes."""
    if warm.can_run(env):
        return await warm.start(words, env, folder, descriptors)
    pipe = asyncio.subprocess.PIPE
    limited = ("prlimit", f"--nofile={descriptors[0]}:{descriptors[1]}") if descriptors else ()
    return await asyncio.create_subprocess_exec(
        *(*limited, *COMMAND, *words), env=env, cwd=folder, stdin=pipe, stdout=pipe, stderr=pipe
    )


async def _end(process: Process) -> None:
    if process.returncode is None:
        process.kill()
    async with asyncio.timeout(30):
        await process.communicate()  # an exit may be known before the ends of its pipes are
