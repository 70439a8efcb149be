"""Files that contain one secret: tokens, keys, and the URL of a database with its password."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from hookgate.proxy.errors import describe_os_error

T = TypeVar("T")


def read_secret(file: Path, check: Callable[[str], T]) -> T:
    """Return what `check` makes of the only text in a file, without spaces and line breaks around it.

    `check` raises ValueError, without the text, if it cannot be the secret. Raises ValueError with the file,
    what is wrong, and the remedy.
    """
    try:
        return check(file.read_text(encoding="utf-8").strip())
    except OSError as error:
        problem = f"cannot be read: {describe_os_error(error)}; check the path"
    except UnicodeDecodeError:  # its message quotes the secret
        problem = "is not text in UTF-8; it must contain the secret, and nothing else"
    except ValueError as error:
        problem = str(error)
    raise ValueError(f"{file}: {problem}")
