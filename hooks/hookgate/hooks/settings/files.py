"""Reads a settings file, JSON with comments, and collects its problems with their line numbers."""

import difflib
import json
import os
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from errno import ELOOP
from itertools import islice
from pathlib import Path
from stat import S_ISREG
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from hookgate.hooks.errors import Problem, SettingsError, describe_mistake
from hookgate.hooks.settings.json_mistakes import JsonMistake, lone_surrogates, repeated_keys, syntax_mistake
from hookgate.hooks.settings.positions import Positions, ValuePath
from hookgate.translator import BodyError
from hookgate.translator.strictjson import object_of_distinct_keys

_STRING_OR_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*"?)|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)


def without_comments(text: str) -> str:
    """Return the text with its `//` and `/* */` comments replaced by spaces, which keeps all offsets."""
    return _STRING_OR_COMMENT.sub(lambda m: m[1] or re.sub(r"[^\n]", " ", m[0]), text)


def parse_jsonc(text: str) -> Any:
    """Parse JSON with comments. Raises BodyError for a duplicate key, and the errors of json.loads."""
    return json.loads(without_comments(text), object_pairs_hook=object_of_distinct_keys)


def span_of(text: str, path: ValuePath) -> tuple[int, int] | None:
    """Return the offsets of the value at `path`, begin and end, or None if there is no such value."""
    return Positions(without_comments(text)).span(path)


MAX_PROBLEMS = 100
"""The number of problems of a file that are reported, and of warnings. The check of each may take a while."""

_MAX_MESSAGE = 2000
"""The length of a message, which may quote a value, in characters."""

_MAX_DEPTH = 64
"""The number of objects and lists that may contain one another. What serializes values has its own limits."""


