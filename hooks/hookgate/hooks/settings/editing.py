"""Edits settings files in place, and preserves all other text, including comments."""

import contextlib
import json
import os
import re
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hookgate.hooks.errors import Problem, SettingsError
from hookgate.hooks.settings import files
from hookgate.hooks.settings.files import read_settings, without_comments
from hookgate.hooks.settings.positions import ValuePath

_LINE_END = re.compile(r"\r?\n")
_INDENT = re.compile(r"[ \t]*")
_SURROGATE = re.compile("[\ud800-\udfff]")
_DEFAULT_INDENT = "  "


def value_of(text: str) -> Any:
    """Return the value of a settings text. A text without content is an empty object."""
    return files.parse_jsonc(text) if files.without_comments(text).strip() else {}


def put(text: str, place: ValuePath, value: Any) -> str:
    """Set the value at `place`, and create missing parent objects."""
    text = _ensure_object(text)
    span = files.span_of(text, place)
    if span is not None:
        return text[: span[0]] + _dump(value) + text[span[1] :]
    depth = next(i for i in reversed(range(len(place))) if files.span_of(text, place[:i]) is not None)
    for key in reversed(place[depth + 1 :]):
        value = {key: value}
    return _insert(text, place[:depth], [value], key=place[depth])


def append(text: str, place: ValuePath, values: Sequence[Any]) -> str:
    """Append to the list at `place`, and create the list and its parent objects if they are missing."""
    if not values:
        return text
    text = _ensure_object(text)
    if files.span_of(text, place) is None:
        return put(text, place, list(values))
    return _insert(text, place, values)


def without_item(text: str, place: Sequence[str], index: int) -> str:
    """Remove an item from the list at `place`, with its comma and the line if that becomes empty.

    Raises IndexError if there is no such item.
    """
    span = files.span_of(text, [*place, index])
    if span is None:
        raise IndexError(index)
    begin, end = span
    bare = files.without_comments(text)
    comma = len(bare) - len(bare[end:].lstrip())
    if bare[comma] != ",":
        comma = len(bare[:begin].rstrip()) - 1  # the comma before the item, unless it is the only item
    removals = [(begin, end), (comma, comma + 1)] if bare[comma] == "," else [(begin, end)]
    for start, stop in sorted(removals, reverse=True):
        text = _strip_gap(text[:start] + text[stop:], start)
    return text


def _ensure_object(text: str) -> str:
    """Return the text, with an empty object added if it has no value."""
    if files.without_comments(text).strip():
        return text
    comments = text if text.strip() else ""
    with_object = f"{comments}{'' if comments.endswith(chr(10)) or not comments else chr(10)}{{}}\n"
    if not files.without_comments(with_object).strip():
        raise SettingsError("has a comment without an end; close it with */")
    return with_object


# ---- adding


def _insert(text: str, place: ValuePath, values: Sequence[Any], key: str | int | None = None) -> str:
    """Add items to the list, or one member to the object, at `place`."""
    begin, end = files.span_of(text, place) or (0, 0)
    closing = end - 1
    bare = files.without_comments(text)
    last = len(bare[:closing].rstrip())
    at = _after_comments(text, closing)
    has_members = last > begin + 1
    prefix = "" if key is None else f"{_dump(key)}: "
    if not _is_multiline(bare, begin, last, closing):
        new = ", ".join(prefix + _dump(value) for value in values)
        return text[:last] + (f",{text[last:at]} " if has_members else text[last:at]) + new + text[at:]
    line_end = "\r\n" if "\r\n" in text else "\n"
    base = _indent_at(text, begin)
    unit = _indent_unit(text, bare)
    indent = _member_indent(text, bare, begin) if has_members else base + unit
    lines = [f"{line_end}{indent}{prefix}{_dump(value, unit, line_end + indent)}" for value in values]
    tail = text[at:closing] if "\n" in text[at:closing] else line_end + base
    comma = "," if has_members else ""
    return text[:last] + comma + text[last:at] + ",".join(lines) + tail + text[closing:]


