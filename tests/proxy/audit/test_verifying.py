"""Each kind of difference between stored and written records is reported as its own problem."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from hookgate.proxy.audit.chain import ChainRecord, chain_hash, registration
from hookgate.proxy.audit.heads import Head, heads_document
from hookgate.proxy.audit.verifying import MAX_PROBLEMS, Checker, VerificationReport, verify_lines
from hookgate.translator.fields import JsonObject

NO_HASH = "0" * 64
OTHER = "ab" * 32
CALL, SECOND = "11" * 16, "22" * 16


@dataclass
class Chain:
    """The chain of one writer, which a case alters before it is checked."""

    writer: str
    number: int
    document: JsonObject
    registered: str
    records: list[tuple[ChainRecord, str]] = field(default_factory=list)
    ended: str = ""

    def add(self, kind: str, call: str = CALL, **body: Any) -> "Chain":
        """Append a record with the right number and the right hash of the one before it."""
        seq, previous = self.tip
        record = ChainRecord(self.writer, seq + 1, 0, kind, call, previous, body)
        self.records.append((record, record.hash()))
        return self

    def close(self) -> "Chain":
        self.ended = "closed"
        return self.add("event", event="closed", writer=self.number, count=len(self.records) + 1)

    def seal(self, other: "Chain") -> "Chain":
        """Record that another writer died."""
        seq, tip = other.tip if other.records else (0, None)
        other.ended = "recovered"
        return self.add("event", event="recovered", writer=other.number, seq=seq, hash=tip)

    @property
    def tip(self) -> tuple[int, str]:
        return (self.records[-1][0].seq, self.records[-1][1]) if self.records else (0, self.registered)

    def head(self, first: int = 1) -> Head:
        return Head(self.number, self.registered, first if self.records else 0, *self.tip)


def chains(*names: str) -> list[Chain]:
    """Writers that have registered, one after the other."""
    made: list[Chain] = []
    for number, name in enumerate(names, 1):
        previous = made[-1].registered if made else NO_HASH
        document = registration(name, number, previous, "host", 7, 0)
        made.append(Chain(name, number, document, chain_hash(previous, document)))
    return made


def checked(
    *written: Chain,
    whole: bool = True,
    expected: Mapping[str, Head] | None = None,
    named: Mapping[str, Head] | None = None,
) -> VerificationReport:
    checker = Checker(whole=whole, expected=(expected or {}).items())
    for chain in written:
        for record, own in chain.records:
            checker.record(record.document(), own, None)
    if named is not None:
        checker.heads(heads_document(dict(named)))
    registered = [(chain.document, chain.registered) for chain in written if chain.document]
    return checker.finish(registered, {chain.number: chain.ended for chain in written})


def call(chain: Chain, of: str = CALL) -> Chain:
    return chain.add("start", of).add("end", of)


def whole(name: str = "a") -> Chain:
    [chain] = chains(name)
    return call(call(chain), SECOND).close()


def altered(alter: Callable[[Chain], object]) -> Chain:
    chain = whole()
    alter(chain)
    return chain


def rewritten(chain: Chain, at: int, **changes: Any) -> None:
    """Replace a record by another one, with a hash that fits it."""
    record = chain.records[at][0]._replace(**changes)
    chain.records[at] = record, record.hash()


def no_registration(chain: Chain) -> None:
    chain.document = {}


def test_what_was_written_is_sound() -> None:
    first, dead, empty, heir = chains("a", "b", "c", "d")
    call(first).close()
    call(dead)
    heir.seal(dead).seal(empty).add("start", SECOND)
    report = checked(first, dead, empty, heir, expected={"a": first.head()})
    assert report.sound
    assert (report.problems, report.records, report.writers) == ([], 8, 4)
    assert (report.running, report.removed, report.more) == (1, 0, 0)
    assert (report.proves_begin, report.proves_end) == (True, True)
    assert report.chains == [
        "writer a: records 1 to 3, closed",
        "writer b: records 1 to 2, ended by another writer",
        "writer d: records 1 to 3, open",
    ]


@pytest.mark.parametrize(
    ("chain", "problems"),
    [
        pytest.param(
            altered(lambda chain: chain.add("event", event="policy")),
            [
                "writer a, record 6: it comes after the end of its chain",
                "writer a: it wrote 5 records, but 6 are present",
            ],
            id="after the end",
        ),
        pytest.param(
            altered(lambda chain: chain.records.insert(2, chain.records[1])),
            [
                "writer a, record 2: it is a duplicate or out of order",
                f"writer a, record 2: the call {CALL} has an end and no start",
            ],
            id="twice",
        ),
        pytest.param(
            altered(lambda chain: chain.records.pop(2)),
            [
                "writer a: record 3 is missing",
                f"writer a, record 4: the call {SECOND} has an end and no start",
            ],
            id="one gone",
        ),
        pytest.param(
            altered(lambda chain: chain.records.__delitem__(slice(2, 4))),
            ["writer a: records 3 to 4 are missing"],
            id="two gone",
        ),
        pytest.param(
            altered(lambda chain: rewritten(chain, 2, body={"new": 1})),
            ["writer a, record 4: it does not follow the one before it"],
            id="rewritten",
        ),
        pytest.param(
            altered(lambda chain: rewritten(chain, 0, previous=OTHER)),
            [
                "writer a, record 2: it does not follow the one before it",
                "writer a, record 1: it does not follow its registration",
            ],
            id="the first of another chain",
        ),
        pytest.param(
            altered(lambda chain: chain.records.__setitem__(3, (chain.records[3][0], OTHER))),
            [
                "writer a, record 4: it was changed",
                "writer a, record 5: it does not follow the one before it",
            ],
            id="changed",
        ),
        pytest.param(
            altered(no_registration), ["writer a: its registration is missing"], id="no registration"
        ),
        pytest.param(
            altered(lambda chain: chain.document.update(pid=8)),
            ["writer a: the registration does not match its hash"],
            id="another registration",
        ),
        pytest.param(
            altered(lambda chain: chain.records.__delitem__(slice(0, 2))),
            ["writer a: records 1 to 2 are missing"],
            id="no beginning",
        ),
        pytest.param(
            altered(lambda chain: chain.records.pop()),
            ["writer a: the record of its end is missing"],
            id="no end",
        ),
        pytest.param(
            altered(lambda chain: setattr(chain, "ended", "")),
            ["writer a: the record of its end is missing"],
            id="an end that is not noted",
        ),
        pytest.param(
            altered(lambda chain: chain.records.clear()),
            ["writer a: all its records are missing"],
            id="nothing left",
        ),
        pytest.param(
            call(chains("a")[0].add("start")).close(),
            [f"writer a, record 2: the call {CALL} has already begun"],
            id="begun twice",
        ),
        pytest.param(
            chains("a")[0].add("start").close(),
            [f"the call {CALL} of writer a has no end"],
            id="no end of a call",
        ),
    ],
)
def test_what_differs_is_named_and_nothing_else(chain: Chain, problems: list[str]) -> None:
    assert checked(chain).problems == problems


def test_a_call_of_a_writer_that_has_closed_its_chain_does_not_run_any_more() -> None:
    chain = chains("a")[0].add("start").close()
    chain.ended = ""  # an export does not say how writers ended
    report = checked(chain, whole=False)
    assert (report.problems, report.running) == ([f"the call {CALL} of writer a has no end"], 0)


def test_a_call_of_a_writer_whose_end_is_noted_does_not_run_any_more() -> None:
    chain = chains("a")[0].add("start")
    chain.ended = "closed"
    report = checked(chain)
    assert report.problems == [
        "writer a: the record of its end is missing",
        f"the call {CALL} of writer a has no end",
    ]
    assert report.running == 0


def sealed(alter: Callable[[Chain, Chain], object]) -> list[Chain]:
    """A writer that died and the one that recorded it."""
    dead, heir = chains("a", "b")
    call(dead)
    heir.seal(dead)
    alter(dead, heir)
    return [dead, heir]


@pytest.mark.parametrize(
    ("written", "problems"),
    [
        pytest.param(
            sealed(lambda dead, _: dead.add("event", event="policy")),
            ["writer a: its last records are missing or changed"],
            id="more than was found",
        ),
        pytest.param(
            sealed(lambda dead, _: rewritten(dead, 1, body={"new": 1})),
            ["writer a: its last records are missing or changed"],
            id="the last one rewritten",
        ),
        pytest.param(
            sealed(lambda dead, _: dead.records.clear()),
            ["writer a: all its records are missing"],
            id="nothing left",
        ),
        pytest.param(
            sealed(lambda _, heir: heir.records.clear()),
            ["writer a: the record of its end is missing"],
            id="no record of it",
        ),
        pytest.param(
            sealed(lambda dead, heir: (dead.records.clear(), heir.records.clear())),
            ["writer a: all its records are missing"],
            id="nothing of either",
        ),
        pytest.param(
            sealed(lambda dead, heir: (dead.records.pop(), heir.records.clear(), heir.seal(dead))),
            [f"the call {CALL} of writer a has no end"],
            id="a call that was not ended",
        ),
        pytest.param(
            sealed(lambda _, heir: heir.document.update(number=3)),
            [
                "writer b: the registration does not match its hash",
                "writer b: the writer that registered before it is missing",
            ],
            id="another number",
        ),
    ],
)
def test_a_writer_that_died_ends_where_it_was_found(written: list[Chain], problems: list[str]) -> None:
    assert checked(*written).problems == problems


def test_the_writer_that_registered_before_is_missed() -> None:
    first, second = chains("a", "b")
    call(second).close()
    assert checked(second).problems == ["writer b: the writer that registered before it is missing"]
    assert checked(second, whole=False).problems == []
    assert checked(first, second).problems == []


@pytest.mark.parametrize(
    ("removal", "removed", "problems"),
    [
        pytest.param({"tips": "as it was", "gone": []}, 1, [], id="as it was"),
        pytest.param(
            {"tips": {"1": [2, OTHER]}, "gone": []},
            0,
            ["writer a: records 1 to 2 are missing"],
            id="another one was removed",
        ),
        pytest.param(
            {"tips": {"1": [1, "as it was"]}, "gone": []},
            0,
            ["writer a: records 1 to 2 are missing"],
            id="fewer",
        ),
        pytest.param({"tips": {}, "gone": []}, 0, ["writer a: records 1 to 2 are missing"], id="none"),
    ],
)
def test_what_retention_removed_ends_where_the_rest_begins(
    removal: dict[str, Any], removed: int, problems: list[str]
) -> None:
    [chain] = chains("a")
    call(chain)
    last = chain.tip
    call(chain, SECOND)
    match removal["tips"]:
        case "as it was":
            removal = {**removal, "tips": {"1": list(last)}}
        case {"1": [seq, "as it was"]}:
            removal = {**removal, "tips": {"1": [seq, last[1]]}}
    chain.add("event", event="retention", **removal).close()
    del chain.records[:2]
    report = checked(chain)
    assert (report.removed, report.problems) == (removed, problems)


@pytest.mark.parametrize(
    ("ended", "tip", "gone", "sound"),
    [
        ("closed", None, [[1, 1]], True),
        ("closed", None, [[2, 3]], False),
        ("closed", None, [], False),
        ("", [2, OTHER], [], True),
        ("closed", [2, OTHER], [], False),
        ("recovered", None, [], False),
        ("", None, [], True),
    ],
)
def test_a_writer_without_records_was_removed_or_is_missed(
    ended: str, tip: list[Any] | None, gone: list[list[int]], sound: bool
) -> None:
    empty, other = chains("a", "b")
    empty.ended = ended
    other.add("event", event="retention", tips={"1": tip} if tip else {}, gone=gone)
    report = checked(empty, other)
    assert report.problems == ([] if sound else ["writer a: all its records are missing"])
    assert report.removed == (1 if sound and (tip or gone) else 0)


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({}, ""),
        ({"registration": OTHER}, "its registration, which was there before, is missing"),
        ({"hash": OTHER}, "its records up to 5, which were there before, are missing or changed"),
        ({"seq": 6}, "its records up to 6, which were there before, are missing or changed"),
        ({"seq": 0, "hash": OTHER}, ""),
    ],
)
def test_records_that_are_saved_elsewhere_must_exist(
    whole: bool, change: dict[str, Any], problem: str
) -> None:
    chain = altered(lambda _: None)
    head = Head(**{**{name: getattr(chain.head(), name) for name in Head.__slots__}, **change})
    report = checked(chain, expected={"a": head}, whole=whole)
    assert report.problems == ([f"writer a: {problem}"] if problem else [])
    assert (report.proves_begin, report.proves_end) == (True, True)


@pytest.mark.parametrize(
    ("tips", "gone", "sound"),
    [
        ({"1": [4, OTHER]}, [], True),
        ({"1": [3, OTHER]}, [], False),
        ({}, [[1, 1]], True),
        ({}, [[2, 2]], False),
    ],
)
def test_what_retention_removed_since_is_not_missed(
    tips: dict[str, Any], gone: list[list[int]], sound: bool
) -> None:
    empty, other = chains("a", "b")
    other.add("event", event="retention", tips=tips, gone=gone)
    head = Head(1, empty.registered, 1, 4, OTHER)
    missing = "writer a: its records up to 4, which were there before, are missing or changed"
    assert checked(empty, other, expected={"a": head}).problems == ([] if sound else [missing])


@pytest.mark.parametrize(
    ("change", "problems"),
    [
        ({}, []),
        ({"first": 1}, ["writer a: record 1 is missing"]),
        ({"seq": 6}, ["writer a: record 6 is missing"]),
        ({"seq": 4}, []),
        ({"hash": OTHER}, ["writer a: its last record is a different one"]),
        ({"seq": 0, "first": 0}, []),
    ],
)
def test_an_export_ends_as_its_last_line_says(change: dict[str, Any], problems: list[str]) -> None:
    chain = whole()
    head = Head(**{**{name: getattr(chain.head(2), name) for name in Head.__slots__}, **change})
    del chain.records[0]
    report = checked(chain, whole=False, named={"a": head})
    assert (report.problems, report.proves_begin, report.proves_end) == (problems, True, True)


def test_an_export_names_a_writer_that_it_does_not_contain() -> None:
    first, second = chains("a", "b")
    call(first)
    call(second)
    named = {"a": first.head(), "b": second.head()}
    first.records.clear()
    assert checked(first, second, whole=False, named=named).problems == [
        "writer a: all its records are missing"
    ]


def test_the_writers_of_an_export_may_come_in_any_order() -> None:
    written = chains("a", "b", "c")
    documents: list[JsonObject] = []
    for chain in reversed(written):
        documents.append({**chain.document, "hash": chain.registered})
        documents += [{**record.document(), "hash": own} for record, own in call(chain).close().records]
    lines = [json.dumps(document).encode() for document in documents]
    read: list[int] = []
    report = verify_lines(lines, read.append)
    assert (report.problems, report.writers, report.records) == ([], 3, 9)
    assert [chain.split(":")[0] for chain in report.chains] == ["writer a", "writer b", "writer c"]
    assert sum(read) == sum(map(len, lines))


def test_a_part_of_the_records_may_begin_and_end_anywhere() -> None:
    chain = whole()
    del chain.records[0], chain.records[-1]
    report = checked(chain, whole=False)
    assert (report.problems, report.proves_begin, report.proves_end) == ([], False, False)


def test_a_part_from_the_first_record_on_proves_its_beginning() -> None:
    first, second = call(chains("a", "b")[0]), call(chains("a", "b")[1])
    report = checked(first, second, whole=False)
    assert (report.problems, report.proves_begin, report.proves_end) == ([], True, False)
    for some in (
        [second],
        [first, chains("a", "b")[1]],
    ):  # without the first writer; with one that wrote nothing
        report = checked(*some, whole=False)
        assert (report.problems, report.proves_begin, report.proves_end) == ([], False, False)


def test_heads_from_elsewhere_prove_the_end_of_a_part_but_not_its_beginning() -> None:
    chain = whole()
    del chain.records[0]
    report = checked(chain, whole=False, expected={"a": chain.head()})
    assert (report.problems, report.proves_begin, report.proves_end) == ([], False, True)


def test_a_database_without_heads_does_not_prove_its_end() -> None:
    report = checked(whole())
    assert (report.problems, report.proves_begin, report.proves_end) == ([], True, False)


def test_a_record_that_cannot_be_read_is_one_problem() -> None:
    chain, checker = whole(), Checker(whole=True)
    for record, own in chain.records:
        if record.seq == 2:
            checker.unreadable("a", 2, own, "its stored data was changed")
        else:
            checker.record(record.document(), own, None)
    report = checker.finish([(chain.document, chain.registered)], {1: "closed"})
    assert report.problems == [
        "writer a, record 2: its stored data was changed",
        f"the call {CALL} of writer a has no end",
    ]
    assert report.records == 5


def test_a_hundred_problems_are_listed_and_the_others_counted() -> None:
    report = VerificationReport()
    for number in range(MAX_PROBLEMS + 2):
        report.add_problem(f"problem {number}")
    assert (len(report.problems), report.more, report.sound) == (100, 2, False)


@pytest.mark.parametrize(
    "body",
    [
        {"event": "retention", "tips": 5, "gone": []},
        {"event": "content_removed", "records": {"1": 5}},
        {"event": "content_removed", "records": {"1": [[1]]}},
        {"event": "content_removed"},
        {"event": "change", "change": "audit.restored", "by": "ops", "gaps": [{"writer": "a"}]},
    ],
)
def test_an_event_that_cannot_be_read_is_a_problem(body: dict[str, Any]) -> None:
    [chain] = chains("a")
    report = checked(chain.add("event", **body))
    assert report.problems == ["writer a, record 1: what it says about other records cannot be read"]
