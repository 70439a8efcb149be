"""Claims of the hook documents that no other test covers, run through the engine."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.hooks.settings import (
    SESSION,
    asking,
    command,
    engine,
    one_group,
    parallel,
    sequential,
    write_file,
)

from hookgate.hooks import (
    AfterAgent,
    AfterModel,
    AfterTool,
    BeforeAgent,
    BeforeModel,
    BeforeTool,
    BeforeToolSelection,
    Event,
    Notification,
    Outcome,
    PreCompress,
    SessionEnd,
    SessionStart,
)
from hookgate.hooks.engine import combined_output
from hookgate.hooks.events.base import Document, SharedValue
from hookgate.hooks.events.reading import read_event
from hookgate.hooks.settings import KNOWN_TOOLS, Matcher, SettingsSource, Subject, read_sources

Json = dict[str, Any]

ALLOWED = ["read_file", "write_file"]
DOCUMENTED: Json = {
    "model": "gemini-2.0-flash-exp",
    "messages": [{"role": "user", "content": "Hello"}],
    "config": {"temperature": 0.7},
    "toolConfig": {"functionCallingConfig": {"mode": "AUTO", "allowedFunctionNames": ALLOWED}},
}


async def fired(event: Event, *outputs: Json, group: Any = parallel) -> Outcome[Event]:
    """The outcome of hooks that return these outputs, each from a copy of its own."""
    actions = [lambda _, output=output: json.loads(json.dumps(output)) for output in outputs]
    return await engine(group(*actions), event=event.name).fire(event, SESSION)


async def answer(event: Event, *outputs: Json) -> Json:
    """What an agent that reports the event is told."""
    return combined_output(event, await fired(event, *outputs))


def specific(**fields: Any) -> Json:
    return {"hookSpecificOutput": fields}


# ---- advisory events


@pytest.mark.parametrize("event", [SessionEnd(), PreCompress(), Notification("ToolPermission", "m")])
@pytest.mark.parametrize("flow", [{"decision": "deny"}, {"decision": "block"}, {"decision": "allow"}, {}])
async def test_an_advisory_event_answers_without_a_decision(event: Event, flow: Json) -> None:
    output = {**flow, "reason": "r", "stopReason": "s", "systemMessage": "m"}
    assert await answer(event, output) == {"systemMessage": "m"}
    assert await answer(event, {**output, "continue": False}) == {"systemMessage": "m"}


# ---- the minimal inputs of the documents


def hook_input(name: str, **document: Any) -> Json:
    """What a hook is shown of an event that an agent reports with these fields."""
    fields: Json = Document(read_event(name, document).fields("text")).value()
    return fields


def test_the_tool_selection_of_a_documented_request_is_shown_flat_and_nested() -> None:
    selection = {"mode": "AUTO", "allowedFunctionNames": ALLOWED}
    for name in ("BeforeModel", "BeforeToolSelection"):
        seen = hook_input(name, llm_request=DOCUMENTED)["llm_request"]
        assert seen["toolConfig"] == {**selection, "functionCallingConfig": selection}
    seen = hook_input("BeforeToolSelection", llm_request=DOCUMENTED)
    assert seen["tool_config"] == {"mode": "AUTO", "allowed_function_names": ALLOWED}


@pytest.mark.parametrize(
    "selection", [{"mode": "ANY", "allowedFunctionNames": ["glob"]}, {"mode": "ANY"}, {"mode": "NONE"}]
)
@pytest.mark.parametrize("nested", [False, True])
async def test_a_selection_that_a_hook_returns_reaches_the_agent(selection: Json, nested: bool) -> None:
    event = read_event("BeforeModel", {"llm_request": DOCUMENTED})
    given = {"functionCallingConfig": selection} if nested else selection
    output = await answer(event, specific(llm_request={"toolConfig": given}))
    told = output["hookSpecificOutput"]["llm_request"]["toolConfig"]
    assert told.items() >= selection.items()
    assert told["functionCallingConfig"].items() >= selection.items()
    assert told["mode"] != "NONE" or "allowedFunctionNames" not in told


def test_tools_and_their_selection_are_enough_of_a_tool_selection() -> None:
    declarations = [{"name": "read_file"}]
    selection = {"mode": "ANY", "allowed_function_names": ["read_file"]}
    for tools in (declarations, [{"functionDeclarations": declarations}]):
        seen = hook_input("BeforeToolSelection", available_tools=tools, tool_config=selection)
        assert (seen["available_tools"], seen["tool_config"]) == (declarations, selection)


@pytest.mark.parametrize(
    ("event", "fields"), [("BeforeToolSelection", {"tool_config": {"mode": "ANY"}}), ("BeforeModel", {})]
)
def test_an_event_without_its_request_is_refused_by_name(event: str, fields: Json) -> None:
    with pytest.raises(ValueError, match=f"a {event} input needs the field 'llm_request'"):
        read_event(event, {"model": "m", **fields})


@pytest.mark.parametrize("event", ["BeforeModel", "BeforeToolSelection"])
def test_if_a_request_is_given_in_two_forms_the_stable_one_counts(event: str) -> None:
    stable = {"model": "m", "messages": [{"role": "user", "content": "stable"}]}
    seen = hook_input(event, llm_request=stable, contents=[{"role": "user", "parts": []}])
    assert seen["llm_request"]["messages"] == stable["messages"]


def test_a_compression_need_not_say_what_caused_it() -> None:
    seen = hook_input("PreCompress", context_size=9000, max_context_size=10000)
    assert seen == {"trigger": "auto", "context_size": 9000, "max_context_size": 10000}
    assert hook_input("PreCompress", trigger="manual")["trigger"] == "manual"


@pytest.mark.parametrize(
    ("name", "key", "default", "other"),
    [("SessionStart", "source", "startup", "resume"), ("SessionEnd", "reason", "other", "exit")],
)
def test_a_session_event_need_not_say_what_caused_it(name: str, key: str, default: str, other: str) -> None:
    assert hook_input(name) == {key: default, "trigger": default}
    assert (
        hook_input(name, trigger=other) == hook_input(name, **{key: other}) == {key: other, "trigger": other}
    )


RESULT = {"llmContent": "x", "returnDisplay": "y", "error": {"message": "z"}}
SPELLINGS: list[tuple[str, Json, Json]] = [
    ("BeforeTool", {"tool_name": "t"}, {"tool_input": {"a": 1}, "tool_args": {"a": 1}}),
    (
        "AfterTool",
        {"tool_name": "t", "tool_input": {}},
        {"tool_response": RESULT, "tool_result": RESULT},
    ),
    ("BeforeAgent", {}, {"prompt": "p", "user_message": "p"}),
    (
        "AfterAgent",
        {"prompt": "p", "user_message": "p", "stop_hook_active": True},
        {"prompt_response": "a", "final_response": "a"},
    ),
    *(
        ("SessionStart", {}, {"source": source, "trigger": source})
        for source in ("startup", "resume", "clear", "compress")
    ),
    *(
        ("SessionEnd", {}, {"reason": reason, "trigger": reason})
        for reason in ("exit", "clear", "logout", "prompt_input_exit", "other")
    ),
    *(("PreCompress", {}, {"trigger": trigger}) for trigger in ("manual", "auto")),
    ("Notification", {"message": "m", "details": {"a": 1}}, {"notification_type": "ToolPermission"}),
]


@pytest.mark.parametrize(("name", "given", "spellings"), SPELLINGS)
def test_an_event_is_shown_in_every_spelling(name: str, given: Json, spellings: Json) -> None:
    for key, value in spellings.items():
        seen = hook_input(name, **given, **{key: value})
        assert seen.items() >= {**given, **spellings}.items()


def test_a_tool_result_that_is_a_string_is_shown_as_an_object() -> None:
    seen = hook_input("AfterTool", tool_name="t", tool_input={}, tool_response="content")
    assert seen["tool_response"] == seen["tool_result"] == {"llmContent": "content"}


DOCUMENTED_TOOLS = [
    "read_file",
    "read_many_files",
    "write_file",
    "replace",
    "list_directory",
    "glob",
    "search_file_content",
    "run_shell_command",
    "google_web_search",
    "web_fetch",
    "write_todos",
    "save_memory",
    "delegate_to_agent",
]


@pytest.mark.parametrize("tool", DOCUMENTED_TOOLS)
def test_each_documented_tool_can_be_matched_by_its_name(tool: str) -> None:
    matcher = Matcher("BeforeTool", tool)
    assert [name for name in KNOWN_TOOLS if matcher.matches(Subject(tools=(name,)))] == [tool]
    assert matcher.hint() is None


# ---- edits and context


async def test_a_stop_blocks_a_request_whatever_else_is_decided() -> None:
    stop = {"continue": False, "stopReason": "enough", "decision": "allow"}
    outcome = await fired(asking("hi"), stop, {"decision": "allow"})
    assert (outcome.verdict.stop, outcome.verdict.reason) == (True, "enough")
    assert await answer(asking("hi"), stop) == {"continue": False, "stopReason": "enough"}


@pytest.mark.parametrize("event", [SessionStart(), BeforeAgent("p"), AfterTool("t", {}, "x")])
async def test_context_of_several_hooks_is_joined(event: Event) -> None:
    output = await answer(event, specific(additionalContext="one"), {}, specific(additionalContext="two"))
    assert output["hookSpecificOutput"]["additionalContext"] == "one\ntwo"


async def test_a_whole_request_in_the_place_of_the_request_is_the_request() -> None:
    event = read_event("BeforeModel", {"llm_request": DOCUMENTED})
    whole = {"model": "other", "messages": [{"role": "user", "content": "Bye"}], "config": {"temperature": 0}}
    told = (await answer(event, specific(llm_request=whole)))["hookSpecificOutput"]["llm_request"]
    assert {key: told[key] for key in whole} == whole
    assert told["toolConfig"]["allowedFunctionNames"] == ALLOWED, "what is not named stays"


async def test_a_single_candidate_edits_the_answer() -> None:
    edit = {"candidate": {"content": {"role": "model", "parts": ["b"]}}}
    outcome = await fired(AfterModel(SharedValue(DOCUMENTED), ANSWER), specific(llm_response=edit))
    assert isinstance(outcome.event, AfterModel)
    assert outcome.event.body["candidates"][0]["content"]["parts"] == [{"text": "b"}, CALL]


@pytest.mark.parametrize("key", ["tool_input", "tool_args"])
async def test_edited_arguments_are_merged_over_the_others(key: str) -> None:
    output = await answer(BeforeTool("t", {"path": "a", "limit": 1}), specific(**{key: {"path": "b"}}))
    assert output["hookSpecificOutput"]["tool_input"] == {"path": "b", "limit": 1}


@pytest.mark.parametrize("suppressed", [True, False])
async def test_a_wish_to_hide_a_result_is_passed_on_to_the_agent(suppressed: bool) -> None:
    output = await answer(AfterTool("t", {}, "x"), {"suppressOutput": suppressed})
    assert output == ({"suppressOutput": True} if suppressed else {})


def test_every_key_that_a_document_gives_a_hook_is_known(tmp_path: Path) -> None:
    keys = {"name": "n", "description": "d", "timeout": 5000, "source": "project", "env": {"A": "b"}}
    path = write_file(tmp_path, one_group(command("true", **keys), event="BeforeTool", matcher="glob"))
    loaded = read_sources([SettingsSource(path, "policy")])
    assert (loaded.problems, loaded.warnings) == ((), ())
    [hook] = loaded.configuration.hooks()
    assert (hook.name, hook.config.description, hook.timeout) == ("n", "d", 5)


# ---- results of tools


FAILED = {"llmContent": "SECRET", "returnDisplay": "SECRET", "error": {"message": "SECRET"}}


@pytest.mark.parametrize("result", [{"llmContent": "clean"}, {"returnDisplay": "clean"}, {"error": {}}])
@pytest.mark.parametrize("group", [parallel, sequential])
async def test_a_tool_result_replaces_the_whole_result(result: Json, group: Any) -> None:
    event = AfterTool("read_file", {}, FAILED)
    outcome = await fired(event, specific(tool_result=result), specific(additionalContext="c"), group=group)
    told = combined_output(event, outcome)["hookSpecificOutput"]["tool_result"]
    assert told == {"llmContent": "", **result}
    assert "SECRET" not in json.dumps(told)


async def test_a_tool_result_that_a_hook_returns_unchanged_is_not_an_edit() -> None:
    assert await answer(AfterTool("read_file", {}, FAILED), specific(tool_result=FAILED)) == {}


# ---- answers


@pytest.mark.parametrize("empty", [{}, {"text": None}, {"candidates": []}, {"candidates": [], "text": None}])
async def test_an_empty_answer_does_not_count_as_an_answer(empty: Json) -> None:
    outcome = await fired(asking("hi"), specific(llm_response=empty))
    assert not outcome.verdict.synthetic
    assert not outcome.runs[0].error
    denied = await fired(asking("hi"), {**specific(llm_response=empty), "decision": "deny"})
    assert denied.verdict.denied


CALL = {"functionCall": {"name": "read_file", "args": {"path": "a"}}}


async def test_an_answer_in_the_model_s_place_may_call_a_function() -> None:
    response = {"candidates": [{"content": {"role": "model", "parts": ["I look.", {"text": "So."}, CALL]}}]}
    outcome = await fired(asking("hi"), specific(llm_response=response))
    assert outcome.verdict.llm_response == response
    body = read_event("AfterModel", {"llm_request": DOCUMENTED, "llm_response": response})
    assert isinstance(body, AfterModel)
    assert body.body["candidates"][0]["content"]["parts"] == [{"text": "I look."}, {"text": "So."}, CALL]


@pytest.mark.parametrize("call", [{"name": 5}, {"name": "a", "args": []}, "read_file"])
async def test_a_call_that_the_api_does_not_have_fails_its_hook_by_name(call: Any) -> None:
    response = {"candidates": [{"content": {"parts": [{"functionCall": call}]}}]}
    outcome = await fired(asking("hi"), specific(llm_response=response))
    place = "hookSpecificOutput.llm_response.candidates[0].content.parts[0].functionCall"
    assert outcome.runs[0].error.startswith(place)


ANSWER: Json = {"candidates": [{"content": {"role": "model", "parts": [{"text": "a"}, CALL]}, "index": 0}]}


async def parts_after(*parts: Any) -> Any:
    """The parts of an answer with a text and a call, after a hook gave it these parts."""
    event = AfterModel(SharedValue(DOCUMENTED), ANSWER)
    edit = {"candidates": [{"content": {"role": "model", "parts": list(parts)}}]}
    outcome = await fired(event, specific(llm_response=edit))
    assert not outcome.runs[0].error
    assert isinstance(outcome.event, AfterModel)
    return outcome.event.body["candidates"][0]["content"]["parts"]


async def test_an_edited_answer_keeps_its_calls_and_takes_new_ones() -> None:
    other = {"functionCall": {"name": "glob", "args": {}}}
    assert await parts_after("b") == [{"text": "b"}, CALL]
    assert await parts_after({"text": "b"}, CALL) == [{"text": "b"}, CALL]
    assert await parts_after("a", CALL, other) == [{"text": "a"}, CALL, other]


async def test_parts_that_are_neither_text_nor_the_api_s_become_text() -> None:
    assert await parts_after("a", {"type": "image", "url": "u"}) == [
        {"text": "a"},
        {"text": '{"type":"image","url":"u"}'},
        CALL,
    ]
    content = [{"type": "text", "text": "look: "}, {"type": "image", "url": "u"}]
    outcome = await fired(
        asking("hi"), specific(llm_request={"messages": [{"role": "user", "content": content}]})
    )
    assert isinstance(outcome.event, BeforeModel)
    assert outcome.event.body["contents"] == [
        {"role": "user", "parts": [{"text": 'look: {"type":"image","url":"u"}'}]}
    ]


async def test_a_redaction_mark_is_reported_with_the_edit() -> None:
    event = AfterModel(SharedValue(DOCUMENTED), ANSWER)
    output = await answer(event, specific(llm_response={"text": "b"}, redacted=True), {})
    assert output["hookSpecificOutput"]["redacted"] is True
    assert "redacted" not in (await answer(event, specific(llm_response={"text": "b"})))["hookSpecificOutput"]


# ---- turns


async def test_a_cleared_context_survives_the_outputs_of_other_hooks() -> None:
    clear = {"decision": "deny", "reason": "again", **specific(clearContext=True)}
    for outputs in ([clear, {}], [{}, clear], [clear, specific(clearContext=False)]):
        output = await answer(AfterAgent("p", "a"), *outputs)
        assert AfterAgent("p", "a").fields("text")["stop_hook_active"] is False
        assert output["hookSpecificOutput"]["clearContext"] is True


# ---- what surprises


async def warned(event: Event, output: Json, caplog: pytest.LogCaptureFixture) -> list[str]:
    with caplog.at_level("WARNING", "hookgate.hooks"):
        await fired(event, output)
    return caplog.messages


async def test_a_verdict_that_is_only_a_message_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    [message] = await warned(asking("hi"), {"systemMessage": 'x {"decision": "deny"}'}, caplog)
    assert "printed a decision that is not one valid JSON object on stdout" in message


TOOLS = {"tools": [{"functionDeclarations": [{"name": name} for name in ALLOWED]}]}


@pytest.mark.parametrize(("names", "count"), [(["done"], 1), (["done", "read_file"], 0), ([], 0)])
async def test_a_selection_of_no_declared_tool_is_logged(
    names: list[str], count: int, caplog: pytest.LogCaptureFixture
) -> None:
    event = BeforeToolSelection("m", TOOLS)
    output = specific(toolConfig={"mode": "ANY", "allowedFunctionNames": names})
    messages = await warned(event, output, caplog)
    assert ["'done'" in message for message in messages] == [True] * count


async def test_at_most_five_undeclared_tools_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    names = [f"tool-{number}" for number in range(9)]
    output = specific(toolConfig={"mode": "ANY", "allowedFunctionNames": names})
    [message] = await warned(BeforeToolSelection("m", TOOLS), output, caplog)
    assert [name for name in names if repr(name) in message] == names[:5]


JSON_WANTED = SharedValue({**DOCUMENTED, "config": {"responseMimeType": "application/json"}})
SUFFIX_WANTED = SharedValue({**DOCUMENTED, "config": {"responseMimeType": "application/geo+json"}})


@pytest.mark.parametrize(
    ("request_shown", "text", "count"),
    [
        (JSON_WANTED, "Be careful!", 1),
        (SUFFIX_WANTED, "Be careful!", 1),
        (JSON_WANTED, '{"a": 2}', 0),
        (SharedValue(DOCUMENTED), "Be careful!", 0),
    ],
)
async def test_an_edit_that_breaks_an_answer_in_json_is_logged(
    request_shown: SharedValue, text: str, count: int, caplog: pytest.LogCaptureFixture
) -> None:
    body = {"candidates": [{"content": {"role": "model", "parts": [{"text": '{"a": 1}'}]}}]}
    messages = await warned(AfterModel(request_shown, body), specific(llm_response={"text": text}), caplog)
    assert ["no longer JSON" in message for message in messages] == [True] * count


async def test_an_edit_of_any_candidate_that_breaks_an_answer_in_json_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    body = {
        "candidates": [
            {"index": index, "content": {"role": "model", "parts": [{"text": '{"a": 1}'}]}}
            for index in (0, 1)
        ]
    }
    edit = {"candidates": [{"index": 1, "content": {"parts": ["Be careful!"]}}]}
    messages = await warned(AfterModel(JSON_WANTED, body), specific(llm_response=edit), caplog)
    assert ["no longer JSON" in message for message in messages] == [True]
