"""The tools that hooks allow are enforced on the model's answer, too."""

import sys
from typing import Any

import pytest
from support.gateway.loopback import gateway_before, running_gateway, runs
from support.wire import KEY, SSE, STREAM_HEAD, UNARY, Answer, ask, ok, peer, post, prompt, spoken, sse

from hookgate.hooks.session import CallState
from hookgate.proxy.calls import tools as tool_gate
from hookgate.proxy.calls.endings import AskAgain
from hookgate.proxy.calls.tools import BlockedCall, ToolGate
from hookgate.proxy.config import Config, ToolCallSettings

TOOLS = [{"functionDeclarations": [{"name": "read_file"}, {"name": "write_file"}]}]
ASK = prompt("do it", tools=TOOLS)
ONLY_READING = {"toolConfig": {"mode": "AUTO", "allowedFunctionNames": ["read_file"]}}
READING = {"BeforeToolSelection": [runs(lambda _: {"hookSpecificOutput": ONLY_READING})]}
REFUSED = "The tool 'write_file' is not allowed here and was not called."


def call(name: str) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": {}}, "thoughtSignature": "c2ln"}


def says(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, "finishReason": "STOP"}]}


class Judging:
    """A judge of calls that does as it was told for each name, and keeps the arguments that it was shown."""

    def __init__(self, **decided: Any) -> None:
        self._decided = decided
        self.seen: list[Any] = []

    async def judge_call(self, call: dict[str, Any]) -> Any:
        self.seen.append(call["args"])
        return self._decided.get(call["name"], call["args"])


NO = BlockedCall("It was refused.", "not this one", asks_again=True)


def calls(*calls: dict[str, Any], index: int | None = None) -> dict[str, Any]:
    parts = [{"text": "so:"}, *({"functionCall": call} for call in calls)]
    numbered = {} if index is None else {"index": index}
    return {"candidates": [{"content": {"role": "model", "parts": parts}, **numbered}]}


async def test_each_judge_sees_the_arguments_that_the_one_before_it_left() -> None:
    first, second, third = Judging(f={"x": 2}), Judging(f=NO), Judging()
    gate = ToolGate([first, second, third], CallState(), may_ask_again=False)
    judged = await gate.judge_response(
        calls({"name": "f", "args": {"x": 1}}, {"name": "g", "args": {"y": 1}})
    )
    assert (first.seen, second.seen, third.seen) == ([{"x": 1}, {"y": 1}], [{"x": 2}, {"y": 1}], [{"y": 1}])
    expected = [
        {"text": "so:"},
        {"text": "It was refused."},
        {"functionCall": {"name": "g", "args": {"y": 1}}},
    ]
    assert judged["candidates"][0]["content"]["parts"] == expected
    assert gate.agent_has_call


async def test_a_model_is_asked_again_with_a_response_to_each_of_its_calls() -> None:
    gate = ToolGate([Judging(f=NO)], CallState(), may_ask_again=True)
    said = calls({"id": "1", "name": "f"}, {"name": "g"})
    again = await gate.judge_response(said)
    assert isinstance(again, AskAgain)
    refused = {"error": "Tool execution blocked: not this one"}
    unheard = {"error": f"Tool execution blocked: {tool_gate._NOT_RUN}"}
    responses = [
        {"id": "1", "name": "f", "response": refused},
        {"name": "g", "response": unheard},
    ]
    assert again.turns == [
        {"role": "model", "parts": said["candidates"][0]["content"]["parts"]},
        {"role": "user", "parts": [{"functionResponse": response} for response in responses]},
    ]
    assert not again.answer_rejected


async def test_a_model_that_is_asked_again_gets_its_parts_in_order_with_successive_texts_joined() -> None:
    gate = ToolGate([Judging(f=NO)], CallState(), may_ask_again=True)
    thought, signed = {"text": "hm", "thought": True}, {"text": "", "thoughtSignature": "c2ln"}
    a, b, c = ({"text": text} for text in "abc")
    for parts in ([a], [thought], [b], [c], [b, c], [signed]):
        answer = says(*parts)
        assert gate.note_if_text(answer) or await gate.judge_response(answer) is answer
    again = await gate.judge_response(says(a, call("f")))
    assert isinstance(again, AskAgain)
    assert again.turns[0]["parts"] == [a, thought, {"text": "bcbc"}, signed, a, call("f")]


