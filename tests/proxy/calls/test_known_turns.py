"""Turns that are known from earlier requests: what is made of a request is the same without a memory."""

import json
from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.bodies.generate_content import conversations, requests
from support.gateway.loopback import running_gateway, says
from support.translation.inspect import exact
from support.wire import KEY, SSE, UNARY, post

from hookgate.hooks import SessionContext
from hookgate.hooks.policies.redact.policy import redact_policy
from hookgate.hooks.policy_environment import PolicyEnvironment
from hookgate.proxy.calls.judge import create_call_state
from hookgate.proxy.config import Config
from hookgate.proxy.errors import ApiError
from hookgate.proxy.routes.dialects import ADAPTERS
from hookgate.proxy.routes.dialects.generate_content import check_references, decode_request_body
from hookgate.proxy.routes.table import match
from hookgate.proxy.server import bodies
from hookgate.proxy.server.turn_memory import TurnMemory
from hookgate.translator import BodyError
from hookgate.translator.fields import read_list
from hookgate.translator.known_turns import NO_TURNS, RequestTurns, dumps_with_turns, parse_turns
from hookgate.translator.strictjson import Bounds, dumps, parse

ROUTES = {
    "gemini": match("POST", "/v1beta/models/m:generateContent"),
    "code assist": match("POST", "/v1internal:generateContent"),
}
CHAT, CODE_ASSIST = "/v1beta/openai/chat/completions", "/v1internal:generateContent"
BOUNDS = Bounds(100_000, 500)
POLICIES = [
    {"detect": ["EMAIL"]},
    {"detect": ["EMAIL"], "action": "block"},
    {"detect": ["EMAIL"], "action": "pseudonymise"},
    {"words": {"WORD": ["hi", "ab ab"]}, "action": "hash"},
    {"detect": ["EMAIL"], "scopes": ["prompts", "tool_results"]},
]
USUAL = [
    {"role": "user", "parts": [{"text": "hi"}]},
    {"role": "model", "parts": [{"text": "ab ab", "thought": True}, {"text": "{é}\n"}]},
    {"role": "user", "parts": [{"text": "anna@example.org"}]},
    {"role": "user", "parts": [{"text": "anna@exam"}, {"text": "ple.org"}]},
    {"role": "user", "parts": [{"text": "ben@exam"}]},
    {"role": "user", "parts": [{"text": "ple.org"}]},
    {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"data": "x" * 300, "a_b": None}}}]},
    {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"n": [2.0, {}, "hi"]}}}]},
    {"role": "user", "parts": [{"inlineData": {"mimeType": "a/b", "data": "aGVsbG8="}}]},
    {},
]
STRANGE = [
    {"role": "user", "parts": [{"inlineData": {"mimeType": "a/b", "data": "aGVs bG8="}}]},
    {"role": "user", "parts": [{"inlineData": {"mimeType": "a/b", "data": "aGVsbG8"}}]},
    {"role": "user", "parts": [{"inlineData": {"mimeType": "a/b", "data": "aGVsbG9="}}]},
    {"role": "user", "parts": [{"fileData": {"fileUri": "files/abc"}}]},
    {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"n": [2**64, 1e16]}}}]},
    {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": 1}}]},
    {"role": "us er", "parts": []},
    {"parts": [{"text": 1}]},
    {"parts": [{"text": "a", "thought": 1}]},
    {"parts": [{"inline_data": {}, "inlineData": {}}]},
    {"parts": "a"},
    "a string",
    None,
]
MAIL = {"parts": [{"text": "write to anna@example.org"}]}
TOOLS = [{"functionDeclarations": [{"name": "f", "parameters": {"properties": {"a_b": {}, "aB": {}}}}]}]
FIELDS: list[Any] = [
    {},
    {"generationConfig": {"topK": 2.0}},
    {"systemInstruction": MAIL, "tools": TOOLS, "data": "x" * 300, "n": [1, {}]},
    {"systemInstruction": {"parts": [{"text": "hi"}]}, "tools": TOOLS},
    {"contents": [USUAL[2]]},
    {"systemInstruction": STRANGE[0], "tools": TOOLS},
    {"systemInstruction": STRANGE[2]},
    {"systemInstruction": STRANGE[3], "labels": {"at": "anna@example.org"}},
    {"systemInstruction": MAIL, "system_instruction": MAIL},
    {"n": [2**64, 2.0**64, 1e16], "tools": TOOLS},
    {"tools": [{"fileSearch": {}}]},
    {"tools": [{"functionDeclarations": [{}]}]},
    {"generationConfig": {"tools": []}},
    {"deep": reduce(lambda inner, _: [inner], range(98), 0)},
    {"deep": reduce(lambda inner, _: [inner], range(99), 0)},
    {"n": [0] * 460},
]
COMPACT = {"separators": (",", ":"), "ensure_ascii": False}
EDITS = st.tuples(st.integers(0, 30), st.sampled_from([b"", b"{", b"}", b"]", b",", b'"', b" ", b"0", b"a"]))


