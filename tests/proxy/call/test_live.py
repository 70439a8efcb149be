"""Live sessions with `routes.live = "judge"`: what is written, spoken and called is judged, both ways."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import WSMsgType
from google import genai
from google.genai import types
from google.genai.errors import APIError
from support.gateway import gateway_before, listens, runs, says
from support.live import LIVE, ScriptedModel, live, with_tls
from support.policies import CARD, REFUSAL, no_rockets, only_weather
from support.wire import KEY, ask

from hookgate.proxy.config import Config

Json = dict[str, Any]
JUDGES = Config.model_validate({"routes": {"live": "judge"}})
REDACT = {"type": "builtin", "builtin": "redact", "options": {"words": {"CARD": [CARD]}}}
MODEL = "models/gemini-live"
SETUP = {"setup": {"model": MODEL, "generationConfig": {"responseModalities": ["TEXT"]}}}
SPEECH = base64.b64encode(b"speech").decode()
TOOLS = [{"functionDeclarations": [{"name": "get_weather"}, {"name": "launch"}]}]
END: Json = {"serverContent": {"turnComplete": True}}


def said(text: str) -> Json:
    return {"clientContent": {"turns": [{"role": "user", "parts": [{"text": text}]}], "turnComplete": True}}


def written(*texts: str) -> list[Json]:
    turns = [{"role": "model", "parts": [{"text": text}]} for text in texts]
    return [{"serverContent": {"modelTurn": turn}} for turn in turns]


def spoken(text: str) -> list[Json]:
    audio = {"inlineData": {"mimeType": "audio/pcm;rate=24000", "data": SPEECH}}
    return [
        {"serverContent": {"modelTurn": {"role": "model", "parts": [audio]}}},
        *({"serverContent": {"outputTranscription": {"text": each}}} for each in text.split("|")),
        {"serverContent": {"generationComplete": True}},
        END,
    ]


class Session:
    """A client's side of a session."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse[bool], url: str, receipt: str) -> None:
        self.socket, self._url, self._receipt = socket, url, receipt

    async def tell(self, *messages: Any) -> None:
        for message in messages:
            await self.socket.send_str(message if isinstance(message, str) else json.dumps(message))

    async def hear(self) -> list[Json]:
        """The messages up to the end of a turn, or of the session."""
        messages: list[Json] = []
        while not messages or "turnComplete" not in messages[-1].get("serverContent", {}):
            message = await self.socket.receive()
            if message.type is not WSMsgType.BINARY:
                break
            messages.append(json.loads(message.data))
        return messages

    async def receipt(self) -> Json:
        """The receipt of the session, once it has ended."""
        while True:
            answer = await ask(self._url, "GET", f"/hookgate/v1/receipts/{self._receipt}")
            if answer.status == 200:
                receipt: Json = answer.json
                return receipt
            await asyncio.sleep(0.01)


@asynccontextmanager
async def session(
    model: ScriptedModel, hooks: Json, config: Config = JUDGES, setup: Any = SETUP
) -> AsyncIterator[Session]:
    """A session that has been set up; nothing may take longer than ten seconds."""
    async with (
        asyncio.timeout(10),
        live(model) as upstream,
        gateway_before(upstream, hooks, config) as url,
        aiohttp.ClientSession(headers=KEY) as http,
        http.ws_connect(url + LIVE, max_msg_size=0) as socket,
    ):
        client = Session(socket, url, socket._response.headers["x-hookgate-receipt"])
        if setup is not None:
            await client.tell(setup)
            assert json.loads((await socket.receive()).data) == {"setupComplete": {}}
        yield client


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
        await client.tell(said("hi"))
        heard = await client.hear()
        await client.socket.close()
        receipt = await client.receipt()
    assert heard == [*written("Hel", "lo"), {"usageMetadata": {"totalTokenCount": 3}}, END]
    assert model.received[1:3] == [said("hi")]
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


@pytest.mark.parametrize(
    "message",
    [
        said("a rocket"),
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
    ],
    ids=["text", "speech", "interrupted", "call", "sources"],
)
async def test_nothing_of_a_denied_answer_reaches_the_client(answer: list[Json]) -> None:
    hooks = {"AfterModel": [runs(no_rocket_out) | {"view": "body"}]}
    async with session(ScriptedModel({"clientContent": answer}), hooks) as client:
        await client.tell(said("hi"))
        end = await client.socket.receive()
    assert (end.type, end.data, end.extra) == (WSMsgType.CLOSE, 1008, REFUSAL)


