"""Live sessions: text in several messages is judged as one, whatever kinds of messages they are."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import WSMsgType
from support.gateway.live import (
    END,
    MODEL,
    REDACT,
    SETUP,
    SPEECH,
    ScriptedModel,
    Session,
    client_text,
    session,
    written,
)
from support.gateway.loopback import listens, runs
from support.hooks.policies import CARD, REFUSAL

Json = dict[str, Any]
FIRST, SECOND = CARD[:9], CARD[9:]


def typed(text: str) -> Json:
    return {"realtimeInput": {"text": text}}


def typed_in_snake_case(text: str) -> Json:
    return {"realtime_input": {"text": text}}


def begun(text: str) -> Json:
    return {"clientContent": {"turns": [{"role": "user", "parts": [{"text": text}]}]}}


def begun_in_snake_case(text: str) -> Json:
    return {"client_content": {"turns": {"parts": {"text": text}}, "turn_complete": False}}


def beside_a_result(text: str) -> Json:
    result = {"functionResponse": {"name": "f", "response": {}}}
    return {"clientContent": {"turns": [{"parts": [result]}, {"parts": [{"text": text}]}]}}


def thought(text: str) -> Json:
    return {"clientContent": {"turns": [{"role": "user", "parts": [{"text": text, "thought": True}]}]}}


def as_the_model(text: str) -> Json:
    return {"clientContent": {"turns": [{"role": "model", "parts": [{"text": text}]}]}}


FORMS = [
    typed,
    typed_in_snake_case,
    begun,
    begun_in_snake_case,
    client_text,
    beside_a_result,
    thought,
    as_the_model,
]


def no_rockets_in_a_message(event: Json) -> Json | None:
    texts = [message["content"] for message in event["llm_request"]["messages"]]
    return {"decision": "deny", "reason": REFUSAL} if any("rocket" in text for text in texts) else None


@pytest.mark.parametrize(("first", "second"), [*zip(FORMS, [*FORMS[3:], *FORMS[:3]], strict=True)])
async def test_a_phrase_in_two_messages_of_the_client_is_denied(first: Any, second: Any) -> None:
    model = ScriptedModel({})
    async with session(model, {"BeforeModel": [runs(no_rockets_in_a_message)]}) as client:
        await client.tell(first("a roc"), second("ket"))
        end = await client.socket.receive()
    assert (end.type, end.data, end.extra) == (WSMsgType.CLOSE, 1008, REFUSAL)
    assert model.received[1:] in ([first("a roc")], [])


@pytest.mark.parametrize("second", FORMS)
async def test_the_second_part_of_a_secret_is_removed(second: Any) -> None:
    model = ScriptedModel({"clientContent": [END], "realtimeInput": [END]})
    async with session(model, {"BeforeModel": [REDACT]}) as client:
        await client.tell(typed(f"pay {FIRST}"))
        await client.hear()
        await client.tell(second(f"{SECOND} and {CARD}"))
        await client.hear()
    first, then = model.received[1:]
    assert first == typed(f"pay {FIRST}")
    assert '": " and [CARD]"' in json.dumps(then)


async def test_a_phrase_is_denied_although_the_model_has_answered_in_between() -> None:
    """The server may have read both messages before it answered."""
    model = ScriptedModel({"realtimeInput": [*written("Yes?"), END]})
    async with session(model, {"BeforeModel": [runs(no_rockets_in_a_message)]}) as client:
        await client.tell(typed("a roc"))
        await client.hear()
        await client.tell(typed("ket"))
        assert (await client.socket.receive()).extra == REFUSAL


async def test_a_phrase_that_is_spoken_and_written_is_denied() -> None:
    heard = {"serverContent": {"inputTranscription": {"text": "a roc"}}}
    model = ScriptedModel({"realtimeInput": [heard, *written("Yes?"), END]})
    audio = {"realtimeInput": {"audio": {"mimeType": "audio/pcm", "data": SPEECH}}}
    async with session(model, {"BeforeModel": [runs(no_rockets_in_a_message)]}) as client:
        await client.tell(audio)
        await client.hear()
        await client.tell(client_text("ket"))
        assert (await client.socket.receive()).extra == REFUSAL


async def test_hooks_see_the_latest_text_of_the_client_again_and_only_new_text_is_sent() -> None:
    seen: list[Json] = []
    model = ScriptedModel({"realtimeInput": [END]})
    async with session(model, {"BeforeModel": [listens(seen)]}) as client:
        for text in ("a" * 10_000, "b", "c"):
            await client.tell(typed(text))
            await client.hear()
    assert model.received[2:] == [typed("b"), typed("c")]
    shown = [event["llm_request"]["messages"][-1]["content"] for event in seen[1:]]
    assert shown[1:] == ["a" * 8192 + "b", "a" * 8191 + "bc"]


@asynccontextmanager
async def burst(hooks: list[Json], model: ScriptedModel, *messages: Json) -> AsyncIterator[Session]:
    """A session whose client has sent all messages while hooks judge the first one."""

    async def wait(event: Json) -> None:
        if event["llm_request"]["messages"]:
            judging.set()
            await sent.wait()

    judging, sent = asyncio.Event(), asyncio.Event()
    async with session(model, {"BeforeModel": [runs(wait), *hooks]}) as client:
        await client.tell(typed("hello "))
        await judging.wait()
        await client.tell(*messages)
        for _ in range(200):  # until the gateway has received them
            await asyncio.sleep(0)
        sent.set()
        yield client


async def test_texts_that_arrive_while_one_is_judged_are_judged_together() -> None:
    seen: list[Json] = []
    model = ScriptedModel({"clientContent": [END]})
    letters = [typed(letter) if at % 2 else begun(letter) for at, letter in enumerate("abcdefghij")]
    audio = {"realtimeInput": {"audio": {"mimeType": "audio/pcm", "data": SPEECH}}}
    async with burst([listens(seen)], model, *letters, audio, typed("k"), typed("l")) as client:
        while len(model.received) < 15:
            await client.hear()
            await asyncio.sleep(0)
    assert model.received[2:] == [*letters, audio, typed("k"), typed("l")]
    shown = [event["llm_request"]["messages"][-1]["content"] for event in seen[1:]]
    assert shown == ["hello ", "hello abcdefghij", "hello abcdefghijkl"]


@pytest.mark.parametrize("size", [1, 2, 5, 8])
async def test_a_secret_in_any_number_of_messages_that_are_judged_together_is_removed(size: int) -> None:
    said = f"pay {CARD} now"
    pieces = [said[at : at + size] for at in range(0, len(said), size)]
    model = ScriptedModel({"clientContent": [END]})
    async with burst([REDACT], model, *map(typed, pieces), client_text("end")) as client:
        await client.hear()
    sent = "".join(each["realtimeInput"]["text"] for each in model.received[2:-1])
    assert CARD not in sent
    assert (sent.startswith("pay "), sent.endswith(" now")) == (True, True)


async def test_texts_whose_turns_differ_are_judged_one_by_one() -> None:
    seen: list[Json] = []
    messages = [begun("a"), thought("b"), as_the_model("c")]
    model = ScriptedModel({"clientContent": [END]})
    async with burst([listens(seen)], model, *messages) as client:
        for _ in messages:
            await client.hear()
    assert model.received[2:] == messages
    assert len(seen) == 5


def without_vowel(event: Json) -> Json:
    """An edit that leaves the second part of a phrase as it is."""
    messages = event["llm_request"]["messages"]
    edited = [{**each, "content": each["content"].replace("rocket", "r*cket")} for each in messages]
    return {"hookSpecificOutput": {"llm_request": {"messages": edited}}}


async def test_an_edit_of_what_was_sent_before_ends_the_session() -> None:
    model = ScriptedModel({"realtimeInput": [END]})
    async with session(model, {"BeforeModel": [runs(without_vowel)]}) as client:
        await client.tell(typed("a roc"))
        await client.hear()
        await client.tell(typed("ket"))
        end = await client.socket.receive()
    assert (end.data, "sent before" in (end.extra or "")) == (1008, True)
    assert model.received[1:] == [typed("a roc")]


async def test_an_edit_of_what_the_client_received_before_ends_the_session() -> None:
    def edit(event: Json) -> Json:
        text = event["llm_response"].get("text", "").replace("rocket", "r*cket")
        return {"hookSpecificOutput": {"llm_response": {"text": text}}} if text else {}

    call = {"toolCall": {"functionCalls": [{"id": "1", "name": "f", "args": {}}]}}
    model = ScriptedModel({"clientContent": [*written("a roc"), call, *written("ket"), END]})
    async with session(model, {"AfterModel": [runs(edit)]}) as client:
        await client.tell(client_text("hi"))
        heard = await client.hear()
    assert heard == [*written("a roc"), call]


async def test_tool_results_in_turns_pass_after_tool_hooks() -> None:
    def judge(event: Json) -> Json:
        seen.append(event)
        return {"decision": "deny", "reason": "withheld"}

    seen: list[Json] = []
    call = {"id": "1", "name": "get_weather", "args": {"city": "Rome"}}
    known = {"functionCall": {"id": "2", "name": "get_time", "args": {"zone": "UTC"}}}
    results = [
        {"functionResponse": {"id": "1", "name": "get_weather", "response": {"output": "hot"}}},
        {"function_response": {"id": "2", "name": "get_time", "response": {"output": "noon"}}},
    ]
    turns = [{"role": "model", "parts": [known]}, {"role": "user", "parts": [*results, {"text": "so?"}]}]
    called = {"toolCall": {"functionCalls": [call]}}
    model = ScriptedModel({"realtimeInput": [called], "clientContent": [END]})
    async with session(model, {"AfterTool": [runs(judge)]}) as client:
        await client.tell(typed("hi"))
        await client.socket.receive()
        await client.tell({"clientContent": {"turns": turns}})
        await client.hear()
    sent = model.received[2]["clientContent"]["turns"][1]["parts"]
    assert "hot" not in json.dumps(sent)
    assert "noon" not in json.dumps(sent)
    assert json.dumps(sent).count("withheld") == 2
    assert sent[2] == {"text": "so?"}
    assert [event["tool_input"] for event in seen] == [{"city": "Rome"}, {"zone": "UTC"}]


async def test_a_tool_that_reports_several_results_is_judged_with_its_arguments_each_time() -> None:
    seen: list[Json] = []
    call = {"id": "1", "name": "f", "args": {"city": "Rome"}}
    model = ScriptedModel({"realtimeInput": [{"toolCall": {"functionCalls": [call]}}], "toolResponse": [END]})
    async with session(model, {"AfterTool": [listens(seen)]}) as client:
        await client.tell(typed("hi"))
        await client.socket.receive()
        for more in (True, False):
            result = {"id": "1", "name": "f", "response": {"output": "x"}, "willContinue": more}
            await client.tell({"toolResponse": {"functionResponses": [result]}})
            await client.hear()
    assert [event["tool_input"] for event in seen] == [{"city": "Rome"}] * 2


async def test_the_servers_reports_pass_and_texts_in_them_do_not() -> None:
    call = {"toolCall": {"functionCalls": [{"id": "c-1", "name": "f", "args": {}}]}}
    passed: list[Json] = [
        {"voiceActivity": {"voiceActivityType": "ACTIVITY_START", "audioOffset": "1.5s"}},
        {"goAway": {"timeLeft": "9s"}},
        {"sessionResumptionUpdate": {"resumable": False, "lastConsumedClientMessageIndex": "7"}},
        {"toolCallCancellation": {"ids": ["c-1"]}},
        {"usageMetadata": {"promptTokensDetails": [{"modality": "TEXT", "tokenCount": 3}]}},
        {"serverContent": {"turnCompleteReason": "NEED_MORE_INPUT", "turnComplete": True}},
    ]
    planted: list[Json] = [
        {"voiceActivity": {"voiceActivityType": "a rocket", "audioOffset": "a rocket", "rocket": 1}},
        {"goAway": {"timeLeft": "a rocket", "reason": "a rocket"}},
        {"sessionResumptionUpdate": {"newHandle": "rocket", "resumable": "a rocket"}},
        {"toolCallCancellation": {"ids": ["rocket", {"rocket": 1}]}},
        {"usageMetadata": {"totalTokenCount": "rocket", "promptTokensDetails": [{"modality": "rocket"}]}},
        {
            "serverContent": {
                "turnComplete": "a rocket",
                "interrupted": ["rocket"],
                "interactionStatus": "rocket",
            }
        },
        {"serverContent": {"outputTranscription": {"finished": "rocket", "languageCode": "a rocket"}}},
        {"serverContent": {"modelTurn": {"role": "rocket", "parts": []}}},
        {"setupComplete": {"sessionId": "a rocket", "rocket": {}}},
    ]
    model = ScriptedModel({"clientContent": [call, *planted, *passed]})
    async with session(model, {}) as client:
        await client.tell(client_text("hi"))
        heard = await client.hear()
    assert "rocket" not in json.dumps(heard)
    assert [message for message in heard if message in passed] == passed


async def test_a_page_that_the_model_has_read_is_judged_as_a_source() -> None:
    pages = {"urlMetadata": [{"retrievedUrl": f"https://a.example/{CARD}"}]}
    model = ScriptedModel({"clientContent": [{"serverContent": {"urlContextMetadata": pages}}, END]})
    setup = {"setup": {**SETUP["setup"], "model": MODEL}}
    async with session(model, {"AfterModel": [REDACT]}, setup=setup) as client:
        await client.tell(client_text("hi"))
        heard = await client.hear()
    [pages] = [message["serverContent"]["urlContextMetadata"] for message in heard[:-1]]
    assert pages == {"urlMetadata": [{"retrievedUrl": "https://a.example/[CARD]"}]}
