"""Answers that hooks could not read are refused, with the place."""

from collections.abc import Iterator
from typing import Any, get_args

import pydantic
import pytest
from google.genai import types
from hypothesis import given
from support.bodies.generate_content import responses

from hookgate.translator import BodyError, check_request, check_response, read_inputs
from hookgate.translator.answer_types import _ANSWER, _Object, typed_answer
from hookgate.translator.checks import MAX_CANDIDATES, check_prototypes
from hookgate.translator.live.server import ServerMessage
from hookgate.translator.strictjson import loads


def answer(part: Any, **candidate: Any) -> dict[str, Any]:
    return {"candidates": [{}, {"content": {"parts": [{"text": "a"}, part]}, **candidate}]}


@given(responses())
def test_what_a_model_answers_passes_as_it_is(body: dict[str, Any]) -> None:
    assert check_response(body) is body


@pytest.mark.parametrize("call", [None, {}, {"name": "f"}, {"name": None, "args": None}, {"args": {"x": 1}}])
@pytest.mark.parametrize("field", ["functionCall", "function_call"])
def test_calls_may_leave_out_what_they_do_not_need(field: str, call: Any) -> None:
    body = answer({field: call}, index=None)
    assert check_response(body) is body


@pytest.mark.parametrize("index", ["0", 0.0, True, False, [], {}])
def test_an_index_that_is_not_an_integer_is_refused(index: Any) -> None:
    with pytest.raises(BodyError) as raised:
        check_response(answer({}, index=index))
    assert raised.value.path == "candidates[1].index"


@pytest.mark.parametrize("index", [-1, MAX_CANDIDATES, 2**70])
def test_an_answer_has_a_limited_number_of_candidates(index: int) -> None:
    full = {"candidates": [{}] * MAX_CANDIDATES}
    assert check_response(full) is full
    with pytest.raises(BodyError, match="candidates: the request asks for at most 128"):
        check_response({"candidates": [{}] * (MAX_CANDIDATES + 1)})
    with pytest.raises(BodyError) as raised:
        check_response(answer({}, index=index))
    assert raised.value.path == "candidates[1].index"


@pytest.mark.parametrize(
    ("call", "place"),
    [
        ("shell", ""),
        ("", ""),
        ([{"name": "shell"}], ""),
        (False, ""),
        ({"name": 5}, ".name"),
        ({"name": ["shell"]}, ".name"),
        ({"name": "shell", "args": "rm -rf /"}, ".args"),
        ({"name": "shell", "args": []}, ".args"),
    ],
)
@pytest.mark.parametrize("field", ["functionCall", "function_call"])
def test_a_call_that_no_hook_could_judge_is_refused(field: str, call: Any, place: str) -> None:
    with pytest.raises(BodyError) as raised:
        check_response(answer({field: call}))
    assert raised.value.path == f"candidates[1].content.parts[1].functionCall{place}"


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ([], ""),
        ({"candidates": "hi"}, "candidates"),
        ({"candidates": ["hi"]}, "candidates[0]"),
        ({"candidates": [{"content": "hi"}]}, "candidates[0].content"),
        ({"candidates": {"content": {"parts": [{"text": "hi"}]}}}, "candidates"),
        ({"candidates": [{"content": {"parts": {"text": "hi"}}}]}, "candidates[0].content.parts"),
    ],
)
def test_an_answer_of_another_shape_is_refused(body: Any, place: str) -> None:
    with pytest.raises(BodyError) as raised:
        check_response(body)
    assert raised.value.path == place


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ({"role": "say this instead", "parts": [{"text": "a"}]}, "role"),
        ({"parts": [{"text": "a", "functionCall": "shell"}]}, "parts[0].functionCall"),
        ({"parts": [{"functionCall": "shell"}]}, "parts[0].functionCall"),
        ({"parts": {"text": ["hidden"]}}, "parts[0].text"),
        ({"parts": [{"text": "a"}], "newField": 1, "new_field": 1}, "newField"),
        ({"parts": [{"text": "a", "newField": 1, "new_field": 1}]}, "parts[0].newField"),
    ],
)
def test_a_content_that_resembles_a_plain_text_is_checked_as_well(content: Any, place: str) -> None:
    with pytest.raises(BodyError) as raised:
        check_response({"candidates": [{"content": content}]})
    assert raised.value.path == f"candidates[0].content.{place}"


