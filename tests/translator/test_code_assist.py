"""Code Assist's envelopes: hooks edit only the body inside."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.bodies.generate_content import requests, responses, some, spelled
from support.translation.inspect import Json, exact, with_each_text
from support.upstream.captured import RECORDED_REQUESTS

from hookgate.translator import BodyError, apply_request, apply_response, show_request, text_response
from hookgate.translator.code_assist import (
    enveloped_session,
    rewrap_request,
    rewrap_response,
    unwrap_request,
    unwrap_response,
    wrap_response,
)
from hookgate.translator.strictjson import loads

MODEL = "gemini-2.5-flash"


@st.composite
def wrapped_requests(draw: st.DrawFn) -> Json:
    around = draw(some(("project", "proj-1"), ("userPromptId", "00aa"), ("enabledCreditTypes", [])))
    session = draw(some(("sessionId", "s-1")))
    inner = {**draw(requests()), **draw(spelled(session))}
    return draw(spelled({**around, "model": MODEL, "request": inner}))


@st.composite
def wrapped_responses(draw: st.DrawFn) -> Json:
    around = draw(some(("traceId", "t-1"), ("remainingCredits", [])))
    return draw(spelled({**around, "response": draw(responses())}))


# ---- the laws


@given(wrapped_requests())
def test_a_request_put_back_unchanged_is_the_request_itself(body: Json) -> None:
    model, inner = unwrap_request(body)
    assert inner is body["request"]
    assert rewrap_request(body, *apply_request(model, inner, show_request(model, inner))) is body


@given(wrapped_requests())
def test_an_edited_request_differs_only_in_its_model_and_inner_body(body: Json) -> None:
    before, other = exact(body), {"contents": []}
    after = rewrap_request(body, "gemini-2.5-pro", other)
    assert unwrap_request(after) == ("gemini-2.5-pro", other)
    assert exact(rewrap_request(after, *unwrap_request(body))) == exact(body) == before


@given(wrapped_responses())
def test_a_response_put_back_unchanged_is_the_response_itself(body: Json) -> None:
    assert unwrap_response(body) is body["response"]
    assert rewrap_response(body, unwrap_response(body)) is body


@given(wrapped_responses())
def test_an_edited_response_differs_only_in_its_inner_body(body: Json) -> None:
    before, other = exact(body), text_response("no")
    after = rewrap_response(body, other)
    assert unwrap_response(after) is other
    assert exact(rewrap_response(after, unwrap_response(body))) == exact(body) == before


# ---- by example


def test_everything_around_an_edit_stays_in_its_place() -> None:
    body = {
        "model": MODEL,
        "project": "p",
        "request": {"contents": [], "session_id": "s"},
        "user_prompt_id": "u",
    }
    after = rewrap_request(body, "gemini-2.5-pro", {"contents": [{"parts": []}], "session_id": "s"})
    assert exact(after) == exact(
        {
            "model": "gemini-2.5-pro",
            "project": "p",
            "request": {"contents": [{"parts": []}], "session_id": "s"},
            "user_prompt_id": "u",
        }
    )


@pytest.mark.parametrize(
    ("inner", "session"),
    [
        ({"session_id": "s-1"}, "s-1"),
        ({"sessionId": "s-2"}, "s-2"),
        ({"session_id": None}, ""),
        ({"session_id": 7}, ""),
        ({}, ""),
        (None, ""),
    ],
)
def test_a_session_is_read_in_either_spelling(inner: Any, session: str) -> None:
    assert enveloped_session({"model": MODEL, "request": inner}) == session


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"request": {}}, "model"),
        ({"model": 7, "request": {}}, "model"),
        ({"model": MODEL}, "request"),
        ({"model": MODEL, "request": [{}]}, "request"),
        ({"model": f"models/{MODEL}", "request": {}}, "model"),
        ({"model": f"{MODEL} ", "request": {}}, "model"),
    ],
)
def test_an_envelope_without_a_request_is_refused_with_its_place(body: Json, place: str) -> None:
    with pytest.raises(BodyError) as refusal:
        unwrap_request(body)
    assert refusal.value.path == place


@pytest.mark.parametrize("field", ["candidates", "promptFeedback", "prompt_feedback", "error"])
def test_nothing_that_hooks_judge_stands_beside_a_response(field: str) -> None:
    with pytest.raises(BodyError, match="it stands beside"):
        unwrap_response({**wrap_response(text_response("hi")), field: []})


@pytest.mark.parametrize("body", [{"error": {"code": 429}}, {"response": None, "traceId": "t"}, {}])
def test_an_answer_without_a_response_passes_as_it_is(body: Json) -> None:
    assert unwrap_response(body) is body
    assert rewrap_response(body, unwrap_response(body)) is body


def test_a_hook_edits_the_text_of_a_wrapped_chunk() -> None:
    body = {"traceId": "t", **wrap_response(text_response("the key is 42"))}
    edited = apply_response(unwrap_response(body), {"text": "the key is [REDACTED]"})
    after = rewrap_response(body, edited)
    assert exact(after) == exact({"traceId": "t", "response": text_response("the key is [REDACTED]")})


@pytest.mark.usefixtures("shared")
def test_a_word_edited_in_a_captured_request_changes_only_that_word() -> None:
    def changed(text: str) -> str:
        return text.replace("say hi", "say [REDACTED]")

    file = RECORDED_REQUESTS / "gemini-cli-code-assist.json"
    for body in (exchange["body"] for exchange in loads(file.read_bytes())):
        model, inner = unwrap_request(body)
        messages = show_request(model, inner)["messages"]
        edit = {"messages": [{**m, "content": changed(m["content"])} for m in messages]}
        after = rewrap_request(body, *apply_request(model, inner, edit))
        assert enveloped_session(after) == enveloped_session(body) != ""
        assert exact(after) == exact({**body, "request": with_each_text(inner, changed)}) != exact(body)
