"""The secret key of policies, from which they derive what others must not guess, such as pseudonyms."""

import os
import secrets
from pathlib import Path

_KEY_FILE = "redact.key"
_OF_PROCESS = secrets.token_bytes(32)


def key_in(folder: Path | None) -> bytes:
    """Return the key in a state folder, and create it if it is missing.

    If `folder` is None, the key is random, and that of this process. Raises ValueError if the key cannot
    be read or written.
    """
    if folder is None:
        return _OF_PROCESS
    path = folder / _KEY_FILE
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        _create_key(path)
        return path.read_bytes()
    except OSError as error:
        raise ValueError(
            f"the key of policies cannot be read or written: {error}; configure another state folder"
        ) from None


def _create_key(path: Path) -> None:
    """Create a key atomically, unless another process creates it first."""
    if path.exists():
        return
    new = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    new.touch(mode=0o600)
    try:
        new.write_bytes(secrets.token_bytes(32))
        os.link(new, path)
    except FileExistsError:
        pass
    finally:
        new.unlink()
