"""Batches: each request is judged when it is sent, and each answer when it is read."""

import asyncio
import json
from typing import Any

import pytest
from support.gateway.loopback import gateway_before, listens, runs, says
from support.hooks.policies import CARD, REDACTED, REFUSAL, answer_itself, no_rockets, redact
from support.wire import HI, KEY, ask, ok, peer, post, response, spoken

from hookgate.proxy.calls import pacing
from hookgate.proxy.config import Config, ToolCallSettings
from hookgate.proxy.server.bodies import SMALL_BODY
from hookgate.translator.strictjson import dumps

TARGET = "/v1beta/models/gemini-2.5-flash:batchGenerateContent"
STATE = "/v1beta/batches/b-1"
COUNT = TARGET.replace("batchGenerateContent", "countTokens")


def batch(*texts: str, **source: Any) -> dict[str, Any]:
    items = [
        {"request": {"contents": [{"parts": [{"text": text}], "role": "user"}]}, "metadata": {"key": text}}
        for text in texts
    ]
    return {"batch": {"displayName": "d", "inputConfig": source or {"requests": {"requests": items}}}}


def state(*texts: str) -> bytes:
    answers = [{"response": spoken(text), "metadata": {"key": "k"}} for text in texts]
    return json.dumps(
        {"name": "batches/b-1", "done": True, "response": {"inlinedResponses": {"inlinedResponses": answers}}}
    ).encode()


async def test_every_request_is_judged_and_the_rest_stays() -> None:
    seen: list[dict[str, Any]] = []
    async with (
        peer(ok(b"{}")) as upstream,
        gateway_before(upstream.url, {"BeforeModel": [listens(seen)]}) as url,
    ):
        assert (await post(url, TARGET, batch("a", "b"))).status == 200
        sent = json.loads(upstream.heard[0].partition(b"\r\n\r\n")[2])
    shown = [[turn["content"] for turn in event["llm_request"]["messages"]] for event in seen]
    # Its name and metadata are a last one; a name is shown as such before its value.
    assert shown == [["a"], ["b"], ["d", "\nkey: ", "a", "\nkey: ", "b"]]
    assert sent == batch("a", "b")


async def test_small_requests_of_a_large_batch_take_no_thread_each(steps_in_threads: list[Any]) -> None:
    seen: list[dict[str, Any]] = []
    texts = ["a" * 1_000] * 300
    async with (
        peer(ok(b"{}")) as upstream,
        gateway_before(upstream.url, {"BeforeModel": [listens(seen)]}) as url,
    ):
        assert len(json.dumps(batch(*texts))) > 2 * SMALL_BODY
        assert (await post(url, TARGET, batch(*texts))).status == 200
    assert len(seen) == len(texts) + 1
    assert len(steps_in_threads) < 20


async def test_other_calls_go_on_while_a_batch_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pacing, "SLICE", 0)
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    seen: list[int] = []

    async def judge(event: dict[str, Any]) -> None:
        seen.append(turns)

    others = asyncio.create_task(take_turns())
    async with (
        peer(ok(b"{}")) as upstream,
        gateway_before(upstream.url, {"BeforeModel": [runs(judge)]}) as url,
    ):
        assert (await post(url, TARGET, batch(*["a"] * 32))).status == 200
    others.cancel()
    assert len(set(seen)) >= 20


async def test_one_denied_request_refuses_the_batch_and_is_named() -> None:
    async with peer() as upstream, gateway_before(upstream.url, {"BeforeModel": [runs(no_rockets)]}) as url:
        answer = await post(url, TARGET, batch("a", "a rocket"))
    assert (answer.status, upstream.heard) == (403, [])
    assert answer.error["message"] == f"batch.inputConfig.requests.requests[1].request: {REFUSAL}"


