"""What is known of a caller's interactions, whose turns are stored at Google: which have passed the hooks."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from hookgate.proxy.errors import ApiError, StoreError, StoreUse
from hookgate.proxy.routes.table import INTERACTION_ID, Route
from hookgate.translator.fields import JsonObject
from hookgate.translator.strictjson import MAX_RECORD_DEPTH, loads

if TYPE_CHECKING:  # it imports SQLAlchemy, which only calls of the Interactions API need
    from hookgate.proxy.store.interactions import InteractionTable, StoredInteraction

log = logging.getLogger("hookgate.store")

T = TypeVar("T")

_COLLECTION = re.compile(r"/[^/]+/((?:projects/[^/]+/locations/[^/]+/)?interactions)(?:/([^/]+))?")
_REFUSED = (
    "hookgate cannot read which interactions have passed, so it refuses calls that continue or read one. "
    "Ask the operator of this gateway; it accepts them again as soon as its store can be used."
)

_MAX_COUNTED = 10_000
"""The maximum number of unknown interactions that are remembered to be counted."""

MAX_TURN_BYTES = 256 * 1024
"""Bytes of a request's turns, or of an answer, that are stored. Larger ones are not."""


def interaction_name(route: Route, id_: str) -> str | None:
    """Return the name of an interaction below the path of a route, or None if the API gives no such ID."""
    found = _COLLECTION.match(route.path)
    return f"{found[1]}/{id_}" if found and re.fullmatch(INTERACTION_ID, id_) else None


def id_in_path(route: Route) -> str:
    """Return the ID of the interaction that a route names, or an empty string."""
    found = _COLLECTION.match(route.path)
    return (found[2] if found else None) or ""


class KnownInteractions:
    """The interactions that have passed, by their callers' keys. A caller does not see those of other keys.

    The table is opened with the first call that needs it.
    """

    def __init__(
        self, open_table: "Callable[[], InteractionTable] | None" = None, *, keeps_content: bool = False
    ) -> None:
        """Without `open_table`, which may block, nothing is known. `keeps_content` includes the turns."""
        self._open_table, self.keeps_content = open_table, keeps_content
        self._table: InteractionTable | None = None
        self._failing = False
        self._reading = StoreUse(lambda: ApiError(403, _REFUSED, "INTERACTIONS_UNAVAILABLE"))
        self._counted: dict[str | None, None] = {}
        """The unknown interactions whose tokens this gateway has counted, the oldest first."""

    @property
    def are_kept(self) -> bool:
        """Whether anything can become known."""
        return self._open_table is not None

    async def find(self, key: str, name: str | None) -> "StoredInteraction | None":
        """Return an interaction of a key, or None. Raises ApiError (403) if that cannot be read."""
        if self._open_table is None or name is None:
            return None
        with self._reading.trying():
            return await (await self._opened(self._open_table)).find(key, name)

    async def turns(self, key: str, name: str) -> list[JsonObject] | None:
        """Return the turns up to an interaction, or None if not all of them are stored.

        Raises ApiError (403) if that cannot be read.
        """
        if self._open_table is None or not self.keeps_content:
            return None
        with self._reading.trying():
            stored = await (await self._opened(self._open_table)).turns(key, name)
        if stored is None:
            return None
        return [turn for turns in stored for turn in loads(turns, depth=MAX_RECORD_DEPTH)]

    async def keep(self, interaction: "StoredInteraction") -> None:
        """Note an interaction that was created. A failure is only logged: it will then be unknown."""
        await self._write(lambda table: table.keep(interaction))

    async def pass_answer(
        self, key: str, name: str, *, counted: bool, tokens: int, answer: bytes | None
    ) -> None:
        """Note that the answer of an interaction has passed. A failure is only logged."""
        await self._write(
            lambda table: table.pass_answer(key, name, counted=counted, tokens=tokens, answer=answer)
        )

    async def count(self, key: str, name: str) -> bool:
        """Return whether the tokens of an interaction have to be counted, which is the case only once."""
        return bool(await self._write(lambda table: table.count(key, name)))

    def count_unknown(self, name: str | None) -> bool:
        """Note that the tokens of an interaction that a caller does not know are counted.

        Returns False if this gateway has counted them before, for any caller.
        """
        if name in self._counted:
            return False
        if len(self._counted) >= _MAX_COUNTED:
            del self._counted[next(iter(self._counted))]
        self._counted[name] = None
        return True

    async def forget(self, key: str, name: str | None) -> None:
        """Remove an interaction. A failure is only logged."""
        if name is not None:
            await self._write(lambda table: table.forget(key, name))

    async def _write(self, step: "Callable[[InteractionTable], Awaitable[T]]") -> T | None:
        if self._open_table is None:
            return None
        try:
            result = await step(await self._opened(self._open_table))
        except StoreError as error:
            if not self._failing:
                log.warning("%s; interactions stay unknown until it can be used", error)
            self._failing = True
            return None
        self._failing = False
        return result

    async def _opened(self, open_table: "Callable[[], InteractionTable]") -> "InteractionTable":
        if self._table is None:
            self._table = await asyncio.to_thread(open_table)
        return self._table
