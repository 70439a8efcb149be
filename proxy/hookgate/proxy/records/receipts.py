"""Receipts: what became of each call, for who has its id. Nothing in them was said in the call."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from hookgate.hooks import Session
from hookgate.proxy.records.record import CallRecord
from hookgate.proxy.records.tally import HookTally
from hookgate.proxy.shares import Shares
from hookgate.translator.fields import JsonObject

NO_RECEIPT = (
    "There is no such receipt of a call by this key: it is unknown, its call is under way, or it is too old."
)

KEPT = 10_000
"""Receipts that are kept in memory. For a new one, the key with most receipts loses its oldest."""


class Receipts:
    """The latest receipts, each with the name of its caller's key: nobody else is shown it."""

    def __init__(self) -> None:
        self._shares: Shares[str, None] = Shares(KEPT)
        self._kept: dict[str, tuple[str, JsonObject]] = {}  # in the order of their calls' ends
        self.watchers: list[Callable[[JsonObject], None]] = []
        """Who is told of each new receipt; they must be quick."""

    def add(self, record: CallRecord, owner: str | None = None) -> None:
        """Keep the receipt of a call that has ended.

        It takes room of `owner`, the caller's key if left out.
        """
        receipt = receipt_of(record)
        key = record.session.key if record.session else ""
        if len(self._shares) >= KEPT and (oldest := self._shares.oldest()) is not None:
            self._shares.drop(*oldest)
            del self._kept[oldest[1]]
        self._shares.keep(key if owner is None else owner, record.id, None)
        self._kept[record.id] = key, receipt
        for watcher in self.watchers:
            watcher(receipt)

    def of(self, receipt: str, key: str | None = None) -> JsonObject | None:
        """A receipt, if it is kept; with a `key` only one of that key's calls."""
        owner, found = self._kept.get(receipt, ("", None))
        return found if key is None or key == owner else None

    def latest(self, before: str = "") -> Iterator[JsonObject]:
        """Receipts, the latest first; `before` one of them by its id, none when that is gone."""
        kept = list(self._kept.items())
        begun = not before
        for receipt, (_, found) in reversed(kept):
            if begun:
                yield found
            begun = begun or receipt == before


def receipt_of(record: CallRecord) -> JsonObject:
    """The receipt of a call that has ended, in JSON. Times are in milliseconds."""
    return {
        "receipt": record.id,
        "request_id": record.request_id,
        "began": _time(record.began),
        "route": {"kind": record.kind, "path": record.route},
        **({"event": record.event} if record.event else {}),
        "session": _who(record.session) if record.session else None,
        "model": record.model or None,
        "revision": record.revision or None,
        "outcome": record.outcome,
        "status": record.status or None,
        "bytes": {"request": record.request_bytes, "answer": record.answer_bytes},
        "upstream_requests": record.asked,
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


def _who(session: Session) -> JsonObject:
    who = {"id": session.session_id, "client": session.client, "key": session.key, "team": session.team}
    return {name: value for name, value in who.items() if value}


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


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
