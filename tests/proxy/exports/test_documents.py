"""The forms in which records are sent: lines that can be verified, and events of OCSF's published schema."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ocsf_json_schema.embedded import OcsfJsonSchemaEmbedded
from ocsf_json_schema.loader import get_ocsf_schema
from support.gateway.audits import entries_of, ledger_in, opened, record_of

from hookgate.proxy.audit.chain import Entry, audit_entry, interrupted_entry
from hookgate.proxy.audit.jsonl import registration_line, stored_record_line
from hookgate.proxy.audit.stored import registrations, walk_records
from hookgate.proxy.config import ExportSettings
from hookgate.proxy.exports.documents import audit_line, documents_of, encoder_of, probe_document
from hookgate.proxy.exports.ocsf import OCSF_VERSION, ocsf_event
from hookgate.proxy.exports.records import StoredEntry, WriterRecords


@cache
def schema() -> Any:
    embedded = OcsfJsonSchemaEmbedded(get_ocsf_schema(OCSF_VERSION))
    found = embedded.get_class_schema("api_activity", ["ai_operation", "security_control"])
    return jsonschema.Draft202012Validator(found)


def stored(state: Path, entries: list[Entry], *, content: bool = False) -> list[StoredEntry]:
    """The entries as an export reads them."""
    with opened(state) as database, ledger_in(database, state) as ledger:
        ledger.write(entries)
        records = WriterRecords(database)
        [writer] = records.writers().values()
        found, more = records.batch(writer, 0, 10**6, content=content)
        assert not more
        return found


def many_entries() -> list[Entry]:
    """Records of every kind."""
    outcomes = ("answered", "blocked", "denied", "stopped", "synthetic", "refused", "failed", "left")
    calls = [record_of(number, outcome=outcome) for number, outcome in enumerate(outcomes)]
    calls += [
        record_of(20, session=None, model=""),
        record_of(21, issued_key="k1", reasons={"gateway": "é \0 x"}),
    ]
    entries: list[Entry] = entries_of(*calls)
    start = entries[0]
    entries.append(interrupted_entry(start.id, start.body, 1))
    entries.append(audit_entry("change", change="keys.revoke", by="ann", key="k1"))
    entries.append(audit_entry("policy", before="a", revision="b", added=["x"]))
    entries.append(audit_entry("retention", records=3, until="2026-01-01T00:00:00Z", tips={}, gone=[]))
    return [*entries, audit_entry("closed", writer=1, count=9)]


@pytest.mark.parametrize("form", ["hookgate", "ocsf"])
def test_an_index_gets_no_keys_that_are_numbers_of_writers(form: str, tmp_path: Path) -> None:
    """It keeps one type for each key, and has a limit of keys."""
    tips, removed = {"7": [3, "ab"]}, {"7": [[1, 2]]}
    entries = [
        audit_entry("retention", records=3, until="2026-01-01T00:00:00Z", tips=tips, gone=[]),
        audit_entry("content_removed", why="erasure", count=2, records=removed),
    ]
    encode = encoder_of(ExportSettings(to="elastic+http://127.0.0.1:9200/audit", format=form))
    documents = [json.loads(each.encoded) for each in documents_of(stored(tmp_path, entries), encode)]
    bodies = [each.get("body") or each.get("unmapped", {}).get("body", {}) for each in documents]
    retention, removal = [body for body in bodies if "by_writer" in body]
    assert (json.loads(retention["by_writer"]), retention["records"]) == (tips, 3)
    assert json.loads(removal["by_writer"]) == removed
    assert "records" not in removal
    assert "tips" not in retention


def test_a_line_is_that_of_an_export_of_the_audit(tmp_path: Path) -> None:
    entries = many_entries()
    entries[0] = entries[0]._replace(content={"request": {"text": "secret"}})
    sent = stored(tmp_path, entries, content=True)
    with opened(tmp_path) as database:
        expected = [stored_record_line(each) for page in walk_records(database.engine.begin) for each in page]
        with database.engine.begin() as connection:
            [registered] = registrations(connection)
    expected.insert(0, registration_line(registered.document))
    assert [each.encoded + b"\n" for each in documents_of(sent, audit_line)] == expected


def test_an_index_gets_content_as_one_string_whatever_keys_clients_choose(tmp_path: Path) -> None:
    chosen = [{"args": {"id": 1}}, {"args": {"id": {"nested": []}}}]
    entries = [
        entry._replace(content=content)
        for entry, content in zip(entries_of(record_of()), chosen, strict=True)
    ]
    sent = stored(tmp_path, entries, content=True)
    to_index = encoder_of(ExportSettings(to="elastic+https://x/calls", content=True))
    to_file = encoder_of(ExportSettings(to="s3://bucket", content=True))
    for document, line, content in zip(
        documents_of(sent[1:], to_index), documents_of(sent[1:], to_file), chosen, strict=True
    ):
        found = json.loads(document.encoded)
        assert json.loads(found.pop("content")) == content
        assert {**found, "content": content} == json.loads(line.encoded)


def test_content_is_not_read_unless_it_is_asked_for(tmp_path: Path) -> None:
    entries = [entry._replace(content={"text": "hidden-word"}) for entry in entries_of(record_of())]
    lines = documents_of(stored(tmp_path, entries), audit_line)
    assert not any(b"hidden-word" in each.encoded for each in lines)


def test_every_record_but_a_start_is_a_valid_event(tmp_path: Path) -> None:
    sent = stored(tmp_path, many_entries())
    events = [json.loads(each.encoded) for each in documents_of(sent, ocsf_event)]
    assert len(events) == sum(entry.type not in ("start", "writer") for entry in sent)
    problems = [error.message for event in events for error in schema().iter_errors(event)]
    assert problems == []
    probe = json.loads(probe_document("siem", "host", ocsf_event).encoded)
    assert [error.message for error in schema().iter_errors(probe)] == []


def test_the_validator_finds_what_is_wrong(tmp_path: Path) -> None:
    [*_, end] = stored(tmp_path, entries_of(record_of()))
    event = json.loads(ocsf_event(end) or b"")
    assert schema().is_valid(event)
    for change in ({"activity_id": 77}, {"actor": {}}, {"time": "now"}, {"ai_model": {"name": 1}}):
        assert not schema().is_valid({**event, **change}), change


@pytest.mark.parametrize(
    ("outcome", "status", "action", "disposition"),
    [("answered", 1, 1, 1), ("denied", 2, 2, 2), ("blocked", 1, 2, 2), ("failed", 2, 1, 1)],
)
def test_an_event_says_who_called_what_and_what_became_of_it(
    outcome: str, status: int, action: int, disposition: int, tmp_path: Path
) -> None:
    record = record_of(outcome=outcome)
    [*_, end] = stored(tmp_path, entries_of(record))
    event = json.loads(ocsf_event(end) or b"")
    assert (event["status_id"], event["action_id"], event["disposition_id"]) == (status, action, disposition)
    assert event["actor"]["user"] == {"name": "alice", "groups": [{"name": "search"}]}
    assert event["actor"]["session"] == {"uid": f"{0:032x}"}
    assert event["ai_model"] == {"name": "gemini-2.5-flash", "ai_provider": "Google"}
    assert event["message_context"]["total_tokens"] == 1280
    assert event["metadata"]["correlation_uid"] == record.id
    assert event["unmapped"]["hash"] == end.hash
