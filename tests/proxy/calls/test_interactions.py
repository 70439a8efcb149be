"""The Interactions API at a whole gateway: what crosses the wire, and what does not."""

import json
import threading
import types as python_types
from base64 import b64encode
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest
from pydantic import BaseModel
from support.bodies.interactions import (
    ANSWER,
    CREATED,
    HI,
    PATH,
    TEXT_STEP,
    Json,
    called,
    completed,
    delta,
    events_of,
    sse,
    started,
    stopped,
    streamed,
    text,
    text_of,
)
from support.bodies.planting import SECRET
from support.gateway.dialects import BOTH, REDACT
from support.gateway.loopback import gateway_before, listens, running_gateway, runs, says
from support.hooks.policies import CANNED, answer_itself
from support.wire import STREAM_HEAD, ok, peer, post

from hookgate.proxy.config import Config
from hookgate.proxy.routes.dialects.interactions import Interactions
from hookgate.proxy.server.bodies import SMALL_BODY

ALLOWS_ALL = Config.model_validate({"routes": {"files": "forward", "unhooked": ["interactions"]}})


# ---- the request


async def test_a_large_body_is_assembled_outside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    where, close = [], Interactions.encode_request

    def noted(self: Interactions, *args: Any) -> Json:
        where.append(threading.current_thread() is threading.main_thread())
        return close(self, *args)

    monkeypatch.setattr(Interactions, "encode_request", noted)
    async with running_gateway({"BeforeModel": [says()]}) as gateway:
        for size in (10, SMALL_BODY):
            assert (await post(gateway.url, PATH, {**HI, "input": "a" * size})).status == 200
    assert where == [True, False]


async def test_a_hook_sees_that_it_does_not_know_the_history() -> None:
    seen: list[Json] = []
    async with running_gateway({"BeforeModel": [listens(seen)]}) as gateway:
        await post(gateway.url, PATH, {**HI, "previous_interaction_id": "v1_0"})
        await post(gateway.url, PATH, HI)
    shown = [event["llm_request"] for event in seen]
    assert [(each.get("history"), each.get("previousInteractionId")) for each in shown] == [
        ("unknown", "v1_0"),
        (None, None),
    ]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("agent", "deep-research"),
        ("environment", "remote"),
        ("environment", {"type": "remote", "mode": "self_hosted", "custom_config": {"image": "a"}}),
        ("environment", {"type": "remote", "mode": "not_known_yet"}),
        ("webhook_config", {"url": "https://example.org"}),
        ("webhookConfig", {"url": "https://example.org"}),
        ("input", [{"type": "document", "uri": "gs://b/f.pdf"}]),
        ("input", [{"type": "function_result", "result": [{"type": "image", "uri": "gs://b/i.png"}]}]),
        ("tools", [{"type": "file_search", "file_search_store_names": ["fileSearchStores/1"]}]),
    ],
)
async def test_what_hooks_cannot_judge_is_refused_by_its_name(field: str, value: Any) -> None:
    body = {key: item for key, item in HI.items() if field != "agent" or key != "model"}
    async with running_gateway({"BeforeModel": [listens([])]}) as gateway:
        answer = await post(gateway.url, PATH, {**body, field: value})
    assert answer.status == 403
    assert answer.error["details"][0]["reason"] == "ROUTE_NOT_ALLOWED"
    assert not gateway.recorded


async def test_an_operator_may_allow_agents_but_no_webhook() -> None:
    seen: list[Json] = []
    body = {"agent": "deep-research", "input": "hi", "background": True}
    hooks = {"BeforeModel": [listens(seen)]}
    async with (
        peer(ok(json.dumps(ANSWER).encode())) as upstream,
        gateway_before(upstream.url, hooks, ALLOWS_ALL) as url,
    ):
        answers = [
            await post(url, PATH, body),
            await post(url, PATH, {**body, "webhook_config": {"url": "x"}}),
        ]
    assert [answer.status for answer in answers] == [200, 403]
    assert seen[0]["llm_request"]["model"] == "deep-research"
    assert len(upstream.heard) == 1


