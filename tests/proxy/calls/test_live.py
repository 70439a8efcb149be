"""Live sessions with `routes.live = "judge"`: text, speech and calls are judged in both directions."""

import asyncio
import json
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import WSMsgType, web
from google import genai
from google.genai import types
from google.genai.errors import APIError
from google.oauth2.credentials import Credentials
from support.gateway.audits import audited_gateway, reading
from support.gateway.live import (
    END,
    JUDGES,
    LIVE,
    MODEL,
    REDACT,
    SETUP,
    SPEECH,
    ScriptedModel,
    Session,
    client_text,
    live,
    session,
    spoken,
    with_tls,
    written,
)
from support.gateway.loopback import gateway_before, listens, runs, says
from support.hooks.policies import CARD, REFUSAL, no_rockets, only_weather
from support.wire import KEY, ask
from websockets.exceptions import InvalidStatus

from hookgate.proxy.calls import live as live_sessions
from hookgate.proxy.calls import pacing
from hookgate.proxy.config import Config, LimitSettings
from hookgate.proxy.server.bodies import SMALL_BODY

Json = dict[str, Any]
OPEN = Config.model_validate({"routes": {"unhooked": ["interactions", "agents", "openai", "live"]}})
VERTEX = "/ws/google.cloud.aiplatform.v1beta1.LlmBidiService/BidiGenerateContent"
TOOLS = [{"functionDeclarations": [{"name": "get_weather"}, {"name": "launch"}]}]


def beside_audio(**fields: str) -> Json:
    """A message of audio with a text in one of its fields."""
    blob = {"mimeType": "audio/pcm;rate=24000", "data": SPEECH, **fields}
    return {"serverContent": {"modelTurn": {"role": "model", "parts": [{"inlineData": blob}]}}}


def no_rocket_anywhere(event: Json) -> Json | None:
    return {"decision": "deny", "reason": REFUSAL} if "rocket" in json.dumps(event["llm_request"]) else None


def no_rocket_out(event: Json) -> Json | None:
    return {"decision": "deny", "reason": REFUSAL} if "rocket" in json.dumps(event["llm_response"]) else None


async def test_each_turn_is_shown_to_hooks_and_sent_on_unchanged() -> None:
    seen: list[Json] = []
    events = ("BeforeModel", "AfterModel", "BeforeToolSelection")
    model = ScriptedModel(
        {"clientContent": [*written("Hel", "lo"), {"usageMetadata": {"totalTokenCount": 3}}, END]}
    )
    async with session(model, {event: [listens(seen)] for event in events}) as client:
        await client.tell(client_text("hi"))
        heard = await client.hear()
        await client.socket.close()
        receipt = await client.receipt()
    assert heard == [*written("Hel", "lo"), {"usageMetadata": {"totalTokenCount": 3}}, END]
    assert model.received[1:3] == [client_text("hi")]
    assert [(event["hook_event_name"], event["operation"]) for event in seen] == [
        (name, "BidiGenerateContent")
        for name in ("BeforeModel", "BeforeToolSelection", "BeforeModel", "AfterModel")
    ]
    assert {event["llm_request"]["model"] for event in seen} == {"gemini-live"}
    assert seen[2]["llm_request"]["messages"] == [{"role": "user", "content": "hi"}]
    assert seen[3]["llm_response"]["text"] == "Hello"
    assert (receipt["route"]["kind"], receipt["outcome"], receipt["model"]) == (
        "live",
        "answered",
        "gemini-live",
    )
    assert {hook["event"]: hook["runs"] for hook in receipt["hooks"]}["BeforeModel"] == 2


async def test_messages_that_no_hook_changes_keep_their_bytes() -> None:
    sent = [
        '{"clientContent" : {"turns": [{"parts": [{"text": "hi"}]}]}}',
        '{"realtimeInput": {"text": "\\u00e9"}}',
        '{"toolResponse": {"functionResponses": [{"name": "f", "response": {"n": 1.50}}]}}',
    ]
    received: list[str] = []

    async def model(socket: web.WebSocketResponse) -> None:
        await socket.receive()
        await socket.send_json({"setupComplete": {}})
        received.extend([await socket.receive_str() for _ in sent])

    async with session(model, {"BeforeModel": [listens([])]}) as client:
        await client.tell(*sent)
        await client.socket.receive()
    assert received == sent


async def test_wrapped_audio_and_files_are_sent_as_canonical_base64() -> None:
    def messages(data: str) -> list[Json]:
        blob = {"mimeType": "audio/pcm", "data": data}
        turn = {"role": "user", "parts": [{"text": "hi"}, {"inlineData": blob}]}
        inputs = [{"audio": blob}, {"mediaChunks": [blob, {"mimeType": "audio/pcm", "data": "QUJD"}]}]
        return [*({"realtimeInput": each} for each in inputs), {"clientContent": {"turns": [turn]}}]

    received: list[Json] = []

    async def model(socket: web.WebSocketResponse) -> None:
        await socket.receive()
        await socket.send_json({"setupComplete": {}})
        received.extend([await socket.receive_json() for _ in messages("")])

    async with session(model, {"BeforeModel": [listens([])]}) as client:
        await client.tell(*messages("QUJD\r\nQU I"))
        await client.socket.receive()
    assert received == messages("QUJDQUI=")


async def test_an_answer_that_the_server_does_not_end_is_judged_and_sent_when_it_leaves() -> None:
    seen: list[Json] = []

    async def model(socket: web.WebSocketResponse) -> None:
        await socket.receive()
        await socket.send_json({"setupComplete": {}})
        for message in written("Hel", "lo"):
            await socket.send_json(message)

    async with session(model, {"AfterModel": [listens(seen)]}) as client:
        assert await client.hear() == written("Hel", "lo")
    assert [event["llm_response"]["text"] for event in seen] == ["Hello"]


@pytest.mark.parametrize(
    "message",
    [
        client_text("a rocket"),
        {"client_content": {"turns": [{"parts": [{"text": "a rocket"}]}]}},
        {"realtimeInput": {"text": "a rocket"}},
        {"toolResponse": {"functionResponses": [{"id": "1", "name": "f", "response": {"x": "a rocket"}}]}},
    ],
)
async def test_a_denied_message_ends_the_session_and_is_not_sent(message: Json) -> None:
    model = ScriptedModel({})
    hooks = {"BeforeModel": [runs(no_rocket_anywhere) | {"view": "body"}]}
    async with session(model, hooks) as client:
        await client.tell(message)
        end = await client.socket.receive()
        receipt = await client.receipt()
    assert (end.type, end.data, end.extra) == (WSMsgType.CLOSE, 1008, REFUSAL)
    assert [[*each] for each in model.received] == [["setup"]]
    assert receipt["outcome"] == "denied"


