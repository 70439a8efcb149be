"""Decisions: every text of a request is judged, masked, or refused."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from google.genai.decisions import CreateDecisionRequest
from support.bodies.planting import SECRET
from support.gateway.dialects import REDACT
from support.gateway.loopback import gateway_before, listens, runs
from support.wire import KEY, ok, peer, post

Json = dict[str, Any]
PATH = "/v1beta/decisions"
BODY: Json = {
    "model": "models/gemini-2.5-flash",
    "input": [{"type": "text", "text": "hi"}],
    "questions": {
        "q1": {"type": "noul", "instructions": "polite?", "criteria": {"true_description": "yes"}},
        "q2": {
            "type": "choice",
            "instructions": [{"type": "text", "text": "which?"}],
            "criteria": {"a": "b"},
        },
        "q3": {"type": "score", "instructions": "how?", "criteria": ["bad", "good"]},
    },
}
ANSWER = {"answers": {"q1": {"type": "noul", "noul": 0.9, "confidence": 0.9}}, "usage": {"total_tokens": 3}}


async def forwarded_decision(hooks: Json, body: Json) -> tuple[Any, Any]:
    """The answer, and the body that went upstream or None."""
    async with peer(ok(json.dumps(ANSWER).encode())) as upstream, gateway_before(upstream.url, hooks) as url:
        answer = await post(url, PATH, body, KEY)
    return answer, json.loads(upstream.heard[0].partition(b"\r\n\r\n")[2]) if upstream.heard else None


async def test_all_texts_are_shown_as_one_turn_and_nothing_changes_without_edits() -> None:
    CreateDecisionRequest.model_validate(BODY)
    shown: list[Json] = []
    answer, body = await forwarded_decision({"BeforeModel": [{**listens(shown), "view": "raw"}]}, BODY)
    assert (answer.json, body) == (ANSWER, BODY)
    [turn] = shown[0]["llm_request"]["contents"]
    assert [part["text"] for part in turn["parts"]] == [
        *("hi", "\nq1: ", "polite?", "\ntrue_description: ", "yes", "\nq2: ", "which?", "\na: ", "b"),
        *("\nq3: ", "how?", "bad", "good"),
    ]


def strings(value: Any) -> int:
    if isinstance(value, dict):
        return sum(1 + strings(item) for item in value.values())
    return sum(map(strings, value)) if isinstance(value, list) else isinstance(value, str)


def planted(value: Any, change: Callable[[str], str]) -> Any:
    """The value with each string, and each key, changed."""
    if isinstance(value, dict):
        return {change(key): planted(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [planted(item, change) for item in value]
    return change(value) if isinstance(value, str) else value


@pytest.mark.parametrize("place", [each for each in range(strings(BODY)) if each != 1])  # but the model
async def test_a_secret_in_any_place_is_masked_or_the_call_is_refused(place: int) -> None:
    numbers = iter(range(1_000))
    body = planted(copy.deepcopy(BODY), lambda text: SECRET if next(numbers) == place else text)
    answer, upstream = await forwarded_decision({"BeforeModel": [REDACT]}, body)
    assert SECRET not in json.dumps(upstream)
    assert (answer.status == 200) is (upstream is not None)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"input": {"type": "image", "data": "aGk=", "mime_type": "image/png"}}, "input"),
        ({"input": [{"type": "text", "text": "a", "note": "b"}]}, "input[0].note"),
        ({"tools": [{"type": "google_search"}]}, "tools"),
        ({"questions": [1]}, "questions"),
        ({"questions": {"q": {"type": "essay", "instructions": "a"}}}, "questions.q.type"),
        ({"questions": {"q": {"type": "score", "criteria": [{"a": "b"}]}}}, "questions.q.criteria[0]"),
    ],
)
async def test_what_hooks_would_not_see_is_refused_by_its_place(change: Json, field: str) -> None:
    answer, upstream = await forwarded_decision({"BeforeModel": [REDACT]}, {**BODY, **change})
    assert (answer.status, upstream) == (400, None)
    assert field in answer.error["message"]


async def test_a_password_is_found_by_the_name_of_its_field() -> None:
    password = "hT7kQ9zLw2Xv8Rn4"  # noqa: S105  # made up
    question = {"type": "choice", "instructions": "which?", "criteria": {"db_password": password, "b": "c"}}
    for questions in ({"q": question}, {"db_password": {**question, "instructions": password}}):
        answer, upstream = await forwarded_decision(
            {"BeforeModel": [REDACT]}, {**BODY, "questions": questions}
        )
        assert answer.status == 200
        assert password not in json.dumps(upstream)
        assert upstream["questions"].keys() == questions.keys()
        for name, sent_question in upstream["questions"].items():
            assert sent_question["criteria"].keys() == questions[name]["criteria"].keys()
            assert sent_question["criteria"]["b"] == "c"


async def test_an_edited_name_is_written_back_without_what_it_was_shown_with() -> None:
    def rename(event: Json) -> Json:
        contents = planted(event["llm_request"]["contents"], lambda text: text.replace("q1", "q: 1"))
        return {"hookSpecificOutput": {"llm_request": {"contents": contents}}}

    _, upstream = await forwarded_decision({"BeforeModel": [{**runs(rename), "view": "raw"}]}, BODY)
    assert [*upstream["questions"]] == ["q: 1", "q2", "q3"]
    assert upstream["questions"]["q2"] == BODY["questions"]["q2"]


async def test_texts_that_would_become_one_name_refuse_the_call() -> None:
    def shout(event: Json) -> Json:
        contents = planted(
            event["llm_request"]["contents"], lambda text: "A" if text.strip("\n: ") in "ab" else text
        )
        return {"hookSpecificOutput": {"llm_request": {"contents": contents}}}

    question = {"type": "choice", "instructions": "which?", "criteria": {"a": "x", "b": "y"}}
    hooks = {"BeforeModel": [{**runs(shout), "view": "raw"}]}
    answer, upstream = await forwarded_decision(hooks, {**BODY, "questions": {"q": question}})
    assert (answer.status, upstream) == (403, None)
    assert "questions.q.criteria" in answer.error["message"]
