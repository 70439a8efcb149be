"""The format of issued keys, and the pepper, a secret with which they are hashed."""

import hmac
import os
import re
import secrets
import string
import tempfile
from contextlib import suppress
from pathlib import Path

from hookgate.hooks.key_checksums import is_hookgate_key, key_checksum
from hookgate.proxy.config.values import read_secret
from hookgate.proxy.errors import StoreError, describe_os_error
from hookgate.proxy.keys.table import KeyTable

_ID_CHARACTERS = string.ascii_lowercase + "234567"
_SECRET_CHARACTERS = string.digits + string.ascii_letters
_ID_LENGTH, _SECRET_LENGTH = 10, 43  # the secret has 256 bits

KEY_PREFIX = "hgk_"
"""The beginning of every issued key."""

_KEY = re.compile(rf"{KEY_PREFIX}([a-z2-7]{{10}})_[0-9A-Za-z]{{49}}")


def create_key(key_id: str | None = None) -> tuple[str, str]:
    """Return a new key and its public ID: a new one, or the ID of a key that is rotated."""
    new_id = key_id or "".join(secrets.choice(_ID_CHARACTERS) for _ in range(_ID_LENGTH))
    text = f"{KEY_PREFIX}{new_id}_" + "".join(
        secrets.choice(_SECRET_CHARACTERS) for _ in range(_SECRET_LENGTH)
    )
    return text + key_checksum(text), new_id


def id_in_key(key: str) -> str | None:
    """Return the ID in a key, or None if the text does not have the format of a key."""
    found = _KEY.fullmatch(key)
    return found[1] if found and is_hookgate_key(key) else None


PEPPER_FILE = "keys.pepper"


class Pepper:
    """The secret with which keys are hashed: a copy of the database is not enough to guess a key."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self.fingerprint = hmac.digest(secret, b"the pepper of hookgate's keys", "sha256")[:8]
        """Tells whether a key was hashed with this pepper, without revealing it."""

    def hash(self, key: str) -> bytes:
        """Return the keyed hash of a key."""
        return hmac.digest(self._secret, key.encode(errors="surrogateescape"), "sha256")


def load_pepper(file: Path | None, state: Path) -> Pepper:
    """Return the pepper in a file, or else the one in the state folder, which is created if it is missing.

    Raises StoreError.
    """
    try:
        if file is None:
            file = state / PEPPER_FILE
            _create_pepper(file)
        return read_secret(file, _checked_pepper)
    except OSError as error:
        raise StoreError(f"{file}: cannot be created: {describe_os_error(error)}; check the path") from None
    except ValueError as error:
        raise StoreError(str(error)) from None


def _checked_pepper(text: str) -> Pepper:
    if not re.fullmatch(r"[!-~]{32,512}", text):
        raise ValueError(
            "must contain 32 to 512 letters, digits and symbols; create it with: openssl rand -hex 32"
        )
    return Pepper(text.encode())


def _create_pepper(file: Path) -> None:
    """Create the file with a new pepper, for its owner only, unless it exists. It is never incomplete."""
    if file.exists():
        return
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.NamedTemporaryFile(dir=file.parent, prefix=f"{file.name}.") as new:  # its mode is 0600
        new.write(f"{secrets.token_hex(32)}\n".encode())
        new.flush()
        os.fsync(new.fileno())
        with suppress(FileExistsError):  # another process was faster
            os.link(new.name, file)


def check_pepper(pepper: Pepper, table: KeyTable) -> None:
    """Raise StoreError if keys were issued with another pepper: no such key could be used."""
    if table.peppers() - {pepper.fingerprint}:
        raise StoreError(
            "keys were issued with another pepper, so they could not be used; copy the file keys.pepper of "
            "the gateway that issued them, and name the copy as clients.pepper_file"
        )