@pytest.mark.parametrize(
    "setup",
    [
        {"model": MODEL, "systemInstruction": {"parts": [{"text": "a rocket"}]}},
        {"model": MODEL, "tools": [{"functionDeclarations": [{"name": "f", "description": "a rocket"}]}]},
    ],
)
async def test_a_denied_setup_reaches_no_model(setup: Json) -> None:
    model = ScriptedModel({})
    hooks = {"BeforeModel": [runs(no_rocket_anywhere) | {"view": "body"}]}
    async with session(model, hooks, setup=None) as client:
        await client.tell({"setup": setup})
        end = await client.socket.receive()
    assert (end.data, end.extra, model.received) == (1008, REFUSAL, [])


@pytest.mark.parametrize(
    "answer",
    [
        [*written("a roc", "ket"), END],
        spoken("a roc|ket"),
        [*written("a roc", "ket"), {"serverContent": {"interrupted": True}}],
        [{"toolCall": {"functionCalls": [{"id": "1", "name": "f", "args": {"x": "a rocket"}}]}}],
        [{"serverContent": {"groundingMetadata": {"webSearchQueries": ["a rocket"]}}}, END],
        [beside_audio(displayName="a rocket"), END],
        [beside_audio(mimeType="audio/pcm; a rocket"), END],
        [beside_audio(data="a rocket!"), END],
    ],
    ids=["text", "speech", "interrupted", "call", "sources", "name", "type", "no base64"],
)
async def test_nothing_of_a_denied_answer_reaches_the_client(answer: list[Json]) -> None:
    hooks = {"AfterModel": [runs(no_rocket_out) | {"view": "body"}]}
    async with session(ScriptedModel({"clientContent": answer}), hooks) as client:
        await client.tell(client_text("hi"))
        end = await client.socket.receive()
    assert (end.type, end.data, end.extra) == (WSMsgType.CLOSE, 1008, REFUSAL)


async def test_secrets_are_redacted_across_messages_and_their_speech_is_removed() -> None:
    first, second = CARD[:9], CARD[9:]
    hooks = {"BeforeModel": [REDACT], "AfterModel": [REDACT]}
    answers = [*written(f"It is {first}", f"{second}."), END]
    model = ScriptedModel({"clientContent": answers, "realtimeInput": spoken(f"It is {first}|{second}.")})
    async with session(model, hooks) as client:
        await client.tell(client_text(f"pay {CARD}"))
        text = await client.hear()
        await client.tell({"realtimeInput": {"text": f"and {CARD}"}})
        speech = await client.hear()
    assert CARD not in json.dumps(model.received)
    assert "pay [CARD]" in json.dumps(model.received)
    assert "and [CARD]" in json.dumps(model.received)
    for heard in (text, speech):
        assert "It is [CARD]" in json.dumps(heard)
        assert second not in json.dumps(heard)
        assert heard[-1] == END
    assert SPEECH not in json.dumps(speech)


def thought(text: str) -> list[Json]:
    part = {"text": text, "thought": True}
    return [{"serverContent": {"modelTurn": {"role": "model", "parts": [part]}}}]


def transcribed(text: str) -> list[Json]:
    return [{"serverContent": {"outputTranscription": {"text": text}}}]


CALLED = {"toolCall": {"functionCalls": [{"id": "1", "name": "get_weather", "args": {}}]}}


@pytest.mark.parametrize("says", [written, thought, transcribed])
async def test_a_secret_on_both_sides_of_a_call_is_not_completed(says: Any) -> None:
    """Its first part has been sent when the second one arrives."""
    firsts = [*says(f"It is {CARD[:9]}"), CALLED]
    model = ScriptedModel(
        {"clientContent": firsts, "toolResponse": [*says(f"{CARD[9:]}. It is {CARD}."), END]}
    )
    result = {"toolResponse": {"functionResponses": [{"id": "1", "name": "get_weather", "response": {}}]}}
    setup = {"setup": {"model": MODEL, "tools": TOOLS}}
    async with session(model, {"AfterModel": [REDACT]}, setup=setup) as client:
        await client.tell(client_text("hi"))
        assert [json.loads((await client.socket.receive()).data) for _ in firsts] == firsts
        await client.tell(result)
        assert await client.hear() == [*says(". It is [CARD]."), END]
        await client.tell(client_text("again"))
        assert [json.loads((await client.socket.receive()).data) for _ in firsts] == firsts


@pytest.mark.parametrize("says", [written, thought, transcribed])
async def test_a_secret_in_the_middle_of_which_the_server_leaves_is_masked(says: Any) -> None:
    async def model(socket: web.WebSocketResponse) -> None:
        await socket.receive()
        await socket.send_json({"setupComplete": {}})
        for message in says(f"It is {CARD[:12]}"):
            await socket.send_json(message)

    async with session(model, {"AfterModel": [REDACT]}) as client:
        heard = json.dumps(await client.hear())
    assert "It is " in heard
    assert CARD[:6] not in heard


@pytest.mark.parametrize("name", ["clientContent", "turns", "parts", "text"])
async def test_a_message_of_the_client_is_judged_in_every_spelling(name: str) -> None:
    spelling = f"\\u{ord(name[0]):04x}{name[1:]}"
    model = ScriptedModel({})
    async with session(model, {"BeforeModel": [runs(no_rocket_anywhere)]}) as client:
        await client.tell(json.dumps(client_text("a rocket")).replace(f'"{name}"', f'"{spelling}"'))
        assert (await client.socket.receive()).data == 1008
    assert len(model.received) == 1


@pytest.mark.parametrize("name", ["serverContent", "modelTurn", "text", "toolCall", "functionCalls", "name"])
async def test_a_message_of_the_model_is_judged_in_every_spelling(name: str) -> None:
    spelling = f"\\u{ord(name[0]):04x}{name[1:]}"
    launch = {"toolCall": {"functionCalls": [{"id": "1", "name": "launch", "args": {}}]}}
    answer = [*written(f"It is {CARD}"), launch, END]
    data = [json.dumps(each).replace(f'"{name}"', f'"{spelling}"').encode() for each in answer]
    hooks = {"AfterModel": [REDACT], "BeforeToolSelection": [runs(only_weather)]}
    setup = {"setup": {"model": MODEL, "tools": TOOLS}}
    async with session(ScriptedModel({"clientContent": data}), hooks, setup=setup) as client:
        await client.tell(client_text("hi"))
        assert await client.hear() == [*written("It is [CARD]"), END]


async def test_a_phrase_on_both_sides_of_calls_is_denied_but_not_across_turns() -> None:
    seen: list[Json] = []
    answers = [*written("a ro"), CALLED, CALLED, *written("ck"), END, *written("et"), END]
    script = {"clientContent": answers, "realtimeInput": [*written("a rock"), CALLED, *written("et"), END]}
    async with session(ScriptedModel(script), {"AfterModel": [listens(seen), runs(no_rocket_out)]}) as client:
        await client.tell(client_text("hi"))
        assert [*await client.hear(), *await client.hear()] == answers
        texts = [each["llm_response"].get("text") for each in seen]
        assert [text for text in texts if text] == ["a ro", "a rock", "et"]
        await client.tell({"realtimeInput": {"text": "go on"}})
        heard = await client.hear()
        receipt = await client.receipt()
    assert heard == [*written("a rock"), CALLED]
    assert receipt["outcome"] == "denied"


