"""What a call and its connection have used is freed as soon as they end, without the garbage collector.

An exception and a frame that refer to each other would keep the request, which may be large, until the next
collection, and make that collection slow.
"""

import asyncio
import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from support.gateway.loopback import running_gateway, runs, says
from support.wire import HI, SSE, UNARY, post

from hookgate.hooks import BeforeModel, HookError, Run
from hookgate.proxy.calls.answer_pipeline import AnswerPipeline
from hookgate.proxy.calls.call import Call
from hookgate.proxy.server.connection import Connection

OF_A_CALL = (Connection, Call, AnswerPipeline, BeforeModel, Run, HookError)
DENIES = {"decision": "deny", "reason": "no"}
STOPS = {"continue": False, "stopReason": "enough"}
REDACT = {"type": "builtin", "builtin": "redact", "name": "redact", "options": {"action": "block"}}
FAILS = {"on_error": "deny"}
CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


def answering(**answer: Any) -> dict[str, Any]:
    return {"rules": [{"answer": answer}]}


def command(line: str, **more: Any) -> dict[str, Any]:
    return {"type": "command", "command": line, **more}


@contextmanager
def without_collections() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def of_calls() -> list[object]:
    return [each for each in gc.get_objects() if isinstance(each, OF_A_CALL)]


async def leaves_nothing(url: str, target: str, body: Any) -> bool:
    """Make a call twice: the first one leaves what is cached."""
    for _ in range(2):
        with without_collections():
            before = of_calls()  # of other tests
            with suppress(asyncio.IncompleteReadError):
                await post(url, target, body)
            await asyncio.sleep(0.03)
            found = [each for each in of_calls() if not any(each is known for known in before)]
    return found == []


@pytest.mark.parametrize("target", [UNARY, SSE], ids=["unary", "sse"])
@pytest.mark.parametrize(
    ("hooks", "script"),
    [
        pytest.param({}, None, id="no hooks"),
        pytest.param({"BeforeModel": [says(DENIES)]}, None, id="denied"),
        pytest.param({"BeforeModel": [command("exit 2")]}, None, id="denied by a command"),
        pytest.param({"BeforeModel": [says(llm_response={"text": "x"})]}, None, id="synthetic"),
        pytest.param({"BeforeModel": [says(STOPS)]}, None, id="stopped"),
        pytest.param({"BeforeModel": [runs(lambda _: 1 / 0, **FAILS)]}, None, id="failed"),
        pytest.param({"BeforeModel": [command("sleep 9", timeout=50, **FAILS)]}, None, id="timed out"),
        pytest.param({"SessionStart": [says(DENIES)]}, None, id="session"),
        pytest.param({"BeforeAgent": [says(DENIES)]}, None, id="prompt"),
        pytest.param({"BeforeToolSelection": [says(DENIES)]}, None, id="selection"),
        pytest.param({"AfterModel": [says(DENIES)]}, None, id="answer"),
        pytest.param({"AfterModel": [says(DENIES) | {"stream": "complete"}]}, None, id="complete answer"),
        pytest.param({"AfterModel": [says(DENIES) | {"stream": "window"}]}, None, id="window of an answer"),
        pytest.param({"AfterModel": [says(llm_response={"text": "x"})]}, None, id="edited answer"),
        pytest.param({"AfterModel": [runs(lambda _: 1 / 0, **FAILS)]}, None, id="failed after the answer"),
        pytest.param({"AfterModel": [REDACT]}, answering(chunks=["a@", "example.com", "x"]), id="withheld"),
        pytest.param({"AfterAgent": [says(DENIES)]}, None, id="final answer"),
        pytest.param(
            {"BeforeTool": [says(DENIES)]},
            answering(parts=[{"functionCall": {"name": "f", "args": {}}}]),
            id="tool",
        ),
        pytest.param(
            {"AfterModel": [says()]}, answering(error={"status": 500, "message": "x"}), id="upstream error"
        ),
        pytest.param({"AfterModel": [says()]}, answering(chunks=["a", "b"], cut_after=1), id="cut off"),
    ],
)
async def test_a_call_leaves_nothing_behind(target: str, hooks: Any, script: Any) -> None:
    async with running_gateway(hooks, script) as gateway:
        assert await leaves_nothing(gateway.url, target, HI)


@pytest.mark.parametrize(
    ("target", "body"),
    [
        pytest.param(UNARY, b"{", id="not JSON"),
        pytest.param(UNARY, b'{"contents": [], "contents": []}', id="ambiguous"),
        pytest.param("/v1beta/models/m:embedContent", {"content": HI["contents"][0]}, id="embedding"),
        pytest.param(
            "/v1beta/models/m:batchGenerateContent",
            {"batch": {"inputConfig": {"requests": {"requests": [{"request": HI}]}}}},
            id="batch",
        ),
        pytest.param("/v1beta/openai/chat/completions", CHAT, id="chat"),
        pytest.param("/v1beta/openai/chat/completions", {**CHAT, "stream": True}, id="chat stream"),
        pytest.param("/v1beta/interactions", {"model": "m", "input": "hi"}, id="interaction"),
        pytest.param("/v1beta/cachedContents", {"model": "models/m", **HI}, id="cache"),
        pytest.param("/v1internal:generateContent", {"model": "m", "request": HI}, id="code assist"),
        pytest.param("/hookgate/v1/events/BeforeTool", {"tool_name": "f", "tool_input": {}}, id="event"),
    ],
)
async def test_a_refused_call_of_any_kind_leaves_nothing_behind(target: str, body: Any) -> None:
    async with running_gateway({"BeforeModel": [says(DENIES)]}) as gateway:
        assert await leaves_nothing(gateway.url, target, body)
