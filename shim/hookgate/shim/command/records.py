"""What `install` added to a settings file: so `uninstall` gives back the very bytes that were there before.

A record holds positions and a digest; nothing that stands in the settings is copied.
"""

import json
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from hookgate.hooks.managing.edits import write_atomically


@dataclass(frozen=True, slots=True)
class Record:
    """One settings file's: the digest of the text with the additions, where they stand, was the file made."""

    digest: str
    added: list[tuple[int, int]]
    made: bool

    def original(self, text: str) -> str | None:
        """The text without the additions; None for one that was changed since."""
        if _digest(text) != self.digest:
            return None
        for begin, end in reversed(self.added):
            text = text[:begin] + text[end:]
        return text


class Records:
    """The records in hookgate's state folder."""

    def __init__(self, state: Path) -> None:
        self._folder = state / "shim"

    def read(self, settings: Path) -> Record | None:
        """A settings file's record; None without one, or when it cannot be read."""
        try:
            value = json.loads(self._path(settings).read_bytes())
            return Record(value["digest"], [(int(a), int(b)) for a, b in value["added"]], bool(value["made"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def keep(self, settings: Path, before: str, after: str, made: bool) -> None:
        """Remember how `after` came of `before`. Raises OSError."""
        added = _additions(before, after)
        if added is None:  # something was rewritten, not just added
            return self.drop(settings)
        record = {"settings": str(settings), "digest": _digest(after), "added": added, "made": made}
        return write_atomically(self._path(settings), json.dumps(record))

    def drop(self, settings: Path) -> None:
        """Forget a settings file."""
        self._path(settings).unlink(missing_ok=True)

    def _path(self, settings: Path) -> Path:
        return self._folder / f"{_digest(str(settings.resolve()))[:16]}.json"


def _additions(before: str, after: str) -> list[tuple[int, int]] | None:
    """The stretches of `after` that are not in `before`; None when there is more to it than additions."""
    added: list[tuple[int, int]] = []
    at = 0
    for character in before:
        found = after.find(character, at)
        if found < 0:
            return None
        if found > at:
            added.append((at, found))
        at = found + 1
    if at < len(after):
        added.append((at, len(after)))
    return added


def _digest(text: str) -> str:
    return sha256(text.encode(errors="surrogatepass")).hexdigest()
