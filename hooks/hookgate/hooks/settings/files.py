"""Reads a settings file, JSON with comments, and collects its problems with their line numbers."""

import difflib
import json
import os
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISREG
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from hookgate.hooks.errors import Problem, SettingsError, describe_mistake
from hookgate.hooks.settings.json_mistakes import JsonMistake, repeated_keys, syntax_mistake
from hookgate.translator import BodyError
from hookgate.translator.strictjson import object_of_distinct_keys

_STRING_OR_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*"?)|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()

ValuePath = Sequence[str | int]
"""The keys and indexes that lead to a value."""


def without_comments(text: str) -> str:
    """Return the text with its `//` and `/* */` comments replaced by spaces, which keeps all offsets."""
    return _STRING_OR_COMMENT.sub(lambda m: m[1] or re.sub(r"[^\n]", " ", m[0]), text)


def parse_jsonc(text: str) -> Any:
    """Parse JSON with comments. Raises BodyError for a duplicate key, and the errors of json.loads."""
    return json.loads(without_comments(text), object_pairs_hook=object_of_distinct_keys)


def line_number(text: str, path: ValuePath) -> int:
    """Return the line, counted from 1, of the value at `path`, or of its nearest existing parent."""
    text = without_comments(text)
    at = _after_space(text, 0)
    for step in path:
        member = _member(text, at, step)
        if member is None:
            break
        at = member
    return text.count("\n", 0, at) + 1


def span_of(text: str, path: ValuePath) -> tuple[int, int] | None:
    """Return the offsets of the value at `path`, begin and end, or None if there is no such value."""
    text = without_comments(text)
    at: int | None = _after_space(text, 0)
    for step in path:
        at = None if at is None else _member(text, at, step)
    return None if at is None else (at, _DECODER.raw_decode(text, at)[1])


def _member(text: str, at: int, step: str | int) -> int | None:
    """Return the offset of a member of the object or list that begins at `at`, or None if it is missing."""
    closing = {"{": "}", "[": "]"}.get(text[at])
    at = _after_space(text, at + 1)
    index = 0
    while closing and text[at] != closing:
        key: str | int = index
        if closing == "}":
            key, at = _DECODER.raw_decode(text, at)
            at = _after_space(text, _after_space(text, at) + 1)  # the colon
        if key == step:
            return at
        at = _after_space(text, _DECODER.raw_decode(text, at)[1])
        if text[at] == ",":
            at = _after_space(text, at + 1)
        index += 1
    return None


def _after_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


