"""The panel's JSON API, for calls that were made through a gateway."""

import asyncio
import csv
import json
import sqlite3
import threading
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy.exc import OperationalError
from support.gateway.audits import entries_of, ledger_in, opened, record_of
from support.gateway.life import until
from support.gateway.loopback import runs, says
from support.gateway.panel import BEARER, Paneled, panel_gateway
from support.wire import SSE, UNARY, Answer, ask, post, prompt

from hookgate.hooks import SessionContext
from hookgate.proxy.admin.panel import MAX_DOWNLOADS
from hookgate.proxy.audit.index.query import WORDS
from hookgate.proxy.audit.index.searching import CallSearch
from hookgate.proxy.audit.reading import AuditReader
from hookgate.proxy.audit.trail import Audit

CHANGES = {"X-Hookgate-Panel": "1", **BEARER}
AUDITED = {"content": "full"}


def masks(document: dict[str, Any]) -> dict[str, Any]:
    """A hook that masks a mail address."""
    messages = document["llm_request"]["messages"]
    for message in messages:
        message["content"] = message["content"].replace("ada@example.org", "[EMAIL]")
    return {"hookSpecificOutput": {"llm_request": {"messages": messages}}}


HOOKS = {
    "BeforeModel": [runs(masks, name="mask"), {**says({}), "name": "quiet"}],
    "AfterModel": [{**says({}, llm_response={"text": "hello"}), "name": "rewrite"}],
}
DENY = {"BeforeModel": [{**says({"decision": "deny", "reason": "Not here."}), "name": "guard"}]}


async def called(gateway: Paneled, text: str = "hi", session: str = "s-1", path: str = UNARY) -> Answer:
    return await post(gateway.url, path, prompt(text), {"x-goog-api-key": "k", "x-hookgate-session": session})


async def get_json(gateway: Paneled, path: str) -> Any:
    answer = await ask(gateway.admin, "GET", f"/api/{path}", BEARER)
    assert answer.status == 200, answer.body
    return answer.json


SOURCES = [pytest.param(None, id="memory"), pytest.param({}, id="audit")]


@pytest.mark.parametrize("audit", SOURCES)
async def test_calls_are_listed_with_what_hooks_decided(audit: dict[str, Any] | None, tmp_path: Path) -> None:
    async with panel_gateway(tmp_path, DENY, audit=audit) as gateway:
        answer = await called(gateway, session="s-7")
        page = await eventually(gateway, "calls", 1)
    assert page["source"] == ("memory" if audit is None else "audit")
    [call] = page["calls"]
    assert call["id"] == answer.headers["x-hookgate-receipt"]
    assert (call["session"], call["outcome"], call["status"]) == ("s-7", "denied", 403)
    assert call["model"] == "gemini-2.5-flash"
    [hook] = call["hooks"]
    assert (hook["hook"], hook["decisions"]) == ("guard", {"deny": 1})


