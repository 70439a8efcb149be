"""Named keys: those that the configuration names, with the owner and the team of each."""

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from getpass import getpass
from hashlib import sha256

from hookgate.proxy.config.models import NamedKey
from hookgate.proxy.config.values import read_secret


@dataclass(frozen=True, slots=True)
class KeyOwner:
    """The name of a key, and its team, which is empty if it has none."""

    name: str
    team: str = ""


class KeysError(ValueError):
    """Raised for named keys that cannot be used. `problems` are pairs of a setting and a message."""

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        self.problems = problems
        super().__init__("\n".join(message for _, message in problems))


def load_named_keys(configured: Mapping[str, NamedKey]) -> dict[str, KeyOwner]:
    """Return the named keys by their hashes. Raises KeysError with all problems."""
    keys: dict[str, KeyOwner] = {}
    problems: list[tuple[str, str]] = []
    for name, key in configured.items():
        setting = f"keys.{name}"
        try:
            digest = key.sha256 or "" if key.file is None else read_secret(key.file, hash_of_only_key)
        except ValueError as error:
            problems.append((setting, f"{setting}.file: {error}"))
            continue
        if other := keys.get(digest):
            problems.append((setting, f"{setting}: is the same key as keys.{other.name}; remove one"))
        else:
            keys[digest] = KeyOwner(name, key.team or "")
    if problems:
        raise KeysError(problems)
    return keys


def hash_of_only_key(text: str) -> str:
    """Return the SHA-256 of the key that is the whole text, in hex. Raises ValueError if it is not one."""
    if not re.fullmatch(r"[!-~]+", text):
        raise ValueError("contains no key, or more than one; it must contain one key on one line")
    return sha256(text.encode()).hexdigest()


async def print_hash() -> int:
    """Run `hookgate key-hash`: print the hash of the key on stdin. On a terminal the input is not shown."""
    text = getpass("API key: ") if sys.stdin.isatty() else sys.stdin.buffer.read().decode(errors="replace")
    try:
        print(hash_of_only_key(text.strip()))
    except ValueError as error:
        raise ValueError(f"stdin {error}") from None
    return 0