def texts_of(body: Any, wrapped: bool, layout: Any) -> bytes:
    whole = {"model": "m", "user_prompt_id": "contents", "request": body} if wrapped else body
    return json.dumps(whole, **layout).encode()


@st.composite
def sent_bodies(draw: st.DrawFn, turns: list[Any]) -> bytes:
    """A request that begins with some of the turns, in some layout, and perhaps damaged."""
    body = draw(st.sampled_from(FIELDS[:4] * 3 + FIELDS))
    contents = [
        *turns[: draw(st.integers(0, len(turns)))],
        *draw(st.lists(st.sampled_from(turns), max_size=1)),
    ]
    first = draw(st.booleans())
    body = {"contents": contents, **body} if first else {**body, "contents": contents}
    layout = draw(st.sampled_from([COMPACT, COMPACT, COMPACT, {}, {"separators": (",", ":")}]))
    data = texts_of(body, draw(st.sampled_from([False, False, True])), layout)
    kind = draw(st.sampled_from([*["whole"] * 6, "twice", "beside", "damaged", "spaced"]))
    again = texts_of({"contents": draw(st.lists(st.sampled_from(turns), max_size=2))}, False, COMPACT)[1:-1]
    match kind:
        case "twice":  # the last one counts
            data = data[:-1] + b"," + again + b"}"
        case "beside":  # of the two lists in an envelope, or of two spellings
            data = b"{" + again + b"," + data[1:].replace(b'"contents"', b'"Contents"', 1)
        case "spaced":
            data = data.replace(b"},{", b"}, {", 1)
        case "damaged":
            at, new = draw(st.integers(0, len(data))), draw(EDITS)
            data = data[:at] + new[1] + data[at + draw(st.integers(0, 2)) :]
    return data


TURNS = st.tuples(
    st.lists(st.sampled_from(USUAL), min_size=1, max_size=4),
    st.sampled_from([[], [], []]) | conversations() | st.lists(st.sampled_from(STRANGE), max_size=2),
    st.lists(st.sampled_from(USUAL), max_size=3),
).map(lambda drawn: [turn for some in drawn for turn in some])


def redacted(policy: Any, body: Any, caller: str, turns: RequestTurns) -> Any:
    state = create_call_state(ROUTES["gemini"], body, generates=True, turns=turns)
    said = policy._judge(
        {"hook_event_name": "BeforeModel", "llm_request": {"model": "m", "raw": body}},
        SessionContext("s", key=caller, call_state=state),
        brief=False,
    )
    return said, state.expected, dict(state.values.get(policy, {}))


def outcome(
    data: bytes, route: str, policy: Any, caller: str, memory: TurnMemory | None
) -> tuple[Any, RequestTurns]:
    """What is made of a request, up to what goes upstream."""
    turns = NO_TURNS
    try:
        if memory is None:
            parsed = parse(data, BOUNDS)
        else:
            parsed, turns = parse_turns(data, memory.find(caller, data), BOUNDS)
        if not isinstance(parsed.value, dict):
            return "no object", turns
        adapter = ADAPTERS[ROUTES[route].dialect]()
        model, body = decode_request_body(adapter, ROUTES[route], parsed.value, turns)
        check_references(body, Config(), adapter.place, turns)
    except BodyError as error:
        return str(error), turns
    except ApiError as error:
        return error.message, turns
    if memory is not None:
        memory.remember(caller, turns.matching(body))
    said, *rest = redacted(policy, body, caller, turns)
    edited = (said or {}).get("hookSpecificOutput", {}).get("llm_request", {}).get("raw", body)
    sent = dumps_with_turns(adapter.encode_request(parsed.value, model, edited), turns)
    return (parsed.count, exact(json.loads(sent)), exact(said), rest), turns