async def test_a_request_that_names_another_model_refuses_the_batch() -> None:
    body = batch("a", "b")
    body["batch"]["inputConfig"]["requests"]["requests"][1]["request"]["model"] = "models/gemini-2.5-pro"
    async with peer() as upstream, gateway_before(upstream.url, {"BeforeModel": [listens([])]}) as url:
        answer = await post(url, TARGET, body)
    assert (answer.status, upstream.heard) == (400, [])
    assert answer.error["message"].startswith("batch.inputConfig.requests.requests[1].request")


def with_result(output: str) -> dict[str, Any]:
    """A batch of two requests, of which the second one has the result of a tool."""
    called = {"functionCall": {"name": "read", "args": {"path": "a"}}}
    result = {"functionResponse": {"name": "read", "response": {"output": output}}}
    body = batch("a", "b")
    [_, item] = body["batch"]["inputConfig"]["requests"]["requests"]
    item["request"]["contents"] += [{"role": "model", "parts": [called]}, {"role": "user", "parts": [result]}]
    return body


async def test_the_results_of_tools_in_a_batch_are_judged() -> None:
    def mask(event: dict[str, Any]) -> dict[str, Any]:
        assert (event["tool_name"], event["tool_input"]) == ("read", {"path": "a"})
        return {"decision": "deny", "reason": REDACTED}

    async with (
        peer(ok(b"{}")) as upstream,
        gateway_before(upstream.url, {"AfterTool": [runs(mask)]}) as url,
    ):
        assert (await post(url, TARGET, with_result(CARD))).status == 200
        sent = json.loads(upstream.heard[0].partition(b"\r\n\r\n")[2])
    assert sent == with_result(REDACTED)


async def test_a_hook_that_stops_at_the_result_of_a_tool_refuses_the_batch() -> None:
    hook = says({"continue": False, "stopReason": "enough"})
    async with peer() as upstream, gateway_before(upstream.url, {"AfterTool": [hook]}) as url:
        answer = await post(url, TARGET, with_result(CARD))
    assert (answer.status, upstream.heard) == (403, [])
    assert answer.error["message"] == "batch.inputConfig.requests.requests[1].request: enough"


@pytest.mark.parametrize(("bypass", "status"), [("flag", 200), ("deny", 403)])
async def test_a_tool_that_ran_past_a_shim_may_refuse_the_batch(bypass: Any, status: int) -> None:
    config = Config(tools=ToolCallSettings(bypass=bypass))
    shim = {**KEY, "x-hookgate-session": "s", "x-hookgate-shim": "tools"}
    async with (
        peer(ok(b"{}")) as upstream,
        gateway_before(upstream.url, {"BeforeModel": [says()]}, config) as url,
    ):
        answer = await post(url, TARGET, with_result("ran"), shim)
    assert (answer.status, len(upstream.heard)) == (status, int(status == 200))


async def test_an_edit_lands_in_its_request() -> None:
    def mask(event: dict[str, Any]) -> dict[str, Any]:
        messages = event["llm_request"]["messages"]
        messages[0]["content"] = messages[0]["content"].replace(CARD, REDACTED)
        return {"hookSpecificOutput": {"llm_request": {"messages": messages}}}

    async with (
        peer(ok(b"{}")) as upstream,
        gateway_before(upstream.url, {"BeforeModel": [runs(mask)]}) as url,
    ):
        await post(url, TARGET, batch("a", f"my {CARD}"))
        sent = json.loads(upstream.heard[0].partition(b"\r\n\r\n")[2])
    [a, b] = sent["batch"]["inputConfig"]["requests"]["requests"]
    assert (a, b["request"]["contents"][0]["parts"]) == (
        batch("a")["batch"]["inputConfig"]["requests"]["requests"][0],
        [{"text": f"my {REDACTED}"}],
    )
    assert b["metadata"] == {"key": f"my {CARD}"}


