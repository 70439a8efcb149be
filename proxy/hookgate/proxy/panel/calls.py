"""Where the panel finds calls that have ended: in the audit, or, without one, among the latest receipts."""

from dataclasses import dataclass
from typing import Protocol

from hookgate.proxy.panel.rows import row_of
from hookgate.proxy.records import Receipts
from hookgate.translator.fields import JsonObject


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which calls to list; an empty text goes for all."""

    session: str = ""
    key: str = ""
    model: str = ""
    outcome: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """Calls, the latest first, and what to name for those before them; empty when there are none."""

    rows: list[JsonObject]
    older: str = ""


class Calls(Protocol):
    """Calls that have ended. Both methods may take a while: call them in a thread."""

    source: str
    """What is told of where they are from: `audit` or `memory`."""

    def page(self, wanted: Wanted, limit: int, before: str) -> Page:
        """A page of the list. `before` is an `older` of a page, empty for the latest."""

    def call(self, receipt: str) -> JsonObject | None:
        """All that is known of one call: its `facts`, and its `content` or None."""


class ReceivedCalls:
    """The latest calls, by their receipts."""

    source = "memory"

    def __init__(self, receipts: Receipts) -> None:
        self._receipts = receipts

    def page(self, wanted: Wanted, limit: int, before: str) -> Page:
        rows: list[JsonObject] = []
        for receipt in self._receipts.latest(before):
            row = row_of(receipt)
            if not _wants(wanted, row):
                continue
            if len(rows) == limit:
                return Page(rows, str(rows[-1]["id"]))
            rows.append(row)
        return Page(rows)

    def call(self, receipt: str) -> JsonObject | None:
        found = self._receipts.of(receipt)
        return None if found is None else {"facts": found, "content": None}


def _wants(wanted: Wanted, row: JsonObject) -> bool:
    asked = (
        (wanted.session, "session"),
        (wanted.key, "key"),
        (wanted.model, "model"),
        (wanted.outcome, "outcome"),
    )
    return all(not value or row[name] == value for value, name in asked)
