"""Every string of google-genai's types for requests and answers is redacted, except those that docs list."""

import asyncio
import copy
import inspect
import re
import types as python_types
import typing
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from google.genai import types
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from support.bodies.planting import SECRET, documented, left, undocumented
from support.hooks.builtins import SENSITIVE, make_policy
from support.texts.secrets import PLANTED, planted

from hookgate.hooks import SessionContext
from hookgate.hooks.policies.redact import DETECTORS, shared_scanner
from hookgate.hooks.policies.redact.policy import redact_policy
from hookgate.hooks.policy_environment import PolicyEnvironment
from hookgate.translator.fields import camel

Json = dict[str, Any]

SCANNER = shared_scanner(DETECTORS)
SNAKE = pytest.mark.parametrize("snake", [False, True], ids=["camelCase", "snake_case"])


def sample(annotation: Any, *, snake: bool, within: tuple[type, ...] = ()) -> Any:
    """A value of a type, in REST's form, with the secret in each of its strings and each key of its own."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, python_types.UnionType):
        kinds = [kind for kind in arguments if kind is not type(None)]
        return sample(max(kinds, key=_tells), snake=snake, within=within)
    if origin is list:
        return [] if (item := sample(arguments[0], snake=snake, within=within)) is None else [item]
    if origin is dict:
        return {SECRET: sample(arguments[1], snake=snake, within=within)}
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return None if annotation in within else fields(annotation, snake=snake, within=within)
    if annotation in (int, float, bool):
        return annotation(1)
    return SECRET  # a string, an enumeration, a date, bytes, or anything


def fields(model: type[BaseModel], *, snake: bool, within: tuple[type, ...] = ()) -> Json:
    """An object with each field of the type."""
    found = {}
    for name, field in model.model_fields.items():
        alias = name if snake else field.alias or camel(name)
        found[alias] = sample(field.annotation, snake=snake, within=(*within, model))
    return {name: value for name, value in found.items() if value is not None}


def _tells(kind: Any) -> int:
    """The richest of several types."""
    if inspect.isclass(kind) and issubclass(kind, BaseModel):
        return 3
    return 2 if typing.get_origin(kind) in (list, dict) else 1 if kind in (str, datetime) else 0


def request(*, snake: bool) -> Json:
    config = fields(types.GenerateContentConfig, snake=snake)
    content = fields(types.Content, snake=snake)
    named = "generation_config" if snake else "generationConfig"
    beside = {"cachedContent": SECRET, "labels": {SECRET: SECRET}, "unknown": [{SECRET: [SECRET]}]}
    return {**config, named: {**config}, "contents": [content, {**content, "role": "model"}], **beside}


def response(*, snake: bool) -> Json:
    body = fields(types.GenerateContentResponse, snake=snake)
    candidate = {**body["candidates"][0], "index": 0, "groundingAttributions": [{"content": SECRET}]}
    return {**body, "candidates": [candidate], "unknown": {SECRET: [[SECRET]]}}


def redacted_request(body: Json, **options: Any) -> Json:
    event = {"hook_event_name": "BeforeModel", "llm_request": {"model": "m", "raw": body}}
    new: Json = output_for(event, **options)["llm_request"]["raw"]
    return new


def output_for(event: Json, **options: Any) -> Json:
    said = make_policy(redact_policy, SENSITIVE | options)(event)
    output = asyncio.run(said) if asyncio.iscoroutine(said) else said  # so many findings take a thread
    specific: Json = output["hookSpecificOutput"]
    return specific


def redacted_response(body: Json) -> Json:
    event = {"hook_event_name": "AfterModel", "llm_response": {"raw": body}}
    new: Json = output_for(event)["llm_response"]["raw"]
    return new


def redacted_events(*events: Json) -> list[Json]:
    policy: Any = redact_policy(SENSITIVE, PolicyEnvironment(Path("/")))
    screen = policy.screen(SessionContext("s-1"))
    steps = [screen.feed([event], last=False) for event in events]
    return [body for step in (*steps, screen.feed([], last=True)) for _, body in step]


@SNAKE
def test_the_types_have_hundreds_of_strings(snake: bool) -> None:
    assert len(list(left(request(snake=snake)))) > 400
    assert len(list(left(response(snake=snake)))) > 200


@SNAKE
def test_every_string_of_a_request_is_redacted(snake: bool) -> None:
    assert undocumented(redacted_request(request(snake=snake))) == []


@SNAKE
def test_every_string_of_an_answer_is_redacted(snake: bool) -> None:
    assert undocumented(redacted_response(response(snake=snake))) == []


@SNAKE
def test_every_string_of_a_streamed_answer_is_redacted(snake: bool) -> None:
    assert undocumented(redacted_events(response(snake=snake), {"usageMetadata": {}})) == []


@pytest.mark.parametrize("part", sorted(types.Part.model_fields))
def test_every_field_of_a_part_is_redacted_separately(part: str) -> None:
    value = fields(types.Part, snake=False).get(camel(part))
    content = {"role": "user", "parts": [{camel(part): value}]}
    assert undocumented(_changed({"contents": [content]})) == []


def _changed(body: Json) -> Json:
    event = {"hook_event_name": "BeforeModel", "llm_request": {"model": "m", "raw": body}}
    said = make_policy(redact_policy, SENSITIVE)(event)
    return said["hookSpecificOutput"]["llm_request"]["raw"] if said else body


def test_the_docs_list_the_fields_that_pass_and_no_others() -> None:
    passing = {*left(redacted_request(request(snake=False))), *left(redacted_response(response(snake=False)))}
    for name in documented() - {"setupComplete.sessionId"}:  # of Live sessions
        assert any(path.endswith(f".{name}") for path in passing), name


@SNAKE
def test_a_body_without_secrets_is_left_alone(snake: bool) -> None:
    clean: Json = _replaced(request(snake=snake), SECRET, "word")
    before = copy.deepcopy(clean)
    event = {"hook_event_name": "BeforeModel", "llm_request": {"model": "m", "raw": clean}}
    assert make_policy(redact_policy, SENSITIVE)(event) is None
    assert clean == before
    answer: Json = _replaced(response(snake=snake), SECRET, "word")
    answer["candidates"][0].pop("logprobs_result" if snake else "logprobsResult")
    [event_out] = redacted_events(answer)
    assert event_out is answer


@SNAKE
def test_the_same_value_gets_the_same_replacement_wherever_it_stands(snake: bool) -> None:
    new = redacted_request(request(snake=snake), action="hash")
    assert len(set(re.findall(r"\[AWS_ACCESS_KEY:[0-9a-f]{12}\]", str(new)))) == 1


@SNAKE
def test_pseudonyms_come_back_from_every_string_of_an_answer(snake: bool) -> None:
    policy: Any = redact_policy({**SENSITIVE, "action": "pseudonymise"}, PolicyEnvironment(Path("/")))
    session = SessionContext("s-1")
    asked = {"contents": [{"role": "user", "parts": [{"text": SECRET}]}]}
    said = policy({"hook_event_name": "BeforeModel", "llm_request": {"model": "m", "raw": asked}}, session)
    token = said["hookSpecificOutput"]["llm_request"]["raw"]["contents"][0]["parts"][0]["text"]
    [make] = session.call_state.client_filters.values()
    original = response(snake=snake)
    [(_, back)] = make().feed([_replaced(original, SECRET, token)], last=True)
    lost = [path for path in left(_replaced(back, token, SECRET)) if path not in set(left(back))]
    assert all(path.endswith(tuple(documented())) for path in lost)


def _replaced(value: Any, old: str, new: str) -> Any:
    if isinstance(value, dict):
        return {name.replace(old, new): _replaced(item, old, new) for name, item in value.items()}
    if isinstance(value, list):
        return [_replaced(item, old, new) for item in value]
    return value.replace(old, new) if isinstance(value, str) else value


@given(st.lists(st.integers(0, 400), max_size=6), st.data())
@settings(max_examples=150, deadline=None)
def test_many_strings_searched_at_once_hide_nothing(seeds: list[int], data: st.DataObject) -> None:
    labels = sorted(PLANTED)
    texts = [planted(seed, labels[seed % len(labels)])[seed % 2] for seed in seeds]
    texts += data.draw(st.lists(st.sampled_from(["word", "", "a@", "AKIA", "\\", "key=", "\n", "4111"])))
    texts = data.draw(st.permutations(texts))
    if SCANNER.all_clean(texts):
        assert all(map(SCANNER.is_clean, texts))
