"""Runs `hookgate` commands that others ask for, each in a fork of this process, which has imported them.

Started by support/warm.py with the descriptor of a socket. Each message on it says what to run, and brings
the command's stdin, stdout and stderr, and a socket on which its process ID and then its exit code are told.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import resource
import select
import socket
import sys
import threading
from typing import Any, NoReturn

from hookgate.hooks.policies.redact import SENSITIVE, pseudonym_detector, shared_scanner
from hookgate.hooks.policies.redact.options import RedactOptions
from hookgate.proxy import __main__ as program

# What the commands import when they run, or when a setting asks for it.
_COMMANDS = (
    "agents.command",
    "audit",
    "config",
    "doctor",
    "hooks",
    "init",
    "keys",
    "main",
    "mock_upstream",
    "policy",
    "receipts",
    "replay",
    "serve",
    "shim",
    "tools",
)
_POLICIES = ("cassette", "limits", "models", "redact.policy", "tools")
for _name in (
    "anyio._backends._asyncio",
    "watchfiles",
    *(f"hookgate.hooks.policies.{name}" for name in _POLICIES),
    "hookgate.hooks.runners.http",
    *(f"hookgate.proxy.cli.{name}" for name in _COMMANDS),
    *(f"hookgate.proxy.{name}" for name in ("app", "audit.content", "mock_upstream", "sessions.shared")),
    *(f"hookgate.shim.command.{name}" for name in ("event", "install", "launch")),
):
    importlib.import_module(_name)

_SCANNERS = [
    shared_scanner(each) for each in (RedactOptions().detectors(), SENSITIVE, [pseudonym_detector()])
]
"""Those that most commands with a policy `redact` use, compiled once for all of them."""


def serve(control: socket.socket) -> bool:
    """Fork for each message. Returns False at their end, and True in each fork, set up as it was asked."""
    running: dict[int, tuple[int, socket.socket]] = {}
    poll = select.poll()
    poll.register(control, select.POLLIN)
    while True:
        for descriptor, _ in poll.poll():
            if descriptor in running:
                poll.unregister(descriptor)
                os.close(descriptor)
                pid, status = running.pop(descriptor)
                tell(status, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
                status.close()
                continue
            message, descriptors, _, _ = socket.recv_fds(control, 2**20, 4)
            if not message:
                return False
            status = socket.socket(fileno=descriptors.pop())
            pid = os.fork()
            if pid == 0:
                for each in (control, status, *(status for _, status in running.values())):
                    each.close()
                for other in running:
                    os.close(other)
                become(json.loads(message), descriptors)
                return True
            for each_descriptor in descriptors:
                os.close(each_descriptor)
            tell(status, pid)
            watched = os.pidfd_open(pid)
            poll.register(watched, select.POLLIN)
            running[watched] = pid, status


def tell(status: socket.socket, number: int) -> None:
    """Say a number to who asked, if they still listen."""
    with contextlib.suppress(OSError):
        status.send(b"%d\n" % number)


def become(asked: dict[str, Any], descriptors: list[int]) -> None:
    """What a process started by `python -m hookgate.proxy` finds."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    if asked["descriptors"]:
        resource.setrlimit(resource.RLIMIT_NOFILE, asked["descriptors"])
    os.chdir(asked["folder"])
    sys.path[0] = asked["folder"]
    sys.argv[:] = [str(program.__file__), *asked["words"]]
    os.environ.clear()
    os.environ.update(asked["environment"])


def run() -> int:
    """The exit code of the command that `sys.argv` names."""
    try:
        return program.main()
    except SystemExit as error:
        if isinstance(error.code, int):
            return error.code
        raise


def end(code: int) -> NoReturn:
    """End as an interpreter does, but leave its memory to the system.

    To free what was imported, object by object, would copy all of that memory first, as it is shared with the
    process that forks. That takes three times as long as most commands.
    """
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    gc.freeze()
    if serve(socket.socket(fileno=int(sys.argv[1]))):
        end(run())