@pytest.mark.parametrize(("texts", "status"), [(("a", "a"), 200), (("a", "b"), 403)], ids=["one", "two"])
async def test_hooks_may_send_a_batch_to_one_model_only(texts: tuple[str, str], status: int) -> None:
    def route(event: dict[str, Any]) -> dict[str, Any]:
        text = event["llm_request"]["messages"][0]["content"]
        return {"hookSpecificOutput": {"llm_request": {"model": f"model-{text}"}}}

    async with (
        peer(ok(b"{}")) as upstream,
        gateway_before(upstream.url, {"BeforeModel": [runs(route)]}) as url,
    ):
        answer = await post(url, TARGET, batch(*texts))
    sent = [request.partition(b" HTTP")[0].decode() for request in upstream.heard]
    if status == 200:
        assert (answer.status, sent) == (200, [f"POST {TARGET.replace('gemini-2.5-flash', 'model-a')}"])
    else:
        assert (answer.status, sent) == (403, [])
        assert answer.error["message"] == "Hooks chose more than one model for this call: model-a, model-b."


@pytest.mark.parametrize(
    ("body", "code"),
    [
        pytest.param(batch(file_name="files/f-1"), 403, id="requests in a file"),
        pytest.param(batch(fileName="files/f-1"), 403, id="requests in a file, camelCase"),
        pytest.param({"batch": {"inputConfig": {}, "input_config": {}}}, 400, id="two spellings"),
        pytest.param({"contents": [{"parts": [{"text": "hi"}]}]}, 400, id="no batch"),
        pytest.param(
            {"batch": {"inputConfig": {"requests": {"requests": [1]}}}}, 400, id="an item that is none"
        ),
        pytest.param(
            {"batch": {"inputConfig": {"requests": {"requests": [{"request": {"contents": 1}}]}}}},
            400,
            id="a request that is none",
        ),
    ],
)
async def test_what_hooks_cannot_judge_is_refused(body: Any, code: int) -> None:
    async with peer() as upstream, gateway_before(upstream.url, {"BeforeModel": [listens([])]}) as url:
        answer = await post(url, TARGET, body)
    assert (answer.status, upstream.heard) == (code, [])


async def test_a_stopped_session_makes_no_batch() -> None:
    hooks = {"AfterTool": [runs(lambda _: {"continue": False, "stopReason": "enough"})]}
    async with peer() as upstream, gateway_before(upstream.url, hooks) as url:
        fields = {"tool_name": "t", "tool_input": {}, "tool_response": {}}
        await post(url, "/s/s-1/hookgate/v1/events/AfterTool", fields)
        answer = await post(url, f"/s/s-1{TARGET}", batch("a"))
    assert (answer.status, answer.error["message"], upstream.heard) == (403, "enough", [])


async def test_a_model_that_a_hook_chose_for_all_of_a_batch_gets_it() -> None:
    def rename(event: dict[str, Any]) -> dict[str, Any]:
        return {"hookSpecificOutput": {"llm_request": {"model": "gemini-2.5-pro"}}}

    async with (
        peer(ok(b"{}")) as upstream,
        gateway_before(upstream.url, {"BeforeModel": [runs(rename)]}) as url,
    ):
        answer = await post(url, TARGET, batch("a"), {**KEY, "content-type": "text/plain"})
        receipt = await ask(url, "GET", f"/hookgate/v1/receipts/{answer.headers['x-hookgate-receipt']}")
    assert answer.status == 200
    assert b"gemini-2.5-pro:batchGenerateContent" in upstream.heard[0]
    assert upstream.heard[0].lower().count(b"content-type: application/json\r\n") == 1
    assert receipt.json["model"] == "gemini-2.5-pro"


async def test_a_hook_cannot_answer_for_the_model_in_a_batch() -> None:
    hooks = {"BeforeModel": [runs(answer_itself)]}
    async with peer() as upstream, gateway_before(upstream.url, hooks) as url:
        answer = await post(url, TARGET, batch("a"))
    assert (answer.status, upstream.heard) == (403, [])
    assert answer.error["message"] == (
        "batch.inputConfig.requests.requests[0].request: "
        "A hook returned a synthetic answer, which is not possible for batchGenerateContent."
    )


