"""Command hooks: start a program for each event, with its shell command line and environment."""

import asyncio
import logging
import os
import re
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hookgate.hooks.clock import StallClock
from hookgate.hooks.errors import HookError
from hookgate.hooks.events.base import Document
from hookgate.hooks.output import DENY_EXIT_CODE, Output, read_output, read_process, shorten_stderr
from hookgate.hooks.runners.antigravity import hook_input, hook_output
from hookgate.hooks.runners.process import Program, finish_process, spawn
from hookgate.hooks.session import SessionContext
from hookgate.hooks.settings import CommandConfig, Hook
from hookgate.hooks.settings.commands import INHERITED, VARIABLE, needed_files
from hookgate.translator.strictjson import dumps, loads

log = logging.getLogger("hookgate.hooks")

SHELL = shutil.which("bash") or "/bin/sh"
"""Bash, as in Gemini CLI, so that `[[ … ]]` works in a command line, or else /bin/sh."""

_SLOW_START = 0.005
"""The duration of a start, in seconds, that indicates a lack of processors. On an idle machine: 0.001."""

_SESSION = "GEMINI_SESSION_ID"

_NAMES = "GEMINI_PROJECT_DIR|GEMINI_SESSION_ID|GEMINI_CWD|GEMINI_PLANS_DIR|CLAUDE_PROJECT_DIR"
_WORDS = re.compile(
    rf"""'[^']*' | (?P<quoted> "(?:\\.|[^"\\])*" ) | \\.
    | (?P<variable> \$(?:{_NAMES})\b | \$\{{(?:{_NAMES})\}} )""",
    re.VERBOSE | re.DOTALL,
)
"""Matches quoted text, an escaped character, or one of the contract's variables outside of both."""


def command_program(hook: Hook, config: CommandConfig) -> Program:
    """Return the program of a command hook. Its environment does not contain the session."""
    line = config.command
    return Program(
        argv=[SHELL, "-c", quote_project_variables(line)] if isinstance(line, str) else line,
        env=hook_environment(hook, config.env, os.environ),
        cwd=hook.root,
        timeout=hook.timeout,
    )


def in_session(program: Program, session_id: str) -> Program:
    """Return the program with the session's ID in its environment, unless the hook's `env` sets it."""
    return replace(program, env={_SESSION: session_id, **program.env})


class CommandRunner:
    """Runs a command hook by starting its program for each event."""

    def __init__(self, hook: Hook, config: CommandConfig) -> None:
        self._name, self._root, self._dialect = hook.name, hook.root, config.dialect
        self._needed = needed_files(config, hook.root)
        self._program = command_program(hook, config)
        self._clock = StallClock()
        self._start = asyncio.Lock()
        self._pause = 0.0
        self.ignored_stderr = ""
        """The start and the end of what the last run wrote to stderr, if its exit code was 0."""

    async def run(self, event: str, session: SessionContext, document: Document) -> Output | None:
        program = in_session(self._program, session.session_id)
        async with self._start:
            await asyncio.sleep(self._pause)
            missing = next((paths[0] for paths in self._needed if not any(map(os.path.exists, paths))), None)
            process = self._spawn(program)
        data = dumps(hook_input(event, document.view())) if self._dialect else document.json
        ended = await finish_process(process, program, data, self._clock)
        text = ended.stderr.decode("utf-8", errors="replace").strip()
        self.ignored_stderr = shorten_stderr(text) if ended.exit_code == 0 else ""
        if text:
            log.debug("%s hook %r exited with code %d; stderr: %s", event, self._name, ended.exit_code, text)
        if ended.exit_code == DENY_EXIT_CODE:
            if missing is not None:  # Python and dash end with this code if they do not find their script
                raise HookError(f"has no script: {missing} does not exist", "not started")
            ended = replace(ended, stderr=self._without_folder(ended.stderr))
        if self._dialect and ended.exit_code == 0:
            return read_output(hook_output(event, document.view(), _value(ended.stdout)), event)
        return read_process(event, self._name, ended)

    def _without_folder(self, stderr: bytes) -> bytes:
        """Return the text with relative paths in place of those in the hook's folder: clients may see it."""
        folder = os.fsencode(self._root)
        return stderr.replace(folder + b"/", b"") if folder != b"/" else stderr

    def _spawn(self, program: Program) -> subprocess.Popen[bytes]:
        """Start the program. This blocks the event loop for the duration of the start.

        So that a burst of calls does not stall the loop, there is at most one start of this hook per
        iteration; after a slow start, the next one is delayed by the same duration.
        """
        began = time.monotonic()
        try:
            return spawn(program)
        finally:
            took = time.monotonic() - began
            self._pause = took if took > _SLOW_START else 0.0

    async def close(self) -> None:
        """Do nothing: no program outlives a run."""


def _value(stdout: bytes) -> Any:
    """Return the JSON value that a program of another dialect has printed, or None if it is not JSON."""
    try:
        return loads(stdout)
    except ValueError:
        return None


def hook_environment(hook: Hook, further: Mapping[str, str], parent: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a hook: inherited variables, the contract's own, then the hook's `env`.

    In the hook's `env`, the argument `further`, `$NAME` is replaced with any variable of the parent. This is
    the only way to pass other variables, such as an API key, to a hook.
    """
    root = str(hook.root)
    own = {
        "GEMINI_PROJECT_DIR": root,
        "GEMINI_CWD": root,
        "GEMINI_PLANS_DIR": os.path.join(root, ".gemini", "plans"),
        "CLAUDE_PROJECT_DIR": root,
    }
    inherited = {name: value for name, value in parent.items() if INHERITED.fullmatch(name)}
    return {**inherited, **own, **{name: _expand(value, parent) for name, value in further.items()}}


def _expand(value: str, parent: Mapping[str, str]) -> str:
    return VARIABLE.sub(lambda m: parent.get(m[1] or m[2], ""), value)


def quote_project_variables(command: str) -> str:
    """Return the command with double quotes around unquoted project variables, as in `cat "$GEMINI_CWD"/x`.

    The shell expands the variables from the environment; no value is inserted into the command. A command
    with a here-document is not changed, since quotes are literal in it; neither is one with a command
    substitution in quotes, since quotes are nested in it.
    """
    texts = [word["quoted"] or "" for word in _WORDS.finditer(command)]
    if "<<" in command or any("$(" in text or "`" in text for text in texts):
        return command
    return _WORDS.sub(lambda m: f'"{m["variable"]}"' if m["variable"] else m[0], command)
