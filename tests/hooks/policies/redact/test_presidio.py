"""Presidio with the detectors: the real one if installed, and a stand-in to test the use of its findings."""

import importlib.util
from typing import Any

import pytest
from support.hooks.builtins import make_policy

from hookgate.hooks.policies.redact import DETECTORS, shared_scanner
from hookgate.hooks.policies.redact.answers import AnswerScreen
from hookgate.hooks.policies.redact.policy import redact_policy
from hookgate.hooks.policies.redact.redaction import Redaction, Search

SCANNER = shared_scanner(DETECTORS)

HAS_PRESIDIO = importlib.util.find_spec("presidio_analyzer") is not None


def find_anna(text: str) -> list[tuple[int, int, str]]:
    """Knows one person, and takes what stands behind her name for a part of it."""
    at = text.find("Anna")
    return [] if at < 0 else [(at, min(at + 9, len(text)), "PERSON")]


def redaction() -> Redaction:
    return Redaction(Search(SCANNER, find=find_anna), lambda kind, _: f"[{kind}]")


def event(text: str) -> Any:
    return {"candidates": [{"content": {"parts": [{"text": text}]}}]}


def test_its_findings_are_replaced_beside_the_detectors() -> None:
    assert redaction().text("I am Anna Berg, b@example.org.") == "I am [PERSON], [EMAIL]."


def test_a_finding_that_reaches_into_another_counts_as_far_as_it_goes() -> None:
    assert redaction().text("Anna b@example.org") == "[PERSON][EMAIL]"


def test_a_streamed_answer_waits_for_its_end() -> None:
    screen = AnswerScreen(redaction())
    assert screen.feed([event("I am An"), event("na Berg!")], last=False) == []
    out = screen.feed([], last=True)
    texts = [part["text"] for _, body in out for part in body["candidates"][0]["content"]["parts"]]
    assert "".join(texts) == "I am [PERSON]!"
    assert screen.slow


@pytest.mark.parametrize("thought", ["hm", "All is well here. " * 20], ids=["short", "long"])
def test_content_between_texts_does_not_hide_a_secret_from_the_other_detectors(thought: str) -> None:
    between = {"candidates": [{"content": {"parts": [{"text": thought, "thought": True}]}}]}
    screen = AnswerScreen(redaction())
    events = [event("Anna Berg"), between, event("AKIAQ3EG"), event("RYH7XJ4WPL2D"), between, event("to")]
    out = screen.feed(events, last=False) + screen.feed([], last=True)
    parts = [part for _, body in out for part in body["candidates"][0]["content"]["parts"]]
    assert "".join(part["text"] for part in parts if "thought" not in part) == "[PERSON][AWS_ACCESS_KEY]to"


def test_a_secret_that_the_request_begins_is_found_beside_its_findings() -> None:
    screen = AnswerScreen(redaction(), continues="Hi! AKIAQ3EG")
    out = screen.feed([event("RYH7XJ4WPL2D is of Anna "), event("Berg!")], last=True)
    texts = [part["text"] for _, body in out for part in body["candidates"][0]["content"]["parts"]]
    assert "".join(texts) == "[AWS_ACCESS_KEY] is of [PERSON]!"


@pytest.mark.skipif(importlib.util.find_spec("presidio_analyzer") is not None, reason="Presidio is here")
def test_without_presidio_the_remedy_is_reported() -> None:
    with pytest.raises(ValueError, match=r"is not installed; install hookgate with its extra presidio"):
        make_policy(redact_policy, {"presidio": {"entities": ["PERSON"]}})


@pytest.mark.skipif(not HAS_PRESIDIO, reason="needs pip install '.[presidio]'")
async def test_presidio_s_own_recognizers_are_asked() -> None:
    options = {"presidio": {"entities": ["UK_NHS"], "model": "blank"}}
    request = {"contents": [{"role": "user", "parts": [{"text": "NHS number 943 476 5919, please"}]}]}
    said = await make_policy(redact_policy, options)(
        {"hook_event_name": "BeforeModel", "llm_request": {"raw": request}}
    )
    [content] = said["hookSpecificOutput"]["llm_request"]["raw"]["contents"]
    assert content["parts"][0]["text"] == "NHS number [UK_NHS], please"