@pytest.mark.parametrize("event", ["BeforeModel", "BeforeToolSelection"])
@pytest.mark.parametrize(
    "verdict", [{"decision": "deny", "reason": REFUSAL}, {"continue": False, "stopReason": REFUSAL}]
)
async def test_a_batch_is_refused_with_the_hooks_reason_after_a_tools_result_too(
    event: str, verdict: dict[str, Any]
) -> None:
    body = batch("a")
    result = {"functionResponse": {"name": "t", "response": {}}}
    [item] = body["batch"]["inputConfig"]["requests"]["requests"]
    item["request"]["contents"].append({"role": "user", "parts": [result]})
    hooks = {event: [runs(lambda _: verdict)]}
    async with peer() as upstream, gateway_before(upstream.url, hooks) as url:
        answer = await post(url, TARGET, body)
    assert (answer.status, upstream.heard) == (403, [])
    assert answer.error["message"] == f"batch.inputConfig.requests.requests[0].request: {REFUSAL}"
    assert answer.error["details"][0]["metadata"]["event"] == event


async def test_a_hook_cannot_answer_for_the_model_to_the_name_of_a_batch() -> None:
    def answer_to_the_name(event: dict[str, Any]) -> dict[str, Any] | None:
        texts = [message["content"] for message in event["llm_request"]["messages"]]
        return answer_itself(event) if texts[0].startswith("d") else None

    hooks = {"BeforeModel": [runs(answer_to_the_name)]}
    async with peer() as upstream, gateway_before(upstream.url, hooks) as url:
        answer = await post(url, TARGET, batch("a"))
    assert (answer.status, upstream.heard) == (403, [])
    assert answer.error["message"].startswith("batch: A hook returned a synthetic answer")


async def test_the_answers_of_a_batch_are_judged_when_it_is_looked_at() -> None:
    hooks = {"AfterModel": [runs(redact)]}
    async with (
        peer(ok(state(f"card {CARD}", "fine"))) as upstream,
        gateway_before(upstream.url, hooks) as url,
    ):
        answer = await ask(url, "GET", STATE)
    inlined = answer.json["response"]["inlinedResponses"]["inlinedResponses"]
    texts = [each["response"]["candidates"][0]["content"]["parts"][0]["text"] for each in inlined]
    assert texts == [f"card {REDACTED}", "fine"]


@pytest.mark.parametrize(
    ("version", "judged"), [("gemini-2.5-pro", True), ("gemini-2.5-flash", False), (None, False), (1, False)]
)
async def test_hooks_for_a_model_judge_the_answers_of_a_batch_that_name_it(
    version: Any, judged: bool
) -> None:
    answer = {**spoken(f"card {CARD}"), **({} if version is None else {"modelVersion": version})}
    body = json.dumps(
        {"response": {"inlinedResponses": {"inlinedResponses": [{"response": answer}]}}}
    ).encode()
    hooks = {"AfterModel": [{**runs(redact), "when": {"models": "*-pro"}}]}
    async with peer(ok(body)) as upstream, gateway_before(upstream.url, hooks) as url:
        received = await ask(url, "GET", STATE)
    assert (REDACTED.encode() in received.body) is judged


async def test_a_batch_whose_answers_no_hook_changes_is_the_upstreams_byte_for_byte() -> None:
    async with (
        peer(ok(state("fine"))) as upstream,
        gateway_before(upstream.url, {"AfterModel": [runs(redact)]}) as url,
    ):
        assert (await ask(url, "GET", STATE)).body == state("fine")


async def test_answers_that_no_hook_judges_pass_unchanged() -> None:
    body = b'{"name": "batches/b-1", "done": true, "response": {"responsesFile": "files/f-1"}}'
    async with (
        peer(ok(body)) as upstream,
        gateway_before(upstream.url, {"BeforeModel": [listens([])]}) as url,
    ):
        assert (await ask(url, "GET", STATE)).body == body


