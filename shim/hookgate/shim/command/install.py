"""`hookgate shim install | uninstall | status`: hooks in an agent's settings that report to the gateway."""

import argparse
import difflib
import os
import shutil
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from hookgate.hooks import SettingsError
from hookgate.hooks.settings.editing import hooks_of, rewrite
from hookgate.hooks.settings.files import read_settings
from hookgate.shim.command.edits import AGENTS, CommandAgent, InstallRecords, installed_hooks, without_hooks
from hookgate.shim.command.gateway import GatewayAddress, find_gateway


def run_install(args: argparse.Namespace, state: Path) -> int:
    """Run one subcommand and return the exit code. Raises ValueError (also SettingsError) or OSError."""
    if args.shim_command == "status":
        return _status()
    agent = AGENTS[args.agent]
    project = Path.cwd() if args.project else None
    path = agent.settings(project)
    change = _Change(agent, path, InstallRecords(state), _confirmation(args))
    if args.shim_command == "uninstall":
        done = change.uninstall()
    else:
        gateway = GatewayAddress(args.gateway).url if args.gateway else None
        denies = args.on_unreachable == "deny"
        done = change.install(_program(shared=project is not None), gateway, denies=denies)
    return 0 if done or args.dry_run else 1


class _Change:
    """A change of one settings file, which is shown and confirmed before it is written."""

    def __init__(
        self, agent: CommandAgent, path: Path, records: InstallRecords, confirmed: Callable[[Path], bool]
    ) -> None:
        self._agent, self._path, self._records, self._confirmed = agent, path, records, confirmed
        self._declined = False

    def install(self, program: str, gateway: str | None, *, denies: bool) -> bool:
        """Add or update the hooks. Returns whether they are installed now."""
        agent, section = self._agent, self._agent.section
        groups = agent.groups(program, gateway, denies=denies)
        hooks = {event: hooks_of(group) for event, [group] in groups.items()}
        created = not self._path.exists()
        texts: list[str] = []

        def edit(text: str) -> str:
            if installed_hooks(text, section) == hooks:
                return text
            before = self._original(text)
            texts.extend((before, agent.with_hooks_of_agent(before, program, gateway, denies=denies)))
            return self._confirm(text, texts[1])

        if not rewrite(self._path, edit):
            return self._report_unchanged(f"{self._path}: the hooks are already installed")
        record = self._records.read(self._path)
        self._records.keep(self._path, texts[0], texts[1], created or bool(record and record.made))
        print(
            f"{self._path}: {len(hooks)} events are reported to the gateway; "
            "to undo this, run `hookgate shim uninstall` with the same arguments"
        )
        return True

    def uninstall(self) -> bool:
        """Remove the hooks. Returns whether they are removed now."""
        record = self._records.read(self._path)
        restored: list[str] = []

        def edit(text: str) -> str:
            if not installed_hooks(text, self._agent.section):
                return text
            restored.append(self._original(text))
            return self._confirm(text, restored[0])

        if not rewrite(self._path, edit):
            return self._report_unchanged(f"{self._path}: no hooks of hookgate are installed")
        if record and record.made and not restored[0]:
            self._path.unlink()
        self._records.drop(self._path)
        print(f"{self._path}: events are no longer reported to the gateway")
        return True

    def _original(self, text: str) -> str:
        """Return the text from before the installation, or as close to it as later edits allow."""
        record = self._records.read(self._path)
        original = record.original(text) if record else None
        return without_hooks(text, self._agent.section) if original is None else original

    def _confirm(self, before: str, after: str) -> str:
        """Show the change; return the new text if it is confirmed, or else the old one."""
        old, new = before.splitlines(), after.splitlines()
        print("\n".join(difflib.unified_diff(old, new, str(self._path), "changed", lineterm="")))
        self._declined = not self._confirmed(self._path)
        return before if self._declined else after

    def _report_unchanged(self, message: str) -> bool:
        print("Nothing was written." if self._declined else message)
        return not self._declined


def _confirmation(args: argparse.Namespace) -> Callable[[Path], bool]:
    """Return a function that asks whether to write a change."""

    def confirmed(path: Path) -> bool:
        if args.dry_run:
            return False
        if args.yes:
            return True
        if not sys.stdin.isatty():
            print("Cannot ask for confirmation without a terminal; use --yes to confirm the change")
            return False
        return input(f"Write this to {path}? [y/N] ").strip().lower() in ("y", "yes")

    return confirmed


def _program(*, shared: bool) -> str:
    """Return the path of the `hookgate` program for hooks to run; in shared settings just its name."""
    if shared and shutil.which("hookgate"):
        return "hookgate"
    candidates = (Path(sys.argv[0]), Path(sys.executable).with_name("hookgate"))
    executables = (path for path in candidates if path.name == "hookgate" and os.access(path, os.X_OK))
    program = next(executables, None) or shutil.which("hookgate")
    if not program:
        raise ValueError("the `hookgate` program was not found; install hookgate in a folder on PATH")
    return os.path.abspath(program)


def _status() -> int:
    for name, agent in AGENTS.items():
        for project in (None, Path.cwd()):
            path = agent.settings(project)
            print(f"{name:12} {path}: {_state(agent, path)}")
    gateway = find_gateway(None)
    try:
        socket.create_connection((gateway.host, gateway.port), timeout=2).close()
    except OSError as error:
        print(f"gateway      {gateway.url}: {error.strerror or error}; start it with `hookgate serve`")
    else:
        print(f"gateway      {gateway.url}: listening")
    return 0


def _state(agent: CommandAgent, path: Path) -> str:
    try:
        hooks = installed_hooks(read_settings(path).text, agent.section)
    except FileNotFoundError:
        return "not installed"
    except SettingsError as error:
        return str(error)
    if not hooks:
        return "not installed"
    missing = [event for event in agent.events if event not in hooks]
    return f"installed, except for {', '.join(missing)}; install it again" if missing else "installed"