def policies_of(chosen: Sequence[int]) -> list[Any]:
    """One policy for each request. Those with equal options are one object, as between two reloads."""
    environment = PolicyEnvironment(Path("/"))
    made = {number: redact_policy(POLICIES[number], environment) for number in set(chosen)}
    for policy in made.values():
        policy._replacer._key = b"key"
    return [made[number] for number in chosen]


@settings(max_examples=settings().max_examples * 5)
@given(st.data(), TURNS)
def test_what_is_made_of_requests_is_the_same_without_a_memory(data: st.DataObject, turns: list[Any]) -> None:
    """Conversations of two callers that go on, are edited and damaged, under policies that change."""
    memory = TurnMemory(data.draw(st.sampled_from([20_000, 100_000, 2**20])))
    sent = data.draw(st.lists(sent_bodies(turns), min_size=1, max_size=5))
    sent = [*sent, *data.draw(st.permutations(sent))]
    numbers = st.sampled_from(range(len(POLICIES)))
    chosen = data.draw(st.lists(numbers, min_size=len(sent), max_size=len(sent)))
    remembering, fresh = policies_of(chosen), [policies_of([number])[0] for number in chosen]
    for number, text in enumerate(sent):
        caller = data.draw(st.sampled_from(["anna", "ben"]))
        route = "code assist" if b"user_prompt_id" in text else "gemini"
        with_memory, _ = outcome(text, route, remembering[number], caller, memory)
        without, _ = outcome(text, route, fresh[number], caller, None)
        assert with_memory == without


@settings(max_examples=settings().max_examples * 2)
@given(requests(), st.integers(0, 5))
def test_turns_of_a_request_are_known_when_they_are_sent_again(body: Any, more: int) -> None:
    """Otherwise, the law above would hold for a memory that knows nothing."""
    contents = read_list(body, "contents")
    text = texts_of({"contents": contents, **FIELDS[2]}, False, COMPACT)
    memory = TurnMemory()
    policy = policies_of([0])[0]
    made, first = outcome(text, "gemini", policy, "anna", memory)
    added = texts_of({"contents": [*contents, *[USUAL[0]] * more], **FIELDS[2]}, False, COMPACT)
    _, second = outcome(added, "gemini", policy, "anna", memory)
    added = texts_of({"contents": [*contents, *[USUAL[0]] * more, USUAL[1]], **FIELDS[2]}, False, COMPACT)
    _, third = outcome(added, "gemini", policy, "anna", memory)
    _, of_other = outcome(added, "gemini", policy, "ben", memory)
    known = len(first.turns) if isinstance(made, tuple) else 0
    assert second.known == known
    assert third.known_fields == (FIELDS[2] if 0 < known == len(contents) else {})
    assert (of_other.known, of_other.known_fields) == (0, {})


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("fields", FIELDS)
def test_what_is_made_of_fields_is_the_same_in_each_request_of_a_conversation(
    fields: Any, wrapped: bool
) -> None:
    memory, policy, route = TurnMemory(), policies_of([0])[0], "code assist" if wrapped else "gemini"
    for count in range(2, len(USUAL)):
        data = texts_of({"contents": USUAL[:count], **fields}, wrapped, COMPACT)
        with_memory, _ = outcome(data, route, policy, "anna", memory)
        without, _ = outcome(data, route, policies_of([0])[0], "anna", None)
        assert with_memory == without


