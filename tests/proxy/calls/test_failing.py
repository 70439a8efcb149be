"""Hooks that fail at a real gateway: what reaches the upstream, and what is reported."""

import asyncio
import errno
import json
import logging
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.gateway.life import gateway_with
from support.gateway.loopback import gateway_before, listens, running_gateway, runs
from support.hooks.failing import FAILURES, hang, is_denied, spawning
from support.hooks.settings import write_file
from support.wire import SSE, STREAM, UNARY, ask, ok, peer, post, prompt, spoken

from hookgate.hooks.settings import SettingsSource, load_sources
from hookgate.proxy.calls import answer_pipeline
from hookgate.proxy.calls.services import GatewayServices
from hookgate.proxy.observe.metrics import Metrics

Json = dict[str, Any]

HI = prompt("a forbidden prompt")
TOOL_TURN: Json = {
    "contents": [
        *HI["contents"],
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"r": 1}}}]},
    ]
}
CHUNKS = {"rules": [{"answer": {"chunks": ["for", "bidden ", "answer"], "chunk_delay_ms": 1}}]}
GUARD = {"type": "command", "command": "echo not here >&2; exit 2", "name": "guard", "on_error": "allow"}


# ---- every failure, at every moment


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    failure=st.sampled_from(sorted(FAILURES)),
    event=st.sampled_from(["BeforeModel", "BeforeToolSelection", "AfterModel"]),
    target=st.sampled_from([UNARY, SSE, STREAM]),
    on_error=st.sampled_from([None, "allow", "deny"]),
)
def test_nothing_forbidden_passes_where_the_table_says_that_it_is_denied(
    failure: str, event: str, target: str, on_error: str | None, tmp_path: Path
) -> None:
    fails = FAILURES[failure]
    padding = "." * fails.input_bytes
    body = prompt(f"a forbidden prompt {padding}")
    guard = {"name": "guard", "timeout": 60_000, **fails.hook(tmp_path)}
    guard |= {"on_error": on_error} if on_error else {}
    content = {"hooks": {event: [{"hooks": [guard]}]}, "hooksConfig": fails.limits}
    file = write_file(tmp_path, content)

    async def call() -> tuple[bytes, int]:
        async with running_gateway(file, CHUNKS) as gateway:
            fails.after_load(tmp_path)
            with fails.meanwhile():
                answer = await post(gateway.url, target, body)
            assert answer.status in (200, 403)
            return answer.body, len(gateway.generated)

    answer, reached = asyncio.run(call())
    denied = is_denied(fails.row, "explicit", on_error)
    if event == "AfterModel":
        assert (b"bidden" in answer) is not denied
    else:
        assert reached == (0 if denied else 1)


# ---- what a client can cause