async def test_secrets_in_each_of_several_lists_of_sources_are_redacted() -> None:
    sources: list[Json] = [
        {"serverContent": {"groundingMetadata": {"webSearchQueries": [query]}}} for query in (CARD, "second")
    ]
    model = ScriptedModel({"clientContent": [*sources, END]})
    async with session(model, {"AfterModel": [REDACT]}) as client:
        await client.tell(client_text("hi"))
        heard = await client.hear()
    found = [
        message["serverContent"]["groundingMetadata"]["webSearchQueries"]
        for message in heard
        if "groundingMetadata" in message["serverContent"]
    ]
    assert found == [["[CARD]"], ["second"]]


@pytest.mark.parametrize("modalities", [None, [], ["AUDIO"], ["TEXT", "AUDIO"]], ids=str)
async def test_a_model_that_may_speak_is_told_to_transcribe_its_speech(modalities: Any) -> None:
    generation = {} if modalities is None else {"responseModalities": modalities}
    model = ScriptedModel({"clientContent": [END]})
    setup = {"setup": {"model": MODEL, "generationConfig": generation}}
    async with session(model, {}, setup=setup) as client:
        await client.tell(client_text("hi"))
        await client.hear()
    assert model.received[0]["setup"]["outputAudioTranscription"] == {}


async def test_a_turn_of_too_many_messages_ends_the_session() -> None:
    piece = b'{"serverContent": {"modelTurn": {"parts": []}}}'
    model = ScriptedModel({"clientContent": [piece] * 10_001})
    async with session(model, {}) as client:
        await client.tell(client_text("hi"))
        end = await client.socket.receive()
    assert (end.data, "10000 messages" in (end.extra or "")) == (1008, True)


async def test_speech_is_judged_by_its_transcription_and_noted_in_the_receipt() -> None:
    seen: list[Json] = []
    heard_text = {"serverContent": {"inputTranscription": {"text": "what is the "}}}
    more = {"serverContent": {"inputTranscription": {"text": "weather"}}}
    model = ScriptedModel({"realtimeInput": [heard_text, more, *spoken("It is |cold")]})
    audio = {"realtimeInput": {"audio": {"mimeType": "audio/pcm;rate=16000", "data": SPEECH}}}
    setup = {"setup": {"model": MODEL}}
    hooks = {"BeforeModel": [listens(seen)], "AfterModel": [listens(seen)]}
    async with session(model, hooks, setup=setup) as client:
        await client.tell(audio)
        heard = await client.hear()
        await client.socket.close()
        receipt = await client.receipt()
    assert heard[:-2] == [heard_text, more, *spoken("It is |cold")][:-2]
    assert model.received[0]["setup"] == {
        "model": MODEL,
        "inputAudioTranscription": {},
        "outputAudioTranscription": {},
    }
    assert [event["llm_request"]["messages"] for event in seen[1:2]] == [
        [{"role": "user", "content": "what is the weather"}]
    ]
    assert seen[-1]["llm_response"]["text"] == "It is cold"
    assert receipt["live"] == {
        "audio_in": 6,
        "untranscribed_in": 0,
        "media_out": 6,
        "untranscribed_out": 0,
    }


async def test_speech_waits_for_a_transcription_that_comes_late() -> None:
    audio, transcribed, generated, end = spoken("a rocket")
    model = ScriptedModel({"realtimeInput": [audio, generated, transcribed, end]})
    async with session(model, {"AfterModel": [runs(no_rocket_out)]}) as client:
        await client.tell({"realtimeInput": {"text": "hi"}})
        closed = await client.socket.receive()
    assert (closed.type, closed.extra) == (WSMsgType.CLOSE, REFUSAL)


async def test_transcribed_speech_does_not_wait_for_the_end_of_the_turn() -> None:
    model = ScriptedModel({"realtimeInput": spoken("cold")[:-1]})
    async with session(model, {}) as client:
        await client.tell({"realtimeInput": {"text": "hi"}})
        heard = [json.loads((await client.socket.receive()).data) for _ in range(3)]
    assert heard == spoken("cold")[:-1]


async def test_large_messages_of_both_sides_are_read_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    in_loop: list[str] = []

    def noted(name: str, read: Any) -> Any:
        def read_noted(*args: Any) -> Any:
            if threading.current_thread() is threading.main_thread():
                in_loop.append(name)
            return read(*args)

        return read_noted

    for name in ("ClientMessage", "ServerMessage"):
        monkeypatch.setattr(live_sessions, name, noted(name, getattr(live_sessions, name)))
    model = ScriptedModel({"clientContent": [{"serverContent": dict.fromkeys(map(str, range(10_000)))}, END]})
    async with session(model, {"AfterModel": [REDACT]}) as client:
        in_loop.clear()
        await client.tell(client_text("a" * SMALL_BODY))
        assert (await client.hear())[-1] == END
    assert in_loop == ["ServerMessage"]  # the end of the turn


@pytest.mark.parametrize(("sent", "received"), [(1000, 1000), (4001, 4001), (1011, 1011)])
async def test_the_reason_for_which_the_client_ends_a_session_is_not_passed_on(
    sent: int, received: int
) -> None:
    """No hook judges it, nor the names of subprotocols that the client offers."""
    ended: list[Any] = []
    closing = asyncio.Event()

    async def model(socket: web.WebSocketResponse) -> None:
        await socket.receive()
        await socket.send_bytes(b'{"setupComplete": {}}')
        message = await socket.receive()
        ended.extend([message.type, message.data, message.extra, socket.ws_protocol])
        closing.set()

    headers = {"Sec-WebSocket-Protocol": "live.v2, secret-text"}
    async with session(model, {"BeforeModel": [REDACT]}, **headers) as client:
        await client.socket.close(code=sent, message=CARD.encode())
        await closing.wait()
    assert ended == [WSMsgType.CLOSE, received, "", None]


async def test_the_reason_for_which_the_model_ends_a_session_is_redacted() -> None:
    async def model(socket: web.WebSocketResponse) -> None:
        await socket.receive()
        await socket.send_bytes(b'{"setupComplete": {}}')
        await socket.receive()
        await socket.close(code=1011, message=f"{CARD} is not a model".encode())

    async with session(model, {"AfterModel": [REDACT]}) as client:
        await client.tell(client_text("hi"))
        closed = await client.socket.receive()
    assert (closed.data, closed.extra) == (1011, "[CARD] is not a model")


async def test_pings_are_answered_and_the_other_side_sees_none_of_their_data() -> None:
    pongs: list[bytes] = []

    async def model(socket: web.WebSocketResponse) -> None:
        await socket.receive()
        await socket.send_bytes(b'{"setupComplete": {}}')
        await socket.ping(b"a rocket")
        await socket.pong(b"another rocket")
        async for message in socket:
            if message.type is WSMsgType.PING:
                pongs.append(message.data)
                await socket.pong(message.data)
            if message.type is WSMsgType.PONG:
                pongs.append(message.data)

    async with session(model, {"AfterModel": [REDACT]}, autoping=False) as client:
        heard = [await client.socket.receive() for _ in range(2)]
        await client.socket.pong(heard[0].data)
        await client.socket.ping(b"there?")
        answered = await client.socket.receive()
    assert [message.type for message in heard] == [WSMsgType.PING, WSMsgType.PONG]
    assert not any(b"rocket" in message.data for message in heard)
    assert answered[:2] == (WSMsgType.PONG, b"there?")
    assert pongs[0] == b"a rocket"
    assert b"there?" not in pongs


