"""The chain reveals every change, removal, duplicate and move of records."""

import zlib
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.gateway.audits import entries_of, record_of

from hookgate.proxy.audit.chain import (
    ChainRecord,
    Columns,
    Entry,
    audit_entry,
    canonical_json,
    content_hash,
    interrupted_entry,
    new_record,
    registration,
)
from hookgate.proxy.audit.entries import end_entry, event_entry, start_entry
from hookgate.proxy.audit.jsonl import record_line, registration_line, stored_record_line
from hookgate.proxy.audit.stored import StoredRecord, pack, unpack
from hookgate.proxy.audit.verifying import Checker, VerificationReport, verify_lines
from hookgate.proxy.observe.receipts import make_receipt
from hookgate.proxy.observe.record import CallRecord

CONTENT = {"request": {"contents": [{"parts": [{"text": "grüße"}]}]}}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def chain(calls: int = 3) -> list[bytes]:
    """The export of a writer that has closed its chain."""
    document = registration("00ff", 1, "0" * 64, "host", 7, 1_700_000_000_000)
    line = registration_line(document)
    previous, lines = orjson.loads(line)["hash"], [line]
    entries = [*entries_of(*(record_of(number) for number in range(calls)))]
    entries.append(audit_entry("closed", writer=1, count=len(entries) + 1))
    for seq, entry in enumerate(entries, 1):
        content = CONTENT if seq == 1 else None
        hashed = content_hash(content) if content else None
        record = ChainRecord("00ff", seq, entry.at, entry.type, entry.id, previous, entry.body, hashed)
        previous = record.hash()
        lines.append(stored_record_line(StoredRecord(seq, record, previous, None, content)))
    return lines


LINES = chain()


def report_of(lines: list[bytes]) -> VerificationReport:
    return verify_lines(lines, lambda done: None)


def test_a_whole_chain_is_sound() -> None:
    report = report_of(LINES)
    assert (report.problems, report.records, report.writers, report.running) == ([], 7, 1, 0)


@given(place=st.integers(0, len(LINES) - 1), at=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255))
def test_any_flipped_byte_is_found(place: int, at: float, flip: int) -> None:
    lines = list(LINES)
    line = bytearray(lines[place])
    line[int(at * (len(line) - 1))] ^= flip  # all but the line break: two lines in one are found as well
    lines[place] = bytes(line)
    assert not report_of(lines).sound


@given(place=st.integers(0, len(LINES) - 2))
def test_any_removed_record_is_found(place: int) -> None:
    """But for the last one: nothing comes after it that could name it."""
    report = report_of(LINES[:place] + LINES[place + 1 :])
    first_of_part = place == 1  # a file may begin anywhere, and says so
    assert report.sound is False or first_of_part


@given(place=st.integers(1, len(LINES) - 1), again=st.integers(1, len(LINES) - 1))
def test_any_doubled_record_is_found(place: int, again: int) -> None:
    assert not report_of([*LINES[: again + 1], LINES[place], *LINES[again + 1 :]]).sound


@given(pair=st.lists(st.integers(1, len(LINES) - 1), min_size=2, max_size=2, unique=True))
def test_any_swapped_records_are_found(pair: list[int]) -> None:
    lines = list(LINES)
    lines[pair[0]], lines[pair[1]] = lines[pair[1]], lines[pair[0]]
    assert not report_of(lines).sound


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param({"content": None}, "its content was removed", id="no content"),
        pytest.param({"content": {"request": "other"}}, "its content was changed", id="other content"),
    ],
)
def test_content_belongs_to_its_record(change: dict[str, Any], expected: str) -> None:
    lines = list(LINES)
    lines[1] = orjson.dumps({**orjson.loads(lines[1]), **change})
    [problem] = report_of(lines).problems
    assert problem == f"writer 00ff, record 1: {expected}"


@pytest.mark.parametrize(
    ("previous", "problems"),
    [
        pytest.param("ab" * 32, [], id="as it was"),
        pytest.param("cd" * 32, ["writer 00ff: records 1 to 4 are missing"], id="rewritten"),
    ],
)
def test_what_retention_left_begins_with_the_hash_of_what_it_removed(
    previous: str, problems: list[str]
) -> None:
    checker = Checker(whole=True)
    removal = audit_entry("retention", records=4, until="", tips={"1": [4, "ab" * 32]}, gone=[])
    for seq, entry in enumerate([*entries_of(record_of()), removal], 5):
        record = ChainRecord("00ff", seq, entry.at, entry.type, entry.id, previous, entry.body, None)
        previous = record.hash()
        checker.record(record.document(), previous, None)
    line = orjson.loads(LINES[0])
    own = line.pop("hash")
    assert checker.finish([(line, own)], {}).problems == problems


def test_an_end_has_what_its_start_lacks_and_whose_call_it_was() -> None:
    record = record_of(model="gemini-2.5-flash")
    start, receipt = start_entry(record), make_receipt(record)
    end = end_entry(record, receipt, start.body)
    assert (start.type, end.type, start.id, end.id) == ("start", "end", record.id, record.id)
    assert start.body == {
        "request_id": "request-0",
        "route": {"kind": "judged", "path": record.route},
        "session": {"id": "0" * 32, "client": "google-genai-sdk", "key": "alice", "team": "search"},
        "model": "gemini-2.5-flash",
        "revision": "4b9f7d802648",
        "request_bytes": 5120,
    }
    whose = {name: start.body[name] for name in ("session", "model")}
    assert {name: value for name, value in end.body.items() if name in start.body} == whose
    assert end.body.keys().isdisjoint({"receipt", "began", "event", "bytes"})
    assert (end.body["status"], end.body["answer_bytes"]) == (200, 990)
    assert end.columns == Columns("0" * 32, "alice", "gemini-2.5-flash", end.body["outcome"])


