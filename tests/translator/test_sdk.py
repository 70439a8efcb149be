"""google-genai's objects through the translator: hooks see and edit them as REST bodies."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st
from support.bodies.generate_content import NAMES, TEXTS, responses, some
from support.translation.inspect import Json, all_parts
from support.translation.lens import MODEL
from support.upstream.captured import RESPONSES

from hookgate.translator import BodyError, apply_request, apply_response, show_request
from hookgate.translator.fields import read
from hookgate.translator.sdk import request_from_rest, request_to_rest, response_from_rest, response_to_rest
from hookgate.translator.streaming.framing import ServerSentEvents
from hookgate.translator.strictjson import loads

SIGNATURE = "+/+/c2lnbg=="  # in URL-safe base64 it would begin with -_-_

new_enum_values = pytest.mark.filterwarnings("ignore:.* is not a valid :UserWarning:google.genai._common")


def there_and_back(body: Json) -> Json:
    model, after = request_to_rest(MODEL, *request_from_rest(body))
    assert model == MODEL
    return after


# ---- bodies that the SDK's types can hold


PARTS: list[Json] = [
    *({"text": text} for text in TEXTS),
    {"text": "why", "thought": True},
    {"text": "so", "thoughtSignature": SIGNATURE},
    {"inlineData": {"mimeType": "image/png", "data": "iVBORw=="}},
    {"fileData": {"fileUri": "gs://b/f.pdf"}, "videoMetadata": {"fps": 2.0}},
    {"executableCode": {"language": "PYTHON", "code": "print(1)"}},
    {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1\n"}},
    {"functionCall": {"id": "1", "name": "shell", "args": {"a_b": None, "n": 2**64}}},
    {"functionCall": {"name": "search", "args": {}}, "thoughtSignature": SIGNATURE},
    {"functionResponse": {"id": "1", "name": "shell", "response": {"text": "x", "aB": [None, 2.0]}}},
    {},
]
CONTENTS = st.fixed_dictionaries(
    {"parts": st.lists(st.sampled_from(PARTS), max_size=3)},
    optional={"role": st.sampled_from(["user", "model"])},
)
SCHEMA = {
    "type": "OBJECT",
    "properties": {"a_b": {"type": "ARRAY", "items": {"type": "STRING"}}, "n": {"type": "INTEGER"}},
    "propertyOrdering": ["n", "a_b"],
}
GENERATION = some(
    *((key, n) for key in ("temperature", "topP", "topK", "maxOutputTokens", "seed") for n in (0, 1, 2.0)),
    ("temperature", 0.25),
    ("stopSequences", ["END"]),
    ("responseSchema", SCHEMA),
    ("responseJsonSchema", {"type": "object", "properties": {"a_b": {"const": None}}}),
    ("responseModalities", ["TEXT"]),
    ("thinkingConfig", {"includeThoughts": True, "thinkingBudget": 2}),
    ("modelConfig", {"featureSelectionPreference": "BALANCED"}),
    ("speechConfig", {"voiceConfig": {"prebuiltVoiceConfig": {"voiceName": "Kore"}}}),
    ("httpOptions", {"baseUrl": "https://elsewhere.example"}),
    ("futureField", {"a_b": [1, None]}),
).filter(bool)
TOOL = st.sampled_from(
    [
        *(
            {"functionDeclarations": [{"name": name, "parametersJsonSchema": {"maximum": 2.0}}]}
            for name in NAMES
        ),
        {"functionDeclarations": [{"name": "old", "parameters": SCHEMA}], "codeExecution": {}},
        {"googleSearch": {}},
    ]
)
TOOL_CONFIG = {
    "functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["shell"]},
    "retrievalConfig": {"latLng": {"latitude": 2.0}},
}
REQUESTS = st.fixed_dictionaries(
    {"contents": st.lists(CONTENTS, min_size=1, max_size=4)},
    optional={
        "systemInstruction": CONTENTS,
        "generationConfig": GENERATION,
        "tools": st.lists(TOOL, max_size=3),
        "toolConfig": st.just(TOOL_CONFIG),
        "safetySettings": st.just([{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}]),
        "cachedContent": st.just("cachedContents/1"),
        "labels": st.just({"team_name": "x"}),
        "outputConfig": st.just({"outputUriPrefix": "gs://b"}),
        "continuationToken": st.just(SIGNATURE),
        "httpOptions": st.just({"baseUrl": "https://elsewhere.example"}),
        "future_field": st.just({"a_b": 2.0}),
    },
)


@given(REQUESTS)
def test_a_request_survives_the_round_trip_through_the_sdks_types(body: Json) -> None:
    before = json.dumps(body)
    assert there_and_back(body) == body
    assert json.dumps(body) == before


@given(REQUESTS)
def test_an_echo_of_a_hook_changes_nothing_in_a_request_of_the_sdk(body: Json) -> None:
    model, held = request_to_rest(MODEL, *request_from_rest(body))
    assert apply_request(model, held, show_request(model, held)) == (model, held)


@new_enum_values
@given(responses())
def test_what_a_response_says_survives_whatever_else_is_in_it(body: Json) -> None:
    before = json.dumps(body)
    after = response_to_rest(response_from_rest(body))
    assert read_answer(after) == read_answer(body)
    assert response_to_rest(response_from_rest(after)) == after
    assert json.dumps(body) == before


@new_enum_values
@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("file", RESPONSES)
def test_what_a_captured_answer_says_survives(file: Path) -> None:
    for body in answers_in(file):
        assert read_answer(response_to_rest(response_from_rest(body))) == read_answer(body)


def read_answer(body: Json) -> Json:
    """What programs read of an answer: parts, signatures, reasons and counts."""
    fields = ("text", "thought", "thoughtSignature", "functionCall", "inlineData", "executableCode")
    candidates = body.get("candidates") or []
    parts = [
        {field: value for field in fields if (value := read(part, field)) is not None}
        for part in all_parts(body)
    ]
    usage = body.get("usageMetadata")
    if usage is not None:
        parts.append(usage)
    return {
        "parts": json.loads(json.dumps(parts).replace("mime_type", "mimeType")),
        "reasons": [
            [candidate.get(field) for field in ("finishReason", "index")] for candidate in candidates
        ],
        "feedback": body.get("promptFeedback"),
        "model": body.get("modelVersion"),
    }


def answers_in(file: Path) -> list[Json]:
    raw = file.read_bytes()
    if file.suffix == ".json":
        return [loads(raw)]
    events = ServerSentEvents()
    data = [frame.data for frame in events.feed(raw) + events.finish()]
    return [json.loads(each) for each in data if each.startswith(b"{") and each.endswith(b"}")]


# ---- by example


def test_a_hook_edits_an_answer_in_the_sdk_s_types() -> None:
    parts = [
        types.Part(text="thinking of 42", thought=True),
        types.Part(text="the key is 42", thought_signature=b"sig"),
        types.Part(function_call=types.FunctionCall(name="shell", args={"cmd": "ls", "n": None})),
    ]
    response = types.GenerateContentResponse(
        candidates=[
            types.Candidate(
                content=types.Content(role="model", parts=parts), finish_reason=types.FinishReason.STOP
            )
        ]
    )
    edit = {"text": "the key is [REDACTED]"}
    after = response_from_rest(apply_response(response_to_rest(response), edit))
    assert after.text == "the key is [REDACTED]"
    assert after.function_calls == response.function_calls
    parts[1].text = "the key is [REDACTED]"
    assert after == response


def test_a_hook_edits_a_question_that_an_sdk_asks() -> None:
    config = types.GenerateContentConfig(system_instruction="be kind", temperature=0.5)
    model, body = request_to_rest(MODEL, "my card is 4111", config)
    messages = [
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": "my card is [REDACTED]"},
    ]
    model, body = apply_request(
        model, body, {"messages": messages, "config": {"newField": 1, "temperature": 0}}
    )
    contents, edited = request_from_rest(body)
    assert contents == [types.Content(role="user", parts=[types.Part(text="my card is [REDACTED]")])]
    assert edited.temperature == 0
    assert edited.http_options
    assert edited.http_options.extra_body == {"generationConfig": {"newField": 1}}


def test_bytes_are_encoded_as_the_api_encodes_them() -> None:
    for spelling in (SIGNATURE, SIGNATURE.replace("+", "-").replace("/", "_")):
        body = {"candidates": [{"content": {"parts": [{"text": "", "thoughtSignature": spelling}]}}]}
        after = response_to_rest(response_from_rest(body))
        assert [part["thoughtSignature"] for part in all_parts(after)] == [SIGNATURE]


def test_either_spelling_of_a_request_is_read() -> None:
    snake_cased = {
        "contents": {"parts": {"inline_data": {"mime_type": "image/png", "data": "iVBORw=="}}},
        "system_instruction": {"parts": [{"text": "be kind"}]},
        "generation_config": {"max_output_tokens": 7},
        "tools": {"function_declarations": [{"name": "shell", "parameters_json_schema": {"a_b": 1}}]},
        "tool_config": {"function_calling_config": {"mode": "AUTO"}},
    }
    assert there_and_back(snake_cased) == {
        "contents": [{"parts": [{"inlineData": {"mimeType": "image/png", "data": "iVBORw=="}}]}],
        "systemInstruction": {"parts": [{"text": "be kind"}]},
        "generationConfig": {"maxOutputTokens": 7},
        "tools": [{"functionDeclarations": [{"name": "shell", "parametersJsonSchema": {"a_b": 1}}]}],
        "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
    }


def test_a_body_cannot_set_where_the_sdk_sends_it() -> None:
    options = {"baseUrl": "https://elsewhere.example"}
    body = {
        "contents": [{"parts": []}],
        "httpOptions": options,
        "generationConfig": {"http_options": options},
    }
    _, config = request_from_rest(body)
    assert config.http_options
    assert config.http_options.base_url is None
    assert there_and_back(body) == body


def test_what_never_crosses_the_wire_is_in_no_body() -> None:
    contents = [types.UserContent("hi")]
    config = types.GenerateContentConfig(
        http_options=types.HttpOptions(headers={"x-goog-api-key": "secret"}),
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
    )
    assert request_to_rest(MODEL, contents, config)[1].keys() == {"contents"}
    response = types.GenerateContentResponse(
        sdk_http_response=types.HttpResponse(headers={"a": "b"}),
        automatic_function_calling_history=list(contents),
        parsed={"name": "x"},
        model_version=MODEL,
    )
    assert response_to_rest(response) == {"modelVersion": MODEL}
    assert response_from_rest(
        {"parsed": {"name": "x"}, "sdkHttpResponse": {"body": "x"}}
    ) == response_from_rest({})


def test_a_time_is_written_as_the_api_writes_it() -> None:
    body = {"createTime": "2026-01-02T03:04:05.123456Z", "responseId": "r"}
    assert response_to_rest(response_from_rest(body)) == body


def test_the_gemini_apis_citations_are_the_sdks() -> None:
    cited = [{"uri": "https://example.com", "startIndex": 1}]
    body = {"candidates": [{"citationMetadata": {"citationSources": cited}}]}
    assert response_to_rest(response_from_rest(body)) == {
        "candidates": [{"citationMetadata": {"citations": cited}}]
    }


# ---- what cannot be held


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"contents": [{"parts": [{"text": "x", "holograms": []}]}]}, "contents[0].parts[0].holograms"),
        ({"contents": [{}, "hi"]}, "contents[1]"),
        ({"contents": [{"parts": [{"thoughtSignature": "***"}]}]}, "contents[0].parts[0].thoughtSignature"),
        ({"systemInstruction": {"parts": 7}}, "systemInstruction.parts"),
        ({"tools": [{"googleSearch": {}}, {"futureTool": {}}]}, "tools[1].futureTool"),
        ({"generationConfig": {"temperature": "hot"}}, "generationConfig.temperature"),
        ({"generationConfig": {"thinkingConfig": {"newest": 1}}}, "generationConfig.thinkingConfig.newest"),
        ({"labels": {"a": 1}}, "labels.a"),
    ],
)
def test_a_request_that_the_sdk_cannot_ask_is_refused_with_its_place(body: Json, place: str) -> None:
    with pytest.raises(BodyError) as refusal:
        request_from_rest(body)
    assert refusal.value.path == place


def test_a_response_of_the_wrong_kind_is_refused_with_its_place() -> None:
    with pytest.raises(BodyError) as refusal:
        response_from_rest({"futureField": 1, "candidates": [{"content": {"parts": [{"text": 7}]}}]})
    assert refusal.value.path == "candidates[0].content.parts[0].text"


def test_the_server_never_imports_the_sdk() -> None:
    program = "import sys, hookgate.proxy.app; sys.exit('google.genai' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
