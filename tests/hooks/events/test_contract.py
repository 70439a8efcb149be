"""The typed documents of the contract, and the page that is generated from them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from generators.contract_reference import (
    contract_reference,
    docstring,
    own_part,
    part_of,
    properties,
)
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError
from support.places import DOCS
from support.upstream.captured import HOOK_INPUTS

from hookgate.hooks.events import (
    INPUTS,
    OUTPUTS,
    AdvisoryOutput,
    AfterAgentInput,
    AfterModelInput,
    AfterToolInput,
    BeforeAgentInput,
    BeforeModelInput,
    BeforeToolInput,
    BeforeToolSelectionInput,
    HookInput,
    SessionEndInput,
    SessionStartInput,
)
from hookgate.hooks.field_texts import field_texts
from hookgate.hooks.output import read_output
from hookgate.hooks.settings import EVENTS

PAGE = DOCS / "reference.md"

Json = dict[str, Any]

BASE = {
    "session_id": "s",
    "transcript_path": "",
    "cwd": "/project",
    "hook_event_name": "",
    "timestamp": "2026-01-02T03:04:05.000Z",
}


def parsed(model: type[HookInput], **fields: Any) -> Any:
    event = model.__name__.removesuffix("Input")
    return model.model_validate({**BASE, "hook_event_name": event, **fields})


def dumped(document: HookInput) -> Json:
    return document.model_dump(by_alias=True, exclude_unset=True)


def exact(value: Any) -> str:
    """The value as text: the order of keys counts, and 1 is not 1.0."""
    return json.dumps(value)


# ---- inputs


def test_every_event_has_an_input_and_an_output_class() -> None:
    assert list(INPUTS) == list(OUTPUTS)
    assert sorted(INPUTS) == sorted(EVENTS)


SPELLINGS = {
    "SessionStart": ["source", "trigger"],
    "SessionEnd": ["reason", "trigger"],
    "PreCompress": ["trigger", "context_size", "max_context_size"],
    "Notification": ["notification_type", "message", "details"],
    "BeforeAgent": ["prompt", "user_message", "conversation_history"],
    "AfterAgent": ["prompt", "user_message", "prompt_response", "final_response", "stop_hook_active"],
    "BeforeModel": ["llm_request"],
    "BeforeToolSelection": ["llm_request", "available_tools", "tool_config"],
    "AfterModel": ["llm_request", "llm_response"],
    "BeforeTool": [
        *("tool_name", "tool_input", "tool_args", "tool_description"),
        *("mcp_context", "original_request_name"),
    ],
    "AfterTool": [
        *("tool_name", "tool_input", "tool_args", "tool_response", "tool_result"),
        *("mcp_context", "original_request_name"),
    ],
}


@pytest.mark.parametrize("event", EVENTS)
def test_an_input_has_every_field_in_every_spelling_of_the_documents(event: str) -> None:
    assert {*BASE, "operation", *SPELLINGS[event]} == set(INPUTS[event].model_fields)


TEXT = st.text(max_size=5)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
VALUES = {
    "string": TEXT,
    "boolean": st.booleans(),
    "integer": st.integers(),
    "number": st.floats(allow_nan=False, allow_infinity=False),
    "object": st.dictionaries(TEXT, JSON, max_size=3),
    "array": st.lists(JSON, max_size=3),
    "null": st.none(),
}


def values(schema: Json) -> st.SearchStrategy[Any]:
    if "const" in schema:
        return st.just(schema["const"])
    kinds = [each["type"] for each in schema.get("anyOf", [schema])]
    return st.one_of([VALUES[kind] for kind in kinds])


def documents(event: str) -> st.SearchStrategy[Json]:
    """Documents of the event, in any order of keys, with keys that nobody has heard of."""
    schema = INPUTS[event].model_json_schema()
    known = {key: values(each) for key, each in schema["properties"].items()}
    required = {key: known.pop(key) for key in schema["required"]}
    names = st.sampled_from(["model_dump", "copy", "_keys", "arguments", "model_config"]) | TEXT
    unknown = st.dictionaries(names.filter(lambda name: name not in schema["properties"]), JSON, max_size=3)
    fields = st.tuples(st.fixed_dictionaries(required, optional=known), unknown)
    return fields.flatmap(lambda both: st.permutations(list((both[0] | both[1]).items()))).map(dict)


@pytest.mark.parametrize("event", EVENTS)
@given(data=st.data())
def test_an_input_serializes_to_the_document_it_was_parsed_from(event: str, data: st.DataObject) -> None:
    document = data.draw(documents(event))
    assert exact(dumped(INPUTS[event].model_validate(document))) == exact(document)
    from_json = INPUTS[event].model_validate_json(json.dumps(document))
    assert exact(json.loads(from_json.model_dump_json(exclude_unset=True))) == exact(document)


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("file", HOOK_INPUTS)
def test_inputs_of_a_real_gemini_cli_are_inputs_here(file: Path) -> None:
    inputs = json.loads(file.read_bytes())
    assert inputs
    for document in inputs:
        model = INPUTS[document["hook_event_name"]]
        assert exact(dumped(model.model_validate(document))) == exact(document)
        assert document.keys() <= model.model_fields.keys()


def test_a_value_set_on_a_parsed_input_is_part_of_its_document() -> None:
    call = parsed(BeforeToolInput, tool_name="t", tool_input={})
    call.tool_input, call.tool_args = {"a": 1}, {"a": 1}
    assert list(dumped(call).items())[-2:] == [("tool_input", {"a": 1}), ("tool_args", {"a": 1})]


@pytest.mark.parametrize("missing", BASE)
def test_an_input_without_a_base_field_is_invalid(missing: str) -> None:
    document = {**BASE, "hook_event_name": "BeforeAgent"}
    del document[missing]
    with pytest.raises(ValidationError, match=rf"(?s){missing}.*Field required"):
        BeforeAgentInput.model_validate(document)


def test_an_input_of_another_event_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"(?s)hook_event_name.*'BeforeAgent'"):
        BeforeAgentInput.model_validate({**BASE, "hook_event_name": "AfterAgent"})


# ---- one name for each thing

A, B = {"a": 1}, {"b": 2}
REQUEST = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "config": {"topK": 1}}
RAW = {
    "model": "m",
    "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
    "generationConfig": {"topK": 1},
}
FLAT = {"mode": "ANY", "allowedFunctionNames": ["f"]}


@pytest.mark.parametrize(
    ("model", "name", "spellings", "meant"),
    [
        (
            BeforeToolInput,
            "arguments",
            [{"tool_input": A}, {"tool_args": A}, {"tool_input": A, "tool_args": B}],
            A,
        ),
        (BeforeToolInput, "arguments", [{}, {"tool_input": None}], {}),
        (AfterToolInput, "arguments", [{"tool_input": A}, {"tool_input": None, "tool_args": A}], A),
        (
            AfterToolInput,
            "result",
            [{key: said} for key in ("tool_response", "tool_result") for said in ("x", {"llmContent": "x"})],
            {"llmContent": "x"},
        ),
        (AfterToolInput, "result", [{}], {}),
        (BeforeAgentInput, "user_prompt", [{"prompt": "p"}, {"user_message": "p"}], "p"),
        (AfterAgentInput, "user_prompt", [{"prompt": "p"}, {"user_message": "p"}], "p"),
        (AfterAgentInput, "answer", [{"prompt_response": "p"}, {"final_response": "p"}], "p"),
        (AfterAgentInput, "answer", [{"prompt_response": "", "final_response": "p"}, {}], ""),
        (SessionStartInput, "cause", [{"source": "clear"}, {"trigger": "clear"}], "clear"),
        (SessionEndInput, "cause", [{"reason": "exit"}, {"trigger": "exit"}], "exit"),
        (BeforeModelInput, "request", [{"llm_request": REQUEST}, {"llm_request": RAW}], REQUEST),
        (BeforeModelInput, "request", [{"llm_request": {**RAW, **REQUEST}}], {**RAW, **REQUEST}),
        (BeforeToolSelectionInput, "request", [{}], {}),
        (
            BeforeToolSelectionInput,
            "selection",
            [
                {"tool_config": {"mode": "ANY", "allowed_function_names": ["f"]}},
                {"tool_config": {"function_calling_config": FLAT}},
                {"llm_request": {**REQUEST, "toolConfig": FLAT}},
                {
                    "llm_request": {**REQUEST, "toolConfig": {"functionCallingConfig": FLAT}},
                    "tool_config": None,
                },
                {"llm_request": {**RAW, "toolConfig": {"functionCallingConfig": FLAT}}},
            ],
            FLAT,
        ),
        (BeforeToolSelectionInput, "selection", [{"llm_request": REQUEST}, {}], {}),
        (
            AfterModelInput,
            "text",
            [
                {"llm_response": {"text": "hi", "candidates": []}},
                {"llm_response": {"candidates": [{"content": {"parts": ["h", "i"]}}, {}]}},
                {
                    "llm_response": {
                        "candidates": [{"content": {"parts": [{"text": "hi"}, {"inlineData": {}}]}}]
                    }
                },
            ],
            "hi",
        ),
        (AfterModelInput, "text", [{}, {"llm_response": {"candidates": [{"content": None}]}}], ""),
    ],
    ids=lambda value: value if isinstance(value, str) else getattr(value, "__name__", ""),
)
def test_a_property_gives_its_field_whatever_the_spelling(
    model: type[HookInput], name: str, spellings: list[Json], meant: Any
) -> None:
    tool = {"tool_name": "t"} if "tool_name" in model.model_fields else {}
    for spelling in spellings:
        shown = getattr(parsed(model, **tool, **spelling), name)
        assert {key: shown[key] for key in meant} == meant if meant and name == "request" else shown == meant


# ---- the page


def test_the_reference_page_is_what_the_classes_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == contract_reference(), (
        "docs/reference.md is out of date; renew it with: "
        ".venv/bin/python docs/generators/contract_reference.py > docs/reference.md"
    )


def models() -> Iterator[type[BaseModel]]:
    """Every class of the contract: of the events, of what they inherit, of the documents within them."""
    for event in EVENTS:
        for model in (INPUTS[event], OUTPUTS[event], own_part(OUTPUTS[event])):
            yield from (
                each for each in model.__mro__ if issubclass(each, BaseModel) and each is not BaseModel
            )
            yield from (part for field in model.model_fields.values() if (part := part_of(field)))


CLASSES = sorted(set(models()), key=lambda model: model.__name__)


@pytest.mark.parametrize("model", CLASSES, ids=lambda model: model.__name__)
def test_every_class_field_and_property_is_documented(model: type[BaseModel]) -> None:
    assert docstring(model)
    assert field_texts(model).keys() >= model.model_fields.keys()
    assert all(field_texts(model).values())
    assert all(properties(model).values())


class Undocumented(BaseModel):
    field: str


def test_a_class_or_field_without_a_text_is_found() -> None:
    with pytest.raises(ValueError, match=r"Undocumented has no docstring"):
        docstring(Undocumented)
    assert field_texts(Undocumented) == {}


DERIVED = ("SessionStart", "BeforeAgent", "AfterAgent", "BeforeTool", "AfterTool")
"""The events that the gateway derives from the calls of agents without a shim."""


@pytest.mark.parametrize("event", EVENTS)
def test_an_event_s_chapter_says_when_it_fires_who_fires_it_and_what_a_hook_can_do(event: str) -> None:
    fires, answers = docstring(INPUTS[event]), docstring(OUTPUTS[event])
    assert fires.startswith("Fires ")
    shim = "agent shim, or derived by the gateway from a call" if event in DERIVED else "agent shim"
    assert f"Fired by the {'gateway' if 'llm_request' in SPELLINGS[event] else shim}." in fires
    for said in ("\n- `deny`: ", "\n- `continue: false`: ", "\n- Exit code 2: ", "\nExample: "):
        assert said in answers


@pytest.mark.parametrize("event", EVENTS)
def test_an_event_s_example_is_an_output_that_is_taken_as_it_is(event: str) -> None:
    lines = [line for line in docstring(OUTPUTS[event]).splitlines() if line.startswith("    ")]
    example = json.loads("".join(lines))
    assert example
    assert read_output(example, event) == example
    specific = example.get("hookSpecificOutput", {})
    keys = {field.alias or name for name, field in own_part(OUTPUTS[event]).model_fields.items()}
    assert specific.keys() <= keys


def test_three_events_are_advisory() -> None:
    advisory = {event for event, model in OUTPUTS.items() if issubclass(model, AdvisoryOutput)}
    assert advisory == {"SessionEnd", "PreCompress", "Notification"}
