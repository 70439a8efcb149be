"""Asks people about tool calls, and waits for their decisions.

Whatever fails, the call is denied. A call that waits holds no thread: the decisions about all that wait in
this gateway are read together.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
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
from hookgate.proxy.store.database import ANSWER_SECONDS, open_approvals
from hookgate.proxy.store.execution import DatabaseThreads
from hookgate.translator.fields import JsonObject

log = logging.getLogger("hookgate.approvals")

_ASK_SECONDS = ANSWER_SECONDS - 0.5
"""Seconds after which no request is stored and no approval used up: the call is denied soon after."""

_POLL_SECONDS = 0.5
_COUNT_SECONDS = 5.0
_SWEEP_EVERY = 120
"""Counts of what is pending, after which requests that have been over for long are removed."""

MAX_WAITING = 20
"""The answers to one key that wait at the same time; any further one gets tickets."""

MAX_CALLS = 20
"""The calls of one answer, or of one event of a stream, about which people are asked."""

_NEEDED = (
    "This call needs a person's approval, and people were asked (request {id}). Make exactly this call again "
    "when it is approved."
)
_TIMED_OUT = (
    "This call needs a person's approval, and nobody has decided within {seconds:g} seconds (request {id}). "
    "Make exactly this call again when it is approved."
)
_NOT_MADE = (
    "This call is approved (request {id}), but was not made, because another call of the same answer is not. "
    "Make exactly this call again, alone or with the other one when that is approved."
)
_DENIED = "A person has denied this call (request {id})."
_FULL = (
    "This call needs a person's approval, and too many calls of this key wait for one already. Wait until "
    "people have decided about them."
)
_TOO_MANY = f"Over {MAX_CALLS} calls of this answer need a person's approval. Make fewer calls at once."
_TOO_LARGE = "This call needs a person's approval, and its arguments are too large for people to read."
_FAILED = "This call needs a person's approval, which nobody can be asked for at the moment. Try again later."

AnswerResult = Literal["approved", "not made", "denied", "asked", "timed out", "full", "too large", "failed"]

_Waited = Literal["decided", "timed out", "too late", "not held"]
"""How a wait has ended. It was too late to wait if the time of the answer was over before."""

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
        by = {"by": request.deciders} if self.result in ("approved", "not made", "denied") else {}
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
        self._asking: set[asyncio.Task[list[Standing]]] = set()
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

    async def answer(
        self, calls: Sequence[AskedCall], until: float | None = None, *, together: bool = True
    ) -> list[ApprovalAnswer]:
        """Return for each call of an answer whether it may pass.

        With `together`, all of them pass or none does, and unless all do, no approval is used up. It waits
        for decisions until a time on the monotonic clock, or not at all without that.
        """
        if len(calls) > MAX_CALLS:
            self.results["full"] += len(calls)
            return [ApprovalAnswer("full", _TOO_MANY) for _ in calls]
        if together:
            return await self._answer_together(calls, until)
        each_alone = (self._answer_together([asked], until) for asked in calls)
        return [answer for answers in await asyncio.gather(*each_alone) for answer in answers]

    async def _answer_together(self, calls: Sequence[AskedCall], until: float | None) -> list[ApprovalAnswer]:
        """Return for each call whether it may pass: all of them or none."""
        try:
            answers = await self._ask_and_wait(calls, until)
        except (StoreError, ApiError) as error:
            log.error("calls were denied, because people cannot be asked: %s", error)
            answers = [ApprovalAnswer("failed", _FAILED) for _ in calls]
        except Exception:
            log.exception("internal error in approvals, so calls were denied; please report this")
            answers = [ApprovalAnswer("failed", _FAILED) for _ in calls]
        self.results.update(answer.result for answer in answers)
        return answers

    async def _ask_and_wait(self, calls: Sequence[AskedCall], until: float | None) -> list[ApprovalAnswer]:
        """Ask about calls, and wait until all are decided. Raises StoreError, or ApiError."""
        while True:
            standings = await self._ask_even_if_client_leaves(calls)
            results = {each.result for each in standings}
            if results == {"approved"}:
                return [ApprovalAnswer("approved", "", each.request) for each in standings]
            waited: _Waited = "not held"
            if results <= {"approved", "pending"}:  # otherwise, no decision could let all pass
                pending = (each.request for each in standings if each.result == "pending")
                undecided = {request.id: request for request in pending if request is not None}
                waited = await self._wait_for_decision([*undecided.values()], until)
            if waited != "decided":
                return [self._denial(*each, waited) for each in zip(calls, standings, strict=True)]

    def _denial(self, asked: AskedCall, standing: Standing, waited: _Waited) -> ApprovalAnswer:
        """Return why a call is not made, at least not now."""
        request = standing.request
        result: AnswerResult
        if request is None:
            result, reason = ("full", _FULL) if standing.result == "full" else ("too large", _TOO_LARGE)
            return ApprovalAnswer(result, reason)
        if standing.result == "approved":
            result, text, more = "not made", _NOT_MADE, ""
        elif standing.result == "denied":
            result, text, more = "denied", _DENIED, request.decisions[-1].reason
        elif waited == "timed out" or (waited == "too late" and not standing.is_new):
            result, text, more = "timed out", _TIMED_OUT, asked.why
        else:
            result, text, more = "asked", _NEEDED, asked.why
        reason = text.format(id=request.short_id, seconds=self.hold)
        return ApprovalAnswer(result, f"{reason}\n{more}" if more else reason, request)

    async def _ask_even_if_client_leaves(self, calls: Sequence[AskedCall]) -> list[Standing]:
        """Ask about calls, and do not stop if the client leaves: people are told of each stored request."""
        asking = asyncio.create_task(self._ask(calls))
        self._asking.add(asking)
        asking.add_done_callback(self._asking.discard)
        try:
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            asking.add_done_callback(_log_failure)
            raise

    async def _ask(self, calls: Sequence[AskedCall]) -> list[Standing]:
        """Look calls up, and have people asked if nobody was. Raises StoreError, or ApiError."""
        settings, now = self._settings, time.time_ns() // 1_000_000
        lifetime, ends = int(settings.expiry_hours * 3_600_000), time.monotonic() + _ASK_SECONDS
        standings = await self._threads.run(self._table.ask, calls, now, lifetime, settings.persons, ends)
        new = [each.request for each in standings if each.is_new and each.request]
        await self._put_on_record(new)
        for request in new:
            self._teller.tell(request)
        self.pending += len(new)
        return standings

    async def _put_on_record(self, requests: Sequence[ApprovalRequest]) -> None:
        """Record that people are asked. If that is not possible, remove the requests, and raise ApiError."""
        if self._record is None:
            return
        try:
            for request in requests:
                about = {"request": request.id, "call": request.call, "sha256": request.digest.hex()}
                await self._record(request.key or "no key", "approvals.request", about)
        except ApiError:
            await self._threads.run(self._table.withdraw, [request.id for request in requests])
            raise

    # ---- waiting

    async def _wait_for_decision(self, requests: Sequence[ApprovalRequest], until: float | None) -> _Waited:
        """Wait until one of an answer's requests is decided, unless answers do not wait, or too many do."""
        key = requests[0].key
        if until is None or self._waiting_by_key[key] >= MAX_WAITING:
            return "not held"
        if until <= time.monotonic():
            return "too late"
        decided = asyncio.get_running_loop().create_future()
        for request in requests:
            self._waiting.setdefault(request.id, set()).add(decided)
        self._waiting_by_key[key] += 1
        if self._polling is None:
            self._polling = asyncio.create_task(self._poll())
        try:
            async with asyncio.timeout_at(until):
                await decided
        except TimeoutError:
            return "timed out"
        finally:
            for request in requests:
                self._waiting[request.id].discard(decided)
                if not self._waiting[request.id]:
                    del self._waiting[request.id]
            self._waiting_by_key[key] -= 1
            if not self._waiting_by_key[key]:
                del self._waiting_by_key[key]
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


def _log_failure(asking: asyncio.Task[list[Standing]]) -> None:
    """Log that people could not be asked about a call whose client has left."""
    if not asking.cancelled() and (error := asking.exception()) is not None:
        log.error("people cannot be asked: %s", error)


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
    if not settings.are_enabled:
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