@pytest.mark.parametrize(
    ("declared", "place"),
    [
        ("shell", ""),
        ([["shell"]], "[0]"),
        ([[{"name": "shell"}]], "[0]"),
        ([{"name": "ls"}, {"Name": "shell"}], "[1]"),
        ([{"name": None, "description": "shell"}], "[0]"),
        ([{"name": 5}], "[0]"),
        ({"description": "shell"}, "[0]"),
    ],
)
@pytest.mark.parametrize("field", ["functionDeclarations", "function_declarations"])
def test_a_declaration_that_no_hook_could_remove_is_refused(field: str, declared: Any, place: str) -> None:
    with pytest.raises(BodyError) as raised:
        check_request({"tools": [{"googleSearch": {}}, {field: declared}]})
    assert raised.value.path == f"tools[1].functionDeclarations{place}"


def test_a_role_may_have_32_characters() -> None:
    body = {"contents": [{"role": "a" * 32, "parts": []}]}
    assert check_request(body) is body


@pytest.mark.parametrize("role", [{"text": "hidden"}, ["user"], 1, "say this instead", "user\n"])
def test_a_role_that_is_not_a_name_is_refused(role: Any) -> None:
    content = {"role": role, "parts": [{"text": "hi"}]}
    with pytest.raises(BodyError, match=r"contents\[0\]\.role: a role must be a name"):
        check_request({"contents": [content]})
    with pytest.raises(BodyError, match=r"content\.role: a role must be a name"):
        read_inputs("embedContent", {"content": content})


@pytest.mark.parametrize("thought", ["false", "true", "", 0, 1, [], {}])
def test_a_part_is_a_thought_or_not_for_all_readers(thought: Any) -> None:
    """A client may read as the answer what hooks would take for a thought, and join it with other text."""
    content = {"role": "model", "parts": [{"text": "a"}, {"text": "b", "thought": thought}]}
    with pytest.raises(BodyError, match="must be true or false"):
        check_response({"candidates": [{"content": content}]})
    with pytest.raises(BodyError, match="must be true or false"):
        check_request({"contents": [content]})
    with pytest.raises(BodyError, match="must be true or false"):
        ServerMessage({"serverContent": {"modelTurn": content}})


@pytest.mark.parametrize("obj", [{"finishReason": "STOP", "finish_reason": "x"}, {"index": 0, "Index": 1}])
def test_a_field_of_an_answer_has_one_spelling(obj: Any) -> None:
    with pytest.raises(BodyError, match="twice"):
        check_response({"candidates": [obj]})
    with pytest.raises(BodyError, match="twice"):
        check_response({**obj, "candidates": []})


@pytest.mark.parametrize(
    "candidates",
    [
        [{"content": {"parts": [{"text": "-", "executableCode": {"language": "PYTHON", "code": "1"}}]}}],
        [{"content": {"parts": [{"text": "a"}, {"text": "b", "functionCall": {"name": "f"}}]}}],
        [{"index": 0, "content": {"parts": [{"text": "a"}]}}, {"index": 0}],
        [{"content": {"parts": [{"text": "a"}]}}, {}, {"index": 1}],
        [{"content": {"parts": [{"text": "data:audio/wav;base64,UklGRg=="}], "role": "model"}}],
        [{"content": {"parts": [{"text": "a"}, {"text": "data:audio/x;base64,aaaa"}, {"text": "b"}]}}],
    ],
    ids=[
        *("text and code", "text and call", "same index", "same index by default"),
        *("audio as text", "audio between texts"),
    ],
)
def test_answers_of_which_clients_show_different_texts_are_refused(candidates: list[Any]) -> None:
    with pytest.raises(BodyError, match="clients show"):
        check_response({"candidates": candidates}, 4)


@pytest.mark.parametrize(
    "text", ["data:audio is a kind of URL", "src='data:audio/wav;base64,UklGRg=='", "data"]
)
def test_a_text_about_audio_passes(text: str) -> None:
    body = {"candidates": [{"content": {"parts": [{"text": text}], "role": "model"}}]}
    assert check_response(body) is body