async def test_a_denial_that_came_while_the_gateway_stalled_is_a_denial(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    guard = {**GUARD, "command": f"touch {begun}; sleep 0.2; echo not here >&2; exit 2", "timeout": 1000}
    async with running_gateway({"BeforeModel": [guard]}) as gateway:
        call = asyncio.create_task(post(gateway.url, UNARY, HI))
        while not begun.exists():  # noqa: ASYNC110  # a file, it signals nothing
            await asyncio.sleep(0)
        time.sleep(1.5)  # noqa: ASYNC251  # the gateway runs in this very loop
        answer = await call
        assert (answer.status, answer.error["message"]) == (403, "not here")
        assert not gateway.generated


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM])
async def test_without_descriptors_or_processes_nothing_goes_upstream(
    number: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_gateway({"BeforeModel": [GUARD]}) as gateway:
        with spawning(number)():
            answer = await post(gateway.url, UNARY, HI)
            on_tool_turn = await post(gateway.url, UNARY, TOOL_TURN)
        name = answer.headers["x-hookgate-receipt"]
        receipt = (await ask(gateway.url, "GET", f"/hookgate/v1/receipts/{name}")).json
        assert not gateway.generated
    reason = "The hook 'guard' could not judge this call (no resources)."
    assert (answer.status, answer.error["message"]) == (403, reason)
    assert on_tool_turn.status == 200
    assert on_tool_turn.json["candidates"][0]["content"]["parts"] == [{"text": reason}]
    [hook] = receipt["hooks"]
    assert (hook["hook"], hook["failures"], hook["causes"]) == ("guard", 1, {"no resources": 1})
    assert hook["decisions"] == {"deny": 1}
    assert "BeforeModel hook 'guard' failed: cannot be started: " in caplog.text
    assert "; the call is denied" in caplog.text


async def test_calls_that_crowd_out_a_hook_do_not_pass_it(tmp_path: Path) -> None:
    async def wait(_: Any) -> None:
        await asyncio.sleep(0.15)

    hook = runs(wait, name="guard", on_error="allow")
    limits = {"concurrency": 1, "deadline": 200}
    file = write_file(tmp_path, {"hooks": {"BeforeModel": [{"hooks": [hook]}]}, "hooksConfig": limits})
    async with running_gateway(file) as gateway:
        answers = await asyncio.gather(*(post(gateway.url, UNARY, HI) for _ in range(8)))
        reached = len(gateway.generated)
    statuses = [answer.status for answer in answers]
    assert set(statuses) == {200, 403}
    assert statuses.count(200) == reached


@pytest.mark.parametrize("persistent", [False, True], ids=["command", "persistent"])
async def test_a_secret_in_a_large_body_is_masked_as_in_a_small_one(persistent: bool, tmp_path: Path) -> None:
    source = """
import json, sys
for line in sys.stdin:
    messages = json.loads(line)["llm_request"]["messages"]
    messages = [{**each, "content": each["content"].replace("hunter2", "[MASKED]")} for each in messages]
    print(json.dumps({"hookSpecificOutput": {"llm_request": {"messages": messages}}}), flush=True)
"""
    mask = write_file(tmp_path, source, "mask.py")
    hook = {"type": "command", "command": f"python3 {mask}", "persistent": persistent, "on_error": "allow"}
    large = prompt("hunter2 " + "é" * 1_500_000)
    async with running_gateway({"BeforeModel": [hook]}) as gateway:
        assert (await post(gateway.url, UNARY, large)).status == 200
        sent = json.dumps(gateway.generated[0].body, ensure_ascii=False)
    assert "hunter2" not in sent
    assert "[MASKED]" in sent


# ---- answers, tools, turns


@pytest.mark.parametrize("target", [UNARY, SSE, STREAM])
@pytest.mark.parametrize("mode", ["event", "window", "complete"])
async def test_an_answer_that_a_hook_could_not_judge_is_withheld(target: str, mode: str) -> None:
    guard = {**GUARD, "stream": mode}
    async with running_gateway({"AfterModel": [guard]}, CHUNKS) as gateway:
        with spawning(errno.EMFILE)():
            answer = await post(gateway.url, target, HI)
    assert b"bidden" not in answer.body
    assert b"could not judge this call (no resources)" in answer.body


async def test_an_answer_whose_end_could_not_be_judged_is_withheld_and_not_retried() -> None:
    async with running_gateway({"AfterAgent": [GUARD]}, CHUNKS) as gateway:
        with spawning(errno.EAGAIN)():
            answer = await post(gateway.url, UNARY, HI)
        assert len(gateway.generated) == 1
    assert answer.status == 403
    assert b"bidden" not in answer.body


async def test_a_tool_result_that_could_not_be_judged_is_withheld() -> None:
    async with running_gateway({"AfterTool": [GUARD]}) as gateway:
        with spawning(errno.EAGAIN)():
            await post(gateway.url, UNARY, TOOL_TURN)
        sent = gateway.generated[0].body
    [part] = sent["contents"][-1]["parts"]
    assert "could not judge" in part["functionResponse"]["response"]["output"]


async def test_a_tool_call_that_could_not_be_judged_never_reaches_the_agent() -> None:
    call = {"functionCall": {"name": "run", "args": {"command": "ls"}}}
    calls = {"rules": [{"answer": {"parts": [call]}}]}
    async with running_gateway({"BeforeTool": [GUARD]}, calls) as gateway:
        with spawning(errno.EAGAIN)():
            answer = await post(gateway.url, UNARY, HI)
    assert b"functionCall" not in answer.body


async def test_a_client_that_leaves_ends_its_hanging_hook(tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def hangs(event: Any) -> None:
        begun.set()
        await hang(event)

    async with running_gateway({"BeforeModel": [runs(hangs, on_error="allow")]}) as gateway:
        call = asyncio.create_task(post(gateway.url, UNARY, HI))
        await begun.wait()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        assert not gateway.generated


# ---- which hooks fail open


def test_files_of_an_operator_fail_closed_and_gemini_cli_s_own_as_its_documents_say(tmp_path: Path) -> None:
    hooks = [{"type": "command", "command": "true"}, {"type": "runtime", "action": "json:loads"}]
    file = write_file(tmp_path, {"hooks": {"BeforeModel": [{"hooks": hooks}]}})
    reported = {
        layer: [hook.fails_open for hook in load_sources([SettingsSource(file, layer)]).hooks()]
        for layer in ("policy", "explicit", "project", "user", "system", "extensions")
    }
    gemini = ["always", "always"]
    assert reported == {
        "policy": ["never", "never"],
        "explicit": ["on exit codes", "never"],
        "project": gemini,
        "user": gemini,
        "system": gemini,
        "extensions": gemini,
    }


async def test_a_call_that_fails_inside_the_gateway_is_answered_with_an_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(answer_pipeline, "check_response", lambda *_: 1 / 0)
    seen: list[Json] = []
    async with (
        peer(ok(json.dumps(spoken("ok")).encode())) as upstream,
        gateway_before(upstream.url, {"AfterModel": [listens(seen)]}) as url,
    ):
        answer = await post(url, UNARY, HI)
        receipt = await ask(url, "GET", f"/hookgate/v1/receipts/{answer.headers['x-hookgate-receipt']}")
    assert (answer.status, answer.error["message"]) == (
        500,
        "Internal error in hookgate; see the gateway's log.",
    )
    assert (receipt.json["status"], seen) == (500, [])
    assert "ZeroDivisionError" in caplog.text
    assert [each.levelno for each in caplog.records if "please report this" in each.message] == [
        logging.ERROR
    ]


async def test_a_call_whose_end_cannot_be_settled_is_answered_counted_and_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(GatewayServices, "settle", lambda *_: 1 / 0)
    caplog.set_level(logging.INFO)
    metrics = Metrics()
    async with peer(ok(b"{}")) as upstream, gateway_with(upstream.url, metrics=metrics) as url:
        answer = await post(url, UNARY, HI)
    assert answer.status == 200
    assert b"hookgate_calls_total{" in metrics.page()
    assert "ZeroDivisionError" in caplog.text
    assert any("200 in" in each.getMessage() for each in caplog.records)
