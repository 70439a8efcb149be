"""What all calls of one gateway share, and how each of them is settled."""

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from hookgate.hooks import CallEnd
from hookgate.hooks.policies.estimates import priced_model
from hookgate.proxy.calls.pacing import LongSteps, LoopSlices
from hookgate.proxy.config import Config
from hookgate.proxy.config.reading import find_sources
from hookgate.proxy.errors import UPSTREAM_BROKE, UPSTREAM_FAILED, ApiError
from hookgate.proxy.keys.callers import Callers, load_named_keys
from hookgate.proxy.observe.content import open_transcripts
from hookgate.proxy.observe.logs import note_cause
from hookgate.proxy.observe.receipts import Receipts
from hookgate.proxy.observe.record import AuditState, CallRecord
from hookgate.proxy.observe.usage import NO_USAGE, Usage, read_prices
from hookgate.proxy.routes.table import Route
from hookgate.proxy.sessions.bypass import Bypasses
from hookgate.proxy.sessions.interactions import KnownInteractions
from hookgate.proxy.sessions.sessions import LocalSessions, Sessions
from hookgate.proxy.upstream.client import NoAnswerError, Upstreams
from hookgate.translator.fields import JsonObject

if TYPE_CHECKING:  # they import SQLAlchemy, which only an enabled audit, approvals or issued keys need
    from hookgate.proxy.approvals.asking import Approvals
    from hookgate.proxy.audit.trail import Audit
    from hookgate.proxy.keys.issued import IssuedKeys

log = logging.getLogger("hookgate.gateway")

_MAX_REROUTED = 1_000
"""The maximum number of models for which it is remembered that others answer."""


_MAX_CACHES = 10_000
"""The maximum number of cached contents whose tokens are remembered."""


