"""Antigravity's real harness at the gateway: tests in addition to those for all clients (test_matrix.py)."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.clients.interface import antigravity, antigravity_openai
from support.gateway.keys import UPSTREAM_KEY, issue, issuing_gateway, revoke, until_answered
from support.gateway.loopback import listens, running_gateway

BILLED = ("user-agent", "x-goog-api-client")
"""The headers by which Google recognizes Antigravity."""
SECRET = "AIzaSy" + "A1234567890abcdefghijklmnopqrstuv"
"""Like an API key of Google's. In one piece, it would be found in this file."""


async def test_its_headers_and_session_arrive_as_without_the_gateway(tmp_path: Path) -> None:
    seen: list[dict[str, str]] = []
    async with running_gateway({"BeforeModel": [listens(seen)]}) as gateway:
        ran = await antigravity(tmp_path, "hello", gateway.upstream_url, gateway.url)
        direct, through = gateway.recorded
    assert [line.keys() for line in ran.lines] == [{"text"}, {"text"}], ran.stdout
    for name in BILLED:
        assert through.headers[name] == direct.headers[name]
    assert through.headers["user-agent"].startswith("google-antigravity-sdk/")
    assert through.body.keys() == direct.body.keys()
    session = through.body["sessionId"]
    assert [event["session_id"] for event in seen] == [f"session{session}" if session[0] == "-" else session]


@pytest.mark.parametrize("ask", [antigravity, antigravity_openai])
async def test_a_key_in_a_file_that_it_reads_never_reaches_the_upstream(ask: Any, tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(f'key = "{SECRET}"\n')
    call = {"name": "view_file", "args": {"AbsolutePath": str(file), "toolAction": "A", "toolSummary": "B"}}
    model = {
        "rules": [
            {"when": {"tool_response": True}, "answer": {"text": "I have read it."}},
            {"answer": {"parts": [{"functionCall": call}]}},
        ]
    }
    results: list[dict[str, str]] = []
    hooks = {"BeforeModel": [{"type": "builtin", "builtin": "redact"}], "AfterTool": [listens(results)]}
    async with running_gateway(hooks, model) as gateway:
        ran = await ask(tmp_path, "Which key is set?", gateway.url)
        sent = [json.dumps(request.body) for request in gateway.recorded]
    assert ran.lines == [{"text": "I have read it."}]
    assert len(sent) == 2
    assert "[GOOGLE_API_KEY]" in sent[1]
    assert not any(SECRET in request for request in sent)
    assert [result["tool_name"] for result in results] == ["view_file"]


@pytest.mark.parametrize("ask", [antigravity, antigravity_openai])
@pytest.mark.parametrize("name", ["CommandLine", "commandline"])  # the harness runs both
async def test_forbidden_tool_is_denied_without_its_own_hooks(ask: Any, name: str, tmp_path: Path) -> None:
    command = {name: "rm -f kept", "Cwd": str(tmp_path), "toolAction": "A", "toolSummary": "B"}
    call = {"name": "run_command", "args": {**command, "WaitMsBeforeAsync": 1000}}
    model = {
        "rules": [
            {"when": {"tool_response": True}, "answer": {"text": "It was denied."}},
            {"answer": {"parts": [{"functionCall": call}]}},
        ]
    }
    rm = {"tool": "run_command", "when": {"/CommandLine": {"runs": {"program": "rm"}}}, "reason": "Keep it."}
    tools = {"type": "builtin", "builtin": "tools", "options": {"deny": [rm]}}
    async with running_gateway({"BeforeTool": [tools]}, model) as gateway:
        ran = await ask(tmp_path, "Delete it.", gateway.url)
        sent = [json.dumps(request.body) for request in gateway.recorded]
    assert ran.lines == [{"text": "It was denied."}]
    assert "Tool execution blocked: Keep it." in sent[-1]


async def test_an_issued_key_works_until_it_is_revoked(tmp_path: Path) -> None:
    state = tmp_path / "state"
    async with issuing_gateway(state) as gateway:
        key = issue(state)
        works = await antigravity(tmp_path, "hello", gateway.url, key=key)
        assert [line.keys() for line in works.lines] == [{"text"}], works.stdout
        revoke(state, key)
        await until_answered(gateway.url, key, 403)
        arrived = len(gateway.recorded)
        stopped = await antigravity(tmp_path, "hello", gateway.url, key=key)
        assert len(gateway.recorded) == arrived
    [line] = stopped.lines
    assert "Error 403" in line["error"]["message"]
    assert "of alice was revoked." in line["error"]["message"]
    assert {request.headers["x-goog-api-key"] for request in gateway.recorded} == {UPSTREAM_KEY}