@pytest.mark.parametrize(
    ("before", "refusal", "answer"),
    [
        pytest.param([calls({"name": "g"})], NO, calls({"name": "f"}), id="the agent has a call"),
        pytest.param(
            [], BlockedCall("It was refused.", "", asks_again=False), calls({"name": "f"}), id="of no use"
        ),
        pytest.param([], NO, calls({"name": "f"}, index=1), id="several candidates"),
        pytest.param([calls(index=1)], NO, calls({"name": "f"}), id="several candidates before"),
        pytest.param([calls()] * 9, NO, calls({"name": "f"}), id="too long"),
    ],
)
async def test_a_model_is_not_asked_again_if_that_would_not_do(
    before: list[Any], refusal: BlockedCall, answer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool_gate, "_MAX_PARTS", 10)
    gate = ToolGate([Judging(f=refusal)], CallState(), may_ask_again=True)
    for each in before:
        assert await gate.judge_response(each) is each
    judged = await gate.judge_response(answer)
    assert judged["candidates"][0]["content"]["parts"] == [{"text": "so:"}, {"text": "It was refused."}]


@pytest.mark.parametrize(
    ("limit", "last"),
    [
        pytest.param(("_MAX_PARTS", 3), says({"text": "end"}), id="too many parts"),
        pytest.param(("MAX_ANSWER", 14), says({"text": "end"}), id="too many bytes"),
        pytest.param(
            ("MAX_ANSWER", 60), says({"inlineData": {"data": "A" * 50}}), id="too many bytes of media"
        ),
        pytest.param(("_MAX_PARTS", 99), says(call("f")), id="the agent has a call"),
    ],
)
async def test_an_answer_that_cannot_be_repeated_is_not_kept(
    limit: tuple[str, int], last: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool_gate, *limit)
    gate, text = ToolGate([Judging()], CallState(), may_ask_again=True), "".join(["so", "me"])
    references = sys.getrefcount(text)
    for _ in range(3):
        assert gate.note_if_text(says({"text": text}))
    assert sys.getrefcount(text) == references + 3
    await gate.judge_response(last)
    assert sys.getrefcount(text) == references


async def test_true_in_place_of_1_is_an_edit() -> None:
    gate = ToolGate([Judging(f={"dry_run": True})], CallState(), may_ask_again=False)
    judged = await gate.judge_response(calls({"name": "f", "args": {"dry_run": 1}}))
    assert judged["candidates"][0]["content"]["parts"][1]["functionCall"]["args"]["dry_run"] is True


async def test_a_call_in_a_candidate_after_one_that_is_only_text_is_judged() -> None:
    gate = ToolGate([Judging(f=NO)], CallState(), may_ask_again=False)
    [text], [called] = says({"text": "a"})["candidates"], says(call("f"))["candidates"]
    judged = await gate.judge_response({"candidates": [text, {**called, "index": 1}]})
    assert judged["candidates"][1]["content"]["parts"] == [{"text": "It was refused."}]


def parts_of(answer: Answer, target: str) -> list[dict[str, Any]]:
    bodies = answer.events if target == SSE else [answer.json]
    return [part for body in bodies for part in body["candidates"][0]["content"]["parts"]]


@pytest.mark.parametrize("target", [UNARY, SSE], ids=["whole", "stream"])
async def test_a_call_that_was_not_allowed_never_reaches_the_agent(target: str) -> None:
    answers = {"rules": [{"answer": {"chunks": [[{"text": "I will."}], [call("write_file")]]}}]}
    async with running_gateway(READING, answers) as gateway:
        answer = await post(gateway.url, target, ASK)
    assert parts_of(answer, target) == [{"text": "I will."}, {"text": REFUSED}]


async def test_a_call_that_was_allowed_passes_unchanged() -> None:
    body = b"".join(sse(says(call("read_file"))))
    async with peer(STREAM_HEAD, body) as upstream, gateway_before(upstream.url, READING) as url:
        assert (await post(url, SSE, ASK)).body == body


async def test_without_a_selection_every_call_passes() -> None:
    looking = {"BeforeToolSelection": [runs(lambda _: None)], "AfterModel": [runs(lambda _: None)]}
    answers = {"rules": [{"answer": {"chunks": [[call("something_else")]]}}]}
    async with running_gateway(looking, answers) as gateway:
        assert parts_of(await post(gateway.url, SSE, ASK), SSE) == [call("something_else")]


