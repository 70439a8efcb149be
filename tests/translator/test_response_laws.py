"""The laws of editing an answer, for any answer, and examples of them."""

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.bodies.generate_content import distinct_responses, responses
from support.translation.inspect import (
    Json,
    all_parts,
    exact,
    hidden_parts,
    parts_of,
    texts,
    with_each_text,
    without_words,
)
from support.translation.lens import drawn_redactor, edited_response, through_javascript

from hookgate.translator import BodyError, EditError, show_response, synthetic_response, text_response

# ---- laws 1 and 8, for any answer


@given(responses())
def test_an_echo_of_the_view_or_of_one_of_its_keys_returns_the_same_body(body: Json) -> None:
    view = show_response(body)
    for echo in (view, through_javascript(view), *({key: view[key]} for key in view), {}):
        assert edited_response(body, echo) is body


@given(responses())
def test_an_echo_with_text_objects_for_strings_returns_the_same_body(body: Json) -> None:
    view = show_response(body)
    for candidate in view["candidates"]:
        candidate["content"]["parts"] = [{"text": text} for text in candidate["content"]["parts"]]
    assert edited_response(body, view) is body


@given(distinct_responses, st.data())
def test_replacing_words_in_any_candidates_changes_exactly_these_words(body: Json, data: Any) -> None:
    redacted = drawn_redactor(data, body)
    edit = show_response(body)
    for candidate in edit["candidates"]:
        candidate["content"]["parts"] = [redacted(text) for text in candidate["content"]["parts"]]
    assert exact(edited_response(body, edit)) == exact(with_each_text(body, redacted))


@given(responses(), st.data())
def test_the_i_th_string_lands_on_the_i_th_text_part(body: Json, data: Any) -> None:
    edit = show_response(body)
    for candidate in edit["candidates"]:
        candidate["content"]["parts"] = [f"new {i}" for i in range(len(candidate["content"]["parts"]))]
    order = data.draw(st.permutations(edit["candidates"]))
    assume(all("index" in candidate for candidate in order) or order == edit["candidates"])

    after = edited_response(body, {"candidates": order})

    assert without_words(after) == without_words(body)
    for candidate in after.get("candidates", []):
        spoken = [part for part in parts_of(candidate.get("content") or {}) if "text" in part]
        assert [part["text"] for part in spoken] == [f"new {i}" for i in range(len(spoken))]


@given(distinct_responses, st.text(min_size=1, max_size=20))
def test_text_alone_replaces_the_answer_of_the_first_candidate_and_no_thought(body: Json, text: str) -> None:
    assume(body.get("candidates"))
    after = edited_response(body, {"text": text})
    assert show_response(after)["text"] == text
    assert exact(hidden_parts(after)) == exact(hidden_parts(body))
    assert thoughts(after) == thoughts(body)
    assert exact(after["candidates"][1:]) == exact(body["candidates"][1:])
    assert exact({**after, "candidates": 0}) == exact({**body, "candidates": 0})


@given(responses())
def test_empty_parts_empty_the_text_and_keep_all_else(body: Json) -> None:
    edit = {"candidates": [{"content": {"parts": []}} for _ in body.get("candidates", [])]}
    after = edited_response(body, edit)
    assert not any(texts(after))
    assert exact(hidden_parts(after)) == exact(hidden_parts(body))
    assert [part for part in all_parts(after) if "text" in part] == [
        {**part, "text": ""} for part in all_parts(body) if "text" in part and len(part) > 1
    ]


@given(responses(), st.sampled_from(["SAFETY", "STOP"]))
def test_a_finish_reason_is_set_and_nothing_else(body: Json, reason: str) -> None:
    assume(body.get("candidates"))
    after = edited_response(body, {"candidates": [{"finishReason": reason}]})
    assert after["candidates"][0] == {**body["candidates"][0], "finishReason": reason}
    assert after == {**body, "candidates": after["candidates"]}
    assert after["candidates"][1:] == body["candidates"][1:]


@given(responses())
def test_usage_is_shown_once_it_counts_and_edited_key_by_key(body: Json) -> None:
    usage = body.get("usageMetadata", {})
    assert ("usageMetadata" in show_response(body)) == ("promptTokenCount" in usage)
    after = edited_response(body, {"usageMetadata": {"totalTokenCount": 7}})
    assert after == {**body, "usageMetadata": {**usage, "totalTokenCount": 7}}


def thoughts(body: Json) -> list[Json]:
    return [part for part in all_parts(body) if part.get("thought")]


# ---- by example


CALL = {"functionCall": {"name": "shell", "args": {}}, "thoughtSignature": "c2ln"}


def answer() -> Json:
    parts = [{"text": "hm", "thought": True}, {"text": "The key "}, CALL, {"text": "is 123.", "x": 1}]
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    return {"candidates": [candidate], "modelVersion": "m"}


def parts(body: Json) -> list[Json]:
    found: list[Json] = body["candidates"][0]["content"]["parts"]
    return found