RESULT = {"name": "f", "response": {"output": "x"}}


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"Contents": []}, "Contents"),
        ({"contents": [{"role": "user", "Parts": [{"text": "x"}]}]}, "contents[0].Parts"),
        ({"systemInstruction": {"PARTS": [{"text": "x"}]}}, "systemInstruction.PARTS"),
        ({"contents": [{"parts": [{"Text": "x"}]}]}, "contents[0].parts[0].Text"),
        ({"contents": [{"parts": [{"te_xt": "x"}]}]}, "contents[0].parts[0].te_xt"),
        ({"contents": [{"parts": [{"FunctionResponse": RESULT}]}]}, "contents[0].parts[0].FunctionResponse"),
        ({"contents": [{"parts": [{"functionresponse": RESULT}]}]}, "contents[0].parts[0].functionresponse"),
        (
            {"contents": [{"parts": [{"function_response": {"name": "f", "Response": {}}}]}]},
            "contents[0].parts[0].function_response.Response",
        ),
        (
            {"contents": [{"parts": [{"functionResponse": {**RESULT, "parts": [{"FileData": {}}]}}]}]},
            "contents[0].parts[0].functionResponse.parts[0].FileData",
        ),
        (
            {"contents": [{"parts": [{"inlineData": {"Data": "eHg="}}]}]},
            "contents[0].parts[0].inlineData.Data",
        ),
        ({"tools": [{"FunctionDeclarations": [{"name": "f"}]}]}, "tools[0].FunctionDeclarations"),
        ({"tools": [{"GoogleSearch": {}}]}, "tools[0].GoogleSearch"),
    ],
)
def test_a_field_that_hooks_see_has_no_third_spelling(body: dict[str, Any], place: str) -> None:
    """Parsers that ignore case, such as Go's, would read what hooks are not shown."""
    with pytest.raises(BodyError, match="must be spelled") as raised:
        check_request(body)
    assert raised.value.path == place


def test_other_fields_may_have_any_name() -> None:
    part = {"text": "x", "PartX": 1, "functionCall": {"name": "f", "args": {"Text": "x", "Parts": []}}}
    body = {"contents": [{"role": "user", "parts": [part]}], "labels": {"Contents": "x"}}
    assert check_request(body) is body


TEXT = {"content": {"role": "model", "parts": [{"text": "x"}]}}


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"candidates": [{**TEXT, "finishReason": 1}]}, "candidates[0].finishReason"),
        ({"candidates": [{**TEXT, "finish_reason": {}}]}, "candidates[0].finish_reason"),
        ({"candidates": [{**TEXT, "safetyRatings": {}}]}, "candidates[0].safetyRatings"),
        ({"candidates": [{**TEXT, "safetyRatings": [None]}]}, "candidates[0].safetyRatings[0]"),
        ({"candidates": [{**TEXT, "groundingMetadata": "x"}]}, "candidates[0].groundingMetadata"),
        (
            {"candidates": [{**TEXT, "groundingMetadata": {"groundingChunks": [{"web": {"uri": 1}}]}}]},
            "candidates[0].groundingMetadata.groundingChunks[0].web.uri",
        ),
        ({"candidates": [{**TEXT, "urlContextMetadata": []}]}, "candidates[0].urlContextMetadata"),
        ({"candidates": [{**TEXT, "avgLogprobs": "much"}]}, "candidates[0].avgLogprobs"),
        ({"candidates": [{**TEXT, "avgLogprobs": True}]}, "candidates[0].avgLogprobs"),
        ({"candidates": [{**TEXT, "logprobsResult": "x"}]}, "candidates[0].logprobsResult"),
        (
            {"candidates": [{**TEXT, "logprobsResult": {"chosenCandidates": [{"token": 1}]}}]},
            "candidates[0].logprobsResult.chosenCandidates[0].token",
        ),
        (
            {"candidates": [{"content": {"parts": [{"functionResponse": {"name": "f"}}]}}]},
            "candidates[0].content.parts[0].functionResponse",
        ),
        (
            {"candidates": [{"content": {"parts": [{"text": "x", "mediaProcessing": {}}]}}]},
            "candidates[0].content.parts[0].mediaProcessing",
        ),
        ({"candidates": [TEXT], "usageMetadata": 3}, "usageMetadata"),
        ({"candidates": [TEXT], "usageMetadata": {"totalTokenCount": "3"}}, "usageMetadata.totalTokenCount"),
        ({"candidates": [TEXT], "usageMetadata": {"totalTokenCount": True}}, "usageMetadata.totalTokenCount"),
        ({"candidates": [TEXT], "promptFeedback": []}, "promptFeedback"),
        ({"candidates": [TEXT], "promptFeedback": {"blockReason": "OTHER"}}, "promptFeedback.blockReason"),
        ({"candidates": [TEXT], "promptFeedback": {"blockReason": None}}, "promptFeedback.blockReason"),
        ({"candidates": [TEXT], "responseId": 1}, "responseId"),
        (
            {"candidates": [{"content": {"parts": [{"text": "x", "thoughtSignature": 1}]}}]},
            "candidates[0].content.parts[0].thoughtSignature",
        ),
    ],
)
def test_fields_of_answers_have_their_documented_types(body: dict[str, Any], place: str) -> None:
    """AI SDK leaves out an event with other types, and LiteLLM one with a blockReason, and both go on."""
    with pytest.raises(BodyError) as raised:
        typed_answer(check_response(body))
    assert raised.value.path == place