async def eventually(gateway: Paneled, path: str, count: int) -> Any:
    """A page, once it has so many rows: the audit writes ends behind calls."""
    async with asyncio.timeout(30):
        while True:
            page = await get_json(gateway, path)
            if len(page.get("calls") or page.get("sessions") or []) >= count:
                return page
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("path", ["calls", "sessions", f"calls/{'a' * 32}"])
async def test_without_its_database_the_panel_says_so_and_not_why(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> Any:
        raise OperationalError("SELECT", {}, sqlite3.OperationalError("connection to server at 10.0.0.7"))

    async with panel_gateway(tmp_path, audit={}) as gateway:
        monkeypatch.setattr(CallSearch, "places", fail)
        monkeypatch.setattr(AuditReader, "call", fail)
        answer = await ask(gateway.admin, "GET", f"/api/{path}", BEARER)
    assert (answer.status, "10.0.0.7" in answer.body.decode()) == (503, False)
    assert "10.0.0.7" in caplog.text


@pytest.mark.parametrize("audit", SOURCES)
async def test_calls_are_found_by_a_query(audit: dict[str, Any] | None, tmp_path: Path) -> None:
    async with panel_gateway(tmp_path, DENY, audit=audit) as gateway:
        for session in ("s-7", "s-8"):
            await called(gateway, session=session)
        await eventually(gateway, "calls", 2)
        for query, count in (
            ("session:s-7", 1),
            ("hook:guard outcome:guarded", 2),
            ("reason:not here", 2),
            ("session:s-*", 2),
            ("outcome:answered", 0),
        ):
            found = await get_json(gateway, f"calls?q={quote(query)}")
            # A receipt has no reasons.
            assert len(found["calls"]) == (0 if audit is None and "reason" in query else count), query
        for path, message in (
            ("calls?q=tem:web", "q: 'tem:web': there is no word 'tem'"),
            ("calls?team=web", "team: is not a parameter of this request; use q, limit, before, format"),
            ("report?by=tem", "by: must be one or several of" if audit is not None else "needs the audit"),
        ):
            answer = await ask(gateway.admin, "GET", f"/api/{path}", BEARER)
            assert (answer.status, message in answer.error["message"]) == (400, True), answer.body


async def test_calls_are_summed_up_for_the_panel(tmp_path: Path) -> None:
    async with panel_gateway(tmp_path, DENY, audit={}) as gateway:
        for session in ("s-7", "s-8", "s-8"):
            await called(gateway, session=session)
        await eventually(gateway, "calls", 3)
        report = await get_json(gateway, "report?by=session&q=outcome:denied")
    assert [(row["session"], row["calls"], row["denied"]) for row in report["rows"]] == [
        ("s-8", 2, 2),
        ("s-7", 1, 1),
    ]
    assert (report["total"]["calls"], report["groups"]) == (3, 2)


async def called_many(gateway: Paneled, count: int) -> list[str]:
    """The IDs of so many calls, the latest first."""
    made = [(await called(gateway)).headers["x-hookgate-receipt"] for _ in range(count)]
    await eventually(gateway, "calls", count)
    return made[::-1]


async def test_exactly_what_is_found_is_downloaded_page_by_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hookgate.proxy.audit.listing._PAGE", 2)
    async with panel_gateway(tmp_path, DENY, audit={}) as gateway:
        await called(gateway, session="other")
        made = await called_many(gateway, 5)
        answers = {
            kind: await ask(gateway.admin, "GET", f"/api/calls?q=session:s-1&format={kind}", BEARER)
            for kind in ("csv", "jsonl")
        }
    lines = [json.loads(line) for line in answers["jsonl"].body.splitlines()]
    rows = [*csv.DictReader(answers["csv"].body.decode().splitlines())]
    assert [line["id"] for line in lines] == [row["id"] for row in rows] == made
    assert {line["reason"] for line in lines} == {row["reason"] for row in rows} == {"Not here."}
    assert lines[0]["body"]["outcome"] == "denied"
    assert answers["csv"].headers["content-disposition"] == 'attachment; filename="calls.csv"'
    for answer in answers.values():
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")


async def test_a_spreadsheet_takes_no_name_of_a_download_for_a_formula(tmp_path: Path) -> None:
    state, session = tmp_path / "state", SessionContext("=1+2", key="@k", team="-1")
    with opened(state) as database, ledger_in(database, state) as ledger:
        ledger.write(entries_of(record_of(session=session)))
        ledger.close()
    async with panel_gateway(tmp_path, DENY, audit={}) as gateway:
        answer = await ask(gateway.admin, "GET", "/api/calls?format=csv", BEARER)
    [row] = csv.DictReader(answer.body.decode().splitlines())
    assert (row["session"], row["key"], row["team"]) == ("'=1+2", "'@k", "'-1")


async def test_a_download_that_fails_is_not_taken_for_a_whole_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_off(*_: Any) -> Any:
        yield [], None
        raise OperationalError("SELECT", {}, sqlite3.OperationalError("gone"))

    async with panel_gateway(tmp_path, DENY, audit={}) as gateway:
        await called_many(gateway, 1)
        monkeypatch.setattr("hookgate.proxy.admin.calls.found_pages", cut_off)
        answer = await ask(gateway.admin, "GET", "/api/calls?format=csv", BEARER)
    assert not answer.complete


async def test_so_many_downloads_at_once_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    going = threading.Event()

    def waits(*_: Any) -> Any:
        assert going.wait(30)
        yield [], None

    async with panel_gateway(tmp_path, DENY, audit={}) as gateway:
        monkeypatch.setattr("hookgate.proxy.admin.calls.found_pages", waits)
        address = gateway.admin, "GET", "/api/calls?format=jsonl", BEARER
        running = [asyncio.create_task(ask(*address)) for _ in range(MAX_DOWNLOADS)]
        await until(lambda: gateway.panel.downloads == MAX_DOWNLOADS)
        assert (await ask(*address)).status == 429
        going.set()
        assert [answer.status for answer in await asyncio.gather(*running)] == [200] * MAX_DOWNLOADS
        assert (await ask(*address)).status == 200


@pytest.mark.parametrize("audit", SOURCES)
async def test_the_first_digits_of_an_id_suffice(audit: dict[str, Any] | None, tmp_path: Path) -> None:
    async with panel_gateway(tmp_path, DENY, audit=audit) as gateway:
        [call] = await called_many(gateway, 1)
        for path in (f"/api/calls/{call[:8]}", f"/receipts/{call[:8]}"):
            answer = (await ask(gateway.admin, "GET", path, BEARER)).json
            assert answer.get("facts", answer)["receipt"] == call
        for short in (call[:3], "zzzz", f"{call}0"):
            assert (await ask(gateway.admin, "GET", f"/api/calls/{short}", BEARER)).status == 404


async def test_digits_of_several_ids_are_refused_with_these(tmp_path: Path) -> None:
    calls = [f"abcd{number:028x}" for number in range(2)]
    with opened(tmp_path / "state") as database, ledger_in(database, tmp_path / "state") as ledger:
        ledger.write(entries_of(*(record_of(id=call) for call in calls)))
        ledger.close()
    async with panel_gateway(tmp_path, DENY, audit={}) as gateway:
        answer = await ask(gateway.admin, "GET", "/api/calls/abcd", BEARER)
    assert answer.error["code"] == 400
    assert all(call in answer.error["message"] for call in calls)


@pytest.mark.parametrize("target", ["//[::1", "//[::1/api/calls", "/api/calls?[::1"])
async def test_no_request_target_is_an_error_of_the_panel(target: str, tmp_path: Path) -> None:
    async with panel_gateway(tmp_path) as gateway:
        answer = await ask(gateway.admin, "GET", target, BEARER)
    assert answer.status in (200, 400, 404)


@pytest.mark.parametrize("audit", SOURCES)
async def test_pages_follow_each_other_and_miss_nothing(audit: dict[str, Any] | None, tmp_path: Path) -> None:
    async with panel_gateway(tmp_path, DENY, audit=audit) as gateway:
        made = [(await called(gateway)).headers["x-hookgate-receipt"] for _ in range(7)]
        await eventually(gateway, "calls", 7)
        found, before = [], ""
        for size in (3, 3, 1):
            page = await get_json(gateway, f"calls?limit=3&before={before}")
            assert len(page["calls"]) == size
            found += [call["id"] for call in page["calls"]]
            before = page["older"]
        assert before == ""
    assert found == made[::-1]


@pytest.mark.parametrize("audit", SOURCES)
async def test_filters_leave_what_they_name(audit: dict[str, Any] | None, tmp_path: Path) -> None:
    async with panel_gateway(tmp_path, DENY, audit=audit) as gateway:
        for session in ("s-1", "s-2", "s-1"):
            await called(gateway, session=session)
        await eventually(gateway, "calls", 3)
        for query, count in {
            "session:s-1": 2,
            "outcome:denied": 3,
            "outcome:answered": 0,
            "model:gemini-2.5-flash session:s-2": 1,
            "model:=gemini-2.5-flash": 3,
            "model:=gemini-2.5": 0,
            "key:nobody": 0,
            'team:""': 3,
            "session:S-*": 3,
            'session:"S-*"': 0,
            "session:*1 model:FLASH": 2,
            "session:_-*": 0,
            "model:%": 0,
        }.items():
            assert len((await get_json(gateway, f"calls?q={quote(query)}"))["calls"]) == count, query


@pytest.mark.parametrize("sessions", [3, 60])
async def test_parts_of_names_are_found_in_order_and_in_pages(sessions: int, tmp_path: Path) -> None:
    async with panel_gateway(tmp_path, DENY, audit={}) as gateway:
        made = []
        for number in range(sessions):
            answer = await called(gateway, session=f"Night-{number}")
            made.append(answer.headers["x-hookgate-receipt"])
        await eventually(gateway, "calls?limit=200", sessions)
        found, before = [], ""
        while not found or before:
            page = await get_json(gateway, f"calls?q=session:NIGHT*%20model:gemini&limit=2&before={before}")
            found += [call["id"] for call in page["calls"]]
            before = page["older"]
    assert found == made[::-1]


@pytest.mark.parametrize("audit", SOURCES)
async def test_calls_have_their_cost_if_there_are_prices(
    audit: dict[str, Any] | None, tmp_path: Path
) -> None:
    table = tmp_path / "prices.toml"
    table.write_text('currency = "USD"\n[models."gemini-*"]\ninput = 1000000\noutput = 0\n')
    async with panel_gateway(tmp_path, audit=audit, prices={"file": table}) as gateway:
        await called(gateway)
        page = await eventually(gateway, "calls", 1)
    [call] = page["calls"]
    assert page["currency"] == "USD"
    assert call["cost"] == call["input_tokens"] > 0


async def test_a_model_without_a_price_has_no_cost_and_that_is_said(tmp_path: Path) -> None:
    unknown = UNARY.replace("gemini-2.5-flash", "gemma-9")
    async with panel_gateway(tmp_path, audit={}) as gateway:
        await called(gateway)
        await called(gateway, path=unknown)
        page = await eventually(gateway, "calls", 2)
        report = await get_json(gateway, "report?by=model")
    assert [call["cost"] is None for call in page["calls"]] == [True, False]
    assert {row["model"]: row["cost"] is None for row in report["rows"]} == {
        "gemma-9": True,
        "gemini-2.5-flash": False,
    }


@pytest.mark.parametrize(
    "path",
    [
        "calls?limit=0",
        "calls?limit=201",
        "calls?limit=x",
        "calls?before=-1",
        "calls?before='",
        "traffic?span=x",
    ],
)
async def test_what_is_not_understood_is_refused(path: str, tmp_path: Path) -> None:
    async with panel_gateway(tmp_path) as gateway:
        assert (await ask(gateway.admin, "GET", f"/api/{path}", BEARER)).error["code"] == 400


@pytest.mark.parametrize("page", ["calls", "sessions"])
@pytest.mark.parametrize(
    ("audit", "before", "status"),
    [
        (None, "a" * 32, 200),
        (None, "1", 400),
        (None, "9" * 19, 400),
        (AUDITED, "a" * 32, 400),
        (AUDITED, "9" * 19, 400),
        (AUDITED, f"1-{2**63}", 400),
        (AUDITED, f"{2**63}-1", 400),
        (AUDITED, f"1-{2**63 - 1}", 200),
    ],
)
async def test_a_page_is_one_of_its_source(
    page: str, audit: dict[str, Any] | None, before: str, status: int, tmp_path: Path
) -> None:
    async with panel_gateway(tmp_path, audit=audit) as gateway:
        answer = await ask(gateway.admin, "GET", f"/api/{page}?before={before}", BEARER)
    assert answer.status == status
    if status == 400:
        assert answer.error["message"] == "before: must be the `older` value of a page"


@pytest.mark.parametrize("name", ["0" * 32, "x", "..%2f..", "0" * 31])
@pytest.mark.parametrize("audit", SOURCES)
async def test_a_call_that_is_not_there(name: str, audit: dict[str, Any] | None, tmp_path: Path) -> None:
    async with panel_gateway(tmp_path, audit=audit) as gateway:
        assert (await ask(gateway.admin, "GET", f"/api/calls/{name}", BEARER)).error["code"] == 404


async def test_a_call_is_shown_with_each_hook_s_change(tmp_path: Path) -> None:
    async with panel_gateway(tmp_path, HOOKS, audit=AUDITED) as gateway:
        answer = await called(gateway, "write to ada@example.org")
        await eventually(gateway, "calls", 1)
        call = await get_json(gateway, f"calls/{answer.headers['x-hookgate-receipt']}")
    facts, content = call["facts"], call["content"]
    assert (facts["outcome"], facts["session"]["id"]) == ("answered", "s-1")
    assert facts["records"].keys() == {"start", "end"}
    assert content["request"] == prompt("write to ada@example.org")
    assert content["sent"] == prompt("write to [EMAIL]")
    assert content["given"]["candidates"][0]["content"]["parts"][0]["text"] == "hello"
    mask, rewrite = content["changes"]
    assert mask == {
        "event": "BeforeModel",
        "hook": "mask",
        "mode": "enforce",
        "before": {"messages": [{"role": "user", "content": "write to ada@example.org"}]},
        "after": {"messages": [{"role": "user", "content": "write to [EMAIL]"}]},
    }
    assert (rewrite["before"], rewrite["after"]) == (
        {"text": "You said: write to [EMAIL]"},
        {"text": "hello"},
    )


async def test_a_hook_s_change_to_a_stream_is_shown_without_what_was_before(tmp_path: Path) -> None:
    async with panel_gateway(tmp_path, HOOKS, audit=AUDITED) as gateway:
        answer = await called(gateway, path=SSE)
        await eventually(gateway, "calls", 1)
        call = await get_json(gateway, f"calls/{answer.headers['x-hookgate-receipt']}")
    changes = [each for each in call["content"]["changes"] if each["hook"] == "rewrite"]
    assert changes
    assert all(each["before"] is None for each in changes)


async def test_without_content_the_facts_are_reported_all_the_same(tmp_path: Path) -> None:
    async with panel_gateway(tmp_path, HOOKS, audit={}) as gateway:
        answer = await called(gateway, "write to ada@example.org")
        await eventually(gateway, "calls", 1)
        call = await get_json(gateway, f"calls/{answer.headers['x-hookgate-receipt']}")
    assert call["content"] is None
    assert [hook["hook"] for hook in call["facts"]["hooks"]] == ["mask", "quiet", "rewrite"]
    assert "ada@example.org" not in json.dumps(call)


@pytest.mark.parametrize("audit", SOURCES)
async def test_sessions_are_those_of_the_latest_calls(audit: dict[str, Any] | None, tmp_path: Path) -> None:
    async with panel_gateway(tmp_path, DENY, audit=audit) as gateway:
        for session in ("one", "two", "one"):
            await called(gateway, session=session)
        await eventually(gateway, "calls", 3)
        sessions = (await get_json(gateway, "sessions"))["sessions"]
    assert [(each["session"], each["calls"], each["denied"]) for each in sessions] == [
        ("one", 2, 2),
        ("two", 1, 1),
    ]


async def test_sums_of_sessions_are_those_of_all_their_calls_whatever_page_they_are_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hookgate.proxy.admin.calls._SESSIONS", 2)
    monkeypatch.setattr("hookgate.proxy.audit.index.searching._LOOK", 2)
    async with panel_gateway(tmp_path, DENY, audit={}) as gateway:
        for session in ("one", "two", "one", "three", "three", "one"):
            await called(gateway, session=session)
        await eventually(gateway, "calls", 6)
        first = await get_json(gateway, "sessions")
        second = await get_json(gateway, f"sessions?before={first['older']}")
        found = await get_json(gateway, "sessions?q=session:t*")
    assert [(each["session"], each["calls"]) for each in first["sessions"]] == [("one", 3), ("three", 2)]
    assert [(each["session"], each["calls"]) for each in second["sessions"]] == [("two", 1)]
    assert second["older"] == ""
    assert {each["session"] for each in found["sessions"]} == {"two", "three"}


async def test_limits_are_reported_with_what_is_used_of_them(tmp_path: Path) -> None:
    rules = [
        {"per": "everyone", "window": "day", "requests": 4},
        {"per": "key", "window": "month", "cost": 1},
    ]
    limits = {"type": "builtin", "builtin": "limits", "name": "caps", "options": {"rules": rules}}
    async with panel_gateway(tmp_path, {"BeforeModel": [limits]}, store=True) as gateway:
        assert (await get_json(gateway, "budgets"))["budgets"] == []
        await called(gateway)
        found = await get_json(gateway, "budgets")
    requests, *others = found["budgets"]
    assert {name: requests[name] for name in ("per", "measure", "used", "most", "source", "window")} == {
        "per": "everyone", "measure": "requests", "used": 1, "most": 4, "source": "caps", "window": "day"
    }  # fmt: skip
    assert [(each["per"], each["measure"], 0 < each["used"] < 1) for each in others] == [
        ("key", "cost", True)
    ]
    assert found["prices"]["shipped"]


async def test_words_of_queries_are_explained(tmp_path: Path) -> None:
    async with panel_gateway(tmp_path) as gateway:
        words = (await get_json(gateway, "words"))["words"]
    assert [each["name"] for each in words] == list(WORDS)


async def test_changes_are_on_record_with_who_made_them(tmp_path: Path) -> None:
    async with panel_gateway(tmp_path, DENY, audit={}) as gateway:
        await post(gateway.admin, "/api/hooks/switch", {"name": "guard", "on": False}, CHANGES)
        [change] = (await get_json(gateway, "changes?since=1h"))["changes"]
        assert (change["change"], change["by"], change["hook"]) == ("hooks.switch", "admin token", "guard")
        assert (await ask(gateway.admin, "GET", "/api/changes?since=soon", BEARER)).error["code"] == 400


async def test_what_keeps_a_gateway_from_being_ready_is_in_the_overview(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with panel_gateway(tmp_path, audit={}) as gateway:
        assert (await get_json(gateway, "overview"))["readiness"]["status"] == "ready"
        monkeypatch.setattr(Audit, "check", lambda _: "the disk is full")
        readiness = (await get_json(gateway, "overview"))["readiness"]
    assert readiness == {"status": "unready", "reason": "audit records cannot be written: the disk is full"}


async def test_traffic_counts_what_has_ended(tmp_path: Path) -> None:
    async with panel_gateway(tmp_path, DENY) as gateway:
        for _ in range(3):
            await called(gateway)
        hour, day = await get_json(gateway, "traffic"), await get_json(gateway, "traffic?span=day")
    for series, steps in ((hour, 60), (day, 96)):
        assert len(series["steps"]) == steps
        assert series["total"]["calls"] == series["total"]["outcomes"]["denied"] == 3
        assert sum(step["calls"] for step in series["steps"]) == 3
        assert series["total"]["p50_ms"] > 0


async def test_the_policy_in_force_is_reported_without_secrets(tmp_path: Path) -> None:
    secret = "canary-5d1f"  # noqa: S105  # a canary, no secret
    hooks = {
        "BeforeModel": [
            {"type": "command", "name": "c", "command": "true", "env": {"API": secret}},
            {"type": "http", "name": "h", "url": f"http://127.0.0.1/x?k={secret}",
             "headers": {"Authorization": secret}},
        ]
    }  # fmt: skip
    async with panel_gateway(tmp_path, hooks, admin={"token": f"{secret}-{secret}"}) as gateway:
        headers = {"Authorization": f"Bearer {secret}-{secret}"}
        answers = [
            await ask(gateway.admin, "GET", f"/api/{path}", headers)
            for path in ("policy", "overview", "hooks", "calls", "sessions", "traffic")
        ]
    policy = answers[0].json["policy"]
    assert policy["revision"] == gateway.reloader.current.revision
    assert [hook["name"] for hook in policy["events"][0]["groups"][0]["hooks"]] == ["c", "h"]
    for answer in answers:
        assert answer.status == 200
        assert secret.encode() not in answer.body


async def test_a_hook_is_switched_off_and_on_and_calls_heed_it(tmp_path: Path) -> None:
    async with panel_gateway(tmp_path, DENY) as gateway:
        assert (await called(gateway)).status == 403
        off = await post(gateway.admin, "/api/hooks/switch", {"name": "guard", "on": False}, CHANGES)
        assert [hook["state"] for hook in off.json["hooks"]] == ["off"]
        assert (await called(gateway)).status == 200
        on = await post(gateway.admin, "/api/hooks/switch", {"name": "guard", "on": True}, CHANGES)
        assert [hook["state"] for hook in on.json["hooks"]] == ["on"]
        assert on.json["revision"] != off.json["revision"]
        assert str(gateway.settings) in on.json["messages"][0]
        assert (await called(gateway)).status == 403


async def test_settings_that_are_not_in_use_are_reported(tmp_path: Path) -> None:
    async with panel_gateway(tmp_path, DENY) as gateway:
        gateway.settings.write_text('{"hooks": 5}')
        await gateway.reloader.reload()
        overview, policy = await get_json(gateway, "overview"), await get_json(gateway, "policy")
    assert overview["settings_error"] == policy["policy"]["settings_error"] != ""


async def test_a_policy_s_hook_is_not_switched(tmp_path: Path) -> None:
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps({"hooks": {"BeforeModel": [{"hooks": DENY["BeforeModel"]}]}}))
    async with panel_gateway(tmp_path, policy_file=policy) as gateway:
        [hook] = (await get_json(gateway, "hooks"))["hooks"]
        assert (hook["switchable"], hook["layer"]) == (False, "policy")
        answer = await post(gateway.admin, "/api/hooks/switch", {"name": "guard", "on": False}, CHANGES)
        assert (answer.status, "policy" in answer.error["message"]) == (400, True)
        assert (await called(gateway)).status == 403


@pytest.mark.parametrize(
    ("change", "code"),
    [
        pytest.param({"name": "nobody", "on": False}, 400, id="an unknown hook"),
        pytest.param({"name": "guard"}, 400, id="no wish"),
        pytest.param({"name": "guard", "on": "no"}, 400, id="a text for a wish"),
        pytest.param({"name": 1, "on": True}, 400, id="a number for a name"),
        pytest.param(b"[", 400, id="no JSON"),
    ],
)
async def test_an_invalid_switch(change: Any, code: int, tmp_path: Path) -> None:
    async with panel_gateway(tmp_path, DENY) as gateway:
        answer = await post(gateway.admin, "/api/hooks/switch", change, CHANGES)
        assert answer.error["code"] == code


async def test_how_hooks_fare_is_reported(tmp_path: Path) -> None:
    hooks = {"BeforeModel": [{"type": "command", "name": "broken", "command": "exit 1", "description": "d"}]}
    async with panel_gateway(tmp_path, hooks) as gateway:
        await called(gateway)
        [hook] = (await get_json(gateway, "hooks"))["hooks"]
    assert (hook["state"], hook["last_status"], hook["failures"]) == ("degraded", "failed", 1)
    assert "code 1" in hook["last_error"]
    assert hook["last_ms"] > 0


async def test_there_is_nothing_else(tmp_path: Path) -> None:
    async with panel_gateway(tmp_path) as gateway:
        for path in ("/api/", "/api/nothing", "/panel/", "/panel/../api.py", "/panel/index.html", "/x"):
            assert (await ask(gateway.admin, "GET", path, BEARER)).error["code"] == 404, path
        for path in ("/api/nothing", "/api/hooks"):
            assert (await post(gateway.admin, path, {}, CHANGES)).error["code"] == 404, path
        assert (await ask(gateway.admin, "DELETE", "/api/hooks", BEARER)).error["code"] == 403


async def test_what_fails_inside_is_reported_and_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a canary")

    async with panel_gateway(tmp_path) as gateway:
        monkeypatch.setattr(type(gateway.panel.api.calls), "page", fail)
        answer = await ask(gateway.admin, "GET", "/api/calls", BEARER)
        assert (answer.error["code"], "canary" in answer.error["message"]) == (500, False)
        assert "a canary" in caplog.text
        assert (await ask(gateway.admin, "GET", "/api/hooks", BEARER)).status == 200