async def test_an_error_about_a_batch_is_no_answer_of_a_model() -> None:
    seen: list[dict[str, Any]] = []
    hooks = {"AfterModel": [listens(seen)]}
    async with (
        peer(response(404, b"no such batch", {})) as upstream,
        gateway_before(upstream.url, hooks) as url,
    ):
        answer = await ask(url, "GET", STATE)
    assert (answer.status, answer.body, seen) == (404, b"no such batch", [])


async def test_an_empty_answer_about_a_batch_passes_as_it_came() -> None:
    async with (
        peer(ok(b"")) as upstream,
        gateway_before(upstream.url, {"AfterModel": [runs(redact)]}) as url,
    ):
        answer = await ask(url, "GET", STATE)
    assert (answer.status, answer.body) == (200, b"")


@pytest.mark.parametrize("event", ["AfterModel", "BeforeTool"])
async def test_answers_in_a_file_are_not_shown(event: str) -> None:
    body = b'{"name": "batches/b-1", "done": true, "response": {"responsesFile": "files/f-1"}}'
    async with (
        peer(ok(body)) as upstream,
        gateway_before(upstream.url, {event: [runs(redact)]}) as url,
    ):
        answer = await ask(url, "GET", STATE)
    assert (answer.status, "in a file" in answer.error["message"]) == (403, True)


async def test_a_hook_cannot_add_to_the_name_and_metadata_of_a_batch() -> None:
    def add_a_turn(event: dict[str, Any]) -> dict[str, Any] | None:
        messages = event["llm_request"]["messages"]
        if messages[0]["content"] != "d":
            return None
        more = [*messages, {"role": "user", "content": "more"}]
        return {"hookSpecificOutput": {"llm_request": {"messages": more}}}

    hooks = {"BeforeModel": [runs(add_a_turn)]}
    async with peer() as upstream, gateway_before(upstream.url, hooks) as url:
        answer = await post(url, TARGET, batch("a"))
    assert (answer.status, upstream.heard) == (403, [])
    assert answer.error["message"].startswith(
        "A hook's edit cannot be sent with batchGenerateContent: batch: expected as many"
    )


def no_rockets_in_answers(event: dict[str, Any]) -> dict[str, Any] | None:
    return {"decision": "deny", "reason": "no"} if "rocket" in json.dumps(event["llm_response"]) else None


async def test_a_denied_answer_of_a_batch_is_replaced_with_the_reason() -> None:
    async with (
        peer(ok(state("a rocket"))) as upstream,
        gateway_before(upstream.url, {"AfterModel": [runs(no_rockets_in_answers)]}) as url,
    ):
        answer = await ask(url, "GET", STATE)
    [item] = answer.json["response"]["inlinedResponses"]["inlinedResponses"]
    assert item["response"]["candidates"][0]["content"]["parts"] == [{"text": "no"}]
    assert b"rocket" not in answer.body


def calling(*names: str) -> bytes:
    """The state of a batch, with an answer for each name that calls the tool of this name."""
    calls = [{"functionCall": {"name": name, "args": {"command": "rm -rf x"}}} for name in names]
    answers = [
        {"response": {"candidates": [{"content": {"role": "model", "parts": [call]}}]}} for call in calls
    ]
    return json.dumps({"response": {"inlinedResponses": {"inlinedResponses": answers}}}).encode()