async def test_secrets_are_redacted_across_messages_and_their_speech_is_removed() -> None:
    first, second = CARD[:9], CARD[9:]
    hooks = {"BeforeModel": [REDACT], "AfterModel": [REDACT]}
    answers = [*written(f"It is {first}", f"{second}."), END]
    model = ScriptedModel({"clientContent": answers, "realtimeInput": spoken(f"It is {first}|{second}.")})
    async with session(model, hooks) as client:
        await client.tell(said(f"pay {CARD}"))
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
    assert receipt["live"] == {"audio_in": 6, "media_out": 6}


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


async def test_the_text_of_a_session_has_a_limit_and_speech_has_none() -> None:
    config = Config.model_validate({"routes": {"live": "judge"}, "limits": {"body": 1000}})
    audio = {"realtimeInput": {"audio": {"mimeType": "audio/pcm", "data": SPEECH * 200}}}
    model = ScriptedModel({"clientContent": [END]})
    async with session(model, {}, config) as client:
        await client.tell(audio, said("a" * 400))
        assert await client.hear() == [END]
        await client.tell(said("a" * 400))
        closed = await client.socket.receive()
    assert (closed.data, "1000 bytes" in (closed.extra or "")) == (1008, True)
    assert len(model.received) == 3


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
        await client.tell(said("hi"))
        [heard, end] = await client.hear()
        await client.socket.close()
        receipt = await client.receipt()
    assert (heard, end) == ({"toolCall": {"functionCalls": calls[1:2]}}, END)
    [_, _, told] = model.received
    responses = told["toolResponse"]["functionResponses"]
    assert [(each["id"], each["name"]) for each in responses] == [("1", "get_weather"), ("3", "launch")]
    assert "not Paris" in responses[0]["response"]["error"]
    assert (receipt["outcome"], receipt["blocked_count"]) == ("blocked", 2)


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ("not JSON", "JSON"),
        ('{"setup": {}, "setup": {}}', "twice"),
        ({**said("a"), **SETUP}, "one field"),
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
            said("hi") | {"clientContent": {"turns": [{"parts": [{"fileData": {"fileUri": "gs://b/f"}}]}]}},
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
    model = ScriptedModel({"clientContent": [strange, END]})
    async with session(model, {}) as client:
        await client.tell(said("hi"))
        heard = await client.hear()
    assert heard == [{"serverContent": {"outputTranscription": {"text": "b"}}}, END]


@pytest.mark.parametrize(
    "message",
    [
        b"not JSON",
        b"[]",
        b'{"serverContent": "a"}',
        b'{"serverContent": {"outputTranscription": {"text": ["a"]}}}',
        b'{"serverContent": {"modelTurn": {"parts": [{"functionCall": {"name": "f"}}]}}}',
        b'{"serverContent": {"modelTurn": {"parts": [{"text": ["a"]}]}, "turnComplete": true}}',
        b'{"toolCall": {"functionCalls": ["a"]}}',
        b'{"serverContent": {"modelTurn": {"parts": [{"text": "a"}]}, "model_turn": {}}}',
    ],
)
async def test_an_unreadable_message_of_the_server_ends_the_session(message: bytes) -> None:
    async with session(ScriptedModel({"clientContent": [message]}), {}) as client:
        await client.tell(said("hi"))
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
        for verb in ("BidiGenerateMusic", "BidiGenerateContentConstrained"):
            assert (await ask(url, "GET", LIVE.replace("BidiGenerateContent", verb))).status == 403
        vertex = "/ws/google.cloud.aiplatform.v1beta1.LlmBidiService/BidiGenerateContent"
        assert (await ask(url, "GET", vertex)).status == 403
        assert (await ask(url, "GET", LIVE)).status == 400  # no WebSocket


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


async def test_a_stop_ends_the_session() -> None:
    hook = says({"continue": False, "stopReason": "enough"}) | {"when": {"models": ["gemini-*"]}}
    async with session(ScriptedModel({}), {"BeforeModel": [hook]}, setup=None) as client:
        await client.tell(SETUP)
        end = await client.socket.receive()
    assert (end.data, end.extra) == (1008, "enough")
