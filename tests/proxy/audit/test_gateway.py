"""What a gateway records: which calls, which of their data, and never a key."""

import asyncio
import json
import re
import sqlite3
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError
from support.gateway.audits import audited_gateway, reading, report_of
from support.gateway.databases import cut, postgres
from support.gateway.life import until
from support.gateway.loopback import running_upstream, runs, says
from support.programs.program import run, serving
from support.wire import HI, KEY, SSE, UNARY, Answer, ask, connected, peer, post, spoken, sse

from hookgate.proxy.audit import trail
from hookgate.proxy.audit.journal import FOLDER
from hookgate.proxy.audit.reading import AuditReader, EndedCall
from hookgate.proxy.calls import answer_pipeline
from hookgate.proxy.config import ClientSettings, Config, RouteSettings
from hookgate.proxy.config.models import AuditSettings, NamedKey
from hookgate.proxy.errors import ApiError

EVENT = "/s/s1/hookgate/v1/events/BeforeTool"
SERVE = ("serve", "--listen", "127.0.0.1:0")
CANARY = "AIza-canary-0815"


def files_in(folder: Path) -> dict[str, bytes]:
    """Everything that stands in a folder."""
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


async def ready(url: str, status: int) -> Answer:
    """Ask whether the gateway is ready until it says so, or that it is not."""
    async with asyncio.timeout(15):
        while (answer := await ask(url, "GET", "/readyz")).status != status:  # noqa: ASYNC110  # it is asked, it does not signal
            await asyncio.sleep(0.1)
    return answer


def calls_in(state: Path) -> list[EndedCall]:
    """Every recorded call and event, the newest first, in chains without a fault."""
    assert report_of(state).problems == []
    with reading(state) as audit:
        assert audit.running() == []
        return audit.calls()


@pytest.mark.parametrize("path", [UNARY, SSE], ids=["unary", "stream"])
@pytest.mark.parametrize("hooks", [{}, {"BeforeModel": [says()]}], ids=["without hooks", "with hooks"])
async def test_a_call_has_a_start_and_an_end(path: str, hooks: dict[str, Any], tmp_path: Path) -> None:
    async with running_upstream() as (upstream, _), audited_gateway(upstream, tmp_path, hooks) as gateway:
        answer = await post(gateway.url, f"/s/s1{path}", HI, {**KEY, "user-agent": "test/1"})
    [call] = calls_in(tmp_path)
    assert call.id == answer.headers["x-hookgate-receipt"]
    assert (call.session, call.model, call.outcome) == ("s1", "gemini-2.5-flash", "answered")
    assert call.start is not None
    assert call.start["request_id"] == answer.headers["x-request-id"]
    assert call.start["session"] == {"id": "s1", "client": "test", "key": call.key}
    assert call.start["request_bytes"] == len(json.dumps(HI))
    assert call.body["usage"]["output_tokens"] == 3
    assert call.body["status"] == 200
    assert [hook["event"] for hook in call.body["hooks"]] == list(hooks)
    assert call.start.keys() & call.body.keys() == {"session", "model"}


async def test_the_reason_why_an_answer_broke_off_is_recorded(tmp_path: Path) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 9999\r\n\r\n"
    async with (
        peer(head, *sse(spoken("So"))) as upstream,
        audited_gateway(upstream.url, tmp_path, {"BeforeModel": [says()]}) as gateway,
    ):
        answer = await post(gateway.url, SSE, HI)
    assert (answer.status, answer.complete) == (200, False)
    [call] = calls_in(tmp_path)
    assert (call.outcome, call.body["reasons"]["gateway"].partition(":")[0]) == ("failed", "UPSTREAM_BROKE")


async def test_a_receipt_is_read_from_the_records_by_who_made_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trail, "_PAUSES", (0, 0))
    seen: list[Any] = []

    async def look(_: Any) -> None:
        with reading(tmp_path) as audit:
            await until(lambda: len(audit.running()) == 1)
            [running] = audit.running()
        seen.append(await gateway.audit.receipt_for(running.id))

    hooks = {"AfterModel": [runs(look)]}
    async with running_upstream() as (upstream, _), audited_gateway(upstream, tmp_path, hooks) as gateway:
        answer = await post(gateway.url, f"/s/s1{UNARY}", HI)
        with reading(tmp_path) as audit:
            await until(lambda: bool(audit.calls()))
        receipt, read = answer.headers["x-hookgate-receipt"], gateway.audit.receipt_for
        found = await read(receipt)
        assert found is not None
        assert (found["receipt"], found["status"], found["session"]["id"]) == (receipt, 200, "s1")
        assert await read(receipt, found["session"]["key"]) == found
        assert [await read(receipt, "another"), await read("ab" * 16), await read(receipt.upper()[:-1])] == [
            None
        ] * 3
    assert seen == [None]  # it had not ended