@pytest.mark.parametrize("target", [STATE, "/v1beta/batches", TARGET])
async def test_tool_calls_in_the_answers_of_a_batch_are_judged(target: str) -> None:
    rule = {"tool": "run_shell_command", "when": {"/command": {"runs": {"program": "rm", "flags": "rf"}}}}
    hook = {"type": "builtin", "builtin": "tools", "options": {"deny": [rule]}}
    data = calling("run_shell_command", "explain_command")
    async with peer(ok(data)) as upstream, gateway_before(upstream.url, {"BeforeTool": [hook]}) as url:
        answer = await (post(url, target, batch("a")) if target == TARGET else ask(url, "GET", target))
    denied, allowed = [
        each["response"]["candidates"][0]["content"]["parts"][0]
        for each in answer.json["response"]["inlinedResponses"]["inlinedResponses"]
    ]
    assert "not allowed here with these arguments" in denied["text"]
    assert allowed["functionCall"]["name"] == "explain_command"


async def test_a_hook_that_stops_at_a_tool_call_replaces_that_answer_of_a_batch() -> None:
    def stop_at_shell(event: dict[str, Any]) -> dict[str, Any]:
        return {"continue": event["tool_name"] != "shell", "stopReason": "enough"}

    data = calling("shell", "weather")
    hooks = {"BeforeTool": [runs(stop_at_shell)]}
    async with peer(ok(data)) as upstream, gateway_before(upstream.url, hooks) as url:
        answer = await ask(url, "GET", STATE)
    assert (b'"text":"enough"' in answer.body, b"weather" in answer.body) == (True, True)
    assert b"shell" not in answer.body


BESIDE: list[dict[str, Any]] = [
    {"name": "batches/b-1", "metadata": {"displayName": f"pay {CARD}"}},
    {"response": {"inlinedResponses": {"inlinedResponses": [{"response": spoken("hi"), "note": CARD}]}}},
    {"response": {"inlinedResponses": {"inlinedResponses": [{"error": {"message": CARD}}]}}},
    {"response": {"text": CARD}},
    {"batches": [{"metadata": {CARD: 1}}, {"response": {"candidates": [], "text": CARD}}]},
]


@pytest.mark.parametrize("body", BESIDE, ids=lambda each: json.dumps(each)[:40])
async def test_texts_beside_the_answers_of_a_batch_are_judged(body: dict[str, Any]) -> None:
    redacts = {"type": "builtin", "builtin": "redact", "options": {"words": {"CARD": [CARD]}}}
    denies = {
        **runs(lambda event: {"decision": "deny"} if CARD in json.dumps(event) else None),
        "view": "body",
    }
    data = json.dumps(body).encode()
    async with peer(ok(data)) as upstream, gateway_before(upstream.url, {"AfterModel": [redacts]}) as url:
        received = await ask(url, "GET", STATE)
    assert received.body.decode() == dumps(json.loads(data.decode().replace(CARD, "[CARD]"))).decode()
    async with peer(ok(data)) as upstream, gateway_before(upstream.url, {"AfterModel": [denies]}) as url:
        received = await ask(url, "GET", STATE)
    assert CARD not in received.body.decode()


async def test_values_beside_the_answers_of_a_batch_are_judged_with_their_names() -> None:
    metadata = {"db_password": "hT7kQ9zLw2Xv8Rn4", "card": 4111111111111111}
    redacts = {"type": "builtin", "builtin": "redact", "options": {"detect": ["credentials", "personal"]}}
    data = json.dumps({"name": "batches/1", "metadata": metadata}).encode()
    async with peer(ok(data)) as upstream, gateway_before(upstream.url, {"AfterModel": [redacts]}) as url:
        received = await ask(url, "GET", STATE)
    assert received.json["metadata"] == {"db_password": "[ASSIGNMENT]", "card": "[CARD]"}


@pytest.mark.parametrize("place", ["alone", "list", "other name"])
async def test_an_answer_is_judged_wherever_it_is_in_the_state_of_a_batch(place: str) -> None:
    answer = spoken("a rocket")
    body = {"alone": answer, "list": {"response": [answer]}, "other name": {"result": answer}}[place]
    data = json.dumps(body).encode()

    def deny(event: dict[str, Any]) -> dict[str, Any] | None:
        return (
            {"decision": "deny", "reason": "no"}
            if "rocket" in event["llm_response"].get("text", "")
            else None
        )

    hooks = {"AfterModel": [runs(deny)]}
    async with peer(ok(data)) as upstream, gateway_before(upstream.url, hooks) as url:
        received = await ask(url, "GET", STATE)
    assert (received.status, b"rocket" in received.body) == (200, False)


