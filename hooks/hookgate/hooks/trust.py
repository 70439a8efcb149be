"""Trust in project hooks: cloning a repository must not be enough to run its code."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from stat import S_ISREG, S_ISVTX, S_IWGRP, S_IWOTH
from typing import Any, BinaryIO
from weakref import WeakKeyDictionary

from hookgate.hooks.errors import Problem, SettingsError, is_exhaustion
from hookgate.hooks.settings import BuiltinConfig, CommandConfig, Hook, RegoConfig, RuntimeConfig
from hookgate.hooks.settings.commands import command_words, expand_project_variables
from hookgate.hooks.settings.editing import write_atomically
from hookgate.hooks.settings.files import Opener, open_at_once
from hookgate.hooks.timestamps import utc_text

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt", "/nix", "/dev", "/proc", "/sys")
"""Folders of the operating system, whose programs and devices are not part of a project."""

_MAX_BYTES = 16 * 1024 * 1024  # larger files are identified by size and times instead of content
_BLOCK = 256 * 1024


def scripts_of(hook: Hook) -> tuple[Path, ...]:
    """Return the files that the hook's command line, callable or rules name, except those of the system.

    Files that a command line only redirects output to are omitted: they do not affect what the hook does.
    """
    root = os.path.realpath(hook.root)
    paths = dict.fromkeys(path for word in _words(hook) if (path := _existing_file(root, word)))
    return tuple(path for path in paths if not any(path.is_relative_to(folder) for folder in _SYSTEM))


def digest_of(path: Path, opener: Opener = open_at_once, max_bytes: int = _MAX_BYTES) -> str | None:
    """Return a hash of the file's content, or None if it is not a regular file or cannot be read.

    For a file larger than `max_bytes`, whatever size it claims to have, the hash is of its size and times, so
    that its author cannot make the check expensive. Raises OSError if the machine has run out of a resource,
    such as file descriptors: the file may be unchanged then.
    """
    try:
        with open(path, "rb", opener=opener) as file:
            stat = os.fstat(file.fileno())
            if not S_ISREG(stat.st_mode):
                return None
            if stat.st_size <= max_bytes and (digest := _hash_of_all(file, max_bytes)):
                return digest
            times = stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns
            return hashlib.sha256(repr(times).encode()).hexdigest()
    except (BlockingIOError, SettingsError):  # another program has locked the file, or it is behind a link
        return None
    except OSError as error:
        if is_exhaustion(error):
            raise
        return None


def _hash_of_all(file: BinaryIO, most: int) -> str | None:
    """Return a hash of a file's content, or None if it has more than `most` bytes."""
    digest = hashlib.sha256()
    while data := file.read(_BLOCK):
        most -= len(data)
        if most < 0:
            return None
        digest.update(data)
    return digest.hexdigest()


def hook_fingerprint(hook: Hook) -> str:
    """Return a hash of the hook's name, what it runs, with its environment, and its scripts' content.

    Raises OSError like `digest_of`.
    """
    scripts = [(os.path.relpath(path, hook.root), digest_of(path)) for path in scripts_of(hook)]
    config = hook.config.model_dump(
        include={
            "type",
            "env",
            "command",
            "action",
            "url",
            "headers",
            "persistent",
            "builtin",
            "options",
            "files",
            "query",
        }
    )
    return hashlib.sha256(json.dumps([hook.name, config, scripts], sort_keys=True).encode()).hexdigest()


def untrustworthy(hook: Hook) -> str | None:
    """Return the reason why a hook cannot be trusted, whatever its scripts contain; None if it can be."""
    for script in scripts_of(hook):
        if (place := place_of_other_writers(script)) is not None:
            return (
                f"cannot be trusted: another user can write to {place}, and so replace {script} after it was "
                "checked; let only the user who runs hookgate write there, or use --trust-project"
            )
    return None