async def test_a_receipt_of_an_event_is_read_from_its_record_by_who_sent_it(tmp_path: Path) -> None:
    hooks = {"BeforeTool": [says()]}
    async with running_upstream() as (upstream, _), audited_gateway(upstream, tmp_path, hooks) as gateway:
        answer = await post(gateway.url, EVENT, {"tool_name": "shell", "tool_input": {}}, KEY)
        receipt, read = answer.headers["x-hookgate-receipt"], gateway.audit.receipt_for
        found = await read(receipt)
        assert found is not None
        assert (found["event"], bool(found["session"]["key"])) == ("BeforeTool", True)
        assert [await read(receipt, found["session"]["key"]), await read(receipt, "another")] == [found, None]


async def test_receipts_are_refused_while_the_records_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> Any:
        raise OperationalError("SELECT", {}, sqlite3.OperationalError("disk I/O error"))

    monkeypatch.setattr(AuditReader, "call", fail)
    async with running_upstream() as (upstream, _), audited_gateway(upstream, tmp_path) as gateway:
        with pytest.raises(ApiError, match="cannot read its audit") as refused:
            await gateway.audit.receipt_for("ab" * 16)
    assert (refused.value.code, refused.value.reason) == (403, "AUDIT_UNAVAILABLE")
    assert ("disk I/O error" in refused.value.message, "disk I/O error" in caplog.text) == (False, True)


def recorded_types(state: Path) -> list[str]:
    """Return the types of all records on disk, in the journal and in the database."""
    lines = [line for path in state.rglob("*.journal") for line in path.read_text().splitlines()]
    documents = [json.loads(line)[3] for line in lines]
    with closing(sqlite3.connect(state / "audit.db")) as connection:
        saved = connection.execute("SELECT seq, type FROM audit_records").fetchall()
    return list({**dict(saved), **{each["seq"]: each["type"] for each in documents}}.values())


async def test_the_start_is_on_disk_when_the_call_goes_upstream(tmp_path: Path) -> None:
    """Seen by a hook of the answer, which runs while the call is under way."""
    seen: list[list[str]] = []
    hooks = {"AfterModel": [runs(lambda _: seen.append(recorded_types(tmp_path)))]}
    async with running_upstream() as (upstream, _), audited_gateway(upstream, tmp_path, hooks) as gateway:
        await post(gateway.url, UNARY, HI)
    assert seen == [["start"]]


async def test_the_start_is_written_while_hooks_run(tmp_path: Path) -> None:
    """The hook ends when it finds the start on disk."""

    async def wait(_: Any) -> None:
        await until(lambda: recorded_types(tmp_path) == ["start"])

    hooks = {"BeforeModel": [runs(wait)]}
    async with running_upstream() as (upstream, _), audited_gateway(upstream, tmp_path, hooks) as gateway:
        assert (await post(gateway.url, UNARY, HI)).status == 200
    [call] = calls_in(tmp_path)
    [hook] = call.body["hooks"]
    assert (call.outcome, hook["runs"], hook["failures"]) == ("answered", 1, 0)


async def test_a_model_that_a_hook_chose_is_in_the_end(tmp_path: Path) -> None:
    hooks = {"BeforeModel": [says(llm_request={"model": "gemini-2.5-pro"})]}
    async with running_upstream() as (upstream, _), audited_gateway(upstream, tmp_path, hooks) as gateway:
        assert (await post(gateway.url, UNARY, HI)).status == 200
    [call] = calls_in(tmp_path)
    assert call.start is not None
    assert (call.start["model"], call.body["model"]) == ("gemini-2.5-flash", "gemini-2.5-pro")
    assert (call.model, call.session) == ("gemini-2.5-pro", call.start["session"]["id"])


async def test_a_client_that_leaves_while_hooks_run_is_on_record_once(tmp_path: Path) -> None:
    thinking = asyncio.Event()

    async def think(_: Any) -> None:
        thinking.set()
        await asyncio.Event().wait()

    hooks = {"BeforeModel": [runs(think)]}
    async with running_upstream() as (upstream, sent), audited_gateway(upstream, tmp_path, hooks) as gateway:
        async with connected(gateway.url) as wire:
            await wire.post(UNARY, HI)
            await thinking.wait()
        with reading(tmp_path) as audit:
            await until(audit.calls)
        assert len(sent) == 0
    [call] = calls_in(tmp_path)
    assert (call.outcome, call.body["client_gone"]) == ("left", True)


