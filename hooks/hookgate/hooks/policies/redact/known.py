"""Remembers which parts of requests contain nothing to replace.

An agent sends its whole conversation with each call, so nearly all of it was searched before.
"""

from collections.abc import Callable
from hashlib import sha256
from typing import TypeVar

from hookgate.translator.fields import same_items
from hookgate.translator.strictjson import dumps

T = TypeVar("T")

_MAX_DIGESTS = 16_384
"""The number of digests after which the older half is forgotten: they take some 200 bytes each."""


class CleanDigests:
    """The digests of parts that contain nothing to replace. The older half of many is forgotten.

    A digest says which bytes were searched, and nothing else, so it is valid for as long as the settings of
    the search are. Threads may share it: at worst, one of them forgets what another one has just added.
    """

    def __init__(self, size: int = _MAX_DIGESTS) -> None:
        self._half = size // 2
        self._newer: dict[bytes, None] = {}
        self._older: dict[bytes, None] = {}

    def __len__(self) -> int:
        return len(self._newer) + len(self._older)

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._newer or digest in self._older

    def add(self, digest: bytes) -> None:
        """Add a digest, which is then forgotten last."""
        self._newer[digest] = None
        if len(self._newer) >= self._half:
            self._newer, self._older = {}, self._newer


class KnownParts:
    """The parts of one request, some of which may be known to contain nothing to replace.

    This one knows none of them.
    """

    def redacted(self, scope: str, part: T, redact: Callable[[T], T]) -> T:
        """Return a part of the request after `redact`, which is not called if the part is known.

        Args:
            scope: The scope in which the part's texts are searched.
            part: An object, or a list of turns.
            redact: Returns the part after redaction. It is unchanged if it is the same object, or a list of
                the same objects.
        """
        return redact(part)

    def remember(self) -> None:
        """Remember the parts that were not changed. Called when all of them have been searched."""

    def again(self) -> "KnownParts":
        """Return an object for another search of the same request."""
        return self


NOTHING_KNOWN = KnownParts()


class RememberedParts(KnownParts):
    """The parts of one request, some of which are known from earlier requests."""

    def __init__(self, clean: CleanDigests, caller: str) -> None:
        """`caller` is the caller's key: the time of a call must not tell what others have sent."""
        self._clean, self._caller = clean, caller
        self._prefix = sha256(caller.encode()).digest()
        self._unchanged: list[bytes] = []

    def redacted(self, scope: str, part: T, redact: Callable[[T], T]) -> T:
        digest = sha256(b"".join((self._prefix, scope.encode(), b"\0", dumps(part)))).digest()
        new = part if digest in self._clean else redact(part)
        if new is part or (isinstance(new, list) and isinstance(part, list) and same_items(new, part)):
            self._unchanged.append(digest)
        return new

    def remember(self) -> None:
        for digest in self._unchanged:
            self._clean.add(digest)

    def again(self) -> KnownParts:
        return RememberedParts(self._clean, self._caller)