@dataclass
class SettingsFile:
    """A parsed settings file. Its problems are collected, so that all of them can be reported at once."""

    path: Path
    text: str
    settings: Mapping[str, Any]
    positions: Positions
    strict: bool = False
    """Whether keys without effect are problems instead of warnings, as in policy files."""
    tolerant: bool = False
    """Whether mistakes that Gemini CLI tolerates are warnings instead of problems, as in its own files."""
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    """Suspicious settings that do not prevent a start."""

    def add_problem(self, place: ValuePath, message: str) -> None:
        """Add a problem with the value at `place`. The place's name precedes `message`."""
        self._add(self.problems, place, f"{_format_path(place)}{message}")

    def leave_out(self, place: ValuePath, message: str) -> None:
        """Add a problem with hooks that Gemini CLI would leave out: in its own files, only a warning."""
        if self.tolerant:
            left_out = f"{_format_path(place)}{message}{self._left_out(place)}"
            self._add(self.warnings, place, left_out, breaks_hook=True)
        else:
            self.add_problem(place, message)

    def warn(self, place: ValuePath, message: str, *, breaks_hook: bool = False) -> None:
        """Add a warning about the value at `place`, or a problem if the file is strict."""
        self._add(self.problems if self.strict else self.warnings, place, message, breaks_hook)

    def advise(self, place: ValuePath, message: str, *, breaks_hook: bool = False) -> None:
        """Add a warning about the value at `place`, even if the file is strict."""
        self._add(self.warnings, place, message, breaks_hook)

    def _add(
        self, problems: list[Problem], place: ValuePath, message: str, breaks_hook: bool = False
    ) -> None:
        if len(problems) == MAX_PROBLEMS:
            problems.append(
                Problem(self.path, "has more problems, which are not listed; correct these first")
            )
        elif len(problems) < MAX_PROBLEMS:
            message = message if len(message) <= _MAX_MESSAGE else f"{message[:_MAX_MESSAGE]}…"
            problems.append(Problem(self.path, message, self.positions.line(place), breaks_hook=breaks_hook))

    def check_keys(
        self, place: ValuePath, value: Mapping[str, Any], known: Iterable[str], where: str
    ) -> None:
        """Warn about unknown keys of the object at `place`, which messages call `where`."""
        names = sorted(known)
        for key in islice((key for key in value if key not in names), MAX_PROBLEMS + 1):
            near = closest_name(key, names)
            remedy = f"did you mean {near}?" if near else f"known keys are {', '.join(names)}"
            self.warn([*place, key], f"{where}: {key!r} is not known here and has no effect; {remedy}")

    def add_validation_errors(  # noqa: PLR0913, PLR0917  # how to say each of them
        self,
        place: ValuePath,
        error: ValidationError,
        skip: int | None = None,
        known: Collection[str] = (),
        texts: Mapping[str, str] = MappingProxyType({}),
        tolerated: Collection[str] = (),
    ) -> None:
        """Add all problems that pydantic found with the value at `place`.

        `skip` is the index of a key in pydantic's paths that is not in the file. `known` contains the keys of
        the objects in which an unknown key is an error. `texts` contains messages for pydantic's types of
        errors, which replace the usual ones. `tolerated` contains the types of errors for which Gemini CLI
        leaves a hook out.
        """
        for details in islice(error.errors(include_url=False), MAX_PROBLEMS + 1):
            keys = [key for index, key in enumerate(details["loc"]) if index != skip]
            if details["type"].startswith("union_tag"):
                keys.append("type")
            if details["type"] == "extra_forbidden":
                near = closest_name(str(keys[-1]), known)
                remedy = f"did you mean {near}?" if near else f"known keys are {', '.join(sorted(known))}"
                self.add_problem([*place, *keys], f": is not known here; {remedy}")
                continue
            is_missing = details["type"] == "missing"
            report = self.leave_out if details["type"] in tolerated else self.add_problem
            if is_missing and (similar := closest_name(str(keys[-1]), self._keys([*place, *keys[:-1]]))):
                meant = f": is not known here; did you mean {keys[-1]}?"
                report([*place, *keys[:-1], similar], meant)
            else:
                report([*place, *keys], f": {describe_mistake(details, {**_MISTAKES, **texts})}")

    def _keys(self, place: ValuePath) -> list[str]:
        """Return the keys of the object at `place`, up to a number; none if it is not an object."""
        value = self._value(place)
        return list(islice(value, MAX_PROBLEMS)) if isinstance(value, dict) else []

    def _value(self, place: ValuePath) -> Any:
        """Return the value at `place`, or None if there is none."""
        value: Any = self.settings
        for step in place:
            if isinstance(value, list) and isinstance(step, int):
                value = value[step] if step < len(value) else None
            else:
                value = value.get(step) if isinstance(value, dict) else None
        return value

    def _left_out(self, place: ValuePath) -> str:
        """Return the end of a message about the hooks at `place`, which do not run: it names them."""
        names: list[str] = []
        for near in (place, place[:-1]):  # of a member of a hook, the hook is named
            names = names or list(islice(_hook_names(self._value(near)), 5))
        return f"; its hooks are left out: {', '.join(map(repr, names))}" if names else "; it is left out"

    def section(self, name: str) -> Mapping[str, Any]:
        """Return a top-level object of the file, or an empty one if it is missing."""
        section = self.settings.get(name)
        return section if isinstance(section, dict) else {}


def _hook_names(groups: Any) -> Iterator[str]:
    """Yield what names each hook in an unchecked value: a hook, a group of hooks, or a list of groups."""
    if isinstance(groups, list):
        for group in groups:
            yield from _hook_names(group)
    elif isinstance(groups, dict):
        own = next((groups[key] for key in ("name", "command") if isinstance(groups.get(key), str)), None)
        yield from _hook_names(groups.get("hooks")) if own is None else [own]


_MAX_BYTES = 16 * 1024 * 1024  # a file with thousands of hooks has about a tenth of this size


Opener = Callable[[str, int], int]
"""Opens a file for `open`: gets its path and flags, and returns a descriptor."""


def read_settings(
    path: Path, *, strict: bool = False, opener: Opener | None = None, max_bytes: int | None = None
) -> SettingsFile:
    """Read a settings file of at most `max_bytes`, by default 16 MiB.

    If `strict` is true, unknown keys are problems. A file with an `opener` must be a regular file, since
    reading a pipe or a device in a project might never end. Raises SettingsError, and FileNotFoundError if
    the file is missing.
    """
    return parse_settings(path, _read_text(path, opener, max_bytes or _MAX_BYTES), strict=strict)


