"""Pseudonyms there and back: what an agent writes is whole, and JSON stays JSON, in every dialect."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from aiohttp import web
from support.bodies import chat, interactions, responses
from support.bodies.interactions import events_of
from support.gateway.loopback import gateway_before
from support.wire import KEY, SSE, UNARY, Answer, ok, peer, post, prompt, spoken
from support.wire import sse as generated_sse

from hookgate.proxy.app import serve_on

Json = dict[str, Any]
PSEUDONYM = re.compile(r"HG_[A-Z0-9_]+_[0-9a-f]{16}")
PEM = f"-----BEGIN PRIVATE KEY-----\n{'Ab1+' * 16}\n{'xY9/' * 16}\n{'Ab1+' * 7}==\n-----END PRIVATE KEY-----"
NAME = 'Blue "Heron" \\ é'
MAIL = "anna.berg@example.org"
CARD = "4111 1111 1111 1111"
SAID = f"Use {NAME}, {MAIL} and {CARD} with\n{PEM}\nplease."
SECRETS = (NAME, MAIL, CARD, PEM)

OPTIONS = {"detect": ["credentials", "personal"], "action": "pseudonymise", "words": {"CODENAME": [NAME]}}
HOOKS = {"BeforeModel": [{"type": "builtin", "builtin": "redact", "options": OPTIONS}]}


def part_event(part: Json) -> Json:
    return {"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]}


def generated_call(told: str, size: int) -> bytes:
    """A call with arguments in pieces, those of two values alternating."""
    pieces = [
        {"jsonPath": path, "stringValue": piece, "willContinue": True}
        for piece in in_pieces(told, size)
        for path in ("$.file.text", "$.list[0]")
    ]
    begun = part_event({"functionCall": {"name": "write", "willContinue": True}})
    goes_on = [part_event({"functionCall": {"partialArgs": [each], "willContinue": True}}) for each in pieces]
    return b"".join(generated_sse(begun, *goes_on, part_event({"functionCall": {}})))


def generated_arguments(answer: Answer) -> Json:
    told = (part for event in answer.events for part in event["candidates"][0]["content"]["parts"])
    [found] = [part["functionCall"]["args"] for part in told if "functionCall" in part]
    arguments: Json = found
    return arguments


def arguments_of(told: str) -> str:
    return json.dumps({"file": {"text": told}, "list": [told]})


def interaction_call(told: str, size: int) -> bytes:
    pieces = in_pieces(arguments_of(told), size)
    return interactions.sse(
        [interactions.CREATED, *interactions.called(pieces), interactions.completed("requires_action")]
    )


def interaction_arguments(answer: Answer) -> Json:
    deltas = (event.get("delta", {}) for event in events_of(answer))
    found: Json = json.loads("".join(each.get("arguments", "") for each in deltas))
    return found


def chat_call(told: str, size: int) -> bytes:
    return chat.sse([*chat.called(in_pieces(arguments_of(told), size)), chat.ended("tool_calls")])


def chat_arguments(answer: Answer) -> Json:
    calls = [
        call for event in events_of(answer) for call in event["choices"][0]["delta"].get("tool_calls") or ()
    ]
    found: Json = json.loads("".join(call["function"].get("arguments", "") for call in calls))
    return found


def response_call(told: str, size: int) -> bytes:
    return responses.sse(responses.whole(responses.called(in_pieces(arguments_of(told), size))))


def response_arguments(answer: Answer) -> Json:
    events = events_of(answer)
    deltas = "".join(e["delta"] for e in events if e["type"] == "response.function_call_arguments.delta")
    [done] = [e["arguments"] for e in events if e["type"] == "response.function_call_arguments.done"]
    [item] = [e["item"]["arguments"] for e in events if e["type"] == "response.output_item.done"]
    [whole] = [e["response"]["output"][0] for e in events if e["type"] == "response.completed"]
    found: Json = json.loads(deltas)
    assert found == json.loads(done) == json.loads(item) == json.loads(whole["arguments"])
    return found


def in_pieces(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


@dataclass(frozen=True)
class Dialect:
    """How a client asks, where it says something, how a model calls a function, and what the client reads."""

    target: str
    body: Json
    said: Callable[[Json], str]
    call: Callable[[str, int], bytes]
    arguments: Callable[[Answer], Json]


DIALECTS = {
    "generateContent": Dialect(
        SSE,
        prompt(SAID),
        lambda heard: heard["contents"][0]["parts"][0]["text"],
        generated_call,
        generated_arguments,
    ),
    "interactions": Dialect(
        interactions.PATH,
        {"model": "m", "input": SAID, "stream": True},
        lambda heard: heard["input"],
        interaction_call,
        interaction_arguments,
    ),
    "chat completions": Dialect(
        "/v1beta/openai/chat/completions",
        {"model": "m", "stream": True, "messages": [{"role": "user", "content": SAID}]},
        lambda heard: heard["messages"][0]["content"],
        chat_call,
        chat_arguments,
    ),
    "responses": Dialect(
        "/v1beta/openai/responses",
        {"model": "m", "stream": True, "store": False, "input": SAID},
        lambda heard: heard["input"],
        response_call,
        response_arguments,
    ),
}


@pytest.mark.parametrize("name", [pytest.param(name, id=name) for name in DIALECTS])
@pytest.mark.parametrize("size", [1, 2, 5, 17, 10_000])
async def test_what_a_call_repeats_in_pieces_arrives_whole(name: str, size: int) -> None:
    dialect, heard = DIALECTS[name], list[str]()

    async def model(request: web.BaseRequest) -> web.StreamResponse:
        heard.append(dialect.said(await request.json()))
        data = dialect.call(heard[-1], size)
        return web.Response(body=data, headers={"Content-Type": "text/event-stream"})

    async with serve_on(model, "127.0.0.1", 0) as upstream, gateway_before(upstream, HOOKS) as url:
        answer = await post(url, dialect.target, dialect.body, KEY)
    assert len(PSEUDONYM.findall(heard[0])) == len(SECRETS)
    assert [secret for secret in SECRETS if secret in heard[0]] == []
    assert dialect.arguments(answer) == {"file": {"text": SAID}, "list": [SAID]}


# ---- answers in JSON

MASKING = {"type": "builtin", "builtin": "redact", "options": {"detect": ["credentials", "personal"]}}
JSON_TEXT = json.dumps(
    {"card": 4111111111111111, "cards": [378282246310005, 1], "to": f'"{MAIL}" \\', "n": {"ssn": 460899847}}
)
MASKED_JSON = {"card": "[CARD]", "cards": ["[CARD]", 1], "to": '"[EMAIL]" \\', "n": {"ssn": "[US_SSN]"}}
JSON_REQUEST = {**prompt("hi"), "generationConfig": {"responseMimeType": "application/json"}}


def text_of(answer: Answer) -> str:
    events = [answer.json] if "json" in answer.headers["content-type"] else answer.events
    parts = [part for event in events for each in event["candidates"] for part in each["content"]["parts"]]
    return "".join(part["text"] for part in parts)


async def test_a_whole_answer_in_json_stays_json_if_numbers_are_masked() -> None:
    said = ok(json.dumps(spoken(JSON_TEXT, finishReason="STOP")).encode())
    async with peer(said) as upstream, gateway_before(upstream.url, {"AfterModel": [MASKING]}) as url:
        answer = await post(url, UNARY, JSON_REQUEST, KEY)
    assert json.loads(text_of(answer)) == MASKED_JSON


@pytest.mark.parametrize("size", [1, 2, 3, 11, 40])
async def test_a_streamed_answer_in_json_stays_json_in_every_split(size: int) -> None:
    events = [*map(spoken, in_pieces(JSON_TEXT, size)), spoken("", finishReason="STOP")]
    said = ok(b"".join(generated_sse(*events)), "text/event-stream")
    async with peer(said) as upstream, gateway_before(upstream.url, {"AfterModel": [MASKING]}) as url:
        answer = await post(url, SSE, JSON_REQUEST, KEY)
    assert json.loads(text_of(answer)) == MASKED_JSON


async def test_a_chat_completion_in_json_stays_json() -> None:
    chunks = [*(chat.text_chunk(piece) for piece in in_pieces(JSON_TEXT, 7)), chat.ended()]
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
    body["response_format"] = {"type": "json_object"}
    said = ok(chat.sse(chunks), "text/event-stream")
    async with peer(said) as upstream, gateway_before(upstream.url, {"AfterModel": [MASKING]}) as url:
        answer = await post(url, "/v1beta/openai/chat/completions", body, KEY)
    deltas = [event["choices"][0]["delta"] for event in events_of(answer)]
    assert json.loads("".join(delta.get("content") or "" for delta in deltas)) == MASKED_JSON


async def test_digits_in_an_answer_that_is_not_json_get_no_quotes() -> None:
    said = ok(json.dumps(spoken("pay 4111111111111111 now", finishReason="STOP")).encode())
    async with peer(said) as upstream, gateway_before(upstream.url, {"AfterModel": [MASKING]}) as url:
        answer = await post(url, UNARY, prompt("hi"), KEY)
    assert text_of(answer) == "pay [CARD] now"


@pytest.mark.parametrize("target", [pytest.param(UNARY, id="whole"), pytest.param(SSE, id="events")])
@pytest.mark.parametrize("hooks", [["BeforeModel"], ["BeforeModel", "AfterModel"]], ids=["before", "both"])
async def test_originals_in_an_answer_in_json_are_escaped(target: str, hooks: list[str]) -> None:
    [policy] = HOOKS["BeforeModel"]

    async def model(request: web.BaseRequest) -> web.StreamResponse:
        told = (await request.json())["contents"][0]["parts"][0]["text"]
        text = json.dumps({"said": told, "own": [MAIL, PEM]})
        if target == UNARY:
            return web.json_response(spoken(text, finishReason="STOP"))
        data = b"".join(generated_sse(*map(spoken, in_pieces(text, 5)), spoken("", finishReason="STOP")))
        return web.Response(body=data, headers={"Content-Type": "text/event-stream"})

    request = JSON_REQUEST | prompt(SAID)
    async with (
        serve_on(model, "127.0.0.1", 0) as upstream,
        gateway_before(upstream, {event: [policy] for event in hooks}) as url,
    ):
        answer = await post(url, target, request, KEY)
    assert json.loads(text_of(answer)) == {"said": SAID, "own": [MAIL, PEM]}


# ---- citations

CITED = f"Größe für {MAIL} – Spanien gewann 2024. Ende ü."
SENTENCE = "Spanien gewann 2024."


def citing(text: str, cited: str) -> Json:
    """Return fields of a candidate that cite a part of a text, in bytes of UTF-8, as the API defines."""
    start = text.encode().index(cited.encode())
    place = {"startIndex": start, "endIndex": start + len(cited.encode())}
    support = {"segment": {**place, "text": cited}, "groundingChunkIndices": [0]}
    return {
        "groundingMetadata": {"groundingSupports": [support]},
        "citationMetadata": {"citationSources": [{**place, "uri": "https://example.org"}]},
    }


def cited_in(answer: Answer) -> tuple[str, list[str]]:
    """Return the text, and what its citations refer to."""
    events = [answer.json] if "json" in answer.headers["content-type"] else answer.events
    shown = text_of(answer).encode()
    places = []
    for event in events:
        [candidate] = event["candidates"]
        supports = candidate.get("groundingMetadata", {}).get("groundingSupports", [])
        places += [support["segment"] for support in supports]
        places += candidate.get("citationMetadata", {}).get("citationSources", [])
    spans = [(place["startIndex"], place["endIndex"]) for place in places if "endIndex" in place]
    return shown.decode(), [shown[first:last].decode() for first, last in spans]


@pytest.mark.parametrize("target", [pytest.param(UNARY, id="whole"), pytest.param(SSE, id="events")])
async def test_citations_refer_to_the_text_with_the_originals(target: str) -> None:
    async def model(request: web.BaseRequest) -> web.StreamResponse:
        told = (await request.json())["contents"][0]["parts"][0]["text"]
        cites = citing(told, SENTENCE)
        if target == UNARY:
            return web.json_response(spoken(told, finishReason="STOP", **cites))
        end = spoken("", finishReason="STOP", **cites)
        data = b"".join(generated_sse(*map(spoken, in_pieces(told, 5)), end))
        return web.Response(body=data, headers={"Content-Type": "text/event-stream"})

    async with serve_on(model, "127.0.0.1", 0) as upstream, gateway_before(upstream, HOOKS) as url:
        answer = await post(url, target, prompt(CITED), KEY)
    assert cited_in(answer) == (CITED, [SENTENCE, SENTENCE])


@pytest.mark.parametrize("target", [pytest.param(UNARY, id="whole"), pytest.param(SSE, id="events")])
@pytest.mark.parametrize(
    ("cited", "expected"),
    [
        pytest.param(SENTENCE, SENTENCE, id="after the mask"),
        pytest.param("Größe für", "Größe für", id="before the mask"),
        pytest.param(f"für {MAIL} – Spanien", "für [EMAIL] – Spanien", id="around the mask"),
        pytest.param(MAIL, "[EMAIL]", id="the mask"),
        pytest.param(f"{MAIL} – Spanien", "[EMAIL] – Spanien", id="from the mask on"),
    ],
)
async def test_citations_follow_the_masked_text(target: str, cited: str, expected: str) -> None:
    cites = citing(CITED, cited)
    whole = json.dumps(spoken(CITED, finishReason="STOP", **cites)).encode()
    events = [*map(spoken, in_pieces(CITED, 6)), spoken("", finishReason="STOP", **cites)]
    said = ok(whole) if target == UNARY else ok(b"".join(generated_sse(*events)), "text/event-stream")
    async with peer(said) as upstream, gateway_before(upstream.url, {"AfterModel": [MASKING]}) as url:
        answer = await post(url, target, prompt("hi"), KEY)
    assert cited_in(answer) == (CITED.replace(MAIL, "[EMAIL]"), [expected, expected])
    assert MAIL not in str(answer.body.decode())


async def test_a_citation_of_a_part_of_what_is_masked_shows_nothing_of_it() -> None:
    cites = citing(CITED, "berg@example")
    said = ok(json.dumps(spoken(CITED, finishReason="STOP", **cites)).encode())
    async with peer(said) as upstream, gateway_before(upstream.url, {"AfterModel": [MASKING]}) as url:
        answer = await post(url, UNARY, prompt("hi"), KEY)
    text, cited = cited_in(answer)
    assert "berg@" not in answer.body.decode()
    assert all(each in text for each in cited)
