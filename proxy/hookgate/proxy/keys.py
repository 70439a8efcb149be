"""API keys that have a name. No name, hash or error tells a key."""

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from getpass import getpass
from hashlib import sha256

from hookgate.proxy.config.models import NamedKey


@dataclass(frozen=True, slots=True)
class Named:
    """What a key is called, and the team that it is in; empty without one."""

    name: str
    team: str = ""


class KeysError(ValueError):
    """Named keys that cannot be used. `problems` are the settings, each with what is wrong with it."""

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        self.problems = problems
        super().__init__("\n".join(wrong for _, wrong in problems))


def named_keys(configured: Mapping[str, NamedKey]) -> dict[str, Named]:
    """The named keys by their hashes. Raises KeysError with all that is wrong."""
    found: dict[str, Named] = {}
    problems: list[tuple[str, str]] = []
    for name, key in configured.items():
        setting = f"keys.{name}"
        try:
            digest = _hash_of(key)
        except ValueError as error:
            problems.append((setting, f"{setting}.file: {key.file}: {error}"))
            continue
        if other := found.get(digest):
            problems.append((setting, f"{setting}: is the same key as keys.{other.name}; remove one"))
        else:
            found[digest] = Named(name, key.team or "")
    if problems:
        raise KeysError(problems)
    return found


def short_name(digest: str) -> str:
    """What a key without a name is called, by its hash."""
    return digest[:12]


def hash_of(text: bytes) -> str:
    """The hash of the key that is alone in the text. Raises ValueError when none is."""
    key = text.rstrip(b"\r\n")
    if not re.fullmatch(rb"[!-~]+", key):
        raise ValueError("holds no key, or more than one; put the key alone there, on one line")
    return sha256(key).hexdigest()


async def print_hash() -> int:
    """`hookgate key-hash`: the hash of the key on stdin. A terminal does not show what is typed."""
    text = getpass("API key: ").encode() if sys.stdin.isatty() else sys.stdin.buffer.read()
    try:
        print(hash_of(text))
    except ValueError as error:
        raise ValueError(f"stdin {error}") from None
    return 0


def _hash_of(key: NamedKey) -> str:
    if key.file is None:
        return key.sha256 or ""
    try:
        return hash_of(key.file.read_bytes())
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}; check the path") from None
