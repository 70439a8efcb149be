"""Finds what redaction would replace in files: each is read in chunks, as redaction reads a stream."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from typing import BinaryIO, TextIO

import re2  # type: ignore[import-untyped]  # it has no stubs

from hookgate.hooks.policies.redact import Fragment, ReplacedFragment, Scanner, shared_scanner
from hookgate.hooks.policies.redact.options import RedactOptions
from hookgate.hooks.policies.redact.streaming import TextRedactor
from hookgate.hooks.settings.files import open_at_once
from hookgate.proxy.errors import describe_os_error

_CHUNK = 64 * 1024
_EXAMINED = 8192
"""The bytes in which a null byte makes a file binary."""


@dataclass(frozen=True, slots=True)
class FoundSecret:
    """What redaction would replace in a file. It does not contain the text itself."""

    file: str
    line: int
    """Lines and columns begin with 1, and columns count characters."""
    column: int
    end_line: int
    end_column: int
    """The column after the last character."""
    kind: str
    rule: str
    """The source and the name of the rule, or an empty string for a built-in detector."""
    length: int
    """The number of characters."""


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A file that was not read."""

    file: str
    reason: str


def files_below(path: Path) -> Iterator[Path]:
    """Yield a file, or the files below a folder in order. Links below it, and `.git`, are left out."""
    if not path.is_dir():
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if name != ".git")
        for name in sorted(names):
            if not (found := Path(folder, name)).is_symlink() and name != ".git":
                yield found


class FileScanner:
    """Scans files with the same options. Rules may apply to some files only."""

    def __init__(self, options: RedactOptions, replace: Callable[[str, str], str]) -> None:
        """`replace` takes the kind and text of a finding; it returns the same text if it may stay."""
        self._options, self._replace = options, replace
        rules = [rule for each in options.rules for rule in each.rules]
        patterns = {rule.table.path for rule in rules if rule.table.path}
        patterns |= {path for rule in rules for allowlist in rule.allowlists for path in allowlist.paths}
        self._paths = [re2.compile(pattern) for pattern in sorted(patterns)]
        self._scanners: dict[tuple[bool, ...], Scanner] = {}

    def scan(self, path: Path) -> Iterator[FoundSecret | SkippedFile]:
        """Yield what is found in a file, or why it was not read."""
        name = path.as_posix()
        try:
            with open(path, "rb", opener=open_at_once) as file:
                yield from self._scan_binary(name, file)
        except OSError as error:
            yield SkippedFile(name, describe_os_error(error))

    def scan_text(self, name: str, file: TextIO) -> Iterator[FoundSecret]:
        """Yield what is found in a text, which is read in chunks."""
        redactor = TextRedactor(self._scanner_for(name), self._replace, self._options.cap)
        line = column = 1
        for fragment in _fragments(redactor, file):
            begin = line, column
            line, column = _moved(line, column, fragment.original)
            if isinstance(fragment, ReplacedFragment) and fragment.output != fragment.original:
                length = len(fragment.original)
                yield FoundSecret(name, *begin, line, column, fragment.kind, fragment.rule, length)

    def _scan_binary(self, name: str, file: BinaryIO) -> Iterator[FoundSecret | SkippedFile]:
        if not S_ISREG(os.fstat(file.fileno()).st_mode):
            yield SkippedFile(name, "is not a regular file")
            return
        if b"\0" in file.read(_EXAMINED):
            yield SkippedFile(name, "is binary")
            return
        file.seek(0)
        with open(
            file.fileno(), encoding="utf-8", errors="surrogateescape", newline="", closefd=False
        ) as text:
            yield from self.scan_text(name, text)

    def _scanner_for(self, name: str) -> Scanner:
        """Return the scanner for a path. Raises ValueError if nothing applies to it."""
        matches = tuple(pattern.search(name) is not None for pattern in self._paths)
        if matches not in self._scanners:
            self._scanners[matches] = shared_scanner(self._options.detectors(name))
        return self._scanners[matches]


def _fragments(redactor: TextRedactor, file: TextIO) -> Iterator[Fragment]:
    while text := file.read(_CHUNK):
        yield from redactor.feed(text)
    yield from redactor.finish()


def _moved(line: int, column: int, text: str) -> tuple[int, int]:
    """Return the line and column after a text."""
    lines = text.count("\n")
    return line + lines, len(text) - text.rfind("\n") if lines else column + len(text)