def _after_comments(text: str, closing: int) -> int:
    """Return the end of the text before a closing bracket, or the end of the line of that text."""
    at = len(text[:closing].rstrip())
    line = text.find("\n", at, closing)
    if line < 0:
        return at
    return line - 1 if text[line - 1] == "\r" else line


def _is_multiline(bare: str, begin: int, last: int, closing: int) -> bool:
    """Return whether each member is on its own line; for an empty object or list, whether any text is."""
    if last == begin + 1:
        return "\n" in bare.strip() or bare[:begin].strip() == ""
    first = begin + 1 + len(bare[begin + 1 :]) - len(bare[begin + 1 :].lstrip())
    return "\n" in bare[begin:first] or "\n" in bare[last:closing]


def _member_indent(text: str, bare: str, begin: int) -> str:
    first = len(bare) - len(bare[begin + 1 :].lstrip())
    shares_line = "\n" not in text[begin:first]
    return _indent_at(text, first) + (_indent_unit(text, bare) if shares_line else "")


def _indent_unit(text: str, bare: str) -> str:
    """Return the file's unit of indentation: the indentation of its first key."""
    brace = bare.find("{")
    first = len(bare) - len(bare[brace + 1 :].lstrip())
    return ("\n" in text[brace:first] and _indent_at(text, first)) or _DEFAULT_INDENT


def _indent_at(text: str, at: int) -> str:
    match = _INDENT.match(text, text.rfind("\n", 0, at) + 1)
    return match[0] if match else ""


def _dump(value: Any, unit: str | None = None, line_end: str = "") -> str:
    """Return JSON on one line or, with a unit of indentation, on several. Lone surrogates are escaped."""
    dumped = json.dumps(value, ensure_ascii=False, indent=unit)
    dumped = _SURROGATE.sub(lambda m: f"\\u{ord(m[0]):04x}", dumped)
    return dumped if unit is None else dumped.replace("\n", line_end)


# ---- removing


def _strip_gap(text: str, at: int) -> str:
    """Return the text without the superfluous white space around an offset where text was removed."""
    left = len(text[:at].rstrip(" \t"))
    right = len(text) - len(text[at:].lstrip(" \t"))
    line_end = _LINE_END.match(text, right)
    if text[left - 1] == "\n":
        return text[:left] + text[line_end.end() :] if line_end else text[:at] + text[right:]
    if line_end or text[left - 1] == "[" or text[right] == "]":
        return text[:left] + text[right:]
    return text[:at] + text[right:] if left < at else text


TextChange = Callable[[str], str]

_BYTE_ORDER_MARK = "\ufeff"  # written by Windows editors


def with_hooks(text: str, hooks: Mapping[str, Sequence[Any]], section: str = "hooks") -> str:
    """Add groups {event: [group]} to a section, except those whose hooks all exist already.

    Hooks are equal if they have the same name and the same command, URL, action or policy.
    """
    for event, groups in hooks.items():
        existing = {_identity(hook) for group in _list(text, [section, event]) for hook in hooks_of(group)}
        new = [group for group in groups if not {_identity(hook) for hook in hooks_of(group)} <= existing]
        text = append(text, [section, event], new)
    return text


def with_disabled(text: str, names: Collection[str], disabled: bool) -> str:
    """Switch hooks off in `hooksConfig.disabled`, or on there and in `hooks.disabled`, by their names."""
    if disabled:
        place = ["hooksConfig", "disabled"]
        existing = _list(text, place)
        return append(text, place, [name for name in dict.fromkeys(names) if name not in existing])
    for section in ("hooksConfig", "hooks"):
        place = [section, "disabled"]
        while indexes := [index for index, name in enumerate(_list(text, place)) if name in names]:
            text = without_item(text, place, indexes[0])
    return text


def with_switch(text: str, on: bool) -> str:
    """Switch all hooks on or off: `hooksConfig.enabled`."""
    place = ["hooksConfig", "enabled"]
    current = _member(text, place, None)
    if isinstance(current, dict | list):
        raise SettingsError("hooksConfig.enabled: must be true or false")
    return text if current is on else put(text, place, on)


