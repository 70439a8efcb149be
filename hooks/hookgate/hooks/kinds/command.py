"""Command hooks: the shell command, its environment and its folder."""

import asyncio
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import replace

from hookgate.hooks.clock import StallClock
from hookgate.hooks.document import Document
from hookgate.hooks.kinds.process import Program, run_process
from hookgate.hooks.output import Output, read_process
from hookgate.hooks.session import Session
from hookgate.hooks.settings import CommandConfig, Hook

SHELL = shutil.which("bash") or "/bin/sh"
"""Gemini CLI runs its hooks with bash, so `[[ … ]]` in a command line works; /bin/sh where bash is not."""

INHERITED = re.compile(
    "PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_[A-Z]+|TZ|TERM|TMPDIR|VIRTUAL_ENV"
    "|XDG_(CACHE|CONFIG|DATA|STATE)_HOME|XDG_RUNTIME_DIR"
    "|SSL_CERT_FILE|SSL_CERT_DIR|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|NODE_EXTRA_CA_CERTS"
)
"""The variables of this process that every hook gets: where programs, homes and certificates are, and how
people write. None of them holds a secret, as API keys, `HOOKGATE_ADMIN__TOKEN`, `OTEL_EXPORTER_OTLP_HEADERS`
and the URLs of proxies and databases may. A list of those would never be complete: what is not here is left
out."""

_SESSION = "GEMINI_SESSION_ID"

_NAMES = "GEMINI_PROJECT_DIR|GEMINI_SESSION_ID|GEMINI_CWD|GEMINI_PLANS_DIR|CLAUDE_PROJECT_DIR"
_WORDS = re.compile(
    rf"""'[^']*' | (?P<quoted> "(?:\\.|[^"\\])*" ) | \\.
    | (?P<variable> \$(?:{_NAMES})\b | \$\{{(?:{_NAMES})\}} )""",
    re.VERBOSE | re.DOTALL,
)
"""Quoted text, an escaped character, or one of the contract's variables outside of both."""


def command_program(hook: Hook, config: CommandConfig) -> Program:
    """The program of one command hook, for whatever session: its environment names none."""
    line = config.command
    return Program(
        argv=[SHELL, "-c", quoted(line)] if isinstance(line, str) else line,
        env=environment(hook, config.env, os.environ),
        cwd=hook.root,
        timeout=hook.timeout,
    )


def in_session(program: Program, session_id: str) -> Program:
    """The program with the session's name in its environment, unless the hook's own `env` has one."""
    return replace(program, env={_SESSION: session_id, **program.env})


class CommandRunner:
    """A command hook that starts its program for each event."""

    def __init__(self, hook: Hook, config: CommandConfig) -> None:
        self._name, self._program = hook.name, command_program(hook, config)
        self._clock = StallClock()
        self._start = asyncio.Lock()

    async def run(self, event: str, session: Session, document: Document) -> Output | None:
        async with self._start:  # one start in a turn of the loop: a burst of calls must not stall it
            await asyncio.sleep(0)
        program = in_session(self._program, session.session_id)
        ended = await run_process(program, document.json, self._clock)
        return read_process(event, self._name, ended)

    async def close(self) -> None:
        """Nothing outlives a run."""


def environment(hook: Hook, further: Mapping[str, str], parent: Mapping[str, str]) -> dict[str, str]:
    """Those of the parent's variables that hooks inherit, the contract's own, then the hook's `env`.

    In the hook's `env`, here `further`, `$NAME` stands for any of the parent's variables: the one way to hand
    another one, such as a key, to a hook.
    """
    root = str(hook.root)
    own = {
        "GEMINI_PROJECT_DIR": root,
        "GEMINI_CWD": root,
        "GEMINI_PLANS_DIR": os.path.join(root, ".gemini", "plans"),
        "CLAUDE_PROJECT_DIR": root,
    }
    inherited = {name: value for name, value in parent.items() if INHERITED.fullmatch(name)}
    return {**inherited, **own, **{name: _expanded(v, parent) for name, v in further.items()}}


def _expanded(value: str, parent: Mapping[str, str]) -> str:
    return re.sub(r"\$(?:(\w+)|\{(\w+)\})", lambda m: parent.get(m[1] or m[2], ""), value)


def quoted(command: str) -> str:
    """The command with its bare project variables in double quotes: `cat $GEMINI_CWD/x` is one word.

    The shell expands the variables itself, from the environment; nothing is ever pasted into the command.
    A command with a here-document is left alone, since quotes inside one are text; so is one that runs
    another within quotes, since quotes inside that one begin anew.
    """
    texts = [word["quoted"] or "" for word in _WORDS.finditer(command)]
    if "<<" in command or any("$(" in text or "`" in text for text in texts):
        return command
    return _WORDS.sub(lambda m: f'"{m["variable"]}"' if m["variable"] else m[0], command)
