"""Remembers which parts of requests contain nothing to replace.

An agent sends its whole conversation with each call, so nearly all of it was searched before.
"""

import copy
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import Any, TypeVar

from hookgate.hooks.policies.redact.scanner import QUICK_SEARCH, TakesLong, remaining_quick_search
from hookgate.translator.fields import same_items
from hookgate.translator.known_turns import NO_TURNS, CanonicalTurn, RequestTurns, digest_of_history
from hookgate.translator.strictjson import dumps

T = TypeVar("T")

_MAX_DIGESTS = 16_384
"""The number of digests after which the older half is forgotten: they take some 200 bytes each."""


_MOST_TRIED = 32
"""The number of last turns of a conversation up to which it may be known as a whole: mostly two are new."""


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

    def count_clean(self, scope: str, contents: Sequence[Any]) -> int:
        """Return how many of the first contents are known to be clean, unless their last speaker goes on."""
        return 0

    def note_clean(self, scope: str, contents: Sequence[Any]) -> None:
        """Note that the first contents of the request were not changed. Their last speaker does not go on."""

    def remember(self) -> None:
        """Remember the parts that were not changed. Called when all of them have been searched."""

    def again(self) -> "KnownParts":
        """Return an object for another search of the same request."""
        return self


NOTHING_KNOWN = KnownParts()


class RememberedParts(KnownParts):
    """The parts of one request, some of which are known from earlier requests."""

    def __init__(
        self, clean: CleanDigests, caller: str, turns: RequestTurns = NO_TURNS, *, brief: bool = False
    ) -> None:
        """`caller` is the caller's key: the time of a call must not tell what others have sent.

        `turns` are turns of the request with digests. If `brief` is true, TakesLong is raised if the parts
        that are not known take long to search.
        """
        self._clean, self._turns, self._brief = clean, turns, brief
        self._left = QUICK_SEARCH
        self._digests = {id(turn.content): turn.digest for turn in turns.turns}
        self._digests |= turns.fields.digests if turns.fields is not None else {}
        self._prefix = sha256(caller.encode()).digest()
        self._unchanged: list[bytes] = []

    def redacted(self, scope: str, part: T, redact: Callable[[T], T]) -> T:
        digest = sha256(b"".join((self._prefix, scope.encode(), b"\0", *self._digests_in(part)))).digest()
        known = digest in self._clean
        if self._brief and not known:
            self._left = remaining_quick_search(self._left, part)
            if self._left < 0:
                raise TakesLong
        new = part if known else redact(part)
        if new is part or (isinstance(new, list) and isinstance(part, list) and same_items(new, part)):
            self._unchanged.append(digest)
        return new

    def count_clean(self, scope: str, contents: Sequence[Any]) -> int:
        turns = self._turns.turns[: self._turns.count_matching(contents)]
        digest_of_history(turns)  # now each of them has one
        tried = range(len(turns), max(0, len(turns) - _MOST_TRIED), -1)
        return next((count for count in tried if self._history(scope, turns[:count]) in self._clean), 0)

    def note_clean(self, scope: str, contents: Sequence[Any]) -> None:
        if contents and self._turns.count_matching(contents) == len(contents):
            self._unchanged.append(self._history(scope, self._turns.turns[: len(contents)]))

    def _history(self, scope: str, turns: Sequence[CanonicalTurn]) -> bytes:
        return sha256(
            b"".join((self._prefix, scope.encode(), b"\0history\0", digest_of_history(turns)))
        ).digest()

    def remember(self) -> None:
        for digest in self._unchanged:
            self._clean.add(digest)

    def again(self) -> KnownParts:
        again = copy.copy(self)
        again._left, again._unchanged = QUICK_SEARCH, []
        return again

    def _digests_in(self, part: Any) -> Iterable[bytes]:
        """Yield the digests of turns, or of the fields of an object, each after its name."""
        if isinstance(part, list):
            return map(self._digest, part)
        return (dumps(name) + self._digest(value) for name, value in part.items())

    def _digest(self, value: Any) -> bytes:
        """Return the digest of the JSON of a turn, or of another value."""
        return self._digests.get(id(value)) or sha256(dumps(value)).digest()
