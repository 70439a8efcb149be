"""What goes out instead of what was found."""

import hashlib
import hmac
import os
import secrets
from collections.abc import Callable, Mapping, MutableMapping
from pathlib import Path

from hookgate.hooks.policies.redact.options import Act, RedactOptions
from hookgate.hooks.policies.redact.tokens import make_token
from hookgate.hooks.session import Withheld

_BLOCKED = "The text holds what must not pass ({kind})."
_KEY_FILE = "redact.key"


class Replacing:
    """The replacement for each finding, by its kind: always the same one for the same text."""

    def __init__(self, options: RedactOptions, key: bytes) -> None:
        """`key` makes hashes and pseudonyms that nobody can guess who does not have it."""
        self._acts: Mapping[str, Act] = options.acts()
        self._mask, self._reason = options.mask, options.reason
        self._key = key

    @property
    def blocks(self) -> bool:
        """Whether there is anything that must not pass."""
        return "block" in self._acts.values()

    @property
    def names(self) -> bool:
        """Whether pseudonyms are given."""
        return "pseudonymise" in self._acts.values()

    def masking(self, names: MutableMapping[str, str] | None) -> Callable[[str, str], str]:
        """Replaces findings; what blocks is masked.

        Pseudonyms are noted in `names`, with what they stand for; without it masks take their place.
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
        """The same, but raises Withheld for what blocks."""
        replace = self.masking(names)

        def block(kind: str, original: str) -> str:
            if self._acts.get(kind) == "block":
                raise Withheld(self._reason or _BLOCKED.format(kind=kind), kind)
            return replace(kind, original)

        return block

    def _digest(self, kind: str, original: str) -> str:
        return hmac.new(self._key, f"{kind}\0{original}".encode(), hashlib.sha256).hexdigest()


def key_in(folder: Path | None) -> bytes:
    """The key of a state folder, made when there is none yet; without a folder one for this process alone.

    Raises ValueError when it cannot be read or kept.
    """
    if folder is None:
        return secrets.token_bytes(32)
    path = folder / _KEY_FILE
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        _make(path)
        return path.read_bytes()
    except OSError as error:
        raise ValueError(
            f"the key of pseudonyms cannot be kept: {error}; name another state folder"
        ) from None


def _make(path: Path) -> None:
    """Put a new key in place, unless someone else was quicker: a key is never half written."""
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