def place_of_other_writers(path: Path) -> Path | None:
    """Return the file or folder where a user other than root and this one can replace the file, or None.

    The group of this process counts as this user: many systems give each user a group of their own.
    """
    for place in (path, *path.parents):
        try:
            stat = os.stat(place)
        except OSError:
            return place
        if stat.st_uid not in (0, os.geteuid()):
            return place
        by_group = stat.st_mode & S_IWGRP and stat.st_gid not in (0, os.getegid())
        if (stat.st_mode & S_IWOTH or by_group) and not stat.st_mode & S_ISVTX:
            return place
    return None


def _words(hook: Hook) -> Iterator[str]:
    config = hook.config
    if isinstance(config, RuntimeConfig):
        target = config.action.rpartition(":")[0]
        yield from [target] if target.endswith(".py") else []
    if isinstance(config, CommandConfig):
        for word in command_words(config.command):
            yield expand_project_variables(word, str(hook.root))
    if isinstance(config, RegoConfig):
        yield from config.files
    if isinstance(config, BuiltinConfig) and isinstance(names := config.options.get("rules"), list):
        yield from (os.path.expanduser(name) for name in names if isinstance(name, str))


def _existing_file(root: str, word: str) -> Path | None:
    """Return the file that a word names relative to the project folder, or None if there is none."""
    try:
        path = os.path.realpath(os.path.join(root, word))
    except ValueError:  # a null character, or a lone surrogate
        return None
    return Path(path) if os.path.isfile(path) else None


_FILE = "trusted_hooks.json"


class TrustStore:
    """The fingerprints of trusted hooks by project, stored in one file of the state folder."""

    def __init__(self, folder: Path) -> None:
        """Load the file. Raises SettingsError if it cannot be read."""
        self._path = folder / _FILE
        self._projects = _load(self._path)
        self._checked: WeakKeyDictionary[Hook, tuple[Any, bool]] = WeakKeyDictionary()

    def trusts(self, hook: Hook) -> bool:
        """Return whether the hook may run. Files are read again only if they have changed.

        A hook of which nobody has trusted a version takes no time, whatever files it names. Raises OSError if
        no file descriptor is left to read them.
        """
        if not hook.needs_trust:
            return True
        known = self._projects.get(str(hook.root), {})
        label = {"name": hook.name, "runs": hook.display_target}
        if not any(label.items() <= entry.items() for entry in known.values()):
            return False
        scripts = scripts_of(hook)
        if any(map(place_of_other_writers, scripts)):
            return False
        stamp = tuple(map(_stamp, scripts))
        if hook not in self._checked or self._checked[hook][0] != stamp:
            self._checked[hook] = (stamp, hook_fingerprint(hook) in known)
        return self._checked[hook][1]

    def refusal(self, hook: Hook) -> str | None:
        """Return the reason why the hook must not run, or None if it may."""
        if self.trusts(hook):
            return None
        if hook.needs_trust and (reason := untrustworthy(hook)):
            return reason
        return (
            f"is not trusted: it is new in {hook.root}, or has changed; review it, then run: "
            f"hookgate hooks trust --project {hook.root}"
        )

    def trust(self, hooks: Mapping[Hook, str]) -> list[Hook]:
        """Trust hooks with these fingerprints, and return the newly trusted ones.

        Raises OSError if that fails.
        """
        new = [hook for hook in hooks if not self.trusts(hook)]
        for hook in new:
            entry = {"name": hook.name, "runs": hook.display_target, "trusted": utc_text(precision="seconds")}
            self._projects.setdefault(str(hook.root), {})[hooks[hook]] = entry
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
    if not _is_object_of_objects(projects) or not all(map(_is_object_of_objects, projects.values())):
        raise SettingsError([Problem(path, "must contain an object of projects; repair or remove it")])
    known: dict[str, dict[str, Any]] = projects
    return known


def _is_object_of_objects(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(each, dict) for each in value.values())


def _stamp(path: Path) -> Any:
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return path, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns
