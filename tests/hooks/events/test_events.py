"""The model events: what each shows a hook, and the effects of the hook's output."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from support.hooks.settings import (
    SESSION,
    Json,
    asking,
    command,
    engine,
    one_group,
    parallel,
    sequential,
    write_file,
)

from hookgate.hooks import AfterModel, BeforeModel, BeforeToolSelection, Engine, Outcome, load_settings
from hookgate.hooks.events.base import SharedValue
from hookgate.translator import declared_names, function_declarations, show_request, show_response

MODEL = "gemini-2.5-flash"
REQUEST: Json = {
    "systemInstruction": {"parts": [{"text": "Be brief."}]},
    "contents": [{"role": "user", "parts": [{"text": "Clean up."}]}],
    "tools": [{"functionDeclarations": [{"name": "read"}, {"name": "write"}]}, {"googleSearch": {}}],
    "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["read"]}},
    "generationConfig": {"temperature": 0.5},
}
ANSWER: Json = {
    "candidates": [
        {
            "content": {
                "role": "model",
                "parts": [
                    {"text": "thinking of pin 1", "thought": True},
                    {"text": "pin 1"},
                    {"functionCall": {"id": "c1", "name": "read", "args": {"path": "pin 1"}}},
                    {"text": ", ok", "thoughtSignature": "c2ln"},
                ],
            },
            "finishReason": "STOP",
            "index": 0,
        }
    ],
    "usageMetadata": {"totalTokenCount": 7},
    "modelVersion": "x",
}


def shown_request() -> SharedValue:
    return SharedValue(show_request(MODEL, REQUEST))


def after_model() -> AfterModel:
    return AfterModel(shown_request(), copy.deepcopy(ANSWER))


def selecting() -> BeforeToolSelection:
    return BeforeToolSelection(MODEL, copy.deepcopy(REQUEST))


async def fire(event: Any, *outputs: Json | None, group: Any = parallel) -> Outcome[Any]:
    """The outcome of one hook for each of the outputs."""
    actions = [lambda _, output=output: copy.deepcopy(output) for output in outputs]
    return await engine(group(*actions), event=event.name).fire(event, SESSION)


async def view_of(event: Any) -> Json:
    seen: list[Json] = []
    await engine(parallel(seen.append), event=event.name).fire(event, SESSION)
    return seen[0]


# ---- BeforeModel


async def test_before_model_shows_the_request() -> None:
    request = (await view_of(BeforeModel(MODEL, REQUEST)))["llm_request"]
    assert request == show_request(MODEL, REQUEST)
    assert request["messages"][0] == {"role": "system", "content": "Be brief."}
    assert (request["model"], request["config"]) == (MODEL, {"temperature": 0.5})


async def test_before_model_edits_what_is_named_and_nothing_else() -> None:
    edit = {"llm_request": {"model": "gemini-2.5-pro", "config": {"temperature": None, "topK": 3}}}
    event = (await fire(BeforeModel(MODEL, REQUEST), {"hookSpecificOutput": edit})).event
    assert event == BeforeModel("gemini-2.5-pro", {**REQUEST, "generationConfig": {"topK": 3}})


@pytest.mark.parametrize(
    "answer", [{"text": "no"}, {"candidates": [{"content": {"parts": ["no"]}}]}, {"candidate": {}}]
)
@pytest.mark.parametrize("decision", [{}, {"decision": "deny"}, {"decision": "allow"}])
async def test_before_model_may_answer_in_the_model_s_place_with_or_without_a_decision(
    answer: Json, decision: Json
) -> None:
    outcome = await fire(asking("hi"), {**decision, "hookSpecificOutput": {"llm_response": answer}})
    assert outcome.verdict.synthetic
    assert outcome.verdict.llm_response == answer
    assert not outcome.verdict.denied


# ---- BeforeToolSelection


async def test_before_tool_selection_shows_request_tools_and_selection() -> None:
    seen = await view_of(selecting())
    assert seen["llm_request"] == {**show_request(MODEL, REQUEST), "tools": REQUEST["tools"]}
    assert seen["available_tools"] == function_declarations(REQUEST)
    assert [each["name"] for each in seen["available_tools"]] == declared_names(REQUEST)
    assert seen["tool_config"] == {"mode": "ANY", "allowed_function_names": ["read"]}


async def test_before_tool_selection_shows_a_request_without_tools_too() -> None:
    seen = await view_of(BeforeToolSelection(MODEL, asking("hi").body))
    assert (seen["available_tools"], seen["tool_config"]) == ([], None)


@pytest.mark.parametrize(
    "specific",
    [
        {"toolConfig": {"mode": "ANY", "allowedFunctionNames": ["write"]}},
        {"toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["write"]}}},
        {"tool_config": {"mode": "ANY", "allowed_function_names": ["write"]}},
    ],
)
async def test_selections_are_read_in_every_spelling_and_united(specific: Json) -> None:
    other = {"hookSpecificOutput": {"toolConfig": {"mode": "ANY", "allowedFunctionNames": ["read"]}}}
    outcome = await fire(selecting(), {"hookSpecificOutput": specific}, None, other)
    assert outcome.verdict.tool_config == {"mode": "ANY", "allowedFunctionNames": ["read", "write"]}
    assert outcome.event.body == REQUEST


async def test_tools_may_be_filtered_by_declarations_and_names() -> None:
    filters: list[Any] = [REQUEST["tools"], [{"name": "write"}, "other"]]
    outcome = await fire(selecting(), *({"hookSpecificOutput": {"tools": tools}} for tools in filters))
    assert outcome.verdict.tools == ["write"]


async def test_a_program_may_print_the_names_of_tools(tmp_path: Path) -> None:
    path = write_file(tmp_path, one_group(command("echo write,read"), event="BeforeToolSelection"))
    outcome = await Engine(load_settings([path])).fire(selecting(), SESSION)
    assert outcome.verdict.tool_config == {"mode": "ANY", "allowedFunctionNames": ["read", "write"]}


@pytest.mark.parametrize(
    ("specific", "expected"),
    [
        ({"toolConfig": "ANY"}, "toolConfig: expected an object"),
        ({"toolConfig": {"mode": "SOME"}}, "toolConfig.mode: expected one of"),
        (
            {"toolConfig": {"functionCallingConfig": {"allowedFunctionNames": "read"}}},
            "toolConfig.allowedFunctionNames: expected a list of names",
        ),
        ({"tools": "read"}, "tools: expected a list of names or tools"),
        ({"tools": [5]}, "tools[0]: expected a name or a tool object"),
    ],
)
async def test_a_selection_that_cannot_be_read_fails_its_hook_and_no_other(
    specific: Json, expected: str
) -> None:
    good = {"hookSpecificOutput": {"toolConfig": {"mode": "ANY", "allowedFunctionNames": ["read"]}}}
    outcome = await fire(selecting(), {"hookSpecificOutput": specific}, good)
    assert outcome.runs[0].error.startswith(f"hookSpecificOutput.{expected}")
    assert outcome.verdict.tool_config == good["hookSpecificOutput"]["toolConfig"]


@pytest.mark.parametrize("event", [asking("hi"), after_model()])
async def test_a_selection_on_another_event_says_nothing_and_does_no_harm(event: Any) -> None:
    for specific in ({"toolConfig": {"mode": "NONE"}}, {"toolConfig": "?", "tools": 5}):
        outcome = await fire(event, {"hookSpecificOutput": specific, "reason": "r"})
        assert (outcome.verdict.tool_config, outcome.verdict.tools) == (None, None)
        assert outcome.verdict.reason == "r"


# ---- AfterModel


async def test_after_model_shows_the_request_as_it_was_sent_and_the_answer() -> None:
    seen = await view_of(after_model())
    assert seen["llm_request"] == show_request(MODEL, REQUEST)
    assert seen["llm_response"] == show_response(ANSWER)
    assert seen["llm_response"]["text"] == "pin 1, ok"


async def test_after_model_shows_programs_the_same(tmp_path: Path) -> None:
    script = """python3 -c 'import json, sys; print(json.dumps({"seen": json.load(sys.stdin)}))'"""
    path = write_file(tmp_path, one_group(command(script), event="AfterModel"))
    [run] = (await Engine(load_settings([path])).fire(after_model(), SESSION)).runs
    assert run.output is not None
    assert run.output["seen"]["llm_request"] == show_request(MODEL, REQUEST)
    assert run.output["seen"]["llm_response"] == show_response(ANSWER)


def replaced(secret: str, event: Json) -> Json:
    """What a redactor of the documents gives back: the whole response with the secret replaced."""
    response = json.loads(json.dumps(event["llm_response"]["candidates"]).replace(secret, "*"))
    return {"hookSpecificOutput": {"llm_response": {**event["llm_response"], "candidates": response}}}


@pytest.mark.parametrize("group", [parallel, sequential])
async def test_redactors_of_an_answer_add_up_and_leave_calls_and_signatures_alone(group: Any) -> None:
    def pin(event: Json) -> Json:
        return replaced("pin 1", event)

    def consent(event: Json) -> Json:
        return replaced("ok", event)

    outcome = await engine(group(pin, consent), event="AfterModel").fire(after_model(), SESSION)
    expected = copy.deepcopy(ANSWER)
    parts = expected["candidates"][0]["content"]["parts"]
    parts[0]["text"], parts[1]["text"], parts[3]["text"] = "thinking of *", "*", ", *"
    assert outcome.event.body == expected


async def test_an_answer_s_text_and_its_candidates_are_one_thing() -> None:
    def shout(event: Json) -> Json:
        return {"hookSpecificOutput": {"llm_response": {"text": event["llm_response"]["text"].upper()}}}

    def pin(event: Json) -> Json:
        return replaced("pin 1", event)

    outcome = await engine(parallel(pin, shout), event="AfterModel").fire(after_model(), SESSION)
    assert show_response(outcome.event.body)["text"] == "*, OK"


@pytest.mark.parametrize(
    "output", [None, {}, {"hookSpecificOutput": {"llm_response": show_response(ANSWER)}}]
)
async def test_an_answer_that_no_hook_changes_is_the_very_same(output: Json | None) -> None:
    event = after_model()
    outcome = await fire(event, output, output)
    assert outcome.event.body is event.body


async def test_after_model_may_deny_and_stop() -> None:
    outcome = await fire(after_model(), {"decision": "deny", "reason": "leak"})
    assert (outcome.verdict.denied, outcome.verdict.reason) == (True, "leak")
    outcome = await fire(after_model(), {"continue": False, "stopReason": "enough"}, {"decision": "deny"})
    assert (outcome.verdict.stop, outcome.verdict.reason) == (True, "enough")


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ("x", "llm_response: expected an object, got 'x'"),
        ({"candidates": "x"}, "llm_response.candidates: expected a list of candidates"),
        (
            {"candidates": [{"content": {"parts": [5]}}]},
            "llm_response.candidates[0].content.parts[0]: expected a string",
        ),
        ({"text": 5}, "llm_response.text: expected a string"),
        ({**show_response(ANSWER), "text": 5}, "llm_response.text: expected a string"),
    ],
)
async def test_an_edit_of_an_answer_that_cannot_be_applied_fails_its_hook_by_path(
    response: Any, expected: str
) -> None:
    good = {"hookSpecificOutput": {"llm_response": {"text": "fine"}}}
    outcome = await fire(after_model(), {"hookSpecificOutput": {"llm_response": response}}, good)
    assert outcome.runs[0].error.startswith(f"hookSpecificOutput.{expected}")
    assert show_response(outcome.event.body)["text"] == "fine"


async def test_an_answer_with_huge_integers_reaches_every_hook(tmp_path: Path) -> None:
    event = after_model()
    event.body["usageMetadata"]["totalTokenCount"] = 2**70
    path = write_file(tmp_path, one_group(command("cat >&2; exit 2"), event="AfterModel"))
    outcome = await Engine(load_settings([path])).fire(event, SESSION)
    assert str(2**70) in outcome.verdict.reason