def has_hook(text: str, name: str) -> bool:
    """Return whether a settings text has a hook with this name."""
    return any(fields.get("name") == name for *_, fields in _configured_hooks(text))


def with_mode(text: str, name: str, mode: str) -> str:
    """Set the mode of all hooks with this name."""
    for event, at, number, fields in _configured_hooks(text):
        if fields.get("name") == name and fields.get("mode", "enforce") != mode:
            text = put(text, ["hooks", event, at, "hooks", number, "mode"], mode)
    return text


def with_allowed(text: str, names: Collection[str | None], finding: str) -> str:
    """Add a finding's hash to the option `allow` of the hooks with these names that use the policy `redact`.

    A hook without a name has the name None.
    """
    for event, at, number, fields in _configured_hooks(text):
        if fields.get("builtin") != "redact" or fields.get("name") not in names:
            continue
        if finding not in (fields.get("options") or {}).get("allow", ()):
            text = append(text, ["hooks", event, at, "hooks", number, "options", "allow"], [finding])
    return text


def _configured_hooks(text: str) -> Iterator[tuple[str, int, int, dict[str, Any]]]:
    """Yield each hook of a settings text with its event, and the numbers of its group and of itself there."""
    for event, groups in _member(text, ["hooks"], {}).items():
        for at, group in enumerate(groups if isinstance(groups, list) else ()):
            for number, hook in enumerate(hooks_of(group)):
                if isinstance(hook, dict):
                    yield event, at, number, hook


def rewrite(path: Path, change: TextChange) -> bool:
    """Apply a change to a settings file, which may be missing. Returns whether the file has changed.

    Raises SettingsError, which names the file. If the settings are invalid, nothing is written.
    """
    try:
        before = _read_text(path)
        mark = _BYTE_ORDER_MARK if before.startswith(_BYTE_ORDER_MARK) else ""
        after = mark + change(before.removeprefix(mark))
        if after != before:
            write_atomically(path, after)
    except OSError as error:
        message = f"cannot be changed: {error.strerror}; check path and permissions"
        raise SettingsError([Problem(path, message)]) from None
    except SettingsError as error:
        raise error if error.problems else SettingsError([Problem(path, str(error))]) from None
    return after != before


def _read_text(path: Path) -> str:
    """Return the unchanged text of a settings file, or "" if it is missing. Raises SettingsError."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return ""
    if without_comments(data.decode(errors="replace")).strip(f"{_BYTE_ORDER_MARK} \t\r\n"):
        read_settings(path)  # for its errors
    return data.decode()


def write_atomically(path: Path, text: str, mode: int = 0o666) -> None:
    """Replace or create a file atomically: a reader sees either the old text or the new. Raises OSError.

    The file keeps its mode; a new file gets `mode`, subject to the umask. The file's folder is created if it
    is missing. If the path is a symlink, its target is replaced.
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
    """Return the value at `place`, or the default. Raises SettingsError if a parent is not an object."""
    value = value_of(text)
    for depth, key in enumerate(place):
        if not isinstance(value, dict):
            raise SettingsError(f"{'.'.join(place[:depth]) or 'the file'}: must be an object")
        if key not in value:
            return default
        value = value[key]
    return value


def _list(text: str, place: Sequence[str]) -> list[Any]:
    value = _member(text, place, [])
    if not isinstance(value, list):
        raise SettingsError(f"{'.'.join(place)}: must be a list")
    return value


def hooks_of(group: Any) -> list[Any]:
    """Return the hooks of a group. In the settings of some agents, a hook stands in place of its group."""
    if not isinstance(group, dict):
        return []
    if "hooks" not in group and "command" in group:
        return [group]
    hooks = group.get("hooks")
    return hooks if isinstance(hooks, list) else []


def _identity(hook: Any) -> str:
    """Return a key made of the hook's name and target. If the name is missing, the target is the name."""
    fields = hook if isinstance(hook, dict) else {}
    target = next((fields[key] for key in ("command", "url", "action", "builtin") if key in fields), hook)
    return repr((fields.get("name") or target, target))
