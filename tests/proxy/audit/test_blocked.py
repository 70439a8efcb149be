"""What hooks withhold from an agent is recorded with hook, reason and arguments, and shown to operators."""

import json
from contextlib import closing
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from support.gateway.audits import audited_gateway, reading
from support.gateway.loopback import running_upstream, says
from support.programs.program import run
from support.wire import KEY, SSE, UNARY, Answer, ask, post, prompt

from hookgate.proxy.cli.audit import export_records
from hookgate.proxy.config import Config, ToolCallSettings
from hookgate.proxy.observe.record import MAX_BLOCKED
from hookgate.proxy.store.database import open_audit

Json = dict[str, Any]
MAIL = "anna.berg@example.org"
REMOVE = {"name": "sh", "args": {"command": "rm -rf x", "why": f"asked by {MAIL}"}}
DENY = [{"tool": "sh", "when": {"/command": {"runs": {"program": "rm"}}}, "reason": "no removing"}]
NO_RM = {"BeforeTool": [{"type": "builtin", "name": "no-rm", "builtin": "tools", "options": {"deny": DENY}}]}
ONLY_READING = {"BeforeToolSelection": [says(toolConfig={"mode": "ANY", "allowedFunctionNames": ["read"]})]}
INSISTS = {"rules": [{"answer": {"parts": [{"functionCall": REMOVE}]}}]}
GIVES_IN = {"when": {"tool_response": "sh"}, "answer": {"text": "Then not."}}
CALLS = {"rules": [GIVES_IN, *INSISTS["rules"]]}
TOOLS = [{"functionDeclarations": [{"name": "sh"}, {"name": "read"}]}]
EVENT = "/s/s1/hookgate/v1/events/BeforeTool"
SHIM_INPUT = {"tool_name": "sh", "tool_input": REMOVE["args"]}


async def recorded(
    state: Path,
    hooks: Json,
    target: str = UNARY,
    *,
    content: str = "full",
    config: Config | None = None,
    script: Json = CALLS,
) -> tuple[Answer, Json, Json]:
    """The answer to one call, its end record's body, and its content."""
    body = SHIM_INPUT if target == EVENT else prompt("go", tools=TOOLS)
    async with (
        running_upstream(script) as (upstream, _),
        audited_gateway(upstream, state, hooks, content=content, config=config) as gateway,
    ):
        answer = await post(gateway.url, target, body, KEY)
    with reading(state) as audit:
        detail = audit.call(answer.headers["x-hookgate-receipt"])
    assert detail is not None
    assert detail.end is not None
    return answer, detail.end.record.body, detail.end.content or {}


@pytest.mark.parametrize("target", [UNARY, SSE, EVENT], ids=["whole", "stream", "shim"])
async def test_a_denied_tool_call_is_on_record(target: str, tmp_path: Path) -> None:
    _, body, content = await recorded(tmp_path, NO_RM, target)
    assert (body["outcome"], body["blocked_count"]) == ("blocked", 1)
    [blocked] = body["blocked"]
    assert (blocked["event"], blocked["tool"], blocked["hooks"]) == ("BeforeTool", "sh", ["no-rm"])
    assert "no removing" in blocked["reason"]
    assert content["blocked"] == [{"tool": "sh", "arguments": REMOVE["args"]}]


async def test_a_tool_that_no_hook_selected_is_on_record_with_the_hook_that_selected_others(
    tmp_path: Path,
) -> None:
    _, body, content = await recorded(tmp_path, ONLY_READING)
    [blocked] = body["blocked"]
    assert (body["outcome"], blocked["event"], blocked["tool"]) == ("blocked", "BeforeToolSelection", "sh")
    assert len(blocked["hooks"]) == 1
    assert content["blocked"][0]["arguments"] == REMOVE["args"]


async def test_every_answer_for_which_the_model_was_asked_again_is_recorded(tmp_path: Path) -> None:
    config = Config(tools=ToolCallSettings(refused="ask_again", ask_again_at_most=2))
    _, body, content = await recorded(tmp_path, NO_RM, config=config, script=INSISTS)
    assert (body["upstream_requests"], body["blocked_count"], len(content["blocked"])) == (3, 3, 3)