@dataclass
class SettingsFile:
    """A parsed settings file. Its problems are collected, so that all of them can be reported at once."""

    path: Path
    text: str
    settings: Mapping[str, Any]
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    """Suspicious settings that do not prevent a start."""
    strict: bool = False
    """Whether keys without effect are problems instead of warnings, as in policy files."""

    def add_problem(self, place: ValuePath, message: str) -> None:
        """Add a problem with the value at `place`. The place's name precedes `message`."""
        line = line_number(self.text, place)
        self.problems.append(Problem(self.path, f"{_format_path(place)}{message}", line))

    def warn(self, place: ValuePath, message: str, *, breaks_hook: bool = False) -> None:
        """Add a warning about the value at `place`, or a problem if the file is strict."""
        problem = Problem(self.path, message, line_number(self.text, place), breaks_hook=breaks_hook)
        (self.problems if self.strict else self.warnings).append(problem)

    def check_keys(
        self, place: ValuePath, value: Mapping[str, Any], known: Iterable[str], where: str
    ) -> None:
        """Warn about unknown keys of the object at `place`, which messages call `where`."""
        names = sorted(known)
        for key in value:
            if key not in names:
                near = closest_name(key, names)
                remedy = f"did you mean {near}?" if near else f"known keys are {', '.join(names)}"
                self.warn([*place, key], f"{where}: {key!r} is not known here and has no effect; {remedy}")

    def add_validation_errors(
        self,
        place: ValuePath,
        error: ValidationError,
        skip: int | None = None,
        known: Collection[str] = (),
        texts: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Add all problems that pydantic found with the value at `place`.

        `skip` is the index of a key in pydantic's paths that is not in the file. `known` contains the keys of
        the objects in which an unknown key is an error. `texts` contains messages for pydantic's types of
        errors, which replace the usual ones.
        """
        for details in error.errors(include_url=False):
            keys = [key for index, key in enumerate(details["loc"]) if index != skip]
            if details["type"].startswith("union_tag"):
                keys.append("type")
            if details["type"] == "extra_forbidden":
                near = closest_name(str(keys[-1]), known)
                remedy = f"did you mean {near}?" if near else f"known keys are {', '.join(sorted(known))}"
                self.add_problem([*place, *keys], f": is not known here; {remedy}")
                continue
            similar = closest_name(str(keys[-1]), self._keys([*place, *keys[:-1]])) if keys else None
            if details["type"] == "missing" and similar:
                meant = f": is not known here; did you mean {keys[-1]}?"
                self.add_problem([*place, *keys[:-1], similar], meant)
            else:
                self.add_problem([*place, *keys], f": {describe_mistake(details, {**_MISTAKES, **texts})}")

    def _keys(self, place: ValuePath) -> list[str]:
        """Return the keys of the object at `place`; none if it is not an object."""
        value: Any = self.settings
        for step in place:
            if isinstance(value, list) and isinstance(step, int):
                value = value[step]
            elif isinstance(value, dict):
                value = value.get(str(step))
        return list(value) if isinstance(value, dict) else []

    def section(self, name: str) -> Mapping[str, Any]:
        """Return a top-level object of the file, or an empty one if it is missing."""
        section = self.settings.get(name)
        return section if isinstance(section, dict) else {}


_MAX_BYTES = 16 * 1024 * 1024  # a file with thousands of hooks has about a tenth of this size


def read_settings(path: Path, *, strict: bool = False, any_kind: bool = True) -> SettingsFile:
    """Read a settings file.

    If `strict` is true, unknown keys are problems. If `any_kind` is false, the file must be a regular file,
    since reading a pipe or a device in a project might never end. Raises SettingsError, and
    FileNotFoundError if the file is missing.
    """
    return parse_settings(path, _read_text(path, any_kind), strict=strict)


def _read_text(path: Path, any_kind: bool) -> str:
    try:
        return decode_text(_read_bytes(path, any_kind))
    except FileNotFoundError:
        raise
    except IsADirectoryError:
        raise SettingsError([Problem(path, describe_folder(path))]) from None
    except OSError as error:
        raise SettingsError([Problem(path, f"cannot be read: {error.strerror}; check the path")]) from None
    except SettingsError:
        raise
    except ValueError as error:
        raise SettingsError([Problem(path, str(error))]) from None


def parse_settings(path: Path, text: str, *, strict: bool = False) -> SettingsFile:
    """Return the settings in a text, like `read_settings`. `path` names it in problems.

    Raises SettingsError.
    """
    try:
        settings = _parse_distinct(path, text)
    except json.JSONDecodeError as error:
        raise SettingsError([_describe_json_error(path, text, error)]) from None
    except RecursionError:
        raise SettingsError(
            [Problem(path, "cannot be read as JSON: it nests too deeply; flatten it")]
        ) from None
    except SettingsError:
        raise
    except ValueError:
        message = "cannot be read as JSON: it contains a number with thousands of digits; shorten it"
        raise SettingsError([Problem(path, message)]) from None
    if not isinstance(settings, dict):
        raise SettingsError([Problem(path, 'must contain an object such as {"hooks": {…}}')])
    return SettingsFile(path, text, settings, strict=strict)


def _parse_distinct(path: Path, text: str) -> Any:
    """Parse JSON with comments. Raises SettingsError for repeated keys, and the errors of json.loads."""
    try:
        return parse_jsonc(text)
    except BodyError:
        text = without_comments(text)
        json.loads(text)  # a mistake after the repeated key would come first
        raise SettingsError([_problem_at(path, text, mistake) for mistake in repeated_keys(text)]) from None


def _describe_json_error(path: Path, text: str, error: json.JSONDecodeError) -> Problem:
    """Return the problem of a file that is not JSON."""
    unclosed = _unclosed_comment(text)
    text = without_comments(text)
    if unclosed and error.pos >= len(text.rstrip()):
        return _problem_at(path, text, unclosed)
    if not text.strip():
        return Problem(path, 'is empty; hook settings are JSON, such as {"hooks": {…}}')
    if is_toml(text):
        remedy = "if it is the gateway's configuration, pass it with --config"
        return Problem(path, f"is TOML, but hook settings are JSON; {remedy}")
    if is_yaml(path, text):
        remedy = (
            'write it as JSON, such as {"hooks": {…}}, or, if it is the gateway\'s configuration, as TOML'
        )
        return Problem(path, f"is YAML, but hook settings are JSON; {remedy}")
    mistake = syntax_mistake(text, error)
    return _problem_at(path, text, mistake)


def _unclosed_comment(text: str) -> JsonMistake | None:
    for match in _STRING_OR_COMMENT.finditer(text):
        if match[0].startswith("/*") and not match[0].endswith("*/", 2):
            return JsonMistake("this comment has no end; close it with */", match.start())
    return None


def _problem_at(path: Path, text: str, mistake: JsonMistake) -> Problem:
    line_start = text.rfind("\n", 0, mistake.offset) + 1
    line = text.count("\n", 0, mistake.offset) + 1
    return Problem(path, f"is not valid JSON: {mistake.message}", line, mistake.offset - line_start + 1)


def closest_name(key: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most similar to `key`, or None if no name is similar enough."""
    by_letters = {_letters(name): name for name in known}
    matches = difflib.get_close_matches(_letters(key), by_letters, n=1, cutoff=0.75)
    return by_letters[matches[0]] if matches else None


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _read_bytes(path: Path, any_kind: bool) -> bytes:
    with open(path, "rb", opener=None if any_kind else open_at_once) as file:
        if not any_kind and not S_ISREG(os.fstat(file.fileno()).st_mode):
            raise SettingsError(
                [Problem(path, "is not a regular file; remove it, or replace it with a file")]
            )
        data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise SettingsError([Problem(path, f"is larger than {_MAX_BYTES} bytes; split it")])
    return data


def open_at_once(path: str, flags: int) -> int:
    """Open a file without waiting for the writer of a pipe. For use as the `opener` of `open`."""
    return os.open(path, flags | os.O_NONBLOCK)


def _format_path(place: ValuePath) -> str:
    """Format a path: `["hooks", "BeforeTool", 0, "matcher"]` becomes `hooks.BeforeTool[0].matcher`."""
    keys = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in place]
    return "".join(keys).removeprefix(".")