class GatewayServices:
    """What all calls of one gateway share, such as the upstreams, the sessions and the audit."""

    def __init__(  # noqa: PLR0913  # the parts of a gateway that calls use
        self,
        upstreams: Upstreams,
        config: Config,
        *,
        audit: "Audit | None" = None,
        sessions: Sessions | None = None,
        issued_keys: "IssuedKeys | None" = None,
        interactions: KnownInteractions | None = None,
        approvals: "Approvals | None" = None,
    ) -> None:
        """Calls are recorded in `audit`, if given. Without `sessions`, sessions are kept in memory.

        Without `issued_keys`, no keys of the gateway are accepted. Without `interactions`, earlier
        interactions are unknown. Without `approvals`, nobody is asked about tool calls.

        Raises KeysError if the keys cannot be read, ConfigError if the price table is invalid.
        """
        self.upstreams, self.config, self.audit = upstreams, config, audit
        self.sessions = sessions or LocalSessions()
        self.interactions = interactions or KnownInteractions()
        self.approvals = approvals
        self.receipts = Receipts()
        self.bypasses = Bypasses()
        refuses = config.clients.unknown_keys == "refuse"
        self.issued_keys = issued_keys
        self.callers = Callers(
            load_named_keys(config.keys), refuses_unknown=refuses, issues=issued_keys is not None
        )
        self.prices = read_prices(config.prices.file)
        self.rerouted: dict[str, str] = {}
        """The models that answered the latest calls to other models, by the names of these."""
        self.cached_tokens: dict[str, int] = {}
        """The tokens of cached contents, by their names, as answers have reported them."""
        self.slices = LoopSlices()
        self.long_steps = LongSteps()
        self.transcripts = open_transcripts(config.transcripts, find_sources(config.hooks).state)

    # ---- while a call lasts

    def decide_whether_audited(self, record: CallRecord, method: str, route: Route) -> None:
        """Decide whether a call is audited, as the configuration and its route say."""
        if self.audit is None:
            record.advance_audit(AuditState.NOT_AUDITED)
        else:
            self.audit.decide_whether_audited(record, method, route)

    async def record_start(self, record: CallRecord) -> None:
        """Wait until the start of a call is on disk. Raises ApiError if that fails."""
        if self.audit is not None:
            await self.audit.record_start(record)

    async def record_event(self, record: CallRecord) -> None:
        """Record a shim's event before it is answered. Raises ApiError if that fails."""
        if self.audit is not None:
            await self.audit.record_event(record, 200)

    def note_error(self, record: CallRecord, error: ApiError) -> None:
        """Record and log an error that ends a call, whether or not it can still be sent to the client."""
        record.note_error(error)
        note_cause(error.cause)
        if isinstance(error, NoAnswerError):
            log.warning("no answer from %s: %s", error.origin, error.why)
        elif error.reason in UPSTREAM_FAILED:
            log.warning("the upstream's answer failed: %s", error.audit_text)

    def note_upstream_failure(self, record: CallRecord, failure: str) -> None:
        """Record and log that the upstream failed in an answer whose status was a success."""
        record.outcome = "failed"
        record.reasons["gateway"] = f"{UPSTREAM_BROKE}: {failure}"
        note_cause(UPSTREAM_BROKE)
        log.warning("the upstream failed during its answer: %s", failure)

    def note_cached(self, name: str, tokens: int) -> None:
        """Remember the tokens of cached contents, for calls that use them."""
        if not name or not tokens:
            return
        self.cached_tokens.pop(name, None)
        if len(self.cached_tokens) >= _MAX_CACHES:
            del self.cached_tokens[next(iter(self.cached_tokens))]
        self.cached_tokens[name] = tokens

    # ---- at its end

    def settle(self, record: CallRecord) -> None:
        """Settle a call that has ended: compute its cost, notify policies, and keep its receipt."""
        self._note_answered_by(record)
        self.settle_usage(record)
        if record.at_end is not None:
            _notify([record.at_end], _call_end(record, record.counted_usage, record.cost))
        key = record.session.key if record.session else ""
        if key and record.was_answered_by_model:
            self.sessions.accept(key)
        receipt = self.receipts.add(record, self.sessions.keys.shares(key)[0])
        if self.audit is not None:
            self.audit.settle(record, receipt)

    def _note_answered_by(self, record: CallRecord) -> None:
        """Remember whether another model answers the calls to the one that was asked."""
        asked, answered_by = record.model, record.answered_by
        if not asked or not answered_by or self.rerouted.get(asked, asked) == answered_by:
            return
        self.rerouted.pop(asked, None)
        if asked == answered_by:
            return
        if len(self.rerouted) >= _MAX_REROUTED:
            del self.rerouted[next(iter(self.rerouted))]
        self.rerouted[asked] = answered_by
        unpriced = self.prices is not None and not self.prices.knows(answered_by)
        price = "; the price table has no price for it, so that of the other one is used" if unpriced else ""
        log.warning("calls to %s are answered by %s%s", asked, answered_by, price)

    def settle_usage(self, record: CallRecord, *, continues: bool = False) -> None:
        """Report to policies what a call has used since the last report, and add its price to the cost.

        `continues` says that the call has not ended. Only policies are told the estimate of what a model uses
        in the background; of what a later call reports, they are told what is beyond it.
        """
        counted = record.counted_usage
        used, record.settled_usage = counted - record.settled_usage, counted
        cost = self._price_of(record, used)
        if self.prices:
            record.cost = cost if cost is None or record.cost is None else record.cost + cost
        if record.counted_ahead != NO_USAGE or record.expected_in_background != NO_USAGE:
            used = used.beyond(record.counted_ahead) + record.expected_in_background
            cost = self._price_of(record, used)
        end = _call_end(record, used, cost, continues=continues)
        callbacks = record.call_state.at_use if record.call_state else ()
        _notify([*callbacks, *record.at_use], end)

    def _price_of(self, record: CallRecord, used: Usage) -> float | None:
        """Return the price of tokens of a call, or None if it is not known."""
        if not self.prices:
            return None
        model = priced_model(self.prices, record.model, record.answered_by)
        tokens = used.input_tokens, used.output_tokens, used.cached_tokens
        return self.prices.cost(model, *tokens, priority=record.priority)

    async def receipt_for(self, receipt_id: str, key: str) -> JsonObject | None:
        """Return a receipt of a key, or None. It may be one of another gateway with the same audit."""
        found = self.receipts.receipt_for(receipt_id, key)
        if found is None and self.audit is not None:
            return await self.audit.receipt_for(receipt_id, key)
        return found


def _call_end(record: CallRecord, used: Usage, cost: float | None, *, continues: bool = False) -> CallEnd:
    answered_by = record.answered_by if record.was_rerouted else ""
    return CallEnd(record.model, used.input_tokens, used.output_tokens, cost, answered_by, continues)


def _notify(callbacks: Iterable[Callable[[CallEnd], None]], end: CallEnd) -> None:
    """Call the callbacks for the end of a call, each even if another one fails."""
    for callback in callbacks:
        try:
            callback(end)
        except Exception:  # the call is still put on record
            log.exception("a policy failed at the end of a call; please report this")
