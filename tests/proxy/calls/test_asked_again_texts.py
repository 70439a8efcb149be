"""What a client receives before and after the model was asked again is one text, which hooks judge as one."""

import json
from typing import Any

import pytest
from support.bodies.planting import SECRET
from support.gateway.dialects import no_shell
from support.gateway.loopback import running_gateway, runs
from support.wire import HI, KEY, SSE, post

from hookgate.proxy.config import Config

ASKS_AGAIN = Config.model_validate({"tools": {"refused": "ask_again", "ask_again_at_most": 2}})
CALL = {"functionCall": {"name": "shell", "args": {}}}
CHAT = {"messages": [{"role": "user", "content": "hi"}], "stream": True, "model": "gemini-2.5-flash"}
TARGETS = {
    "generateContent": (SSE, HI),
    "chat": ("/v1beta/openai/chat/completions", CHAT),
    "responses": ("/v1beta/openai/responses", {"input": "hi", "stream": True, "model": "gemini-2.5-flash"}),
    "interactions": ("/v1beta/interactions", {"input": "hi", "stream": True, "model": "gemini-2.5-flash"}),
}


def no_secret(event: dict[str, Any]) -> dict[str, Any] | None:
    """An AfterModel hook that denies the whole secret."""
    return {"decision": "deny", "reason": "no secrets"} if SECRET in event["llm_response"]["text"] else None


def masked(event: dict[str, Any]) -> dict[str, Any]:
    """An AfterModel hook that masks the whole secret."""
    text = event["llm_response"]["text"].replace(SECRET, "[KEY]")
    return {"hookSpecificOutput": {"llm_response": {"text": text}}}


HOOKS = {
    "redact": {"type": "builtin", "builtin": "redact"},
    "window": runs(no_secret, stream="window"),
    "window that edits": runs(masked, stream="window"),
    "complete": runs(no_secret, stream="complete"),
    "complete that edits": runs(masked, stream="complete"),
}


def strings_in(body: bytes) -> str:
    """Return all texts of the events of a stream, joined."""
    texts: list[str] = []

    def note(value: Any) -> None:
        if isinstance(value, dict):
            for name, item in value.items():
                if name in ("text", "content", "delta") and isinstance(item, str):
                    texts.append(item)
                elif name not in ("response", "item", "part"):
                    note(item)
        elif isinstance(value, list):
            for item in value:
                note(item)

    for line in body.split(b"\n"):
        if line.startswith(b"data: {"):
            event = json.loads(line.removeprefix(b"data: "))
            if not str(event.get("type")).endswith(".done"):
                note(event)
    return "".join(texts)


def script(*before: dict[str, Any], after: str) -> dict[str, Any]:
    """Return a script in which a refused call follows some parts, and an answer follows the refusal."""
    return {
        "rules": [
            {"when": {"tool_response": "shell"}, "answer": {"chunks": [after, " it is."]}},
            {"answer": {"chunks": [*([part] for part in before), [CALL]]}},
        ]
    }


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("hook", HOOKS)
async def test_no_text_passes_in_two_answers_around_a_refused_call(target: str, hook: str) -> None:
    hooks = {"AfterModel": [HOOKS[hook]], "BeforeTool": [runs(no_shell)]}
    path, body = TARGETS[target]
    said = script({"text": "The key is "}, {"text": SECRET[:8]}, after=SECRET[8:])
    async with running_gateway(hooks, said, ASKS_AGAIN) as gateway:
        answer = await post(gateway.url, path, body, KEY)
    assert len(gateway.recorded) == 2
    text = strings_in(answer.body)
    assert text.startswith("The key is ")
    assert SECRET not in text


@pytest.mark.parametrize("hook", HOOKS)
async def test_an_answer_after_a_refused_call_passes_if_both_together_may(hook: str) -> None:
    hooks = {"AfterModel": [HOOKS[hook]], "BeforeTool": [runs(no_shell)]}
    said = script({"text": "I look. "}, after="I did not.")
    async with running_gateway(hooks, said, ASKS_AGAIN) as gateway:
        answer = await post(gateway.url, SSE, HI, KEY)
    assert strings_in(answer.body) == "I look. I did not. it is."


async def test_a_hook_may_add_a_text_to_each_of_two_answers() -> None:
    def with_note(event: dict[str, Any]) -> dict[str, Any]:
        return {"hookSpecificOutput": {"llm_response": {"text": f"Note: {event['llm_response']['text']}"}}}

    hooks = {"AfterModel": [runs(with_note, stream="complete")], "BeforeTool": [runs(no_shell)]}
    async with running_gateway(
        hooks, script({"text": "I look. "}, after="I did not."), ASKS_AGAIN
    ) as gateway:
        answer = await post(gateway.url, SSE, HI, KEY)
    assert strings_in(answer.body) == "Note: I look. I did not. it is."


async def test_thoughts_around_a_refused_call_are_judged_as_one() -> None:
    hooks = {"AfterModel": [HOOKS["redact"]], "BeforeTool": [runs(no_shell)]}
    said = script({"text": SECRET[:8], "thought": True}, after="")
    said["rules"][0]["answer"]["chunks"] = [[{"text": SECRET[8:], "thought": True}], "Done."]
    async with running_gateway(hooks, said, ASKS_AGAIN) as gateway:
        answer = await post(gateway.url, SSE, HI, KEY)
    assert SECRET not in strings_in(answer.body)


async def test_texts_around_an_answer_that_a_hook_rejects_are_judged_as_one() -> None:
    rejected: list[Any] = []

    def reject_once(event: dict[str, Any]) -> dict[str, Any] | None:
        rejected.append(event)
        return {"decision": "deny", "reason": "go on"} if len(rejected) == 1 else None

    rules = [
        {"times": 1, "answer": {"chunks": ["The key is ", SECRET[:8]]}},
        {"answer": {"chunks": [SECRET[8:], " it is."]}},
    ]
    hooks = {"AfterModel": [HOOKS["complete"]], "AfterAgent": [runs(reject_once)]}
    async with running_gateway(hooks, {"rules": rules}, ASKS_AGAIN) as gateway:
        answer = await post(gateway.url, SSE, HI, KEY)
    assert len(gateway.recorded) == 2
    assert SECRET not in strings_in(answer.body)