async def test_the_text_of_a_session_has_a_limit_and_speech_has_none() -> None:
    config = Config.model_validate({"routes": {"live": "judge"}, "limits": {"body": 1000}})
    audio = {"realtimeInput": {"audio": {"mimeType": "audio/pcm", "data": SPEECH * 200}}}
    model = ScriptedModel({"clientContent": [END]})
    async with session(model, {}, config) as client:
        await client.tell(audio, client_text("a" * 400))
        assert await client.hear() == [END]
        await client.tell(client_text("a" * 400))
        closed = await client.socket.receive()
    assert (closed.data, "1000 bytes" in (closed.extra or "")) == (1008, True)
    assert len(model.received) == 3


async def test_text_that_is_judged_again_with_each_message_counts_each_time() -> None:
    config = Config.model_validate({"routes": {"live": "judge"}, "limits": {"body": 20_000}})
    model = ScriptedModel({"clientContent": [END]})
    async with session(model, {}, config) as client:
        for text in ("a" * 8000, "a"):
            await client.tell(client_text(text))
            assert await client.hear() == [END]
        await client.tell(client_text("a"))
        closed = await client.socket.receive()
    assert (closed.data, "8001 before each" in (closed.extra or "")) == (1008, True)


async def test_denied_speech_of_the_user_gets_no_answer() -> None:
    heard = {"serverContent": {"inputTranscription": {"text": "a rocket"}}}
    model = ScriptedModel({"realtimeInput": [heard, *spoken("Sure")]})
    audio = {"realtimeInput": {"audio": {"mimeType": "audio/pcm", "data": SPEECH}}}
    async with session(model, {"BeforeModel": [runs(no_rocket_anywhere)]}) as client:
        await client.tell(audio)
        end = await client.socket.receive()
    assert (end.data, end.extra) == (1008, REFUSAL)


async def test_tool_calls_pass_the_tool_gate_and_the_model_learns_of_refusals() -> None:
    def no_paris(event: Json) -> Json | None:
        denied = event["tool_input"].get("city") == "Paris"
        return {"decision": "deny", "reason": "not Paris"} if denied else None

    calls = [
        {"id": "1", "name": "get_weather", "args": {"city": "Paris"}},
        {"id": "2", "name": "get_weather", "args": {"city": "Rome"}},
        {"id": "3", "name": "launch", "args": {}},
    ]
    model = ScriptedModel({"clientContent": [{"toolCall": {"functionCalls": calls}}], "toolResponse": [END]})
    hooks = {"BeforeToolSelection": [runs(only_weather)], "BeforeTool": [runs(no_paris)]}
    setup = {"setup": {"model": MODEL, "tools": TOOLS}}
    async with session(model, hooks, setup=setup) as client:
        await client.tell(client_text("hi"))
        [heard, end] = await client.hear()
        await client.socket.close()
        receipt = await client.receipt()
    assert (heard, end) == ({"toolCall": {"functionCalls": calls[1:2]}}, END)
    [_, _, told] = model.received
    responses = told["toolResponse"]["functionResponses"]
    assert [(each["id"], each["name"]) for each in responses] == [("1", "get_weather"), ("3", "launch")]
    assert "not Paris" in responses[0]["response"]["error"]
    assert (receipt["outcome"], receipt["blocked_count"]) == ("blocked", 2)


async def test_a_call_of_a_tool_that_the_setup_does_not_declare_is_blocked() -> None:
    """Some clients would run `get_weather` then."""
    calls = [{"id": "1", "name": "getweather", "args": {}}, {"id": "2", "name": "launch", "args": {}}]
    model = ScriptedModel({"clientContent": [{"toolCall": {"functionCalls": calls}}], "toolResponse": [END]})
    hooks = {"BeforeTool": [runs(lambda _: None)]}
    async with session(model, hooks, setup={"setup": {"model": MODEL, "tools": TOOLS}}) as client:
        await client.tell(client_text("hi"))
        [heard, end] = await client.hear()
        await client.socket.close()
    assert (heard, end) == ({"toolCall": {"functionCalls": calls[1:]}}, END)
    [_, _, told] = model.received
    [response] = told["toolResponse"]["functionResponses"]
    assert "declares no tool of this name" in response["response"]["error"]


async def test_true_in_place_of_1_is_an_edit_of_a_call() -> None:
    [call] = [{"id": "1", "name": "get_weather", "args": {"dry_run": 1}}]
    model = ScriptedModel({"clientContent": [{"toolCall": {"functionCalls": [call]}}, END]})
    hooks = {"BeforeTool": [runs(lambda _: {"hookSpecificOutput": {"tool_input": {"dry_run": True}}})]}
    async with session(model, hooks, setup={"setup": {"model": MODEL, "tools": TOOLS}}) as client:
        await client.tell(client_text("hi"))
        [heard, _] = await client.hear()
    [called] = heard["toolCall"]["functionCalls"]
    assert called["args"]["dry_run"] is True


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ("not JSON", "JSON"),
        ('{"setup": {}, "setup": {}}', "twice"),
        ({**client_text("a"), **SETUP}, "one field"),
        ({"contextUpdate": {"text": "a"}}, "one field"),
        ({}, "one field"),
        (SETUP, "begin with one setup"),
        ({"clientContent": {"turns": [], "note": "a"}}, "note"),
        ({"clientContent": {"turns": ["a"]}}, "contents[0]"),
        ({"clientContent": {"turns": "a"}}, "turns"),
        ({"clientContent": {"turnComplete": "a"}}, "turnComplete"),
        ({"realtimeInput": {"mediaChunks": "a"}}, "mediaChunks"),
        ({"toolResponse": {"functionResponses": "a"}}, "functionResponses"),
        ({"clientContent": {"turns": [], "turn_complete": True, "turnComplete": False}}, "twice"),
        ({"realtimeInput": {"video": {"mimeType": "image/jpeg", "data": SPEECH}}}, "video"),
        ({"realtimeInput": {"audio": {"mimeType": "text/plain", "data": SPEECH}}}, "audio"),
        ({"realtimeInput": {"audio": {"mimeType": "audio/pcm", "data": "a text"}}}, "base64"),
        ({"realtimeInput": {"mediaChunks": [{"mimeType": "image/png", "data": SPEECH}]}}, "video"),
        ({"realtimeInput": {"activityStart": {"note": "a"}}}, "activityStart"),
        ({"realtimeInput": {"text": ["a"]}}, "text"),
        ({"toolResponse": {"functionResponses": ["a"]}}, "object"),
        (
            client_text("hi")
            | {"clientContent": {"turns": [{"parts": [{"fileData": {"fileUri": "gs://b/f"}}]}]}},
            "fileData",
        ),
    ],
)
async def test_a_message_that_hooks_could_not_judge_ends_the_session(message: Any, problem: str) -> None:
    model = ScriptedModel({})
    async with session(model, {"BeforeModel": [listens([])]}) as client:
        await client.tell(message)
        end = await client.socket.receive()
    assert (end.type, end.data) == (WSMsgType.CLOSE, 1008)
    assert problem in (end.extra or "")
    assert len(model.received) == 1