async def test_an_answer_in_place_of_a_refused_one_names_the_model_that_a_hook_chose() -> None:
    hooks = {
        "BeforeModel": [runs(lambda _: {"hookSpecificOutput": {"llm_request": {"model": "chosen"}}})],
        "AfterModel": [runs(lambda _: {"continue": False, "stopReason": "enough"})],
    }
    async with running_gateway(hooks) as gateway:
        answer = await post(gateway.url, PATH, HI)
    assert (answer.json["model"], answer.json["steps"][0]["content"][0]["text"]) == ("chosen", "enough")


# ---- answers in the model's place


async def test_a_hook_answers_itself_whole_and_streamed() -> None:
    async with running_gateway({"BeforeModel": [runs(answer_itself)]}) as gateway:
        whole, stream = [await post(gateway.url, PATH, {**HI, "stream": stream}) for stream in (False, True)]
    assert whole.json["steps"] == [{"type": "model_output", "content": [{"type": "text", "text": CANNED}]}]
    assert text_of(stream) == CANNED
    assert stream.body.endswith(b"event: done\ndata: [DONE]\n\n")
    assert not gateway.recorded


# ---- the answer


@pytest.mark.parametrize("cut", range(0, len(SECRET) + 1, 3))
async def test_a_secret_is_masked_at_every_cut_of_text_thoughts_and_arguments(cut: int) -> None:
    thoughts = [
        {"index": 0, "event_type": "step.delta", "delta": {"type": "thought_summary", "content": content}}
        for content in ({"type": "text", "text": SECRET[:cut]}, {"type": "text", "text": f"{SECRET[cut:]} "})
    ]
    arguments = json.dumps({"key": SECRET})
    events = [
        *(CREATED, started({"type": "thought"}), *thoughts, stopped()),
        *(started(TEXT_STEP, 1), delta(f"It is {SECRET[:cut]}", 1), delta(f"{SECRET[cut:]}.", 1), stopped(1)),
        *called([arguments[: cut + 2], arguments[cut + 2 :]], 2),
        completed("requires_action", steps=[{"type": "model_output", "content": [text(SECRET)]}]),
    ]
    async with peer(*streamed(events)) as upstream, gateway_before(upstream.url, BOTH) as url:
        answer = await post(url, PATH, {**HI, "stream": True})
    whole = json.dumps(events_of(answer))
    assert SECRET[:8] not in whole.replace(SECRET[:cut] if cut < 8 else "", "")
    assert text_of(answer) == "It is [AWS_ACCESS_KEY]."
    assert whole.count("[AWS_ACCESS_KEY]") == 3


def no_end(event: Json) -> Json | None:
    """AfterModel: deny an answer that speaks of the end."""
    said = "".join("".join(one["content"]["parts"]) for one in event["llm_response"]["candidates"])
    return {"decision": "deny", "reason": "not this"} if "end" in said else None


async def test_a_denial_in_the_middle_of_a_stream_is_a_last_step_with_the_reason() -> None:
    events = [CREATED, started(TEXT_STEP), delta("begin "), delta("end"), stopped(), completed()]
    data = sse(events)
    at = data.index(b"end")
    split = data.rindex(b"event:", 0, at)
    hooks = {"AfterModel": [runs(no_end, stream="event")]}
    async with (
        peer(STREAM_HEAD, data[:split], 0.2, data[split:]) as upstream,
        gateway_before(upstream.url, hooks) as url,
    ):
        answer = await post(url, PATH, {**HI, "stream": True})
    sent = events_of(answer)
    assert sent[:3] == events[:3]
    assert sent[3:] == [
        stopped(),
        *(started(TEXT_STEP, 1), delta("not this", 1), stopped(1)),
        {
            **completed("incomplete"),
            "interaction": {**completed("incomplete")["interaction"], "object": "interaction"},
        },
    ]
    assert b"end" not in answer.body


# ---- every field of the API's own types


