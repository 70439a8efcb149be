"""Receipts: a summary of each call for the client that has its id. They contain no content of the call."""

from collections.abc import Callable, Iterator

from hookgate.hooks import SessionContext
from hookgate.hooks.clock import utc_text
from hookgate.proxy.identity.sessions import Shares
from hookgate.proxy.observe.record import CallRecord, HookTally
from hookgate.translator.fields import JsonObject

NO_RECEIPT = (
    "There is no such receipt for this key: the id is unknown, its call has not ended yet, or it is too old."
)

KEPT_RECEIPTS = 10_000
"""Receipts that are kept in memory. If there are more, the key with most receipts loses its oldest."""


class Receipts:
    """The latest receipts, each with the name of its caller's key: other callers cannot read it."""

    def __init__(self) -> None:
        self._shares: Shares[str, None] = Shares(KEPT_RECEIPTS)
        self._kept: dict[str, tuple[str, JsonObject]] = {}  # in the order of their calls' ends
        self.watchers: list[Callable[[JsonObject], None]] = []
        """Called with each new receipt; they must not block."""

    def add(self, record: CallRecord, owner: str | None = None) -> None:
        """Keep the receipt of a call that has ended.

        It is counted for `owner`; by default for the caller's key.
        """
        receipt = make_receipt(record)
        key = record.session.key if record.session else ""
        if len(self._shares) >= KEPT_RECEIPTS and (oldest := self._shares.oldest()) is not None:
            self._shares.drop(*oldest)
            del self._kept[oldest[1]]
        self._shares.store(key if owner is None else owner, record.id, None)
        self._kept[record.id] = key, receipt
        for watcher in self.watchers:
            watcher(receipt)

    def receipt_for(self, receipt: str, key: str | None = None) -> JsonObject | None:
        """Return a receipt by its id, or None if it is not kept or, with `key`, belongs to another key."""
        owner, kept = self._kept.get(receipt, ("", None))
        return kept if key is None or key == owner else None

    def latest(self, before: str = "") -> Iterator[JsonObject]:
        """Yield receipts, the latest first.

        With `before`, an id, only the receipts that are older than that one; none if it is not kept any more.
        """
        started = not before
        for receipt_id, (_, receipt) in reversed(list(self._kept.items())):
            if started:
                yield receipt
            started = started or receipt_id == before


def make_receipt(record: CallRecord) -> JsonObject:
    """Return the receipt of a call that has ended, as JSON. Times are in milliseconds."""
    return {
        "receipt": record.id,
        "request_id": record.request_id,
        "began": utc_text(record.began),
        "route": {"kind": record.kind, "path": record.route},
        **({"event": record.event} if record.event else {}),
        "session": _session(record.session) if record.session else None,
        "model": record.model or None,
        "revision": record.revision or None,
        "outcome": record.outcome,
        "status": record.status or None,
        "bytes": {"request": record.request_bytes, "answer": record.answer_bytes},
        "upstream_requests": record.upstream_requests,
        "usage": {
            "input_tokens": record.usage.input_tokens,
            "output_tokens": record.usage.output_tokens,
            "cached_tokens": record.usage.cached_tokens,
            "cost": record.cost,
        },
        "timings": {
            "before_ms": _ms(record.before_seconds),
            "upstream_ms": _ms(record.upstream_seconds),
            "first_byte_ms": _ms(record.first_seconds),
            "total_ms": _ms(record.seconds),
        },
        "bypasses": record.bypasses,
        "degraded": list(record.degraded),
        "hooks": [_hook(tally) for tally in record.hooks.values()],
    }


def _session(session: SessionContext) -> JsonObject:
    fields = {"id": session.session_id, "client": session.client, "key": session.key, "team": session.team}
    return {name: value for name, value in fields.items() if value}


def _hook(tally: HookTally) -> JsonObject:
    return {
        "event": tally.event,
        "hook": tally.hook,
        "type": tally.type,
        "mode": tally.mode,
        "runs": tally.runs,
        "bytes": tally.bytes,
        "ms": _ms(tally.seconds),
        "decisions": dict(tally.decisions),
        "edits": sorted(tally.edits),
        "findings": dict(tally.findings),
        "failures": tally.failures,
        **({"causes": dict(tally.causes)} if tally.causes else {}),
    }


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)