def test_a_hook_sees_thoughts_among_the_parts_but_not_in_the_text() -> None:
    assert show_response(answer()) == {
        "text": "The key is 123.",
        "candidates": [
            {
                "content": {"role": "model", "parts": ["hm", "The key ", "is 123."]},
                "finishReason": "STOP",
                "index": 0,
            }
        ],
    }


def test_a_redacted_answer_keeps_its_call_and_signature() -> None:
    after = edited_response(answer(), {"text": "The key is [REDACTED]."})
    assert parts(after) == [*parts(answer())[:3], {"text": "is [REDACTED].", "x": 1}]


def test_candidates_win_over_a_text_that_says_something_else() -> None:
    edit = {"text": "from text", "candidates": [{"content": {"parts": ["a", "b", "c"]}}]}
    assert show_response(edited_response(answer(), edit))["text"] == "bc"


@pytest.mark.parametrize("candidate", [{}, show_response(answer())["candidates"][0]])
def test_a_text_applies_beside_candidates_that_leave_the_text_alone(candidate: Json) -> None:
    edit = {"text": "Withheld.", "candidates": [{**candidate, "finishReason": "SAFETY"}]}
    after = edited_response(answer(), edit)
    assert show_response(after)["text"] == "Withheld."
    assert after["candidates"][0]["finishReason"] == "SAFETY"


def test_a_text_for_an_answer_without_candidates_becomes_one() -> None:
    after = edited_response({"modelVersion": "m"}, {"text": "Hi"})
    assert show_response(after)["text"] == "Hi"
    body: Json = {"candidates": []}
    assert edited_response(body, {"text": ""}) is body


def test_the_documents_single_candidate_is_read() -> None:
    after = edited_response(answer(), {"candidate": {"content": {"parts": [{"text": "t"}, "u", "v"]}}})
    assert show_response(after)["text"] == "uv"


def test_a_call_that_is_in_no_list_is_not_added_a_second_time() -> None:
    body: Json = {"candidates": [{"content": {"parts": CALL}}]}
    assert edited_response(body, {"candidates": [{"content": {"parts": [CALL]}}]}) is body


def test_a_candidate_that_leaves_out_its_index_is_not_taken_for_the_first() -> None:
    first, second = ({"content": {"parts": [{"text": text}]}} for text in "AB")
    body: Json = {"candidates": [first, {**second, "index": 0}]}
    assert edited_response(body, show_response(body)) is body


def test_an_index_in_an_edit_names_a_place_among_candidates_without_one() -> None:
    first, second = ({"content": {"parts": [{"text": text}]}} for text in "AB")
    edit = {"index": 1, "content": {"parts": ["new"]}}
    after = edited_response({"candidates": [first, second]}, {"candidates": [edit]})
    assert after == {"candidates": [first, {"content": {"parts": [{"text": "new"}]}}]}


@pytest.mark.parametrize(
    ("edits", "reasons"),
    [
        pytest.param([{"index": 3, "finishReason": "SAFETY"}], [None, None, "SAFETY"], id="another index"),
        pytest.param([{}, {}, {"finishReason": "SAFETY"}], [None, None, "SAFETY"], id="another place"),
        pytest.param([{"index": 0, "finishReason": "SAFETY"}], [None, "SAFETY"], id="index of the second"),
        pytest.param([{}, {"index": 0, "finishReason": "SAFETY"}], [None, "SAFETY"], id="index and place"),
        pytest.param([{"finishReason": "SAFETY"}], ["SAFETY", None], id="place of the first"),
        pytest.param([{}, {"finishReason": "SAFETY"}], [None, "SAFETY"], id="place of the second"),
    ],
)
def test_an_edit_without_a_candidate_adds_one(edits: list[Json], reasons: list[str | None]) -> None:
    """A candidate is found by its index, or else by its place."""
    first, second = {"index": 1, "content": {}}, {"index": 0, "content": {}}
    after = edited_response({"candidates": [first, second]}, {"candidates": edits})["candidates"]
    assert [candidate.get("finishReason") for candidate in after] == reasons
    assert [candidate.get("index") for candidate in after] == [1, 0, edits[0].get("index")][: len(reasons)]


@pytest.mark.parametrize("content", [None, {}, {"parts": None}])
def test_an_edit_without_parts_leaves_the_texts_alone(content: Json | None) -> None:
    edit = {"candidates": [{"content": content, "finishReason": "SAFETY"}]}
    assert show_response(edited_response(answer(), edit))["text"] == show_response(answer())["text"]


@pytest.mark.parametrize("candidate", [{}, {"content": None}, {"content": {"parts": None}}])
def test_parts_for_a_candidate_without_content_become_its_content(candidate: Json) -> None:
    edit = {"candidates": [{"content": {"parts": ["a"]}}]}
    assert show_response(edited_response({"candidates": [candidate]}, edit))["text"] == "a"