async def test_the_arguments_of_a_refused_call_that_follow_are_left_out() -> None:
    begun = says({"functionCall": {"name": "write_file", "willContinue": True}})
    more = says({"functionCall": {"partialArgs": [{"jsonPath": "$.a", "stringValue": "x"}]}})
    body = STREAM_HEAD + b"".join(sse(begun, more))
    async with peer(body) as upstream, gateway_before(upstream.url, READING) as url:
        answer = await post(url, SSE, ASK)
    assert b"functionCall" not in answer.body
    assert parts_of(answer, SSE)[0] == {"text": REFUSED}


# ---- asked again

AGAIN = Config(tools=ToolCallSettings(refused="ask_again", ask_again_at_most=2))


@pytest.mark.parametrize("target", [UNARY, SSE], ids=["whole", "stream"])
async def test_a_model_that_is_reported_may_answer_otherwise_and_the_agent_never_knows(target: str) -> None:
    rules = [
        {"when": {"tool_response": "write_file"}, "answer": {"text": "Then not."}},
        {"answer": {"chunks": [[{"text": "I will."}, call("write_file"), call("read_file")]]}},
    ]
    async with running_gateway(READING, {"rules": rules}, config=AGAIN) as gateway:
        answer = await post(gateway.url, target, ASK)
        _, again = gateway.generated
    assert "".join(part["text"] for part in parts_of(answer, target)) == "Then not."
    model, reported = again.body["contents"][-2:]
    assert (model["role"], model["parts"][-2:]) == ("model", [call("write_file"), call("read_file")])
    responses = [part["functionResponse"] for part in reported["parts"]]
    assert [response["name"] for response in responses] == ["write_file", "read_file"]
    assert all("Tool execution blocked: " in response["response"]["error"] for response in responses)


async def test_a_model_that_insists_is_asked_a_limited_number_of_times() -> None:
    rules = [{"answer": {"chunks": [[call("write_file")]]}}]
    async with running_gateway(READING, {"rules": rules}, config=AGAIN) as gateway:
        answer = await post(gateway.url, UNARY, ASK)
        assert len(gateway.generated) == 3
    assert parts_of(answer, UNARY) == [{"text": REFUSED}]


async def test_nothing_is_asked_again_once_the_agent_has_a_call() -> None:
    body = STREAM_HEAD + b"".join(sse(says(call("read_file")), says(call("write_file"))))
    async with peer(body) as upstream, gateway_before(upstream.url, READING, config=AGAIN) as url:
        answer = await post(url, SSE, ASK)
        assert len(upstream.heard) == 1
    assert parts_of(answer, SSE) == [call("read_file"), {"text": REFUSED}]


@pytest.mark.parametrize("at_once", [True, False])
async def test_what_was_said_before_a_refused_call_is_known_to_the_model_and_the_agent(at_once: bool) -> None:
    """However the answer arrives: the model would otherwise go on from a text that the agent has not seen."""
    events = sse(spoken("First I look."), says(call("write_file")))
    chunks = [b"".join(events)] if at_once else list(events)
    async with peer(STREAM_HEAD, *chunks) as upstream:
        async with gateway_before(upstream.url, READING, config=AGAIN) as url:
            answer = await post(url, SSE, ASK)
        assert [b"First I look." in heard for heard in upstream.heard] == [False, True, True]
    texts = [part["text"] for part in parts_of(answer, SSE)]
    assert texts == ["First I look."] * 3 + [REFUSED]


async def test_tokens_are_counted_once_if_the_model_fails_when_it_is_asked_again() -> None:
    rules = [
        {"times": 1, "answer": {"chunks": [[call("write_file")]]}},
        {"answer": {"error": {"status": 400, "message": "no"}}},
    ]
    usages = []
    for config in (AGAIN, Config()):
        async with running_gateway(READING, {"rules": rules}, config=config) as gateway:
            answer = await post(gateway.url, UNARY, ASK, KEY)
            path = f"/hookgate/v1/receipts/{answer.headers['x-hookgate-receipt']}"
            usages.append((await ask(gateway.url, "GET", path, headers=KEY)).json["usage"])
    assert usages[0] == usages[1]
    assert usages[0]["input_tokens"] > 0


