"""`hookgate shim install | uninstall | status`: hooks in an agent's settings that tell the gateway."""

import argparse
import difflib
import os
import shutil
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from hookgate.hooks import SettingsError
from hookgate.hooks.managing.edits import rewrite, with_hooks
from hookgate.hooks.settings.reading import read_settings
from hookgate.shim.command.agents import AGENTS, Agent
from hookgate.shim.command.gateway import Gateway, named
from hookgate.shim.command.records import Records
from hookgate.shim.command.removing import installed, without_hooks


def run(arguments: argparse.Namespace, state: Path) -> int:
    """Run one command. Raises ValueError (SettingsError among them) or OSError with what is wrong."""
    if arguments.shim_command == "status":
        return _status()
    agent = AGENTS[arguments.agent]
    project = Path.cwd() if arguments.project else None
    path = agent.settings(project)
    change = _Change(path, Records(state), _agreement(arguments))
    if arguments.shim_command == "uninstall":
        done = change.uninstall()
    else:
        gateway = Gateway(arguments.gateway).url if arguments.gateway else None
        done = change.install(agent, _program(shared=project is not None), gateway)
    return 0 if done or arguments.dry_run else 1


class _Change:
    """A change of one settings file, which is shown and agreed to before it is made."""

    def __init__(self, path: Path, records: Records, agreed: Callable[[Path], bool]) -> None:
        self._path, self._records, self._agreed = path, records, agreed
        self._refused = False

    def install(self, agent: Agent, program: str, gateway: str | None) -> bool:
        """Add the hooks, or renew them; whether they are there."""
        groups = agent.groups(program, gateway)
        hooks = {event: [each[0]["hooks"][0]] for event, each in groups.items()}
        made = not self._path.exists()
        texts: list[str] = []

        def changed(text: str) -> str:
            if installed(text) == hooks:
                return text
            before = self._original(text)
            texts.extend((before, with_hooks(before, groups)))
            return self._asked(text, texts[1])

        if not rewrite(self._path, changed):
            return self._told_unchanged(f"{self._path}: the hooks are there already")
        earlier = self._records.read(self._path)
        self._records.keep(self._path, texts[0], texts[1], made or bool(earlier and earlier.made))
        print(
            f"{self._path}: the gateway is told of {len(hooks)} events; "
            "`hookgate shim uninstall`, with the same words after it, undoes it"
        )
        return True

    def uninstall(self) -> bool:
        """Take the hooks out again; whether they are gone."""
        record = self._records.read(self._path)
        left: list[str] = []

        def changed(text: str) -> str:
            if not installed(text):
                return text
            left.append(self._original(text))
            return self._asked(text, left[0])

        if not rewrite(self._path, changed):
            return self._told_unchanged(f"{self._path}: there is nothing of hookgate's")
        if record and record.made and not left[0]:
            self._path.unlink()
        self._records.drop(self._path)
        print(f"{self._path}: nothing is told to the gateway any more")
        return True

    def _original(self, text: str) -> str:
        """The text as it was before the hooks came, or as close to it as later edits allow."""
        record = self._records.read(self._path)
        original = record.original(text) if record else None
        return without_hooks(text) if original is None else original

    def _asked(self, before: str, after: str) -> str:
        """The new text once it was agreed to, else the old one."""
        old, new = before.splitlines(), after.splitlines()
        print("\n".join(difflib.unified_diff(old, new, str(self._path), "changed", lineterm="")))
        self._refused = not self._agreed(self._path)
        return before if self._refused else after

    def _told_unchanged(self, otherwise: str) -> bool:
        print("Nothing was written." if self._refused else otherwise)
        return not self._refused


def _agreement(arguments: argparse.Namespace) -> Callable[[Path], bool]:
    """How it is found out whether a change is wanted."""

    def agreed(path: Path) -> bool:
        if arguments.dry_run:
            return False
        if arguments.yes:
            return True
        if not sys.stdin.isatty():
            print("There is nobody to ask; to agree beforehand: --yes")
            return False
        return input(f"Write this to {path}? [y/N] ").strip().lower() in ("y", "yes")

    return agreed


def _program(*, shared: bool) -> str:
    """The `hookgate` that hooks are to start, from whichever folder; in shared settings by its plain name."""
    if shared and shutil.which("hookgate"):
        return "hookgate"
    beside = (Path(sys.argv[0]), Path(sys.executable).with_name("hookgate"))
    started = (path for path in beside if path.name == "hookgate" and os.access(path, os.X_OK))
    found = next(started, None) or shutil.which("hookgate")
    if not found:
        raise ValueError("there is no `hookgate` program to write; install hookgate where PATH leads")
    return os.path.abspath(found)


def _status() -> int:
    for name, agent in AGENTS.items():
        for project in (None, Path.cwd()):
            path = agent.settings(project)
            print(f"{name:12} {path}: {_state(agent, path)}")
    gateway = named(None)
    try:
        socket.create_connection((gateway.host, gateway.port), timeout=2).close()
    except OSError as error:
        print(f"gateway      {gateway.url}: {error.strerror or error}; start it with `hookgate serve`")
    else:
        print(f"gateway      {gateway.url}: listens")
    return 0


def _state(agent: Agent, path: Path) -> str:
    try:
        found = installed(read_settings(path).text)
    except FileNotFoundError:
        return "not installed"
    except SettingsError as error:
        return str(error)
    if not found:
        return "not installed"
    lacking = [event for event in agent.events if event not in found]
    return f"installed, but for {', '.join(lacking)}; install it again" if lacking else "installed"
