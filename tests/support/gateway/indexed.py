"""An audit of varied calls with its index, for tests of queries and reports."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

from support.gateway.audits import entries_of, ledger_in, opened, record_of

from hookgate.hooks import SessionContext
from hookgate.proxy.audit.chain import Entry
from hookgate.proxy.audit.index.building import CallIndex, open_index
from hookgate.proxy.audit.index.facts import CallFacts, facts_of
from hookgate.proxy.audit.index.reporting import Reports
from hookgate.proxy.audit.index.searching import CallSearch
from hookgate.proxy.audit.ledger import Ledger
from hookgate.proxy.audit.reading import AuditReader
from hookgate.proxy.observe.hook_tally import HookTally
from hookgate.proxy.observe.record import BlockedOutput
from hookgate.proxy.observe.usage import Usage
from hookgate.proxy.store.database import Database

BEGAN = 1_777_672_800_000
"""The time of the first call: 2026-05-01T22:00Z."""

PAUSE = 17 * 60_000
"""Milliseconds between two calls."""


def varied(number: int) -> list[Entry]:
    """The records of a call, which differs from that of another number in most of what it can be found by."""
    chance = Random(number)  # noqa: S311  # the same calls in each run
    person = chance.choice(["ada", "bob", "Bob", "eve"])
    agent = chance.choice(["GeminiCLI", "claude-cli"])
    session = SessionContext(f"s{number // 4:03}", client=agent, key=person, team=person[0].lower())
    record = record_of(
        number,
        id=f"{number:032x}",
        session=session,
        issued_key="K123" if person == "eve" else "",
        model=chance.choice(["gemini-2.5-flash", "gemini-2.5-pro", "100%_odd*model"]),
        answered_by=chance.choice(["", "", "gemini-3"]),
        outcome=chance.choice(["answered", "answered", "denied", "failed", "blocked"]),
        usage=Usage(chance.randrange(1000), chance.randrange(100), 0),
        cost=chance.randrange(100) / 64,
        hooks={},
    )
    for event, hook in (("BeforeModel", "secrets"), ("AfterModel", "tone")):
        tally = HookTally(event, hook, "command", "observe" if hook == "tone" else "enforce", 1, 100)
        tally.seconds = chance.random()
        denies = record.outcome == "denied" and hook == "secrets"
        tally.decisions = {"deny" if denies or chance.random() < 0.1 else "allow": 1}
        if chance.random() < 0.3:
            tally.findings = {chance.choice(["EMAIL", "IBAN"]): chance.randrange(1, 4)}
            tally.edits = {"contents"}
        tally.failures = int(hook == "tone" and number % 5 == 0)
        tally.causes = {"timeout" if number % 2 else "exit code 1": 1} if tally.failures else {}
        record.hooks[event, hook] = tally  # type: ignore[index]  # a hook's name is as good as the hook
    if record.outcome == "denied":
        record.reasons["BeforeModel"] = f'no "secrets", 100%: rule {number % 7}'
    if record.outcome == "blocked":
        record.note_blocked(BlockedOutput("BeforeTool", ("tools",), "not listed", "run_shell"))
    record.seconds = chance.random() * 60
    start, end = entries_of(record)
    at = BEGAN + PAUSE * number
    return [start._replace(at=at - 1000), end._replace(at=at)]


@dataclass(frozen=True, repr=False)
class Indexed:
    """An audit and its index. `facts` are those of its calls by their IDs, made without the index."""

    database: Database
    ledger: Ledger
    index: CallIndex
    reader: AuditReader
    facts: dict[str, CallFacts]

    @property
    def search(self) -> CallSearch:
        return CallSearch(self.index)

    @property
    def reports(self) -> Reports:
        return Reports(self.index)

    def add(self, *entries: Any) -> None:
        """Write the records of calls."""
        self.ledger.write(entries)
        for each in entries:
            if each.columns is not None:
                self.facts[each.id] = facts_of(each.at, each.body)

    def find(self, query: Any, limit: int = 1000, after: Any = None) -> list[str]:
        """The IDs of the calls of a query, in its order."""
        places = self.search.places(query, limit, after)
        return [call.id for call in self.reader.at_positions([each.position for each in places])]


@contextmanager
def indexed_audit(state: Path, calls: int, url: str | None = None) -> Iterator[Indexed]:
    """An audit of so many calls. Its index is made, but not filled."""
    with (
        opened(state, url) as database,
        ledger_in(database, state) as ledger,
        open_index(database, url, state) as index,
    ):
        audit = Indexed(database, ledger, index, AuditReader(database), {})
        if calls:
            audit.add(*chain.from_iterable(map(varied, range(calls))))
        yield audit