@pytest.mark.parametrize(
    "setup",
    [
        {"model": MODEL, "note": "a"},
        {"model": "a rocket"},
        {"model": "projects/p/locations/l/publishers/google/models/gemini-live"},
        {"generationConfig": {}},
        {"model": MODEL, "sessionResumption": {"handle": "h"}},
        {"model": MODEL, "tools": [{"fileSearch": {}}]},
    ],
)
async def test_a_setup_that_hooks_could_not_judge_is_refused(setup: Json) -> None:
    model = ScriptedModel({})
    async with session(model, {}, setup=None) as client:
        await client.tell({"setup": setup})
        end = await client.socket.receive()
    assert (end.type, end.data, model.received) == (WSMsgType.CLOSE, 1008, [])


async def test_what_hooks_cannot_judge_of_the_servers_messages_is_removed() -> None:
    strange = {
        "novelty": "a",
        "serverContent": {
            "novelty": "a",
            "interimInputTranscription": {"text": "a"},
            "outputTranscription": {"text": "b", "words": ["a"]},
        },
    }
    turn = {"serverContent": {"modelTurn": {"role": "model", "parts": [{"text": "c"}], "novelty": "a"}}}
    model = ScriptedModel({"clientContent": [strange, turn, END]})
    async with session(model, {}) as client:
        await client.tell(client_text("hi"))
        heard = await client.hear()
    del turn["serverContent"]["modelTurn"]["novelty"]
    assert heard == [{"serverContent": {"outputTranscription": {"text": "b"}}}, turn, END]


@pytest.mark.parametrize(
    "message",
    [
        b"not JSON",
        b"[]",
        b'{"serverContent": "a"}',
        b'{"serverContent": {"outputTranscription": {"text": ["a"]}}}',
        b'{"serverContent": {"modelTurn": {"parts": [{"functionCall": {"name": "f"}}]}}}',
        b'{"serverContent": {"modelTurn": {"parts": [{"text": ["a"]}]}, "turnComplete": true}}',
        b'{"serverContent": {"modelTurn": {"parts": "a"}}}',
        b'{"serverContent": {"modelTurn": {"parts": ["a"]}}}',
        b'{"toolCall": {"functionCalls": ["a"]}}',
        b'{"toolCall": {"functionCalls": "a text that no hook would see"}}',
        b'{"usageMetadata": 7}',
        b'{"usageMetadata": {"promptTokenCount": 1}, "usage_metadata": {"promptTokenCount": 2}}',
        b'{"usageMetadata": {"promptTokenCount": 1}, "usageMetadata": {"promptTokenCount": 2}}',
        b'{"serverContent": {"modelTurn": {"parts": [{"text": "a"}]}, "model_turn": {}}}',
        b'{"toolCall": {"functionCalls": [], "function_calls": [{"name": "f", "id": "1"}]}}',
    ],
)
async def test_an_unreadable_message_of_the_server_ends_the_session(message: bytes) -> None:
    async with session(ScriptedModel({"clientContent": [message]}), {}) as client:
        await client.tell(client_text("hi"))
        end = await client.socket.receive()
    assert (end.type, end.data) == (WSMsgType.CLOSE, 1008)


async def test_a_policy_for_models_applies_to_the_setup() -> None:
    models = {
        "type": "builtin",
        "builtin": "models",
        "options": {"rename": {"gemini-live": "other"}, "instruct": "Be brief."},
    }
    model = ScriptedModel({"toolResponse": [END]})
    async with session(model, {"BeforeModel": [models]}) as client:
        await client.tell({"realtimeInput": {"text": "hi"}}, {"realtimeInput": {"audioStreamEnd": True}})
        await client.tell({"toolResponse": {"functionResponses": []}})
        assert await client.hear() == [END]
    setup = model.received[0]["setup"]
    assert setup["model"] == "models/other"
    assert setup["systemInstruction"]["parts"] == [{"text": "Be brief."}]
    assert model.received[1:3] == [
        {"realtimeInput": {"text": "hi"}},
        {"realtimeInput": {"audioStreamEnd": True}},
    ]


async def test_other_websockets_stay_refused() -> None:
    async with gateway_before("http://127.0.0.1:1", {}, JUDGES) as url:
        assert (await ask(url, "GET", LIVE.replace("Content", "Music"))).status == 403
        for path in (LIVE, VERTEX):
            assert (await ask(url, "GET", path)).status == 400  # no WebSocket


@pytest.mark.parametrize(
    "path", ["/v1/interactions/live", "/v1beta/models/m", "/v1beta/agents/a", "/v1/openai/realtime"]
)
@pytest.mark.parametrize("config", [JUDGES, OPEN], ids=["judges", "forwards"])
async def test_a_websocket_on_another_route_is_refused_and_not_forwarded(path: str, config: Config) -> None:
    seen: list[web.BaseRequest] = []
    async with (
        live(ScriptedModel({}), seen) as upstream,
        gateway_before(upstream, {}, config) as url,
        aiohttp.ClientSession(headers=KEY) as http,
    ):
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await http.ws_connect(url + path)
    assert (refused.value.status, seen) == (403, [])