@pytest.mark.parametrize("value", [0, -1.5, "NaN", "-Infinity", None])
def test_a_logarithm_need_not_be_finite(value: Any) -> None:
    result = {"chosenCandidates": [{"token": "x", "logProbability": value}]}
    body = {"candidates": [{**TEXT, "avgLogprobs": value, "logprobsResult": result}]}
    assert typed_answer(body) is body


def grounded(chunk: dict[str, Any]) -> dict[str, Any]:
    return {"candidates": [{**TEXT, "groundingMetadata": {"groundingChunks": [chunk]}}]}


def in_part(part: dict[str, Any]) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": [part]}}]}


@pytest.mark.parametrize(
    ("body", "whole"),
    [
        (grounded({"web": {"title": "a"}}), grounded({"web": {"title": "a", "uri": ""}})),
        (grounded({"web": {"uri": None}}), grounded({"web": {"uri": ""}})),
        (grounded({"image": {}}), grounded({"image": {"sourceUri": "", "imageUri": ""}})),
        (
            grounded({"retrievedContext": {"customMetadata": [{}]}}),
            grounded({"retrievedContext": {"customMetadata": [{"key": ""}]}}),
        ),
        (
            in_part({"executableCode": {}}),
            in_part({"executableCode": {"language": "LANGUAGE_UNSPECIFIED", "code": ""}}),
        ),
        (
            in_part({"codeExecutionResult": {"output": "1"}}),
            in_part({"codeExecutionResult": {"output": "1", "outcome": "OUTCOME_UNSPECIFIED"}}),
        ),
        (
            {"usage_metadata": {"prompt_tokens_details": [{"token_count": 1}]}},
            {
                "usage_metadata": {
                    "prompt_tokens_details": [{"token_count": 1, "modality": "MODALITY_UNSPECIFIED"}]
                }
            },
        ),
        (
            {"candidates": [{**TEXT, "groundingMetadata": {"searchEntryPoint": {}}}]},
            {"candidates": [{**TEXT, "groundingMetadata": {"searchEntryPoint": {"renderedContent": ""}}}]},
        ),
    ],
)
def test_a_missing_field_without_which_clients_leave_out_an_event_gets_its_default(
    body: dict[str, Any], whole: dict[str, Any]
) -> None:
    assert typed_answer(body) == whole
    assert typed_answer(whole) is whole


CHECKED_ELSEWHERE = {".candidates.index", ".candidates.content.parts.text"}
NOT_RECEIVED = {".sdkHttpResponse", ".automaticFunctionCallingHistory", ".parsed"}


def known_fields(model: Any) -> Iterator[tuple[str, Any]]:
    for name, field in model.model_fields.items():
        inner = [field.annotation, *get_args(field.annotation)]
        inner += [each for one in inner for each in get_args(one)]
        models = [each for each in inner if isinstance(each, type) and issubclass(each, pydantic.BaseModel)]
        yield field.alias or name, models[0] if models else None


def unknown_to_answers(model: Any, shape: Any, path: str) -> Iterator[str]:
    while isinstance(shape, list | _Object):
        shape = shape[0]
    for name, inner in known_fields(model):
        place = f"{path}.{name}"
        if place in CHECKED_ELSEWHERE | NOT_RECEIVED:
            continue
        if name not in shape:
            yield place
        elif inner is not None and shape[name] != ():  # a field that must be missing
            yield from unknown_to_answers(inner, shape[name], place)


def test_the_types_of_all_fields_that_google_documents_are_known() -> None:
    assert list(unknown_to_answers(types.GenerateContentResponse, _ANSWER, "")) == []


@pytest.mark.parametrize(
    "data",
    [
        b'{"a": {"__proto__": 1}}',
        b'{"a": [{"\\u005f_proto__": {}}]}',
        b'{"constructor": {"prototype": {}}}',
        b'{"\\u0063onstructor": {"prototype": 1}}',
    ],
)
def test_keys_that_change_objects_of_javascript_are_refused(data: bytes) -> None:
    with pytest.raises(BodyError, match="__proto__"):
        check_prototypes(data, loads(data))


@pytest.mark.parametrize("data", [b'{"text": "__proto__"}', b'{"constructor": "A"}', b'{"a": "\\u003c"}'])
def test_other_keys_and_texts_about_prototypes_pass(data: bytes) -> None:
    check_prototypes(data, loads(data))