async def test_an_answer_that_a_hook_rejected_is_on_record(tmp_path: Path) -> None:
    hooks = {"AfterAgent": [{**says({"decision": "deny", "reason": "say more"}), "name": "thorough"}]}
    async with (
        running_upstream() as (upstream, _),
        audited_gateway(upstream, tmp_path, hooks) as gateway,
    ):
        answer = await post(gateway.url, UNARY, prompt("hi"), KEY)
    with reading(tmp_path) as audit:
        detail = audit.call(answer.headers["x-hookgate-receipt"])
    assert detail is not None
    assert detail.end is not None
    body = detail.end.record.body
    assert (body["outcome"], body["blocked_count"]) == ("blocked", body["upstream_requests"] - 1)
    assert body["blocked"][0] == {"event": "AfterAgent", "hooks": ["thorough"], "reason": "say more"}


@pytest.mark.parametrize(
    ("content", "arguments"),
    [
        pytest.param("full", REMOVE["args"], id="full"),
        pytest.param("redacted", {"command": "rm -rf x", "why": "asked by [EMAIL]"}, id="redacted"),
        pytest.param("off", None, id="off"),
    ],
)
async def test_arguments_are_stored_as_the_content_setting_says(
    content: str, arguments: Any, tmp_path: Path
) -> None:
    _, body, stored = await recorded(tmp_path, NO_RM, content=content)
    assert body["blocked"][0]["tool"] == "sh"
    assert MAIL not in json.dumps(body)
    assert [each["arguments"] for each in stored.get("blocked", [])] == ([arguments] if arguments else [])


async def test_a_call_of_many_blocked_tools_has_a_bounded_record(tmp_path: Path) -> None:
    many = {"answer": {"parts": [{"functionCall": REMOVE}] * (MAX_BLOCKED + 7)}}
    answer, body, content = await recorded(tmp_path, NO_RM, script={"rules": [GIVES_IN, many]})
    assert (body["blocked_count"], len(body["blocked"])) == (MAX_BLOCKED + 7, MAX_BLOCKED)
    assert len(content["blocked"]) == MAX_BLOCKED
    shown = await run("audit", "show", answer.headers["x-hookgate-receipt"], "--state", str(tmp_path))
    assert "and 7 more" in shown.out


async def test_commands_receipts_and_exports_show_what_was_blocked(tmp_path: Path) -> None:
    async with (
        running_upstream(CALLS) as (upstream, _),
        audited_gateway(upstream, tmp_path, NO_RM, content="full") as gateway,
    ):
        answer = await post(gateway.url, UNARY, prompt("go", tools=TOOLS), KEY)
        receipt = answer.headers["x-hookgate-receipt"]
        path = f"/hookgate/v1/receipts/{receipt}"
        kept = await ask(gateway.url, "GET", path, headers=KEY)
    assert kept.json["blocked"][0]["hooks"] == ["no-rm"]
    listed = await run("audit", "list", "--state", str(tmp_path))
    assert "blocked  no-rm" in listed.out
    assert "no removing" in listed.out
    shown = await run("audit", "show", receipt[:8], "--state", str(tmp_path))
    first, second, third = shown.out.splitlines()[:3]
    assert (first, second) == ("outcome: blocked, with status 200", "hooks:   no-rm")
    assert third.startswith("blocked: tool sh: ")
    assert third.endswith("no removing (BeforeTool, by no-rm)")
    exported = BytesIO()
    with closing(open_audit(None, tmp_path, writes=False)) as database:
        export_records(database, None, None, exported)
    assert "rm -rf x" in exported.getvalue().decode()
    assert '"hooks":["no-rm"]' in exported.getvalue().decode()


async def test_a_call_without_incidents_is_answered_and_lists_nothing(tmp_path: Path) -> None:
    _, body, content = await recorded(tmp_path, {"BeforeTool": [says({})]})
    assert (body["outcome"], body["blocked"], content["blocked"]) == ("answered", [], [])