@pytest.mark.filterwarnings("ignore")
async def test_google_genai_talks_through_the_gateway_and_shows_the_reason_of_a_denial() -> None:
    hooks = {
        "BeforeModel": [REDACT, runs(no_rockets) | {"when": {"operations": "Bidi*"}}],
        "AfterModel": [REDACT],
    }
    model = ScriptedModel({"clientContent": [*written("Hel", "lo"), END]})
    async with (
        asyncio.timeout(20),
        live(model) as upstream,
        gateway_before(upstream, hooks, JUDGES) as plain,
        with_tls(plain) as (url, trusts),
    ):
        options = types.HttpOptions(base_url=url, async_client_args={"ssl": trusts})
        client = genai.Client(api_key="any", http_options=options)
        config: Any = {"response_modalities": ["TEXT"], "system_instruction": f"My card is {CARD}."}
        async with client.aio.live.connect(model="gemini-live", config=config) as connection:
            await connection.send_client_content(
                turns=types.Content(role="user", parts=[types.Part(text="hi")])
            )
            heard = [message.text async for message in connection.receive()]
            await connection.send_realtime_input(text="a rocket")
            with pytest.raises(APIError) as denied:
                async for _ in connection.receive():
                    pass
    assert "".join(filter(None, heard)) == "Hello"
    assert (denied.value.code, REFUSAL in str(denied.value)) == (1008, True)
    assert "My card is [CARD]." in json.dumps(model.received)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "options",
    [
        {"project": "p", "location": "l", "credentials": Credentials("any")},
        {"api_key": "any"},
    ],
    ids=["project", "express"],
)
async def test_google_genai_talks_to_vertex_ai_through_the_gateway(options: Json) -> None:
    call = {"toolCall": {"functionCalls": [{"id": "1", "name": "get_weather", "args": {"city": "Rome"}}]}}
    model = ScriptedModel(
        {"clientContent": [call], "toolResponse": [*written(f"Pay {CARD}"), {**END, **counted(9, 2)}]}
    )
    hide = {"decision": "deny", "reason": "withheld"}
    hooks = {"BeforeModel": [REDACT], "AfterModel": [REDACT], "AfterTool": [says(hide)]}
    async with (
        asyncio.timeout(20),
        live(model) as upstream,
        gateway_before(upstream, hooks, JUDGES) as plain,
        with_tls(plain) as (url, trusts),
    ):
        http = types.HttpOptions(base_url=url, async_client_args={"ssl": trusts})
        client = genai.Client(vertexai=True, http_options=http, **options)
        config: Any = {"response_modalities": ["TEXT"], "tools": TOOLS}
        async with client.aio.live.connect(model="gemini-live", config=config) as connection:
            await connection.send_client_content(
                turns=types.Content(role="user", parts=[types.Part(text="hi")])
            )
            called = (await anext(aiter(connection.receive()))).tool_call
            result = types.FunctionResponse(id="1", name="get_weather", response={"output": "hot"})
            await connection.send_tool_response(function_responses=[result])
            heard = [message async for message in connection.receive()]
    assert called.function_calls[0].args == {"city": "Rome"}
    assert "".join(message.text or "" for message in heard) == "Pay [CARD]"
    assert model.received[0]["setup"]["model"].endswith("publishers/google/models/gemini-live")
    assert "withheld" in json.dumps(model.received)
    assert "hot" not in json.dumps(model.received)


@pytest.mark.filterwarnings("ignore")
async def test_google_genai_shows_that_ephemeral_tokens_are_refused() -> None:
    async with gateway_before("http://127.0.0.1:1", {}, JUDGES) as plain, with_tls(plain) as (url, trusts):
        http = types.HttpOptions(base_url=url, api_version="v1alpha", async_client_args={"ssl": trusts})
        client = genai.Client(api_key="auth_tokens/abc", http_options=http)
        with pytest.raises(InvalidStatus, match="403"):
            async with client.aio.live.connect(model="gemini-live"):
                pass


async def test_a_stop_ends_the_session() -> None:
    hook = says({"continue": False, "stopReason": "enough"}) | {"when": {"models": ["gemini-*"]}}
    async with session(ScriptedModel({}), {"BeforeModel": [hook]}, setup=None) as client:
        await client.tell(SETUP)
        end = await client.socket.receive()
    assert (end.data, end.extra) == (1008, "enough")


def counted(prompt: Any, answer: Any, **more: Any) -> Json:
    return {"usageMetadata": {"promptTokenCount": prompt, "responseTokenCount": answer, **more}}


async def test_the_tokens_of_all_turns_are_in_the_receipt() -> None:
    model = ScriptedModel(
        {"clientContent": [*written("Hello"), {**END, **counted(100, 7, thoughtsTokenCount=3)}]}
    )
    async with session(model, {}) as client:
        for _ in range(2):
            await client.tell(client_text("hi"))
            await client.hear()
        await client.socket.close()
        receipt = await client.receipt()
    assert receipt["usage"] == {"input_tokens": 200, "output_tokens": 20, "cached_tokens": 0, "cost": None}


@pytest.mark.parametrize(
    "count", [-5, True, "9", 2**70, 1e300, None, [7], {"a": 1}, 3.5], ids=lambda each: str(each)[:9]
)
async def test_absurd_counts_of_tokens_neither_fail_nor_lower_the_sum(count: Any) -> None:
    model = ScriptedModel({"clientContent": [counted(10, 1), counted(count, count), END]})
    async with session(model, {}) as client:
        await client.tell(client_text("hi"))
        assert (await client.hear())[-1] == END
        await client.socket.close()
        usage = (await client.receipt())["usage"]
    most = 2**31 - 1
    added = {"9": 9, "3.5": 3}.get(str(count), 0)  # a count may be a string or a float
    assert usage["input_tokens"] in (10 + added, 10 + most)
    assert usage["output_tokens"] in (1 + added, 1 + most)


async def test_a_limit_of_tokens_ends_a_session_that_has_reached_it() -> None:
    rule = {"tokens": 150, "per": "key", "window": "day", "name": "talk"}
    limits = {"type": "builtin", "builtin": "limits", "options": {"rules": [rule]}}
    model = ScriptedModel({"clientContent": [*written("Hello"), {**END, **counted(100, 0)}]})
    async with session(model, {"BeforeModel": [limits]}) as client:
        for _ in range(2):
            await client.tell(client_text("hi"))
            await client.hear()
        await client.tell(client_text("more"))
        end = await client.socket.receive()
        receipt = await client.receipt()
    assert (end.data, "'talk' has been reached: 200 of 150 tokens" in (end.extra or "")) == (1008, True)
    assert len(model.received) == 3
    assert (receipt["outcome"], receipt["usage"]["input_tokens"]) == ("denied", 200)


async def test_turns_whose_tokens_a_server_does_not_report_are_estimated_and_limited() -> None:
    rule = {"tokens": 1000, "per": "key", "window": "day", "name": "talk"}
    limits = {"type": "builtin", "builtin": "limits", "options": {"rules": [rule]}}
    model = ScriptedModel({"clientContent": [*written("x" * 3200), END]})
    setup = {"setup": {**SETUP["setup"], "generationConfig": {"maxOutputTokens": 1}}}
    async with session(model, {"BeforeModel": [limits]}, setup=setup) as client:
        for _ in range(3):
            await client.tell(client_text("hi"))
            await client.hear()
        await client.tell(client_text("more"))
        end = await client.socket.receive()
        receipt = await client.receipt()
    assert (end.data, "'talk' has been reached" in (end.extra or "")) == (1008, True)
    assert receipt["usage"]["estimated"]["output_tokens"] >= 1200


@pytest.mark.parametrize(
    "message",
    [
        {"clientContent": {"turnComplete": True}},
        {"clientContent": {"turns": [], "turnComplete": True}},
        {"realtimeInput": {"activityEnd": {}}},
        {"realtimeInput": {"audio": {"mimeType": "audio/pcm", "data": SPEECH}}},
    ],
    ids=str,
)
async def test_turns_without_anything_to_judge_are_limited(message: Json) -> None:
    rule = {"tokens": 1000, "per": "key", "window": "day", "name": "talk", "reason": "Ask Ada."}
    limits = {"type": "builtin", "builtin": "limits", "options": {"rules": [rule]}}
    small = {"setup": {**SETUP["setup"], "generationConfig": {"maxOutputTokens": 1}}}
    turn = [*written("hi"), {**END, **counted(200, 100)}]
    async with session(
        ScriptedModel({"clientContent": turn, "realtimeInput": turn}), {"BeforeModel": [limits]}, setup=small
    ) as client:
        turns = 0
        while (turns := turns + 1) < 9:
            await client.tell(message)
            heard = await client.hear()
            if not heard or "turnComplete" not in heard[-1].get("serverContent", {}):
                break
        receipt = await client.receipt()
        assert client.socket.close_code == 1008
    assert (turns, receipt["outcome"]) == (5, "denied")