def test_a_part_of_no_known_kind_becomes_its_json() -> None:
    odd = {"odd": [1]}
    after = edited_response(answer(), {"candidates": [{"content": {"parts": [odd]}}]})
    assert show_response(after)["candidates"][0]["content"]["parts"][0] == '{"odd":[1]}'


def test_more_strings_than_parts_become_parts_behind_the_last_text() -> None:
    body: Json = {"candidates": [{"content": {"parts": [{"text": "a"}, CALL]}}]}
    after = edited_response(body, {"candidates": [{"content": {"parts": ["a", "b"]}}]})
    assert parts(after) == [{"text": "a"}, {"text": "b"}, CALL]


@pytest.mark.parametrize(
    ("edit", "path"),
    [
        ("hi", ""),
        ({"text": 5}, "text"),
        ({"text": 5, "candidates": [{"content": {"parts": ["a"]}}]}, "text"),
        ({"candidates": {}}, "candidates"),
        ({"candidates": [{}, "hi"]}, "candidates[1]"),
        ({"candidates": [{"content": "hi"}]}, "candidates[0].content"),
        ({"candidates": [{"content": {"parts": "hi"}}]}, "candidates[0].content.parts"),
        ({"candidates": [{"content": {"parts": ["a", 5]}}]}, "candidates[0].content.parts[1]"),
        ({"text": "new", "usageMetadata": 5}, "usageMetadata"),
    ],
)
def test_an_edit_that_cannot_be_applied_names_the_place(edit: Any, path: str) -> None:
    with pytest.raises(EditError) as raised:
        edited_response(answer(), edit)
    assert raised.value.path == path


def test_a_call_in_an_edit_that_no_hook_could_judge_is_named_by_its_place() -> None:
    edit = {"candidates": [{}, {"content": {"parts": ["a", {"functionCall": {"name": 5}}]}}]}
    with pytest.raises(BodyError) as raised:
        edited_response(answer(), edit)
    assert raised.value.path == "candidates[1].content.parts[1].functionCall.name"


# ---- answers that no model gave


CONTENT = {"role": "model", "parts": [{"text": "Hi"}]}
FULL = {"candidates": [{"index": 0, "content": CONTENT, "finishReason": "STOP"}]}


@pytest.mark.parametrize(
    "spelling",
    [
        {"text": "Hi"},
        {"text": "Hi", "candidates": []},
        {"candidates": [{"content": {"role": "model", "parts": ["Hi"]}}]},
        {"candidates": [{"content": {"parts": [{"text": "Hi"}]}, "finishReason": "STOP", "index": 0}]},
        {"candidate": {"content": {"parts": ["Hi"]}}},
        {"text": "from text", "candidates": [{"content": {"parts": ["Hi"]}}]},
    ],
)
def test_a_synthetic_answer_is_read_in_every_spelling_of_the_documents(spelling: Json) -> None:
    assert synthetic_response(spelling) == FULL == text_response("Hi")


def test_a_synthetic_answer_keeps_its_own_reason_ratings_and_usage() -> None:
    candidate = {"content": {"parts": ["No."]}, "finishReason": "SAFETY", "safetyRatings": [], "index": 1}
    usage = {"totalTokenCount": 0}
    made = synthetic_response({"candidates": [candidate], "usageMetadata": usage})
    content = {"role": "model", "parts": [{"text": "No."}]}
    assert made == {"candidates": [{**candidate, "content": content}], "usageMetadata": usage}


@given(distinct_responses)
def test_a_synthetic_answer_made_from_a_view_shows_the_same_view(body: Json) -> None:
    assume(body.get("candidates"))
    view = show_response(body)
    shown = show_response(synthetic_response(view))
    for made, candidate in zip(shown["candidates"], view["candidates"], strict=True):
        assert made["content"]["parts"] == candidate["content"]["parts"]
        assert made["finishReason"] == candidate.get("finishReason", "STOP")


def test_a_synthetic_answer_may_be_a_whole_rest_body() -> None:
    call = {"functionCall": {"name": "read", "args": {"path": "a"}}, "thoughtSignature": "c2ln"}
    body = {"candidates": [{"content": {"role": "model", "parts": [call]}}], "modelVersion": "m-1"}
    assert synthetic_response({"raw": body, "text": "not this"}) is body


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        ("hi", "raw"),
        ({"candidates": [{"content": {"parts": [{"text": 5}]}}]}, "raw.candidates[0].content.parts[0].text"),
    ],
    ids=["no body", "no text"],
)
def test_a_whole_body_that_no_hook_could_be_shown_is_refused(raw: Any, path: str) -> None:
    with pytest.raises(BodyError) as raised:
        synthetic_response({"raw": raw})
    assert raised.value.path == path


@pytest.mark.parametrize(
    ("made", "path"),
    [("hi", ""), ({}, "candidates"), ({"candidates": [{"content": 5}]}, "candidates[0].content")],
)
def test_a_synthetic_answer_without_anything_to_say_is_refused(made: Any, path: str) -> None:
    with pytest.raises(EditError) as raised:
        synthetic_response(made)
    assert raised.value.path == path