MORE = dumps(USUAL[0])


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize(
    "between",
    [
        b"," + MORE,
        b", " + MORE,
        b'],"inner":[' + MORE,
        b'],"inner":{"x":[' + MORE,
        b']},"inner":{"x":[' + MORE,
        b'],"contents":[' + MORE,
        b'],"tools":[],"n":[' + MORE,
        b'],"request":{"contents":[' + MORE,
        b"]}" + MORE,
        b",[" + MORE + b"]",
        b"]",
        b",",
        b',"',
        b"",
    ],
)
def test_known_fields_belong_to_the_object_that_they_are_in(between: bytes, wrapped: bool) -> None:
    """What stands between known turns and known fields may end the list, and begin others."""
    memory, policy = TurnMemory(), policies_of([0])[0]
    route = "code assist" if wrapped else "gemini"
    turns = [USUAL[0], USUAL[1], USUAL[2]]
    for count in (2, 3):
        _, found = outcome(
            texts_of({"contents": turns[:count], **FIELDS[3]}, wrapped, COMPACT), route, policy, "a", memory
        )
    assert found.fields is not None
    whole = texts_of({"contents": turns, **FIELDS[3]}, wrapped, COMPACT)
    crafted = whole.replace(found.fields.tail, between + found.fields.tail)
    assert memory.find("a", crafted).fields is not None
    with_memory, _ = outcome(crafted, route, policy, "a", memory)
    without, _ = outcome(crafted, route, policies_of([0])[0], "a", None)
    assert with_memory == without


# ---- through the gateway


def agent_turns(count: int) -> list[dict[str, Any]]:
    """Turns that are long enough to be remembered."""
    return [
        {"role": ("user", "model")[number % 2], "parts": [{"text": f"{number} says hi. " * 200}]}
        for number in range(count)
    ]


@pytest.mark.parametrize("target", [UNARY, SSE])
async def test_only_new_turns_of_a_conversation_are_parsed(target: str, monkeypatch: Any) -> None:
    known: list[int] = []

    def noted(data: bytes, turns: Any, bounds: Bounds) -> Any:
        known.append((len(turns.turns), turns.fields is not None))
        return parse_turns(data, turns, bounds)

    monkeypatch.setattr(bodies, "parse_turns", noted)
    async with running_gateway({"BeforeModel": [says()]}) as gateway:
        for count, most in ((5, 1), (7, 1), (9, 1), (7, 1), (9, 2)):
            body = orjson.dumps({"contents": agent_turns(count), "generationConfig": {"topK": most}})
            assert (await post(gateway.url, target, body, KEY)).status == 200
            assert gateway.recorded[-1].body == json.loads(body)
        await post(gateway.url, target, body, {"x-goog-api-key": "another"})
    assert known == [(0, False), (5, False), (7, True), (7, True), (9, False), (0, False)]


async def test_turns_that_another_dialect_has_not_checked_are_not_known() -> None:
    """A field of this name may be anything there, and would otherwise count as checked here."""
    bad = {"role": "user", "parts": [{"text": 1}, {"text": "x" * 9000}]}
    chat = {"contents": [bad], "model": "gemini", "messages": [{"role": "user", "content": "hi"}]}
    envelope = {"contents": [bad], "model": "gemini", "request": {"contents": agent_turns(5)}}
    async with running_gateway({"BeforeModel": [says()]}) as gateway:
        for target, body in ((CHAT, chat), (CODE_ASSIST, envelope)):
            await post(gateway.url, target, orjson.dumps(body), KEY)
            answer = await post(gateway.url, UNARY, orjson.dumps({"contents": [bad]}), KEY)
            assert answer.status == 400
            assert "contents[0].parts[0].text" in answer.error["message"]


async def test_hooks_that_edit_a_known_turn_do_not_edit_it_for_later_calls() -> None:
    secret = {"role": "user", "parts": [{"text": "write to anna@example.org " * 400}]}
    hook = {"type": "builtin", "name": "mail", "builtin": "redact", "options": {"detect": ["EMAIL"]}}
    async with running_gateway({"BeforeModel": [hook]}) as gateway:
        for _ in range(3):
            await post(gateway.url, UNARY, orjson.dumps({"contents": [secret]}), KEY)
            assert "[EMAIL]" in gateway.recorded[-1].body["contents"][0]["parts"][0]["text"]
            assert "example" not in json.dumps(gateway.recorded[-1].body)