def _read_text(path: Path, opener: Opener | None, max_bytes: int) -> str:
    try:
        return decode_text(_read_bytes(path, opener, max_bytes))
    except FileNotFoundError:
        raise
    except IsADirectoryError:
        message = describe_folder(path) if opener is None else _NOT_REGULAR
        raise SettingsError([Problem(path, message)]) from None
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
        raise SettingsError([Problem(path, _TOO_DEEP)]) from None
    except SettingsError:
        raise
    except ValueError:
        message = "cannot be read as JSON: it contains a number with thousands of digits; shorten it"
        raise SettingsError([Problem(path, message)]) from None
    if not isinstance(settings, dict):
        raise SettingsError([Problem(path, 'must contain an object such as {"hooks": {…}}')])
    positions = Positions(without_comments(text))
    if positions.depth > _MAX_DEPTH:
        raise SettingsError([Problem(path, _TOO_DEEP)])
    return SettingsFile(path, text, settings, positions, strict)


_TOO_DEEP = "cannot be read as JSON: it nests too deeply; flatten it"
_NOT_REGULAR = "is not a regular file; remove it, or replace it with a file"
_LINK = (
    "is reached by a link, which is not followed; replace it with a file or folder, or use --trust-project"
)


def _parse_distinct(path: Path, text: str) -> Any:
    """Parse JSON with comments. Raises SettingsError for text that has two meanings or none.

    That is a repeated key, and half of a surrogate pair. Raises the errors of json.loads, too.
    """
    try:
        settings = parse_jsonc(text)
        mistakes = lone_surrogates(without_comments(text))
    except BodyError:
        text = without_comments(text)
        json.loads(text)  # a mistake after the repeated key would come first
        settings, mistakes = None, repeated_keys(text)
    if problems := [_problem_at(path, text, mistake) for mistake in islice(mistakes, MAX_PROBLEMS)]:
        raise SettingsError(problems)
    return settings


_MAX_GUESSED = 16 * 1024
"""The length of a text up to which it is tried as TOML. The parser's time may grow with its square."""


def _describe_json_error(path: Path, text: str, error: json.JSONDecodeError) -> Problem:
    """Return the problem of a file that is not JSON."""
    unclosed = _unclosed_comment(text)
    text = without_comments(text)
    if unclosed and error.pos >= len(text.rstrip()):
        return _problem_at(path, text, unclosed)
    if not text.strip():
        return Problem(path, 'is empty; hook settings are JSON, such as {"hooks": {…}}')
    if len(text) <= _MAX_GUESSED and is_toml(text):
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


def _read_bytes(path: Path, opener: Opener | None, max_bytes: int) -> bytes:
    with open(path, "rb", opener=opener) as file:
        if opener and not S_ISREG(os.fstat(file.fileno()).st_mode):
            raise SettingsError([Problem(path, _NOT_REGULAR)])
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise SettingsError([Problem(path, f"is larger than {max_bytes} bytes; split it")])
    return data


def open_at_once(path: str, flags: int) -> int:
    """Open a file without waiting for the writer of a pipe. For use as the `opener` of `open`."""
    return os.open(path, flags | os.O_NONBLOCK)


def open_without_links(folder: Path, path: str, flags: int) -> int:
    """Open a file below a folder like `open_at_once`, but follow no link below it: raise SettingsError.

    Who writes there could otherwise make this process read any file, which problems would quote.
    """
    *folders, name = Path(path).relative_to(folder).parts
    no_link = os.O_NOFOLLOW | os.O_NONBLOCK
    parent = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)  # a pipe in its place would block
    try:
        for each in folders:
            child = os.open(each, os.O_RDONLY | no_link, dir_fd=parent)
            os.close(parent)
            parent = child
        return os.open(name, flags | no_link, dir_fd=parent)
    except OSError as error:
        if error.errno != ELOOP:
            raise
        raise SettingsError([Problem(Path(path), _LINK)]) from None
    finally:
        os.close(parent)


def _format_path(place: ValuePath) -> str:
    """Format a path: `["hooks", "BeforeTool", 0, "matcher"]` becomes `hooks.BeforeTool[0].matcher`."""
    keys = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in place]
    return "".join(keys).removeprefix(".")


_KINDS = "'command', 'runtime', 'http', 'rego' or 'builtin'"

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