async def test_a_usage_that_follows_a_turn_replaces_the_estimate_of_it() -> None:
    late = [*written("x" * 3200), END, counted(100, 7)]
    async with session(ScriptedModel({"clientContent": late}), {}) as client:
        for _ in range(2):
            await client.tell(client_text("hi"))
            await client.hear()
            await client.socket.receive()
        await client.socket.close()
        receipt = await client.receipt()
    assert receipt["usage"] == {"input_tokens": 200, "output_tokens": 14, "cached_tokens": 0, "cost": None}


async def test_results_of_tools_pass_after_tool_hooks_with_the_arguments_of_their_calls() -> None:
    def judge(event: Json) -> Json | None:
        seen.append(event)
        answers: Json = {
            "Paris": {"decision": "deny", "reason": "not Paris"},
            "Rome": {"hookSpecificOutput": {"tool_result": {"llmContent": "hot", "returnDisplay": "hot"}}},
            "Oslo": {"hookSpecificOutput": {"additionalContext": "In Celsius."}},
        }
        return answers.get(event["tool_input"].get("city"))

    seen: list[Json] = []
    cities = ["Paris", "Rome", "Oslo", "Bern"]
    calls = [
        {"id": str(number), "name": "get_weather", "args": {"city": city}}
        for number, city in enumerate(cities)
    ]
    results = [
        {"id": str(number), "name": "get_weather", "response": {"output": "cold"}}
        for number in range(len(cities) + 1)  # the last one answers no call
    ]
    model = ScriptedModel({"clientContent": [{"toolCall": {"functionCalls": calls}}], "toolResponse": [END]})
    async with session(model, {"AfterTool": [runs(judge)]}) as client:
        await client.tell(client_text("hi"))
        await client.socket.receive()
        await client.tell({"toolResponse": {"functionResponses": results}})
        await client.hear()
    [sent] = [each["toolResponse"]["functionResponses"] for each in model.received if "toolResponse" in each]
    assert [each["response"] for each in sent] == [
        {"output": "not Paris"},
        {"output": "hot"},
        {"output": "cold", "hook_context": "<hook_context>In Celsius.</hook_context>"},
        {"output": "cold"},
        {"output": "cold"},
    ]
    assert [event["tool_input"] for event in seen] == [*(call["args"] for call in calls), {}]
    assert sent[3:] == results[3:]


async def test_calls_and_results_that_a_shim_reports_are_left_to_it() -> None:
    seen: list[Json] = []
    call = {"toolCall": {"functionCalls": [{"id": "1", "name": "f", "args": {}}]}}
    result = {"toolResponse": {"functionResponses": [{"id": "1", "name": "f", "response": {}}]}}
    model = ScriptedModel({"clientContent": [call], "toolResponse": [END]})
    hooks = {"BeforeTool": [listens(seen)], "AfterTool": [listens(seen)]}
    async with session(model, hooks, **{"x-hookgate-shim": "tools"}) as client:
        await client.tell(client_text("hi"), result)
        assert await client.hear() == [call, END]
    assert seen == []
    async with session(model, hooks) as client:
        await client.tell(client_text("hi"), result)
        await client.hear()
    assert sorted(event["hook_event_name"] for event in seen) == ["AfterTool", "BeforeTool"]


async def test_a_stop_after_a_tool_ends_the_session_before_the_model_has_the_result() -> None:
    result = {"id": "1", "name": "f", "response": {"output": "x"}}
    model = ScriptedModel({})
    hooks = {"AfterTool": [says({"continue": False, "stopReason": "enough"})]}
    async with session(model, hooks) as client:
        await client.tell({"toolResponse": {"functionResponses": [result]}})
        end = await client.socket.receive()
        receipt = await client.receipt()
    assert (end.data, end.extra, receipt["outcome"]) == (1008, "enough", "stopped")
    assert len(model.received) == 1


@pytest.mark.parametrize(
    "named",
    [
        "projects/p/locations/us-central1/publishers/google/models/gemini-live",
        "publishers/google/models/gemini-live",
    ],
)
async def test_sessions_at_vertex_ai_are_judged_and_keep_the_place_of_their_model(named: str) -> None:
    seen: list[Json] = []
    models = {"type": "builtin", "builtin": "models", "options": {"rename": {"gemini-live": "other"}}}
    model = ScriptedModel({"clientContent": [*written("Hello"), END]})
    hooks = {"BeforeModel": [models, REDACT], "AfterModel": [listens(seen)]}
    async with session(model, hooks, setup={"setup": {"model": named}}, path=VERTEX) as client:
        await client.tell(client_text(f"pay {CARD}"))
        await client.hear()
    assert model.received[0]["setup"]["model"] == named.replace("gemini-live", "other")
    assert "pay [CARD]" in json.dumps(model.received)
    assert seen[0]["llm_response"]["text"] == "Hello"


@pytest.mark.parametrize(
    "named",
    [
        "projects/p/locations/l/endpoints/17",
        "projects/p/models/m",
        "projects/p/locations/l/publishers/other/models/m",
        "a/projects/p/locations/l/publishers/google/models/m",
        "projects/p/locations/l/publishers/google/models/m/../x",
        "",
    ],
)
async def test_a_name_at_vertex_ai_that_is_not_a_model_of_google_is_refused(named: str) -> None:
    model = ScriptedModel({})
    async with session(model, {}, setup=None, path=VERTEX) as client:
        await client.tell({"setup": {"model": named}})
        end = await client.socket.receive()
    assert (end.data, model.received) == (1008, [])


@pytest.mark.parametrize(
    ("query", "headers"),
    [
        ("?access_token=auth_tokens/abc", {}),
        ("?access_token=%20Auth_Tokens%2Fabc", {}),
        ("?key=auth_tokens/abc", {}),
        ("", {"x-goog-api-key": "auth_tokens/abc"}),
        ("", {"Authorization": "Token auth_tokens/abc"}),
        ("", {"Authorization": "token abc"}),
        ("", {"Authorization": "Bearer auth_tokens/abc"}),
    ],
)
async def test_an_ephemeral_token_opens_no_judged_session(query: str, headers: Json) -> None:
    """It could contain a system instruction that no hook has seen."""
    model = ScriptedModel({})
    async with (
        live(model) as upstream,
        gateway_before(upstream, {}, JUDGES) as url,
        aiohttp.ClientSession(headers=headers) as http,
    ):
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await http.ws_connect(url + LIVE + query)
        constrained = await ask(url, "GET", f"{LIVE}Constrained")
        created = await ask(url, "POST", "/v1alpha/auth_tokens")
    assert refused.value.status == 403
    assert (constrained.status, created.status, model.received) == (403, 403, [])
    for answer in (constrained, created):
        assert "ephemeral token" in answer.json["error"]["message"]


