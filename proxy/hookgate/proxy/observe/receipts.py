"""The receipts of calls that have ended: how they are made from records, and the latest ones."""

from collections.abc import Callable, Iterator

from hookgate.hooks import SessionContext
from hookgate.hooks.timestamps import utc_text
from hookgate.proxy.fair_mapping import FairMapping
from hookgate.proxy.observe.hook_tally import HookTally
from hookgate.proxy.observe.record import CallRecord
from hookgate.proxy.observe.usage import Usage
from hookgate.translator.fields import JsonObject

RECEIPT_HEADER = "x-hookgate-receipt"

NO_RECEIPT = (
    "There is no such receipt for this key: the ID is unknown, its call has not ended yet, or it is too old."
)

KEPT_RECEIPTS = 10_000
"""The maximum number of receipts in memory. Beyond it, the key with the most receipts loses the oldest."""


class Receipts:
    """The latest receipts, each with the name of its caller's key: other callers cannot read it."""

    def __init__(self) -> None:
        self._shares: FairMapping[str, None] = FairMapping(KEPT_RECEIPTS)
        self._kept: dict[str, tuple[str, JsonObject]] = {}  # in the order in which the calls ended
        self.watchers: list[Callable[[JsonObject], None]] = []
        """Called with each new receipt; they must not block."""

    def add(self, record: CallRecord, share: str | None = None) -> JsonObject:
        """Create, keep and return the receipt of a call that has ended.

        It counts for `share`, by default that of the caller's key.
        """
        receipt = make_receipt(record)
        self.keep(receipt, share)
        return receipt

    def keep(self, receipt: JsonObject, share: str | None = None) -> None:
        """Keep a receipt. It counts for `share`, by default that of the caller's key."""
        key, receipt_id = (receipt["session"] or {}).get("key", ""), receipt["receipt"]
        if len(self._shares) >= KEPT_RECEIPTS and (oldest := self._shares.oldest()) is not None:
            self._shares.drop(*oldest)
            del self._kept[oldest[1]]
        self._shares.store(key if share is None else share, receipt_id, None)
        self._kept[receipt_id] = key, receipt
        for watcher in self.watchers:
            watcher(receipt)

    def receipt_for(self, receipt_id: str, key: str | None = None) -> JsonObject | None:
        """Return a receipt by its ID, or None if it is not kept or, with `key`, belongs to another key."""
        own_key, kept = self._kept.get(receipt_id, ("", None))
        return kept if key is None or key == own_key else None

    def latest(self, before: str = "") -> Iterator[JsonObject]:
        """Yield receipts, the latest first.

        With `before`, the ID of a receipt, yields only older ones, or none if that receipt is no longer kept.
        """
        started = not before
        for receipt_id, (_, receipt) in reversed(list(self._kept.items())):
            if started:
                yield receipt
            started = started or receipt_id == before


def _refused(record: CallRecord) -> JsonObject:
    return {"path": record.refused_path, "reason": record.reasons.get("gateway", "")}


def make_receipt(record: CallRecord) -> JsonObject:
    """Return the receipt of a call that has ended, as JSON. Times are in milliseconds."""
    return {
        "receipt": record.id,
        "request_id": record.request_id,
        "began": utc_text(record.began),
        "route": {"kind": record.kind, "path": record.route},
        **({"refused": _refused(record)} if record.refused_path else {}),
        **({"event": record.event} if record.event else {}),
        "session": session_fields(record.session) if record.session else None,
        **({"issued_key": record.issued_key} if record.issued_key else {}),
        "model": record.model or None,
        **({"answered_by": record.answered_by} if record.was_rerouted else {}),
        "revision": record.revision or None,
        "outcome": record.outcome,
        "status": record.status or None,
        "bytes": {"request": record.request_bytes, "answer": record.answer_bytes},
        **({"upload": record.upload} if record.upload else {}),
        **({"live": record.live} if record.live else {}),
        "upstream_requests": record.upstream_requests,
        **({"attempts": attempts} if (attempts := _attempts_with_credentials(record)) else {}),
        "usage": {
            "input_tokens": record.usage.input_tokens,
            "output_tokens": record.usage.output_tokens,
            "cached_tokens": record.usage.cached_tokens,
            "cost": record.cost,
            **_estimate(record.estimated_usage),
        },
        "timings": {
            "before_ms": _ms(record.before_seconds),
            "upstream_ms": _ms(record.upstream_seconds),
            "first_byte_ms": _ms(record.first_seconds),
            "total_ms": _ms(record.seconds),
        },
        "bypasses": record.bypasses,
        "degraded": list(record.degraded),
        **({"not_applied": list(record.not_applied)} if record.not_applied else {}),
        "redacted": sorted({tally.hook for tally in record.hooks.values() if tally.redacted}),
        "blocked_count": record.blocked_count,
        "blocked": [each.as_json() for each in record.blocked],
        **({"approvals": list(record.approvals)} if record.approvals else {}),
        "hooks": [_hook(tally) for tally in record.hooks.values()],
    }


def _estimate(usage: Usage) -> JsonObject:
    tokens = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
    return {"estimated": tokens} if any(tokens.values()) else {}


def _attempts_with_credentials(record: CallRecord) -> list[JsonObject]:
    """Return the requests to the upstream that were sent with the gateway's credentials."""
    return [
        {
            "credential": each.credential,
            **({"location": each.location} if each.location else {}),
            "status": each.status or None,
            "ms": _ms(each.waited),
        }
        for each in record.attempts
        if each.credential
    ]


def session_fields(session: SessionContext) -> JsonObject:
    """Return the fields of a session that receipts and records contain."""
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
        **({"found": list(tally.found)} if tally.found else {}),
        "failures": tally.failures,
        **({"causes": dict(tally.causes)} if tally.causes else {}),
    }


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)
