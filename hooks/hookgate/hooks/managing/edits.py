"""Changes to a settings file that a person wrote: what is not changed stays byte for byte, comments included.

The functions on texts are pure and take what `jsonc.loads` reads, or nothing; they raise SettingsError when
something has to be a list or an object and is not. A change that changes nothing gives back the same text.
"""

import contextlib
import os
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from hookgate.hooks.errors import Problem, SettingsError
from hookgate.hooks.managing.splicing import append, put, value_of, without_item
from hookgate.hooks.settings.jsonc import without_comments
from hookgate.hooks.settings.reading import read_settings

Change = Callable[[str], str]

_MARK = "\ufeff"
"""The byte order mark of Windows editors."""


def with_hooks(text: str, hooks: Mapping[str, Sequence[Any]]) -> str:
    """Add groups {event: [group]} to `hooks`, but none whose hooks are all there already.

    Two hooks are the same when name and command (or url, action, policy) are; so adding twice adds once.
    """
    for event, groups in hooks.items():
        there = {_identity(hook) for group in _list(text, ["hooks", event]) for hook in _hooks_of(group)}
        new = [group for group in groups if not {_identity(hook) for hook in _hooks_of(group)} <= there]
        text = append(text, ["hooks", event], new)
    return text


def with_disabled(text: str, names: Collection[str], disabled: bool) -> str:
    """Switch hooks off or on by name: `hooksConfig.disabled`, and to switch on `hooks.disabled` too."""
    if disabled:
        place = ["hooksConfig", "disabled"]
        there = _list(text, place)
        return append(text, place, [name for name in dict.fromkeys(names) if name not in there])
    for section in ("hooksConfig", "hooks"):
        while found := [at for at, name in enumerate(_list(text, [section, "disabled"])) if name in names]:
            text = without_item(text, [section, "disabled"], found[0])
    return text


def with_switch(text: str, on: bool) -> str:
    """Switch all hooks on or off: `hooksConfig.enabled`."""
    place = ["hooksConfig", "enabled"]
    now = _member(text, place, None)
    if isinstance(now, dict | list):
        raise SettingsError("hooksConfig.enabled: has to be true or false")
    return text if now is on else put(text, place, on)


def rewrite(path: Path, change: Change) -> bool:
    """Apply a change to a settings file, which may be missing; whether it changed anything.

    Raises SettingsError, which names the file, before anything is written, and for a file that cannot be.
    """
    try:
        before = _text_of(path)
        mark = _MARK if before.startswith(_MARK) else ""
        after = mark + change(before.removeprefix(mark))
        if after != before:
            write_atomically(path, after)
    except OSError as error:
        message = f"cannot be changed: {error.strerror}; check path and permissions"
        raise SettingsError([Problem(path, message)]) from None
    except SettingsError as error:
        raise error if error.problems else SettingsError([Problem(path, str(error))]) from None
    return after != before


def _text_of(path: Path) -> str:
    """A settings file as it is, line ends included; empty when it is missing. Raises SettingsError."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return ""
    if without_comments(data.decode(errors="replace")).strip(f"{_MARK} \t\r\n"):
        read_settings(path)  # for its errors
    return data.decode()


def write_atomically(path: Path, text: str, mode: int = 0o666) -> None:
    """Replace a file, or make it and its folder: a reader sees the old text or the new. Raises OSError.

    The mode stays; a new file gets `mode`, less what the umask takes. A symlink stays too: what it points to
    is replaced.
    """
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            with contextlib.suppress(FileNotFoundError):
                os.fchmod(file.fileno(), path.stat().st_mode & 0o7777)
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _member(text: str, place: Sequence[str], default: Any) -> Any:
    """What stands at the place. Raises SettingsError where an object is expected."""
    value = value_of(text)
    for depth, key in enumerate(place):
        if not isinstance(value, dict):
            raise SettingsError(f"{'.'.join(place[:depth]) or 'the file'}: has to be an object")
        if key not in value:
            return default
        value = value[key]
    return value


def _list(text: str, place: Sequence[str]) -> list[Any]:
    value = _member(text, place, [])
    if not isinstance(value, list):
        raise SettingsError(f"{'.'.join(place)}: has to be a list")
    return value


def _hooks_of(group: Any) -> list[Any]:
    hooks = group.get("hooks") if isinstance(group, dict) else None
    return hooks if isinstance(hooks, list) else []


def _identity(hook: Any) -> str:
    """Name and what runs, as the engine tells hooks apart; without a name what runs is the name."""
    fields = hook if isinstance(hook, dict) else {}
    target = next((fields[key] for key in ("command", "url", "action", "builtin") if key in fields), hook)
    return repr((fields.get("name") or target, target))