def is_on_disk(state: Path, receipt: str) -> bool:
    """Whether there is a record of the call: one that is not in a journal any more is in the database."""
    journals = [path.read_text() for path in state.glob(f"{FOLDER}/*.journal")]
    with reading(state) as audit:
        return audit.call(receipt) is not None or any(receipt in journal for journal in journals)


async def test_a_denied_call_is_on_record_before_its_answer_goes_out(tmp_path: Path) -> None:
    hooks = {"BeforeModel": [says({"decision": "deny", "reason": "not today"})]}
    async with (
        running_upstream() as (upstream, recorded),
        audited_gateway(upstream, tmp_path, hooks) as gateway,
    ):
        answer = await post(gateway.url, UNARY, HI)
        assert (answer.status, len(recorded)) == (403, 0)
        receipt = answer.headers["x-hookgate-receipt"]
        assert is_on_disk(tmp_path, receipt)
    [call] = calls_in(tmp_path)
    assert (call.outcome, call.body["reasons"]) == ("denied", {"BeforeModel": "not today"})
    assert call.start is not None


async def test_an_event_is_one_record(tmp_path: Path) -> None:
    hooks = {"BeforeTool": [says({"decision": "deny", "reason": "no shell"})]}
    body = {"tool_name": "shell", "tool_input": {"command": "ls"}}
    async with running_upstream() as (upstream, _), audited_gateway(upstream, tmp_path, hooks) as gateway:
        assert (await post(gateway.url, EVENT, body)).json["decision"] == "deny"
        assert (await post(gateway.url, EVENT, {})).status == 400
    refused, denied = calls_in(tmp_path)
    assert (denied.type, denied.body["event"], denied.session) == ("event", "BeforeTool", "s1")
    assert denied.body["reasons"] == {"BeforeTool": "no shell"}
    assert (refused.outcome, refused.body["status"]) == ("refused", 400)


@pytest.mark.parametrize(
    ("method", "path", "outcomes"),
    [
        pytest.param("POST", "/v1beta/models/m:countTokens", ["answered"], id="forwarded"),
        pytest.param("GET", "/v1beta/models", [], id="a list"),
        pytest.param("GET", "/v1beta/interactions/1", ["refused"], id="a read of what was generated"),
        pytest.param("GET", "/v1beta/batches/b", ["failed", "refused", "answered"], id="a batch"),
        pytest.param("POST", "/v1beta/elsewhere", [], id="no route"),
        pytest.param("GET", f"/hookgate/v1/receipts/{'0' * 32}", [], id="a receipt"),
    ],
)
async def test_which_requests_are_on_record(
    method: str, path: str, outcomes: list[str], tmp_path: Path
) -> None:
    config = Config(routes=RouteSettings(unhooked=("interactions",)))
    async with (
        running_upstream() as (upstream, _),
        audited_gateway(upstream, tmp_path, config=config) as gateway,
    ):
        await (post(gateway.url, path, HI) if method == "POST" else ask(gateway.url, method, path))
    found = [call.outcome for call in calls_in(tmp_path)]
    assert len(found) == min(len(outcomes), 1)
    assert set(found) <= set(outcomes)


async def test_an_upstream_that_breaks_off_is_on_record(tmp_path: Path) -> None:
    async with peer() as upstream, audited_gateway(upstream.url, tmp_path) as gateway:
        assert (await post(gateway.url, UNARY, HI)).status == 502
    [call] = calls_in(tmp_path)
    assert (call.outcome, call.body["status"]) == ("failed", 502)