async def test_the_receipt_says_how_much_speech_no_hook_has_judged_a_transcription_of() -> None:
    audio = {"realtimeInput": {"audio": {"mimeType": "audio/pcm", "data": SPEECH}}}
    heard = {"serverContent": {"inputTranscription": {"text": "hi"}}}
    silent = [spoken("")[0], END]
    model = ScriptedModel({"realtimeInput": [], "clientContent": [heard, *silent]})
    async with session(model, {}) as client:
        await client.tell(audio, client_text("go on"))
        await client.hear()
        await client.tell(audio, audio, {"realtimeInput": {"audioStreamEnd": True}})
        await client.socket.close()
        receipt = await client.receipt()
    assert receipt["live"] == {
        "audio_in": 18,
        "untranscribed_in": 12,
        "media_out": 6,
        "untranscribed_out": 6,
    }


def frame(data: bytes, opcode: WSMsgType, *, ends: bool = True) -> bytes:
    """A frame of a client, whose mask changes nothing."""
    size = bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + len(data).to_bytes(2, "big")
    return bytes([(0x80 if ends else 0) | opcode]) + size + bytes(4) + data


async def test_messages_in_fragments_and_in_binary_frames_are_judged_as_a_whole() -> None:
    model = ScriptedModel({"clientContent": [END]})
    async with session(model, {"BeforeModel": [REDACT]}) as client:
        data = json.dumps(client_text(f"pay {CARD}")).encode()
        half = data.index(CARD[9:].encode())
        wire: Any = client.socket._response.connection
        wire.transport.write(frame(data[:half], WSMsgType.TEXT, ends=False))
        wire.transport.write(frame(b"there?", WSMsgType.PING))
        wire.transport.write(frame(data[half:], WSMsgType.CONTINUATION))
        assert await client.hear() == [END]
        await client.socket.send_bytes(data)
        assert await client.hear() == [END]
    assert CARD not in json.dumps(model.received)
    assert json.dumps(model.received).count("pay [CARD]") == 2


@pytest.mark.parametrize(
    "message", [client_text("a" * 17_000_000), written("a" * 17_000_000)[0]], ids=["in", "out"]
)
async def test_a_giant_message_ends_the_session(message: Json) -> None:
    model = ScriptedModel({"realtimeInput": [message]})
    async with session(model, {}) as client:
        with suppress(ConnectionError, aiohttp.ClientError):  # nobody reads the rest of a giant message
            await client.tell(message if "clientContent" in message else {"realtimeInput": {"text": "hi"}})
        end = await client.socket.receive()
    assert end.type is not WSMsgType.BINARY
    assert all("clientContent" not in each for each in model.received)


async def test_messages_that_interleave_turns_and_calls_are_judged_in_their_order() -> None:
    """A call in the middle of a text releases it, and what follows is judged after what it continues."""
    call = {"toolCall": {"functionCalls": [{"id": "1", "name": "f", "args": {}}]}}
    answer = [*written("one "), call, counted(5, 1), *written("two"), {"goAway": {"timeLeft": "9s"}}, END]
    seen: list[Json] = []
    async with session(ScriptedModel({"clientContent": answer}), {"AfterModel": [listens(seen)]}) as client:
        await client.tell(client_text("hi"))
        heard = await client.hear()
    assert heard == answer
    texts = [event["llm_response"]["text"] for event in seen]
    assert [text for text in texts if text] == ["one ", "one two"]


async def test_tokens_cost_and_speech_of_a_session_are_in_the_audit(tmp_path: Path) -> None:
    """The price of a turn depends on its own tokens, not on those of the whole session."""
    prices = tmp_path / "prices.toml"
    above = "above = [{tokens = 150, input = 1000, output = 1000}]"
    prices.write_text(f'currency = "EUR"\n[models."*"]\ninput = 1000\noutput = 2000\n{above}\n')
    config = Config.model_validate({"routes": {"live": "judge"}, "prices": {"file": prices}})
    model = ScriptedModel({"clientContent": [*written("Hello"), {**END, **counted(100, 10)}]})
    async with (
        asyncio.timeout(10),
        live(model) as upstream,
        audited_gateway(upstream, tmp_path, config=config) as gateway,
        aiohttp.ClientSession(headers=KEY) as http,
        http.ws_connect(gateway.url + LIVE) as socket,
    ):
        client = Session(socket, gateway.url, "")
        await client.tell(SETUP)
        await socket.receive()
        for _ in range(2):
            await client.tell(client_text("hi"))
            await client.hear()
        await socket.close()
    with reading(tmp_path) as audit:
        [call] = audit.calls()
    assert call.body["usage"] == {
        "input_tokens": 200,
        "output_tokens": 20,
        "cached_tokens": 0,
        "cost": pytest.approx(0.24),
    }
    assert call.body["live"]["audio_in"] == 0


def calling(number: int) -> Json:
    calls = [{"id": str(at), "name": "get_weather", "args": {}} for at in range(number)]
    return {"toolCall": {"functionCalls": calls}}


def source(at: int) -> Json:
    return {"serverContent": {"groundingMetadata": {"webSearchQueries": [f"query {at}"]}}}


@pytest.mark.parametrize("answer", [[calling(100)], [*written("Hi"), *map(source, range(100)), END]])
async def test_other_calls_go_on_while_the_items_of_a_turn_are_judged(
    answer: list[Json], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pacing, "SLICE", 0)
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    seen: list[int] = []

    async def judge(event: Json) -> None:
        seen.append(turns)

    hooks = {"BeforeTool": [runs(judge)], "AfterModel": [runs(judge)]}
    others = asyncio.create_task(take_turns())
    async with session(ScriptedModel({"clientContent": answer}), hooks) as client:
        await client.tell(client_text("hi"))
        assert len([await client.socket.receive() for _ in answer]) == len(answer)
    others.cancel()
    assert len(set(seen)) == len(seen) > 100


@pytest.mark.parametrize(
    "answer", [calling(6), {"serverContent": {"modelTurn": {"parts": [{"text": "a"}] * 6}}}]
)
async def test_a_message_of_the_server_with_too_many_items_ends_the_session(answer: Json) -> None:
    few = JUDGES.model_copy(update={"limits": LimitSettings(items=5)})
    model = ScriptedModel({"clientContent": [answer]})
    async with session(model, {"AfterModel": [listens([])]}, few) as client:
        await client.tell(client_text("hi"))
        assert "more than 5 items" in str((await client.socket.receive()).extra)


async def test_a_message_of_the_client_with_too_many_items_ends_the_session() -> None:
    few = JUDGES.model_copy(update={"limits": LimitSettings(items=5)})
    model = ScriptedModel({})
    async with session(model, {"BeforeModel": [listens([])]}, few) as client:
        await client.tell({"clientContent": {"turns": [{"role": "user", "parts": [{"text": "a"}] * 6}]}})
        assert "more than 5 items" in str((await client.socket.receive()).extra)
    assert len(model.received) == 1