@pytest.mark.parametrize("new", [[], {}, "x", {"name": "b", "response": {}, "more": 1}, {"a": {"b": 1}}])
async def test_what_is_beside_the_answers_of_a_batch_keeps_its_structure(new: Any) -> None:
    def edit(event: dict[str, Any]) -> dict[str, Any]:
        raw = event["llm_response"]["raw"]
        return {
            "hookSpecificOutput": {"llm_response": {"raw": {**raw, "batch": new} if "batch" in raw else raw}}
        }

    hooks = {"AfterModel": [{**runs(edit), "view": "body"}]}
    async with peer(ok(state("hi"))) as upstream, gateway_before(upstream.url, hooks) as url:
        answer = await ask(url, "GET", STATE)
    assert (answer.status, "the structure that it had" in answer.error["message"]) == (403, True)


@pytest.mark.parametrize(("target", "body"), [(COUNT, HI), (TARGET, batch("a")), (STATE, None)])
async def test_an_answer_that_breaks_off_is_an_error_of_the_upstream(target: str, body: Any) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
    async with peer(head) as upstream, gateway_before(upstream.url, {"BeforeModel": [says()]}) as url:
        answer = await (ask(url, "GET", target) if body is None else post(url, target, body))
    assert (answer.status, answer.error["status"]) == (502, "UNAVAILABLE")


@pytest.mark.parametrize("target", [STATE, "/v1beta/batches"])
@pytest.mark.parametrize("own", [[], None, [{"content": {"parts": [{"text": "ok"}]}}]])
async def test_an_answer_in_an_answer_is_refused(own: Any, target: str) -> None:
    """Hooks would judge the outer one alone, and clients read the inner ones."""
    body = {**json.loads(calling("run_shell")), "candidates": own}
    body = {"operations": [body]} if target != STATE else body
    async with (
        peer(ok(json.dumps(body).encode())) as upstream,
        gateway_before(upstream.url, {"BeforeTool": [says({"decision": "deny", "reason": "no"})]}) as url,
    ):
        answer = await ask(url, "GET", target, KEY)
    assert (answer.status, answer.error["details"][0]["reason"]) == (502, "UPSTREAM_UNREADABLE")
    assert b"run_shell" not in answer.body


async def test_answers_beyond_the_limit_of_items_are_refused() -> None:
    config = Config.model_validate({"limits": {"items": 100}})
    body = {"other": [{"candidates": []}] * 101}
    async with (
        peer(ok(json.dumps(body).encode())) as upstream,
        gateway_before(upstream.url, {"AfterModel": [says()]}, config) as url,
    ):
        answer = await ask(url, "GET", STATE, KEY)
    assert answer.status == 502
    assert "limits.items" in answer.error["message"]


async def test_a_password_in_the_metadata_of_a_batch_is_found_by_its_name() -> None:
    body = batch("a")
    [item] = body["batch"]["inputConfig"]["requests"]["requests"]
    item["metadata"] = {"db_password": "tr0ub4dor&3xQ9z", "place": "Oslo"}
    hooks = {"BeforeModel": [{"type": "builtin", "builtin": "redact"}]}
    async with peer(ok(b"{}")) as upstream, gateway_before(upstream.url, hooks) as url:
        assert (await post(url, TARGET, body)).status == 200
        sent = json.loads(upstream.heard[0].partition(b"\r\n\r\n")[2])
    [item] = sent["batch"]["inputConfig"]["requests"]["requests"]
    assert item["metadata"] == {"db_password": "[ASSIGNMENT]", "place": "Oslo"}