@pytest.mark.parametrize(
    ("headers", "body", "reasons"),
    [
        pytest.param(
            {"x-goog-api-key": CANARY},
            HI,
            {"gateway": "KEY_UNKNOWN: hookgate accepts only API keys that are named in its configuration;"},
            id="unknown key",
        ),
        pytest.param(KEY, b'{"canary": 1,', {"gateway": "BODY_REFUSED"}, id="body"),
        pytest.param(
            KEY, HI, {"gateway": "UPSTREAM_UNREACHABLE: The upstream cannot be reached (conn"}, id="upstream"
        ),
    ],
)
async def test_why_hookgate_itself_gave_an_error_is_on_record(
    headers: dict[str, str], body: Any, reasons: dict[str, str], tmp_path: Path
) -> None:
    key = NamedKey(sha256=sha256(KEY["x-goog-api-key"].encode()).hexdigest())
    config = Config(clients=ClientSettings(unknown_keys="refuse"), keys={"alice": key})
    hooks = {"BeforeModel": [says()]}
    async with audited_gateway("http://127.0.0.1:1", tmp_path, hooks, config=config) as gateway:
        assert (await post(gateway.url, UNARY, body, headers)).status >= 400
    [call] = calls_in(tmp_path)
    assert call.body["reasons"].keys() == reasons.keys()
    assert call.body["reasons"]["gateway"].startswith(reasons["gateway"])
    assert "canary" not in str(call)


async def test_an_audit_that_is_disabled_leaves_no_file(tmp_path: Path) -> None:
    async with trail.open_audit_trail(AuditSettings(enabled=False), None, tmp_path) as audit:
        assert audit is None
    assert files_in(tmp_path) == {}


async def test_a_failure_inside_hookgate_is_on_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer_pipeline, "check_response", lambda body: 1 / 0)
    hooks = {"AfterModel": [says()]}
    async with running_upstream() as (upstream, _), audited_gateway(upstream, tmp_path, hooks) as gateway:
        assert (await post(gateway.url, UNARY, HI)).status == 500
    [call] = calls_in(tmp_path)
    assert call.body["reasons"]["gateway"].startswith("INTERNAL_ERROR")


async def test_no_key_is_anywhere(tmp_path: Path) -> None:
    """Whichever way it comes, and whatever becomes of the call, with all content stored."""
    files = {"HOOKGATE_AUDIT__CONTENT": "full", "HOOKGATE_AUDIT__JSONL": str(tmp_path / "audit.jsonl")}
    answers: list[Answer] = []
    async with (
        running_upstream() as (upstream, _),
        serving(*SERVE, "--upstream", upstream, "--state", str(tmp_path), env=files) as server,
    ):
        for query, headers in (
            ("", {"x-goog-api-key": CANARY}),
            ("", {"Authorization": f"Bearer {CANARY}"}),
            (f"?key={CANARY}", {}),
            ("?key=AIza%2Dcanary-0815&alt=json", {"x-goog-api-key": CANARY}),
        ):
            for path in (UNARY, "/v1beta/models/m:countTokens", "/v1beta/elsewhere", EVENT):
                answers.append(await post(server.url, path + query, HI, headers))  # noqa: PERF401  # one after another, and another request between them
            answers.append(await post(server.url, UNARY + query, b"{", headers))
        kept = files_in(tmp_path)
        log = server.log
    exported = (await run("audit", "export", "--state", str(tmp_path))).out
    assert {"audit.db", "audit.db-wal", "audit.jsonl"} <= kept.keys()
    assert len(kept["audit.jsonl"].splitlines()) > len(answers)
    assert "canary" not in log + exported
    assert [name for name, data in kept.items() if b"canary" in data] == []


async def test_readiness_tells_of_the_audit(tmp_path: Path) -> None:
    env = {"HOOKGATE_ADMIN__ADDRESS": "127.0.0.1:0"}
    words = ("--upstream", "http://127.0.0.1:1", "--state", str(tmp_path))
    async with serving(*SERVE, *words, env=env) as server:
        while "listening on" not in server.log:
            await server.next_line()
        operators = re.search(r"admin listener on (\S+)", server.log)
        assert operators
        url = operators[1]
        assert (await ask(url, "GET", "/readyz")).json["status"] == "ready"
        with closing(sqlite3.connect(tmp_path / "audit.db", isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            answer = await ready(url, 503)
            connection.execute("ROLLBACK")
        assert answer.json["reason"] == "audit records cannot be written: database is locked"
        await ready(url, 200)


async def test_a_server_whose_connections_are_cut_loses_nothing(tmp_path: Path) -> None:
    with postgres() as store:
        async with (
            running_upstream() as (upstream, _),
            audited_gateway(upstream, tmp_path, store=store) as gateway,
        ):
            assert (await post(gateway.url, UNARY, HI)).status == 200
            cut(store.rpartition("/")[2])
            assert (await post(gateway.url, UNARY, HI)).status == 200
        report = report_of(tmp_path, store)
    assert (report.problems, report.records, report.running) == ([], 5, 0)
