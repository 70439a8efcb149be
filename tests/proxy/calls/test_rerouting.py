"""Calls that another model answers than was asked: records, prices, limits, and the policy `models`."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.gateway.loopback import running_gateway
from support.gateway.panel import BEARER, panel_gateway
from support.wire import KEY, Answer, ask, post, prompt

from hookgate.proxy.config import Config

Json = dict[str, Any]

ASKED, ANSWERS = "gemini-2.5-pro", "gemini-3.8-flash"
SCRIPT = {"rules": [{"answer": {"text": "a secret plan", "model": ANSWERS}}]}
GENERATE = f"/v1beta/models/{ASKED}:generateContent"
STREAM = f"/v1beta/models/{ASKED}:streamGenerateContent?alt=sse"
CHAT = {"model": ASKED, "messages": [{"role": "user", "content": "hi"}]}
CALLS: dict[str, tuple[str, Json]] = {
    "whole": (GENERATE, prompt("hi")),
    "array": (GENERATE.replace(":generate", ":streamGenerate"), prompt("hi")),
    "stream": (STREAM, prompt("hi")),
    "chat": ("/v1beta/openai/chat/completions", CHAT),
    "chat stream": ("/v1beta/openai/chat/completions", {**CHAT, "stream": True}),
    "responses": ("/v1beta/openai/responses", {"model": ASKED, "input": "hi", "store": False}),
    "responses stream": (
        "/v1beta/openai/responses",
        {"model": ASKED, "input": "hi", "store": False, "stream": True},
    ),
    "interaction": ("/v1beta/interactions", {"model": ASKED, "input": "hi", "store": False}),
    "interaction stream": (
        "/v1beta/interactions",
        {"model": ASKED, "input": "hi", "store": False, "stream": True},
    ),
}
every_call = pytest.mark.parametrize("call", CALLS)


def models(event: str, **options: Any) -> Json:
    """The hooks of a gateway with the policy `models` under one event."""
    return {event: [{"type": "builtin", "builtin": "models", "name": "house", "options": options}]}


def prices(folder: Path, **models: int) -> Path:
    """A price table: the price of a million tokens, by model with underscores."""
    file = folder / "prices.toml"
    tables = (f'[models."{name}"]\ninput = {price}\noutput = {price}\n' for name, price in models.items())
    file.write_text('currency = "EUR"\n' + "".join(tables))
    return file


async def send(url: str, call: str) -> Answer:
    path, body = CALLS[call]
    return await post(url, path, body, KEY)


async def receipt_of(url: str, answer: Answer) -> Json:
    found = await ask(
        url, "GET", f"/hookgate/v1/receipts/{answer.headers['x-hookgate-receipt']}", headers=KEY
    )
    assert found.status == 200
    receipt: Json = found.json
    return receipt


@every_call
async def test_the_receipt_names_both_models(call: str) -> None:
    async with running_gateway(models("AfterModel", allow=["*"]), SCRIPT) as gateway:
        answer = await send(gateway.url, call)
        receipt = await receipt_of(gateway.url, answer)
    assert answer.status == 200
    assert (receipt["model"], receipt["answered_by"]) == (ASKED, ANSWERS)


@every_call
async def test_without_hooks_the_answer_still_names_its_model(call: str) -> None:
    async with running_gateway({}, SCRIPT) as gateway:
        receipt = await receipt_of(gateway.url, await send(gateway.url, call))
    assert receipt["answered_by"] == ANSWERS
    # Nothing reads the bodies of such requests, which name the model in other dialects.
    assert receipt["model"] == (ASKED if ASKED in CALLS[call][0] else None)


@every_call
async def test_a_model_that_answers_itself_is_named_once(call: str) -> None:
    async with running_gateway(models("BeforeModel", allow=["*"])) as gateway:
        receipt = await receipt_of(gateway.url, await send(gateway.url, call))
    assert receipt["model"] == ASKED
    assert "answered_by" not in receipt


@pytest.mark.parametrize(
    "name",
    ["sk-AbCdEf0123456789", "two words", "g" * 65, "", 5, None, ["gemini-3.8-flash"]],
)
async def test_what_is_no_name_of_a_model_is_not_recorded(name: Any) -> None:
    body = {
        "candidates": [{"content": {"parts": [{"text": "hi"}]}, "finishReason": "STOP"}],
        "modelVersion": name,
    }
    async with running_gateway({}, {"rules": [{"answer": {"responses": [body]}}]}) as gateway:
        receipt = await receipt_of(gateway.url, await send(gateway.url, "whole"))
    assert "answered_by" not in receipt


async def test_a_field_of_a_tool_call_is_not_the_model() -> None:
    call = {"functionCall": {"name": "f", "args": {"modelVersion": "gemini-free", "text": "x" * 300_000}}}
    body = {"candidates": [{"content": {"parts": [call]}, "finishReason": "STOP"}], "modelVersion": ANSWERS}
    async with running_gateway({}, {"rules": [{"answer": {"responses": [body]}}]}) as gateway:
        receipt = await receipt_of(gateway.url, await send(gateway.url, "whole"))
    assert receipt.get("answered_by") in (None, ANSWERS)


@pytest.mark.parametrize(
    ("table", "price"),
    [({ASKED: 1000, ANSWERS: 10}, 10), ({ASKED: 1000}, 1000)],
    ids=["priced", "not priced"],
)
@every_call
async def test_a_call_costs_what_the_model_that_answered_costs(
    call: str, table: dict[str, int], price: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = Config.model_validate({"prices": {"file": prices(tmp_path, **table)}})
    async with running_gateway(models("BeforeModel"), SCRIPT, config) as gateway:
        usage = (await receipt_of(gateway.url, await send(gateway.url, call)))["usage"]
        await send(gateway.url, call)
    tokens = usage["input_tokens"] + usage["output_tokens"]
    assert tokens
    assert usage["cost"] == pytest.approx(tokens * price / 1_000_000)
    assert caplog.text.count(f"calls to {ASKED} are answered by {ANSWERS}") == 1
    assert ("has no price for it" in caplog.text) is (ANSWERS not in table)


@pytest.mark.parametrize("limited", [ASKED, ANSWERS])
@every_call
async def test_limits_of_either_model_hold(call: str, limited: str) -> None:
    rule = {"per": "everyone", "window": "month", "tokens": 1, "models": [limited]}
    hooks = {"BeforeModel": [{"type": "builtin", "builtin": "limits", "options": {"rules": [rule]}}]}
    async with running_gateway(hooks, SCRIPT) as gateway:
        statuses = [(await send(gateway.url, call)).status for _ in range(3)]
    assert statuses == [200, 403, 403]


async def test_a_limit_of_a_model_that_neither_was_asked_nor_answers_does_not_hold() -> None:
    rule = {"per": "everyone", "window": "month", "tokens": 1, "models": ["gemini-3.1-*"]}
    hooks = {"BeforeModel": [{"type": "builtin", "builtin": "limits", "options": {"rules": [rule]}}]}
    async with running_gateway(hooks, SCRIPT) as gateway:
        assert [(await send(gateway.url, "whole")).status for _ in range(3)] == [200] * 3


async def test_a_model_that_answers_itself_again_is_no_longer_taken_for_the_other() -> None:
    rule = {"per": "everyone", "window": "month", "requests": 1, "models": [ANSWERS]}
    hooks = {"BeforeModel": [{"type": "builtin", "builtin": "limits", "options": {"rules": [rule]}}]}
    script = {"rules": [{"times": 2, "answer": {"text": "hi", "model": ANSWERS}}]}
    async with running_gateway(hooks, script) as gateway:
        # The first call is answered before the limit can know of it; the second takes the only place.
        assert [(await send(gateway.url, "whole")).status for _ in range(3)] == [200, 200, 403]


@every_call
async def test_an_answer_of_a_model_that_is_not_allowed_is_reported(call: str) -> None:
    async with running_gateway(models("AfterModel", deny=["*3.8*"]), SCRIPT) as gateway:
        answer = await send(gateway.url, call)
        receipt = await receipt_of(gateway.url, answer)
    assert b"plan" in answer.body
    [hook] = receipt["hooks"]
    assert hook["findings"]["model not allowed"] >= 1


@every_call
async def test_an_answer_of_a_model_that_is_not_allowed_is_withheld_if_so_configured(call: str) -> None:
    hooks = models("AfterModel", allow=["gemini-2.5-*"], answered_by="refuse")
    async with running_gateway(hooks, SCRIPT) as gateway:
        answer = await send(gateway.url, call)
        receipt = await receipt_of(gateway.url, answer)
    assert b"secret" not in answer.body
    assert b"plan" not in answer.body
    assert ANSWERS in answer.body.decode()
    assert receipt["outcome"] == "denied"


@pytest.mark.parametrize("name", ["Gemini-2.5-Pro", "gemini-2.5-pro ", "gemini-2.5-pro\u200b", "a(b)"])
@every_call
async def test_an_answer_whose_model_is_not_readable_is_withheld(call: str, name: Any) -> None:
    script: Any = {"rules": [{"answer": {"text": "a secret plan", "model": name}}]}
    hooks = models("AfterModel", deny=["gemini-2.5-*"], answered_by="refuse")
    async with running_gateway(hooks, script) as gateway:
        assert b"plan" not in (await send(gateway.url, call)).body


@every_call
async def test_an_answer_of_an_allowed_model_passes(call: str) -> None:
    hooks = models("AfterModel", allow=["gemini-3.8-*"], answered_by="refuse")
    async with running_gateway(hooks, SCRIPT) as gateway:
        assert b"plan" in (await send(gateway.url, call)).body


async def test_the_panel_and_the_audit_list_the_model_that_answered(tmp_path: Path) -> None:
    async with panel_gateway(tmp_path, {}, SCRIPT, audit={"enabled": True}) as gateway:
        assert (await send(gateway.url, "whole")).status == 200
        async with asyncio.timeout(5):  # the record may come to the database after the answer
            while not (rows := await listed_calls(gateway.admin, ANSWERS)):
                pass
        assert await listed_calls(gateway.admin, ASKED) == []
    [row] = rows
    assert (row["model"], row["asked"]) == (ANSWERS, ASKED)


async def listed_calls(admin: str, model: str) -> list[Json]:
    calls: list[Json] = (await ask(admin, "GET", f"/api/calls?q=model:={model}", BEARER)).json["calls"]
    return calls
