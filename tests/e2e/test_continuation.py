"""Answers that Google's SDKs continue by themselves: finish reason CONTINUATION, with a continuationToken."""

import json
from typing import Any

import pytest
from google.genai.errors import ClientError
from support.clients.node import run_script
from support.clients.python_sdk import pieces, python_client, sdk_warnings
from support.gateway.loopback import running_gateway, runs
from support.hooks.policies import CARD, REDACTED, REFUSAL, redact

pytestmark = sdk_warnings

Json = dict[str, Any]
TOKEN = "b3BhcXVl"  # noqa: S105  # no secret
CLIENTS = ("sync", "async", "sync stream", "async stream", "generate", "stream")


def part(text: str, **fields: Any) -> Json:
    content = {"role": "model", "parts": [{"text": text}]}
    return {"candidates": [{"index": 0, "content": content, **fields}]}


def in_two(first: str, second: str) -> Json:
    """A script whose first answer says that it can be continued."""
    cut = part(first, finishReason="CONTINUATION", continuationToken=TOKEN)
    rest = part(second, finishReason="STOP")
    return {"rules": [{"times": 1, "answer": {"responses": [cut]}}, {"answer": {"responses": [rest]}}]}


async def ask(client: str, url: str) -> str:
    """What the SDK made of the answers, or the message of its error."""
    if client in ("generate", "stream"):
        ran = await run_script("ask.mjs", client, url, "hi")
        assert (ran.exit_code, ran.stderr) == (0, "")
        return "".join(each["text"] if "text" in each else each["error"]["message"] for each in ran.lines)
    async with python_client(url) as sdk:
        try:
            return "".join(await pieces(sdk, client, "hi"))  # type: ignore[arg-type]  # a string of two
        except ClientError as error:
            return str(error.message)


@pytest.mark.parametrize("hooks", [{}, {"AfterModel": [runs(redact)]}], ids=["without hooks", "with hooks"])
@pytest.mark.parametrize("client", CLIENTS)
async def test_an_answer_is_continued_and_each_half_is_judged(client: str, hooks: Json) -> None:
    async with running_gateway(hooks, in_two("Good ", f"morning, {CARD}.")) as gateway:
        text = await ask(client, gateway.url)
    assert text == f"Good morning, {REDACTED if hooks else CARD}."
    bodies = [request.body for request in gateway.generated]
    assert [body.get("continuationToken") for body in bodies] == [None, TOKEN]


def denies(event: Json) -> Json | None:
    said = json.dumps(event["llm_response"])
    return {"decision": "deny", "reason": REFUSAL} if "forbidden" in said else None


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("half", [1, 2])
async def test_a_denied_half_is_not_continued(client: str, half: int) -> None:
    script = in_two("forbidden", "more") if half == 1 else in_two("first ", "forbidden")
    async with running_gateway({"AfterModel": [runs(denies)]}, script) as gateway:
        text = await ask(client, gateway.url)
    assert REFUSAL in text
    assert "forbidden" not in text
    assert len(gateway.generated) == half


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_turn_begins_once_and_each_half_is_judged_as_its_end(client: str) -> None:
    seen: list[Json] = []
    hooks = {event: [runs(seen.append)] for event in ("BeforeAgent", "AfterAgent")}
    async with running_gateway(hooks, in_two("first ", "second")) as gateway:
        await ask(client, gateway.url)
    events = [(each["hook_event_name"], each.get("prompt_response")) for each in seen]
    assert events == [("BeforeAgent", None), ("AfterAgent", "first "), ("AfterAgent", "second")]
