"""Asks people about tool calls, and waits for their decisions.

Whatever fails, the call is denied. A call that waits holds no thread: the decisions about all that wait in
this gateway are read together.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hookgate.proxy.alerts.receivers import read_receivers
from hookgate.proxy.approvals.links import read_links
from hookgate.proxy.approvals.requests import ApprovalRequest, AskedCall
from hookgate.proxy.approvals.table import ApprovalTable, Standing
from hookgate.proxy.approvals.telling import Teller
from hookgate.proxy.background import running_beside
from hookgate.proxy.config import ApprovalSettings, Config
from hookgate.proxy.errors import ApiError, StoreError
from hookgate.proxy.store.database import open_approvals
from hookgate.proxy.store.execution import DatabaseThreads
from hookgate.translator.fields import JsonObject

log = logging.getLogger("hookgate.approvals")

_POLL_SECONDS = 0.5
_COUNT_SECONDS = 5.0
_SWEEP_EVERY = 120
"""Counts of what is pending, after which requests that have been over for long are removed."""

MAX_WAITING = 20
"""The answers to one key that wait at the same time; any other one is denied like a ticket."""

_NEEDED = (
    "This call needs a person's approval, and people were asked (request {id}). Make exactly this call again "
    "when it is approved."
)
_TIMED_OUT = (
    "This call needs a person's approval, and nobody has decided within {seconds:g} seconds (request {id}). "
    "Make exactly this call again when it is approved."
)
_DENIED = "A person has denied this call (request {id})."
_FULL = (
    "This call needs a person's approval, and too many calls of this key wait for one already. Wait until "
    "people have decided about them."
)
_TOO_LARGE = "This call needs a person's approval, and its arguments are too large for people to read."
_FAILED = "This call needs a person's approval, which nobody can be asked for at the moment. Try again later."

AnswerResult = Literal["approved", "denied", "asked", "timed out", "full", "too large", "failed"]

RecordChange = Callable[[str, str, JsonObject], Awaitable[None]]
"""Records a change: who made it, what was changed, and more about it. Raises ApiError if it cannot."""


@dataclass(frozen=True, slots=True)
class ApprovalAnswer:
    """Whether a call may pass, and if not, why, for the model and the user."""

    result: AnswerResult
    reason: str = ""
    request: ApprovalRequest | None = None

    @property
    def passes(self) -> bool:
        return self.result == "approved"

    def for_receipt(self) -> JsonObject:
        """Return what receipts and records say about it: nothing of the content."""
        request = self.request
        if request is None:
            return {"result": self.result}
        by = {"by": request.deciders} if self.result in ("approved", "denied") else {}
        scope = {"scope": request.scope} if self.passes else {}
        return {"request": request.id, "result": self.result, **by, **scope}


class Approvals:
    """Decides about calls for which hooks ask, with what people have decided."""

    def __init__(
        self,
        settings: ApprovalSettings,
        table: ApprovalTable,
        teller: Teller,
        record: RecordChange | None = None,
    ) -> None:
        """`record` puts requests on record, if there is an audit."""
        self._settings, self._table, self._teller, self._record = settings, table, teller, record
        self._threads = DatabaseThreads("the approvals", "hookgate-approvals", 1)
        self._asking: set[asyncio.Task[Standing]] = set()
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}
        self._waiting_by_key = Counter[str]()
        self._polling: asyncio.Task[None] | None = None
        self.results = Counter[str]()
        """The number of calls by how they ended."""
        self.pending = 0
        """The number of requests of all gateways that wait for a decision, as of the last count."""

    @property
    def deliveries(self) -> dict[tuple[str, str], int]:
        """The number of attempts to tell a receiver, by receiver and result."""
        return self._teller.results

    @property
    def hold(self) -> float:
        """The seconds for which an answer waits for decisions about its calls; 0 if it does not."""
        return self._settings.hold if self._settings.mode == "hold" else 0.0

    async def answer(self, asked: AskedCall, until: float | None = None) -> ApprovalAnswer:
        """Return whether a call may pass.

        It waits for a decision until a time on the monotonic clock, or not at all without that.
        """
        try:
            answer = await self._ask_and_wait(asked, until)
        except (StoreError, ApiError) as error:
            log.error("a call was denied, because people cannot be asked: %s", error)
            answer = ApprovalAnswer("failed", _FAILED)
        except Exception:
            log.exception("internal error in approvals, so a call was denied; please report this")
            answer = ApprovalAnswer("failed", _FAILED)
        self.results[answer.result] += 1
        return answer

    async def _ask_and_wait(self, asked: AskedCall, until: float | None) -> ApprovalAnswer:
        """Ask about a call, and wait for the decision. Raises StoreError, or ApiError."""
        while True:
            standing = await self._ask_even_if_client_leaves(asked)
            request = standing.request
            if standing.result != "pending" or request is None:
                return _answer_for(standing)
            waited = await self._wait_for_decision(request, until)
            if waited == "decided":
                continue  # to ask again uses up an approval that is for one call
            text = _TIMED_OUT if waited == "timed out" else _NEEDED
            reason = text.format(id=request.short_id, seconds=self.hold)
            reason = f"{reason}\n{asked.why}" if asked.why else reason
            return ApprovalAnswer("timed out" if waited == "timed out" else "asked", reason, request)

    async def _ask_even_if_client_leaves(self, asked: AskedCall) -> Standing:
        """Ask about a call, and do not stop if the client leaves: people are told of each stored request."""
        asking = asyncio.create_task(self._ask(asked))
        self._asking.add(asking)
        asking.add_done_callback(self._asking.discard)
        try:
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            asking.add_done_callback(_log_failure)
            raise

    async def _ask(self, asked: AskedCall) -> Standing:
        """Look the call up, and have people asked if nobody was. Raises StoreError, or ApiError."""
        settings, now = self._settings, time.time_ns() // 1_000_000
        milliseconds = int(settings.expiry_hours * 3_600_000)
        standing = await self._threads.run(self._table.ask, asked, now, milliseconds, settings.persons)
        if standing.is_new and (request := standing.request) is not None:
            await self._put_on_record(request)
            self._teller.tell(request)
            self.pending += 1
        return standing

    async def _put_on_record(self, request: ApprovalRequest) -> None:
        """Record that people are asked. Raises ApiError, and removes the request, if that is not possible."""
        if self._record is None:
            return
        about = {"request": request.id, "call": request.call, "sha256": request.digest.hex()}
        try:
            await self._record(request.key or "no key", "approvals.request", about)
        except ApiError:
            await self._threads.run(self._table.withdraw, request.id)
            raise

    # ---- waiting

    async def _wait_for_decision(
        self, request: ApprovalRequest, until: float | None
    ) -> Literal["decided", "timed out", "not held"]:
        """Wait until a request is decided, unless calls do not wait, or too many of the key do."""
        if until is None or self._waiting_by_key[request.key] >= MAX_WAITING:
            return "not held"
        decided = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(request.id, set()).add(decided)
        self._waiting_by_key[request.key] += 1
        if self._polling is None:
            self._polling = asyncio.create_task(self._poll())
        try:
            async with asyncio.timeout_at(until):
                await decided
        except TimeoutError:
            return "timed out"
        finally:
            self._waiting[request.id].discard(decided)
            if not self._waiting[request.id]:
                del self._waiting[request.id]
            self._waiting_by_key[request.key] -= 1
            if not self._waiting_by_key[request.key]:
                del self._waiting_by_key[request.key]
        return "decided"

    async def _poll(self) -> None:
        """Read the states of the requests for which calls wait, as long as any does."""
        try:
            while self._waiting:
                await asyncio.sleep(_POLL_SECONDS)
                await self._wake_decided()
        finally:
            self._polling = None

    async def _wake_decided(self) -> None:
        """Wake the calls whose requests are decided, or all if that cannot be read."""
        ids = list(self._waiting)
        try:
            states = await self._threads.run(self._table.states, ids)
        except StoreError:
            states = {}  # each call asks again, and reports the error
        for id_ in ids:
            if states.get(id_) != "pending":
                for decided in self._waiting.get(id_, ()):
                    if not decided.done():
                        decided.set_result(None)

    # ---- in the background

    async def run(self) -> None:
        """Tell receivers, count what is pending, and remove what is over, until cancelled."""
        await asyncio.gather(self._teller.run(), self._watch())

    async def _watch(self) -> None:
        turn, fails = 0, False
        while True:
            now = time.time_ns() // 1_000_000
            try:
                if turn % _SWEEP_EVERY == 0:
                    await self._threads.run(self._table.sweep, now, self._settings.days)
                self.pending = await self._threads.run(self._table.pending, now)
                fails = False
            except StoreError as error:
                if not fails:
                    log.error("calls that need an approval are denied: %s", error)
                fails = True
            turn += 1
            await asyncio.sleep(_COUNT_SECONDS)

    async def close(self) -> None:
        """End what runs in the background."""
        if self._polling is not None:
            self._polling.cancel()
            await asyncio.gather(self._polling, return_exceptions=True)
        await asyncio.gather(*self._asking, return_exceptions=True)
        await self._teller.close()
        await asyncio.to_thread(self._threads.close)


def _log_failure(asking: asyncio.Task[Standing]) -> None:
    """Log that people could not be asked about a call whose client has left."""
    if not asking.cancelled() and (error := asking.exception()) is not None:
        log.error("people cannot be asked: %s", error)


def _answer_for(standing: Standing) -> ApprovalAnswer:
    request = standing.request
    if standing.result == "approved":
        return ApprovalAnswer("approved", "", request)
    if standing.result == "denied" and request is not None:
        reason = request.decisions[-1].reason
        text = _DENIED.format(id=request.short_id)
        return ApprovalAnswer("denied", f"{text}\n{reason}" if reason else text, request)
    if standing.result == "full":
        return ApprovalAnswer("full", _FULL)
    if standing.result == "too large":
        return ApprovalAnswer("too large", _TOO_LARGE)
    return ApprovalAnswer("failed", _FAILED)


@asynccontextmanager
async def open_approvals_of(
    config: Config, url: str | None, state: Path, record: RecordChange | None
) -> AsyncIterator[Approvals | None]:
    """Ask people while the block runs, if the configuration says so; yields None if not.

    Args:
        config: The configuration.
        url: The URL of the database, or None for a file.
        state: The state folder.
        record: Puts requests on record, if there is an audit.

    Raises ConfigError for receivers or a secret that cannot be used, and StoreError.
    """
    settings = config.approvals
    if not settings.are_needed:
        yield None
        return
    panel = config.approvals_url
    teller = Teller(settings, read_receivers(config.alerts), read_links(settings, panel), panel)
    async with AsyncExitStack() as stack:
        table = ApprovalTable(await asyncio.to_thread(open_approvals, url, state))
        stack.push_async_callback(asyncio.to_thread, table.close)
        approvals = Approvals(settings, table, teller, record)
        stack.push_async_callback(approvals.close)
        async with running_beside(approvals.run()):
            yield approvals
