"""Decodes text files, and recognizes files of the wrong kind."""

import re
import tomllib
from pathlib import Path

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