def test_an_end_has_what_changed_since_its_start() -> None:
    record = record_of()
    start = start_entry(record)
    record.model, record.request_bytes = "gemini-2.5-pro", 7
    end = end_entry(record, make_receipt(record), start.body)
    changed = {name: value for name, value in end.body.items() if name in start.body}
    session = start.body["session"]
    assert changed == {"session": session, "model": "gemini-2.5-pro", "request_bytes": 7}
    assert end.columns is not None
    assert end.columns.model == "gemini-2.5-pro"


@pytest.mark.parametrize(
    ("status", "dropped", "gone"), [(200, False, False), (None, False, True), (None, True, False)]
)
def test_a_client_that_left_is_distinguished_from_one_that_the_gateway_dropped(
    status: int | None, dropped: bool, gone: bool
) -> None:
    record = CallRecord(kind="judged", status=status or 0, dropped=dropped)
    assert end_entry(record, make_receipt(record), start_entry(record).body).body["client_gone"] is gone


def test_reasons_are_cut_to_300_characters() -> None:
    record = record_of(reasons={"BeforeModel": "a" * 301})
    assert event_entry(record, make_receipt(record)).body["reasons"] == {"BeforeModel": "a" * 300}


def test_an_event_has_its_name_and_the_fields_of_a_call() -> None:
    record = record_of(event="BeforeTool", session=None, model="")
    body = event_entry(record, make_receipt(record)).body
    assert body["event"] == "BeforeTool"
    assert body.keys() > start_entry(record).body.keys()
    assert (body["session"], body["model"]) == (None, None)
    record.event = ""
    entry = event_entry(record, make_receipt(record))
    assert entry.body["event"] == "refused"
    assert entry.columns == Columns("", "", "", entry.body["outcome"])


def test_an_interrupted_call_is_found_like_any_other() -> None:
    start = start_entry(record_of())
    entry = interrupted_entry(start.id, start.body, 3)
    whose = {name: start.body[name] for name in ("session", "model")}
    assert (entry.id, entry.body) == (start.id, {**whose, "outcome": "interrupted", "writer": 3})
    assert entry.columns == Columns("0" * 32, "alice", "gemini-2.5-flash", "interrupted")


def test_a_record_without_a_call_has_its_own_id() -> None:
    one, other = (audit_entry("policy", revision="r") for _ in range(2))
    assert (one.body, one.columns) == ({"event": "policy", "revision": "r"}, None)
    assert one.id != other.id


ANY_TEXT = st.text(st.characters(exclude_categories=()))  # lone surrogates, too, which UTF-8 cannot encode


@given(body=st.dictionaries(ANY_TEXT, JSON | ANY_TEXT, max_size=4), content=st.none() | st.just(CONTENT))
def test_a_record_to_write_has_the_hash_and_the_line_of_its_document(body: Any, content: Any) -> None:
    """Its parts are encoded once, and joined: the bytes are those of the whole."""
    entry = Entry("end", "ab" * 16, 1_700_000_000_000, body, None, content)
    new = new_record("00ff", 7, "cd" * 32, entry)
    hashed = content_hash(content) if content else None
    record = ChainRecord("00ff", 7, entry.at, entry.type, entry.id, "cd" * 32, body, hashed)
    assert (new.record, new.hash) == (record, record.hash())
    assert record_line(new) == stored_record_line(StoredRecord(1, record, record.hash(), None, content))


def test_bodies_that_an_earlier_version_packed_can_be_read() -> None:
    packed = b"_\x86\x97\xd8\xab&\xc6W$$\xe1bC%\xd4p\xa8\x05\x00"
    session = {"client": "google-genai-sdk", "id": "s1"}
    assert unpack(packed) == {"outcome": "answered", "status": 200, "session": session, "reasons": {}}


@given(JSON)
def test_packed_content_is_unpacked_unchanged(value: Any) -> None:
    assert canonical_json(unpack(pack(canonical_json(value)))) == canonical_json(value)


@given(value=JSON, at=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_any_flipped_bit_of_packed_content_is_found(value: Any, at: float, bit: int) -> None:
    packed = bytearray(pack(canonical_json(value)))
    packed[int(at * len(packed))] ^= 1 << bit
    with pytest.raises(ValueError, match="its stored data was changed"):
        unpack(bytes(packed))


@pytest.mark.parametrize(
    "packed", [pytest.param(b"\xff\xff", id="not compressed"), pytest.param(pack(b"{")[4:], id="not JSON")]
)
def test_content_that_cannot_be_read_is_reported_even_if_its_checksum_is_right(packed: bytes) -> None:
    with pytest.raises(ValueError, match=r"^it cannot be read: "):
        unpack(zlib.crc32(packed).to_bytes(4, "big") + packed)


def test_a_hash_does_not_depend_on_the_order_of_fields() -> None:
    body = {"b": 1, "a": {"d": 2**70, "c": "é"}}
    other = {"a": {"c": "é", "d": 2**70}, "b": 1}
    assert (
        canonical_json(body)
        == canonical_json(other)
        == '{"a":{"c":"é","d":1180591620717411303424},"b":1}'.encode()
    )