async def test_for_several_candidates_the_model_is_not_asked_again() -> None:
    """There is no one turn that it could go on from."""
    [first] = says(call("write_file"))["candidates"]
    [second] = spoken("Or I look.", index=1)["candidates"]
    body = b"".join(sse({"candidates": [{**first, "index": 0}, second]}))
    async with peer(STREAM_HEAD + body) as upstream:
        async with gateway_before(upstream.url, READING, config=AGAIN) as url:
            answer = await post(url, SSE, {**ASK, "generationConfig": {"candidateCount": 2}})
        assert len(upstream.heard) == 1
    assert parts_of(answer, SSE) == [{"text": REFUSED}]
    assert answer.events[0]["candidates"][1] == second


async def test_a_whole_answer_of_an_odd_shape_is_not_let_through() -> None:
    odd = b'{"candidates": [{"content": {"parts": [["functionCall", "write_file"]]}}]}'
    async with peer(ok(odd)) as upstream, gateway_before(upstream.url, READING) as url:
        answer = await post(url, UNARY, ASK)
    assert (answer.status, "candidates[0].content.parts[0]" in answer.error["message"]) == (502, True)


NO_WRITING = {
    "BeforeTool": [{"type": "builtin", "builtin": "tools", "options": {"deny": [{"tool": "write_file"}]}}]
}
"""A policy that names what must not be called."""


def observed(hooks: dict[str, Any]) -> dict[str, Any]:
    return {event: [{**each, "mode": "observe"} for each in group] for event, group in hooks.items()}


@pytest.mark.parametrize("target", [UNARY, SSE], ids=["whole", "stream"])
@pytest.mark.parametrize("name", ["writefile", "write_file ", "write-file", "edit_file", "write_file\u200b"])
async def test_a_call_of_a_tool_that_is_not_declared_is_blocked(target: str, name: str) -> None:
    """Some clients would run a declared tool instead, which the policy denies."""
    rules = [{"times": 1, "answer": {"parts": [call(name)]}}, {"answer": {"text": "Then not."}}]
    async with running_gateway(NO_WRITING, {"rules": rules}) as gateway:
        answer = await post(gateway.url, target, ASK)
        _, again = gateway.generated
    assert "".join(part["text"] for part in parts_of(answer, target)) == "Then not."
    [reported] = again.body["contents"][-1]["parts"]
    assert "declares no tool of this name" in reported["functionResponse"]["response"]["error"]


async def test_a_call_with_the_id_of_another_call_of_the_answer_is_blocked() -> None:
    """The result of one would pass for that of the other, which may be trusted."""
    parts = [{"functionCall": {"name": name, "args": {}, "id": "1"}} for name in ("read_file", "list_files")]
    tools = [{"functionDeclarations": [{"name": "read_file"}, {"name": "list_files"}]}]
    rules = [{"times": 1, "answer": {"parts": parts}}, {"answer": {"text": "One by one."}}]
    async with running_gateway(NO_WRITING, {"rules": rules}) as gateway:
        answer = await post(gateway.url, UNARY, {**ASK, "tools": tools})
        _, again = gateway.generated
    assert parts_of(answer, UNARY) == [{"text": "One by one."}]
    [first, second] = [
        part["functionResponse"]["response"]["error"] for part in again.body["contents"][-1]["parts"]
    ]
    assert ("same ID" in first, "same ID" in second) == (False, True)


@pytest.mark.parametrize(
    ("hooks", "changes"),
    [
        pytest.param(NO_WRITING, {"tools": []}, id="no tool is declared"),
        pytest.param(NO_WRITING, {"cachedContent": "cachedContents/1"}, id="the cache may declare others"),
        pytest.param(NO_WRITING, {"tools": [*TOOLS, {"computerUse": {}}]}, id="the client knows others"),
        pytest.param(observed(NO_WRITING), {}, id="hooks only observe"),
    ],
)
async def test_a_call_passes_if_hooks_are_not_meant_for_declared_tools_alone(
    hooks: dict[str, Any], changes: dict[str, Any]
) -> None:
    rules = [{"answer": {"parts": [call("open_web_browser")]}}]
    async with running_gateway(hooks, {"rules": rules}) as gateway:
        answer = await post(gateway.url, UNARY, {**ASK, **changes})
    assert parts_of(answer, UNARY) == [call("open_web_browser")]
