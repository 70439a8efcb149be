"""One spelling of each field and one interpretation of inline data, at any depth."""

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.bodies.generate_content import distinct_requests, snake

from hookgate.translator import BodyError, check_request
from hookgate.translator.checks import is_canonical_base64

ENCODERS = st.sampled_from([base64.b64encode, base64.urlsafe_b64encode])
HIDDEN = base64.b64encode(b"a secret").decode()


def of_part(part: Any) -> dict[str, Any]:
    return {"contents": [{"role": "user", "parts": [{"text": "hi"}, part]}]}


TWICE = [
    (of_part({"fileData": {"fileUri": "a", "file_uri": "b"}}), "contents[0].parts[1].fileData.fileUri"),
    (
        of_part({"inlineData": {"mimeType": "text/plain", "mime_type": "image/png", "data": ""}}),
        "contents[0].parts[1].inlineData.mimeType",
    ),
    (
        of_part({"functionCall": {"name": "f", "willContinue": True, "will_continue": False}}),
        "contents[0].parts[1].functionCall.willContinue",
    ),
    (
        of_part({"functionResponse": {"name": "f", "parts": [{"inlineData": {}, "inline_data": {}}]}}),
        "contents[0].parts[1].functionResponse.parts[0].inlineData",
    ),
    (
        {"generationConfig": {"thinkingConfig": {"thinkingBudget": 1, "thinking_budget": 2}}},
        "generationConfig.thinkingConfig.thinkingBudget",
    ),
    (
        {"generationConfig": {"speechConfig": {"voiceConfig": {"customVoice": {}, "custom_voice": {}}}}},
        "generationConfig.speechConfig.voiceConfig.customVoice",
    ),
    (
        {"generationConfig": {"responseSchema": {"properties": {"a": {"anyOf": [], "any_of": []}}}}},
        "generationConfig.responseSchema.properties.a.anyOf",
    ),
    (
        {"tools": [{"functionDeclarations": [{"name": "f", "response": {"maxItems": 1, "max_items": 2}}]}]},
        "tools[0].functionDeclarations[0].response.maxItems",
    ),
    (
        {"tools": [{"googleSearch": {"searchTypes": {}, "search_types": {}}}]},
        "tools[0].googleSearch.searchTypes",
    ),
    ({"safetySettings": [{"odd_1": 1, "odd1": 2}]}, "safetySettings[0].odd1"),
]


@pytest.mark.parametrize(("body", "path"), TWICE, ids=[path for _, path in TWICE])
def test_a_field_in_two_spellings_is_refused_at_every_depth(body: Any, path: str) -> None:
    with pytest.raises(BodyError, match="the field is given twice") as refusal:
        check_request(body)
    assert refusal.value.path == path


@pytest.mark.parametrize(
    "body",
    [
        of_part({"functionCall": {"name": "f", "args": {"fileUri": 1, "file_uri": 2}}}),
        of_part({"functionResponse": {"name": "f", "response": {"fileUri": 1, "file_uri": 2}}}),
        {
            "generationConfig": {
                "responseSchema": {"properties": {"aB": {}, "a_b": {}}, "example": {"aB": 1, "a_b": 2}}
            }
        },
        {"labels": {"aB": "x", "a_b": "y"}},
        of_part({"text": "x", "partMetadata": {"aB": 1, "a_b": 2}}),
    ],
)
def test_the_callers_own_keys_are_data(body: Any) -> None:
    assert check_request(body) is body


@given(distinct_requests)
def test_one_spelling_of_each_field_is_taken_whichever_it_is(body: Any) -> None:
    assert check_request(body) is body


@given(distinct_requests, st.data())
def test_a_second_spelling_anywhere_among_the_apis_fields_is_refused(body: Any, data: st.DataObject) -> None:
    contents = body["contents"] if isinstance(body["contents"], list) else [body["contents"]]
    parts = [part for content in contents for part in _listed(content.get("parts")) if part]
    holders = [body, *contents, *parts]
    holders = [holder for holder in holders if any(snake(key) != key for key in holder)]
    if not holders:
        return
    holder = data.draw(st.sampled_from(holders))
    key = data.draw(st.sampled_from([key for key in holder if snake(key) != key]))
    holder[snake(key)] = None
    with pytest.raises(BodyError, match="the field is given twice"):
        check_request(body)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def test_an_object_of_many_keys_costs_no_more_than_its_size() -> None:
    body = {f"key_{number}": number for number in range(200_000)}
    assert check_request(body) is body  # a look at each pair would take hours


# ---- inline data


