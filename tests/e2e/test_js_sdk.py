"""@google/genai on Node behind the gateway, with and without policies: what an application relies on."""

import json
from typing import Any

import pytest
from support.clients.node import run_script, start_script
from support.gateway.live import ScriptedModel, live
from support.gateway.loopback import gateway_before, running_gateway, runs
from support.gateway.sent import sent_parts
from support.hooks.policies import (
    CANNED,
    CARD,
    REDACTED,
    REFUSAL,
    answer_itself,
    name_the_session,
    no_rockets,
    redact,
)

from hookgate.proxy.config import Config

SIGNATURE = "c2lnbmVkIGJ5IHRoZSBtb2RlbA=="
CALL = {"functionCall": {"name": "get_weather", "args": {"city": "Oslo"}}, "thoughtSignature": SIGNATURE}
JUDGES_LIVE = Config.model_validate({"routes": {"live": "judge"}})
both_ways = pytest.mark.parametrize("way", ["generate", "stream"])


async def ask(way: str, base_url: str, prompt: str) -> list[Any]:
    """What the script printed: `{"text"}`, `{"call"}` and `{"error"}`, in order."""
    ran = await run_script("ask.mjs", way, base_url, prompt)
    assert (ran.exit_code, ran.stderr) == (0, "")
    return ran.lines


def text_of(printed: list[Any]) -> str:
    return "".join(each["text"] for each in printed)


@both_ways
@pytest.mark.parametrize("judged", [False, True], ids=["without hooks", "with hooks"])
async def test_answers_arrive(way: str, judged: bool) -> None:
    hooks = {"BeforeModel": [runs(no_rockets)], "AfterModel": [runs(redact)]} if judged else {}
    async with running_gateway(hooks) as gateway:
        printed = await ask(way, gateway.url, "good morning to all of you")
    assert text_of(printed) == "You said: good morning to all of you"
    assert (len(printed) >= 3) is (way == "stream")
    assert len(gateway.generated) == 1


async def test_a_chat_remembers_what_the_user_was_shown() -> None:
    hooks = {"AfterModel": [runs(redact)]}
    script = {"rules": [{"when": {"text": "my card"}, "answer": {"text": f"It is {CARD}."}}]}
    async with running_gateway(hooks, script) as gateway:
        first, *streamed = await ask("chat", gateway.url, "what is my card")
    assert first == {"text": f"It is {REDACTED}."}
    assert text_of(streamed) == "You said: and then?"
    assert [part["text"] for part in sent_parts(gateway)] == [
        "what is my card",
        f"It is {REDACTED}.",
        "and then?",
    ]


async def test_a_function_call_and_its_signature_survive_a_redacting_hook() -> None:
    hooks = {"AfterModel": [runs(redact)]}
    called = {"parts": [{"text": f"With {CARD} I look."}, CALL]}
    async with running_gateway(hooks, {"rules": [{"times": 1, "answer": called}]}) as gateway:
        text, call, answer = await ask("tool", gateway.url, "the weather in Oslo?")
    assert text == {"text": f"With {REDACTED} I look."}
    assert call == {"call": CALL["functionCall"]}
    assert "storm in Oslo" in answer["text"]
    assert CALL in sent_parts(gateway)


@both_ways
async def test_a_denial_is_an_error_with_its_reason_after_exactly_one_request(
    way: str, arrived: list[str]
) -> None:
    hooks = {"BeforeModel": [runs(no_rockets)]}
    async with running_gateway(hooks) as gateway:
        [denial] = await ask(way, gateway.url, "how do I build a rocket?")
    assert denial["error"]["status"] == 403
    assert json.loads(denial["error"]["message"])["error"]["message"] == REFUSAL
    assert len(arrived) == 1
    assert not gateway.recorded


@both_ways
async def test_a_synthetic_answer_arrives_without_any_request_to_the_model(way: str) -> None:
    hooks = {"BeforeModel": [runs(answer_itself)]}
    async with running_gateway(hooks) as gateway:
        assert await ask(way, gateway.url, "anything") == [{"text": CANNED}]
    assert not gateway.recorded


async def test_a_redacted_stream_shows_no_secret() -> None:
    hooks = {"AfterModel": [runs(redact)]}
    script = {"rules": [{"answer": {"chunks": ["The card is ", f"{CARD}, ", "keep it safe."]}}]}
    async with running_gateway(hooks, script) as gateway:
        printed = await ask("stream", gateway.url, "the card?")
    assert [each["text"] for each in printed] == ["The card is ", f"{REDACTED}, ", "keep it safe."]
    assert len(gateway.generated) == 1


async def test_a_session_in_the_base_url_is_what_hooks_are_shown() -> None:
    hooks = {"BeforeModel": [runs(name_the_session)]}
    async with running_gateway(hooks) as gateway:
        assert await ask("generate", gateway.url + "/s/abc", "who am I?") == [{"text": "session abc"}]


@pytest.mark.parametrize("api", ["gemini", "vertex"])
async def test_a_live_session_is_judged_and_ends_with_the_reason_of_a_denial(api: str) -> None:
    said = {"modelTurn": {"role": "model", "parts": [{"text": f"It is {CARD}."}]}}
    model = ScriptedModel(
        {"clientContent": [{"serverContent": said}, {"serverContent": {"turnComplete": True}}]}
    )
    hooks = {"BeforeModel": [runs(no_rockets)], "AfterModel": [runs(redact)]}
    async with live(model) as upstream, gateway_before(upstream, hooks, JUDGES_LIVE) as url:
        ran = await start_script("live.mjs", api, "any", url, "my card?", "a rocket")
    assert (ran.exit_code, ran.stderr) == (0, "")
    assert ran.lines == [{"text": f"It is {REDACTED}."}, {"code": 1008, "reason": REFUSAL}]
    assert "rocket" not in json.dumps(model.received)


async def test_a_live_session_with_an_ephemeral_token_is_refused() -> None:
    async with gateway_before("http://127.0.0.1:1", {}, JUDGES_LIVE) as url:
        ran = await start_script("live.mjs", "gemini", "auth_tokens/abc", url, "hi")
    assert ran.lines[0] == {"error": "Unexpected server response: 403"}
