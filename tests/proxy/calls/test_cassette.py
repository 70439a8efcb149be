"""Recorded answers at a whole gateway: recorded from an upstream, and replayed without one."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.gateway.loopback import gateway_before, running_gateway, says
from support.places import EXAMPLES
from support.wire import KEY, STREAM, UNARY, post, prompt

Json = dict[str, Any]

EVENTS = f"{STREAM}?alt=sse"

EXAMPLE = EXAMPLES / "cassette.json"

NOWHERE = "http://127.0.0.1:9"
"""An upstream that nobody serves."""

CALL = {"functionCall": {"name": "read", "args": {"path": "a"}}, "thoughtSignature": "c2ln"}
SCRIPT = {
    "rules": [
        {"when": {"tool_response": "read"}, "answer": {"chunks": ["It ", "says ", "hi."]}},
        {"answer": {"chunks": ["Let me ", [{"text": "look."}], [CALL]]}},
    ]
}
TOOLS = [{"functionDeclarations": [{"name": "read"}]}]
FIRST = prompt("what is in a?", tools=TOOLS)


def hooks(folder: Path, **options: Any) -> Json:
    hook = {
        "type": "builtin",
        "builtin": "cassette",
        "options": {"folder": str(folder / "recordings"), **options},
    }
    return {"BeforeModel": [hook], "AfterModel": [hook]}


def parts_of(answers: list[Json]) -> list[Json]:
    """What an answer says: the parts of all its events, texts joined."""
    parts = [part for each in answers for part in each["candidates"][0]["content"]["parts"]]
    text = "".join(part.get("text", "") for part in parts)
    return [{"text": text}, *(part for part in parts if "text" not in part)]


async def answer_events(url: str, target: str, body: Json) -> list[Json]:
    """The events of the answer; one for an answer that is no stream."""
    answer = await post(url, target, body, KEY)
    assert answer.status == 200
    return answer.events if target == EVENTS else [answer.json]


async def conversation(url: str, target: str) -> list[list[Json]]:
    """A question, the call that the model answers with, and what it makes of the result."""
    first = parts_of(await answer_events(url, target, FIRST))
    result = {"functionResponse": {"name": "read", "response": {"output": "hi"}}}
    turns = [{"role": "model", "parts": first}, {"role": "user", "parts": [result]}]
    return [
        first,
        parts_of(await answer_events(url, target, {**FIRST, "contents": [*FIRST["contents"], *turns]})),
    ]


@pytest.mark.parametrize("replayed", [UNARY, EVENTS], ids=["replayed whole", "replayed as a stream"])
@pytest.mark.parametrize("recorded", [UNARY, EVENTS], ids=["recorded whole", "recorded as a stream"])
async def test_a_conversation_with_a_call_is_replayed_without_an_upstream(
    tmp_path: Path, recorded: str, replayed: str
) -> None:
    async with running_gateway(hooks(tmp_path), SCRIPT) as gateway:
        said = await conversation(gateway.url, recorded)
    assert said == [[{"text": "Let me look."}, CALL], [{"text": "It says hi."}]]
    assert len(os.listdir(tmp_path / "recordings")) == 2
    async with gateway_before(NOWHERE, hooks(tmp_path, mode="replay")) as url:
        assert await conversation(url, replayed) == said


async def test_a_recorded_request_does_not_reach_the_upstream(tmp_path: Path) -> None:
    async with running_gateway(hooks(tmp_path), SCRIPT) as gateway:
        said = [await answer_events(gateway.url, UNARY, FIRST) for _ in range(3)]
        assert len(gateway.generated) == 1
    assert said[0] == said[1] == said[2]


async def test_a_request_without_a_recording_is_denied_with_its_key(tmp_path: Path) -> None:
    async with gateway_before(NOWHERE, hooks(tmp_path, mode="replay")) as url:
        answer = await post(url, UNARY, FIRST, KEY)
    assert answer.status == 403
    assert "is recorded: there is no" in answer.error["message"]


async def test_json_that_was_asked_for_is_replayed_with_the_thoughts_before_it(tmp_path: Path) -> None:
    parts = [{"text": "Hm.", "thought": True}, {"text": '{"a": 1}'}]
    body = {**FIRST, "generationConfig": {"responseMimeType": "application/json"}}
    async with running_gateway(hooks(tmp_path), {"rules": [{"answer": {"parts": parts}}]}) as gateway:
        said = await answer_events(gateway.url, UNARY, body)
    async with gateway_before(NOWHERE, hooks(tmp_path, mode="replay")) as url:
        assert await answer_events(url, UNARY, body) == said


async def test_the_key_of_a_call_and_its_secrets_are_not_recorded(tmp_path: Path) -> None:
    body = prompt("I am anna.smith@example.com")
    async with running_gateway(hooks(tmp_path)) as gateway:
        [said] = await answer_events(gateway.url, UNARY, body)
    assert "anna.smith@example.com" in str(said)  # the mock upstream repeats what it is told
    [file] = (tmp_path / "recordings").iterdir()
    written = file.read_text()
    assert "[EMAIL]" in json.loads(written)["answer"]["candidates"][0]["content"]["parts"][0]["text"]
    assert "anna" not in written
    assert not any(value in written for value in KEY.values())


async def test_the_example_records_into_its_project(tmp_path: Path) -> None:
    settings = shutil.copy(EXAMPLE, tmp_path / "settings.json")
    async with running_gateway(settings) as gateway:
        said = [await answer_events(gateway.url, EVENTS, FIRST) for _ in range(2)]
        assert len(gateway.generated) == 1
    assert parts_of(said[0]) == parts_of(said[1])
    assert len(os.listdir(tmp_path / "cassettes")) == 1


async def test_a_cassette_behind_other_hooks_records_what_they_have_made(tmp_path: Path) -> None:
    configured = hooks(tmp_path)
    configured["AfterModel"].insert(0, says(llm_response={"text": "edited"}))
    async with running_gateway(configured) as gateway:
        await answer_events(gateway.url, UNARY, FIRST)
    async with gateway_before(NOWHERE, hooks(tmp_path, mode="replay")) as url:
        [said] = await answer_events(url, UNARY, FIRST)
    assert parts_of([said])[0] == {"text": "edited"}