@pytest.mark.parametrize(
    "data",
    [
        pytest.param("QQ==" + HIDDEN, id="more behind the padding"),
        pytest.param("QQ==\n" + HIDDEN, id="a line behind the padding"),
        pytest.param("QQ=", id="half the padding"),
        pytest.param("QUJDQ", id="a lone letter"),
        pytest.param("QUJ", id="bits left over without padding"),
        pytest.param("QUJD\fQUJD", id="a form feed"),
        pytest.param("QUJD\u2028QUJD", id="a line end of Unicode"),
        pytest.param("+A\n-A", id="two alphabets in two lines"),
        pytest.param("QQ===", id="too much padding"),
        pytest.param("=QQ=", id="padding first"),
        pytest.param("QUJ=", id="bits left over"),
        pytest.param("+A-A", id="two alphabets"),
        pytest.param("QUI*", id="no letter of base64"),
        pytest.param("ＱＵＪＤ", id="letters that only look like it"),
        pytest.param(["QUJD"], id="no text"),
        pytest.param({"a": "QUJD"}, id="an object"),
    ],
)
@pytest.mark.parametrize("field", ["inlineData", "inline_data"])
def test_inline_data_that_can_be_read_in_two_ways_is_refused(data: Any, field: str) -> None:
    part = {field: {"mimeType": "text/plain", "data": data}}
    bodies = {
        f"contents[0].parts[1].{field}.data": of_part(part),
        f"systemInstruction.parts[0].{field}.data": {"systemInstruction": {"parts": [part]}},
        f"contents[0].parts[1].functionResponse.parts[0].{field}.data": of_part(
            {"functionResponse": {"name": "f", "parts": [part]}}
        ),
    }
    for path, body in bodies.items():
        with pytest.raises(BodyError, match="base64") as refusal:
            check_request(body)
        assert refusal.value.path == path


@given(st.binary(max_size=60), ENCODERS)
def test_what_an_encoder_makes_is_canonical(data: bytes, encode: Any) -> None:
    assert is_canonical_base64(encode(data).decode())


@given(st.text("AQgw+/-_=\n é", max_size=12))
def test_what_is_canonical_is_what_an_encoder_makes_of_it(text: str) -> None:
    encoders = [
        lambda: base64.b64encode(base64.b64decode(text, validate=True)),
        lambda: base64.urlsafe_b64encode(base64.urlsafe_b64decode(text)),
    ]
    expected = False
    for encode in encoders:
        try:
            expected = expected or encode().decode() == text
        except ValueError:
            continue
    assert is_canonical_base64(text) is expected


@st.composite
def wrapped(draw: st.DrawFn) -> tuple[str, str]:
    """Base64 as an encoder makes it, and the same with white space anywhere, with or without its padding."""
    canonical = draw(ENCODERS)(draw(st.binary(max_size=60))).decode()
    text = canonical.rstrip("=") if draw(st.booleans()) else canonical
    spaces = [draw(st.text(" \t\r\n", max_size=2)) for _ in range(len(text) + 1)]
    return canonical, "".join(map(str.__add__, spaces, [*text, ""]))


@given(wrapped())
def test_wrapped_inline_data_is_made_canonical_at_every_depth(pair: tuple[str, str]) -> None:
    canonical, text = pair

    def body(data: str) -> Any:
        part = {"inlineData": {"mimeType": "text/plain", "data": data}}
        result = {"functionResponse": {"name": "f", "response": {"inlineData": {"data": "a\nb"}}}}
        return {
            **of_part({**result, "functionResponse": {**result["functionResponse"], "parts": [part, part]}}),
            "systemInstruction": {"parts": [{"inline_data": {"data": data}}, {"text": "data"}]},
            "toolConfig": {"data": text},
        }

    given_body = body(text)
    assert check_request(given_body) == body(canonical)
    assert given_body == body(text)  # the caller's own object is left alone
    assert check_request(body(canonical)) == body(canonical)


def test_wrapped_inline_data_costs_no_more_than_its_size() -> None:
    line = "QUJD" * 19 + "\r\n"
    parts = [{"inlineData": {"data": "QUI\n"}} for _ in range(10_000)]
    body = {"contents": [{"parts": [*parts, {"inlineData": {"data": line * 200_000}}]}]}
    new = check_request(body)["contents"][0]["parts"]
    assert (new[0]["inlineData"]["data"], len(new[-1]["inlineData"]["data"])) == ("QUI=", 76 * 200_000)


def test_signatures_pass_as_they_are() -> None:
    body = of_part({"text": "x", "thoughtSignature": "not base64 at all"})
    assert check_request(body) is body