def planted(kind: Any, depth: int = 0) -> list[Any]:
    """Values of a type of the SDK with the secret in every string: one for each variant."""
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if hasattr(kind, "__value__"):
        return planted(kind.__value__, depth)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, python_types.UnionType):
        found = [value for each in arguments if each is not type(None) for value in planted(each, depth)]
        return found or [None]
    if origin is Literal:
        return [arguments[0]]
    if origin is list:
        return [[value for value in planted(arguments[0], depth) if value is not None]]
    if origin is dict or kind is dict:
        return [{"planted": SECRET}]
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return _planted_models(kind, depth)
    return {str: [SECRET], bool: [False], int: [1], float: [0.5]}.get(kind, [SECRET])


BYTES = {"data", "signature"}
"""Fields of bytes in base64, which are redacted if they are text."""

ENCODED = b64encode(f"the key is {SECRET}, as you know".encode()).decode()
LEFT_OUT = {
    "continuation_token",
    "model",
    "agent",
    "environment",
    "webhook_config",
    "stream",
    "background",
    "store",
    "output_text",
}


def _planted_models(kind: type[BaseModel], depth: int) -> list[Json]:
    """One object for each variant of each field; the other fields have their first one."""
    if "is_unknown" in kind.model_fields or depth > 5:
        return []
    fields = {
        field.alias or name: [ENCODED] if name in BYTES else planted(field.annotation, depth + 1)
        for name, field in kind.model_fields.items()
        if name not in LEFT_OUT
    }
    fields = {name: values for name, values in fields.items() if values}
    first = {name: values[0] for name, values in fields.items()}
    others = [{**first, name: value} for name, values in fields.items() for value in values[1:]]
    return [first, *others] if depth < 2 else [first]


async def test_a_secret_in_any_field_of_a_request_does_not_reach_the_upstream() -> None:
    from google.genai._gaos.types.interactions import CreateModelInteraction  # noqa: PLC0415  # takes a second

    bodies = [{**HI, **body} for body in planted(CreateModelInteraction)]
    assert len(bodies) > 10
    async with running_gateway(BOTH, config=ALLOWS_ALL) as gateway:
        statuses = [(await post(gateway.url, PATH, body)).status for body in bodies]
    refused = [body for body, status in zip(bodies, statuses, strict=True) if status == 403]
    assert refused == []
    assert len(gateway.recorded) > len(bodies) / 2
    sent = [json.dumps(request.body) for request in gateway.recorded]
    assert [body for body in sent if SECRET in body or ENCODED in body] == []


async def test_a_secret_in_any_field_of_an_answer_does_not_reach_the_client() -> None:
    from google.genai._gaos.types.interactions import Interaction, InteractionSSEEvent  # noqa: PLC0415  # takes a second

    bodies = [{**body, "status": "completed"} for body in planted(Interaction)]
    assert len(bodies) > 10
    for body in bodies:
        async with (
            peer(ok(json.dumps(body).encode())) as upstream,
            gateway_before(upstream.url, {"AfterModel": [REDACT]}) as url,
        ):
            answer = await post(url, PATH, HI)
        assert SECRET.encode() not in answer.body
        users = ("user_input", "function_result")
        if any(step["type"] in users for step in body["steps"]):  # the request does not have them
            assert answer.status == 502
            continue
        assert answer.status == 200, answer.body
        said = [step for step in answer.json["steps"] if step["type"] not in users]
        assert ENCODED not in json.dumps(said)
    events = [event for event in planted(InteractionSSEEvent) if event["event_type"] != "error"]
    assert len(events) > 20
    for event in events:
        if event.get("step", {}).get("type") == "function_call":
            event["step"]["arguments"] = {"planted": SECRET}
        after = [stopped()] if event["event_type"] == "step.start" else []
        if event.get("delta", {}).get("type") == "arguments_delta":
            continue  # a piece of JSON, as above
        before = [started({"type": "model_output"})] if event["event_type"] == "step.delta" else []
        stream = streamed([CREATED, *before, {**event, "index": 0}, *after])
        async with (
            peer(*stream) as upstream,
            gateway_before(upstream.url, {"AfterModel": [REDACT]}) as url,
        ):
            answer = await post(url, PATH, {**HI, "stream": True})
        assert answer.status == 200, answer.body
        assert SECRET.encode() not in answer.body
        assert ENCODED.encode() not in answer.body
        assert b'"event_type":"error"' not in answer.body, answer.body
