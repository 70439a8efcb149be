"""Rego hooks: rules in the language of Open Policy Agent, which a process of its own evaluates."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from stat import S_ISREG
from typing import Any

from hookgate.hooks.errors import HookError, Problem, SettingsError, is_exhaustion
from hookgate.hooks.events.base import Document
from hookgate.hooks.output import Output, ProcessResult, read_output, shorten_stderr
from hookgate.hooks.runners import rego_worker
from hookgate.hooks.runners.command import hook_environment
from hookgate.hooks.runners.persistent import WorkerPool
from hookgate.hooks.runners.process import Program
from hookgate.hooks.session import SessionContext
from hookgate.hooks.settings import Hook, RegoConfig
from hookgate.hooks.settings.files import decode_text, open_at_once
from hookgate.translator.strictjson import dumps

MAX_FILE = 1 << 20
"""The maximum size of a policy or of data, in bytes."""

_CHECK_SECONDS = 10.0
"""The time to compile the policies of a hook."""

_ARGV = (sys.executable, "-P", rego_worker.__file__)
"""`-P` keeps the script's folder off `sys.path`: its `http` would hide that of the standard library."""

_PYTHON_VARIABLES = ("LD_LIBRARY_PATH", "PYTHONHOME", "PYTHONPATH")
"""The variables that this interpreter may need to start, and to find the engine."""

_PLACE = re.compile(r"(?P<file>.+?):(?P<line>\d+):(?P<column>\d+): (?P<message>.*)")


class RegoRunner:
    """Runs a rego hook. Its policies are read and compiled once, and given to each process that starts."""

    def __init__(self, hook: Hook, config: RegoConfig) -> None:
        """Compile the policies. Raises SettingsError if they cannot be read or compiled."""
        if importlib.util.find_spec("regorus") is None:
            raise _error(hook, "needs regorus; install hookgate with its extra rego")
        files = [(name, _read(hook, name)) for name in config.files]
        python = {name: os.environ[name] for name in _PYTHON_VARIABLES if name in os.environ}
        environment = {**hook_environment(hook, {}, os.environ), **python}
        program = Program(_ARGV, environment, hook.root, hook.timeout)
        setup = dumps({"query": config.query, "files": files})
        _compile(hook, program, setup)
        # The events of one caller may make rules slow, so one process is left to the others.
        self._pool = WorkerPool(program, config.workers, per_key=max(1, config.workers - 1), setup=setup)

    async def run(self, event: str, session: SessionContext, document: Document) -> Output | None:
        answer = _answer(await self._pool.ask(session, document.json))
        if "output" not in answer:
            raise HookError(f"cannot decide: {answer.get('error')}")
        return read_output(answer["output"], event)

    async def close(self) -> None:
        """End all processes, and close their file descriptors."""
        await self._pool.close()


def _answer(result: ProcessResult) -> dict[str, Any]:
    """Return the answer of a process. Raises HookError if it ended instead, such as for want of memory."""
    if result.exit_code != 0:
        stderr = shorten_stderr(result.stderr.decode(errors="replace").strip())
        how = "was killed by signal" if result.exit_code < 0 else "exited with code"
        raise HookError(f"cannot decide: its process {how} {abs(result.exit_code)}: {stderr}".rstrip(": "))
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


def _compile(hook: Hook, program: Program, setup: bytes) -> None:
    """Let a process compile the policies. Raises SettingsError if it cannot."""
    try:
        ended = subprocess.run(  # noqa: S603  # this interpreter, and a module of hookgate
            program.argv,
            input=setup + b"\n",
            env=dict(program.env),
            cwd=program.cwd,
            timeout=_CHECK_SECONDS,
            capture_output=True,
            check=False,
        )
        answer = _answer(ProcessResult(ended.returncode, ended.stdout, ended.stderr))
    except subprocess.TimeoutExpired:
        raise _error(
            hook, f"its rules take more than {_CHECK_SECONDS:g} s to compile; simplify them"
        ) from None
    except HookError as error:
        raise _error(hook, f"{error}") from None
    if mistake := answer.get("error"):
        raise _policy_error(hook, mistake)


def _read(hook: Hook, name: str) -> str:
    """Return the text of a policy or of data.

    Raises SettingsError if it cannot be read, or OSError if the machine has run out of a resource.
    """
    path = hook.root / name
    try:
        with open(path, "rb", opener=open_at_once) as file:
            if not S_ISREG(os.fstat(file.fileno()).st_mode):
                raise _error(hook, f"{name} is not a regular file; name a file")
            data = file.read(MAX_FILE + 1)
        if len(data) > MAX_FILE:
            raise _error(hook, f"{name} is larger than {MAX_FILE} bytes; split it")
        return decode_text(data)
    except OSError as error:
        if is_exhaustion(error):
            raise
        remedy = f"cannot be read in {hook.root}: {error.strerror}; check the path"
        raise _error(hook, f"{name} {remedy}") from None
    except SettingsError:
        raise
    except ValueError as error:
        raise _error(hook, f"{name} {error}") from None


def _policy_error(hook: Hook, mistake: str) -> SettingsError:
    """Return the error for a mistake in a policy, at its place in the file if it has one."""
    if (found := _PLACE.fullmatch(mistake)) is None:
        return _error(hook, mistake)
    message = f"the rego hook {hook.name!r}: {found['message']}"
    path = Path(hook.root / found["file"])
    return SettingsError([Problem(path, message, int(found["line"]), int(found["column"]))])


def _error(hook: Hook, message: str) -> SettingsError:
    return SettingsError([Problem(hook.source, f"the rego hook {hook.name!r}: {message}", hook.line)])
