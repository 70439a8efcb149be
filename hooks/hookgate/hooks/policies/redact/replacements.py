"""Replacements of findings: masks, hashes, and pseudonyms that can be restored."""

import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Callable, Mapping, MutableMapping
from pathlib import Path

from hookgate.hooks.policies.redact.detectors.detector import Detector
from hookgate.hooks.policies.redact.options import Act, RedactOptions
from hookgate.hooks.session import Withheld

_DIGITS = re.compile(r"[0-9a-f]{16}")
_KIND = re.compile(r"[A-Z][A-Z0-9_]{1,23}")


def make_token(kind: str, digits: str) -> str:
    """Return the token of a kind and 16 hexadecimal digits. Raises ValueError if either is invalid."""
    if not _KIND.fullmatch(kind) or not _DIGITS.fullmatch(digits):
        raise ValueError("a token needs a kind of 2 to 24 capitals and 16 hexadecimal digits in lower case")
    return f"HG_{kind}_{digits}"


def token_detector() -> Detector:
    """Return a detector of tokens, used to restore their originals. The text around them does not matter.

    No other built-in detector matches a token.
    """
    return Detector("TOKEN", r"HG_[A-Z][A-Z0-9_]{1,23}_[0-9a-f]{16}", group="tokens")


_BLOCKED = "The text contains something that is blocked ({kind})."
_KEY_FILE = "redact.key"


class Replacing:
    """Replaces findings as the options say. Equal findings have equal replacements."""

    def __init__(self, options: RedactOptions, key: bytes) -> None:
        """`key` is the secret key of hashes and pseudonyms, without which they cannot be guessed."""
        self._acts: Mapping[str, Act] = options.acts()
        self._mask, self._reason = options.mask, options.reason
        self._key = key

    @property
    def blocks(self) -> bool:
        """Whether any kind is blocked."""
        return "block" in self._acts.values()

    @property
    def names(self) -> bool:
        """Whether any kind is pseudonymised."""
        return "pseudonymise" in self._acts.values()

    def masking(self, names: MutableMapping[str, str] | None) -> Callable[[str, str], str]:
        """Return a function that replaces findings. Kinds that are blocked are masked.

        Pseudonyms are added to `names` with their originals. If `names` is None, masks are used instead.
        """

        def replace(kind: str, original: str) -> str:
            act = self._acts.get(kind, "mask")
            if act == "hash":
                return f"[{kind}:{self._digest(kind, original)[:12]}]"
            if act == "pseudonymise" and names is not None:
                token = make_token(kind, self._digest(kind, original)[:16])
                names[token] = original
                return token
            return self._mask.replace("{kind}", kind)

        return replace

    def blocking(self, names: MutableMapping[str, str] | None) -> Callable[[str, str], str]:
        """Return a function that replaces findings, and raises Withheld for kinds that are blocked."""
        replace = self.masking(names)

        def block(kind: str, original: str) -> str:
            if self._acts.get(kind) == "block":
                raise Withheld(self._reason or _BLOCKED.format(kind=kind), kind)
            return replace(kind, original)

        return block

    def _digest(self, kind: str, original: str) -> str:
        return hmac.new(self._key, f"{kind}\0{original}".encode(), hashlib.sha256).hexdigest()


def key_in(folder: Path | None) -> bytes:
    """Return the key in a state folder, and create it if it is missing.

    If `folder` is None, the key is random and used only in this process. Raises ValueError if the key cannot
    be read or written.
    """
    if folder is None:
        return secrets.token_bytes(32)
    path = folder / _KEY_FILE
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        _create_key(path)
        return path.read_bytes()
    except OSError as error:
        raise ValueError(
            f"the key of pseudonyms cannot be read or written: {error}; configure another state folder"
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
