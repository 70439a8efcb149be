"""Trust in the hooks that come with a project: a repository must not run code by being pulled.

A project's hook runs once its user has trusted it as it is. When its name, its command or the content of its
script changes, it is a new hook and waits to be trusted again.
"""

import json
import os
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hookgate.hooks.errors import Problem, SettingsError
from hookgate.hooks.managing.edits import write_atomically
from hookgate.hooks.scripts import fingerprint, scripts_of
from hookgate.hooks.settings import Hook

_FILE = "trusted_hooks.json"


class TrustStore:
    """The fingerprints of trusted hooks by project, kept in one file of the state folder."""

    def __init__(self, folder: Path) -> None:
        """Raises SettingsError for a file that cannot be read."""
        self._path = folder / _FILE
        self._projects = _load(self._path)
        self._checked: dict[Hook, tuple[Any, bool]] = {}

    def trusts(self, hook: Hook) -> bool:
        """Whether the hook may run. Files are read again only when they have changed.

        Raises OSError when there is no descriptor left to read them with.
        """
        if not hook.needs_trust:
            return True
        stamp = tuple(_stamp(path) for path in scripts_of(hook))
        if hook not in self._checked or self._checked[hook][0] != stamp:
            known = self._projects.get(str(hook.root), {})
            trusted = bool(known) and fingerprint(hook) in known  # without any, no script is worth a look
            self._checked[hook] = (stamp, trusted)
        return self._checked[hook][1]

    def refusal(self, hook: Hook) -> str | None:
        """Why the hook must not run, or None."""
        if self.trusts(hook):
            return None
        return (
            f"is not trusted: it is new in {hook.root}, or has changed; look at it, then run: "
            f"hookgate hooks trust --project {hook.root}"
        )

    def trust(self, hooks: Iterable[Hook]) -> list[Hook]:
        """Trust project hooks as they are now; those that were not trusted before. Raises OSError."""
        new = [hook for hook in hooks if not self.trusts(hook)]
        for hook in new:
            entry = {"name": hook.name, "runs": hook.runs, "trusted": _now()}
            self._projects.setdefault(str(hook.root), {})[fingerprint(hook)] = entry
        if new:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomically(self._path, json.dumps(self._projects, indent=2) + "\n")
            self._checked.clear()
        return new


def _load(path: Path) -> dict[str, dict[str, Any]]:
    try:
        projects = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        remedy = "check its permissions, or name another folder with --state"
        raise SettingsError([Problem(path, f"cannot be read: {error.strerror}; {remedy}")]) from None
    except ValueError as error:
        raise SettingsError([Problem(path, f"cannot be read: {error}; repair or remove it")]) from None
    if not isinstance(projects, dict) or not all(isinstance(each, dict) for each in projects.values()):
        raise SettingsError([Problem(path, "has to hold an object of projects; repair or remove it")])
    return projects


def _stamp(path: Path) -> Any:
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return path, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