_KINDS = "'command', 'runtime', 'http' or 'builtin'"

_MISTAKES = {
    "union_tag_not_found": f"is missing; use {_KINDS}",
    "union_tag_invalid": f"there is no hook type {{tag!r}}; use {_KINDS}",
    "string_type": "must be a string",
    "float_type": "must be a number of milliseconds, without quotes",
}


_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
"""The byte order marks of UTF-16."""


def decode_text(data: bytes) -> str:
    """Decode a file in UTF-8, with or without a byte order mark.

    Raises ValueError for another encoding. The message continues the file's name, and includes the remedy.
    """
    if data.startswith(_UTF_16) or b"\0" in data[:4]:
        raise ValueError("is UTF-16; save it as UTF-8")
    try:
        return data.decode("utf-8-sig")  # Windows editors write a byte order mark
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8; save it as UTF-8") from None


def is_toml(text: str) -> bool:
    """Return whether the text is TOML with at least one key or table."""
    try:
        return bool(tomllib.loads(text))
    except (ValueError, RecursionError):
        return False


_YAML_LINE = re.compile(r"""(?:---|- |["']?[\w.-]+["']?:(?:\s|$))""")
"""Matches the beginning of a YAML document: its mark, an item of a list, or a key."""


def is_yaml(path: Path, text: str) -> bool:
    """Return whether a text that is neither JSON nor TOML is YAML, by the file's name or its first line."""
    lines = (line.strip() for line in text.splitlines())
    first = next((line for line in lines if line and not line.startswith("#")), "")
    return path.suffix.lower() in (".yaml", ".yml") or _YAML_LINE.match(first) is not None


def describe_folder(path: Path) -> str:
    """Return a message for a folder that was given in place of a settings file, including the remedy."""
    if (path / ".gemini" / "settings.json").is_file():
        return f"is a folder; to read its Gemini CLI settings, use --project {path}"
    found = sorted(path.glob("*.json"))
    names = [file for file in found if file.name == "settings.json"] or found
    return f"is a folder; {f'name a file in it, such as {names[0]}' if names else 'check the path'}"
