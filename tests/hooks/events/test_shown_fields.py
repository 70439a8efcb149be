"""Each view shows every field with text, by google-genai's types, except for those that docs/hooks.md names.

The SDK makes the requests, so a field that a new version of it sends is shown, or fails this test.
"""

import base64
import functools
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from google.genai import types
from support.bodies.genai import Sdk, camel_case, leaves_of
from support.bodies.planting import SECRET, left
from support.places import DOCS

from hookgate.hooks import AfterModel, BeforeModel, BeforeToolSelection
from hookgate.hooks.events.base import SharedValue
from hookgate.translator import VIEWS

pytestmark = pytest.mark.filterwarnings("ignore")  # of unknown enumerators

Json = dict[str, Any]
TEXT = "planted text, not a name"
ENCODED = base64.b64encode(TEXT.encode()).decode()
NOT_IN_REST = ("automatic_function_calling_history", ".parsed")
"""Fields of a response that the SDK adds."""


def documented(event: str, view: str) -> frozenset[str]:
    """The fields that the docs say a view leaves out."""
    table = re.search(
        r"### What a view leaves out\n.*?\n(\|.*?)\n\n", (DOCS / "hooks.md").read_text(), re.DOTALL
    )
    assert table is not None
    for row in table[1].splitlines()[2:]:
        _, events, views, fields, _ = (cell.strip() for cell in row.split("|"))
        if event in events and f'`"{view}"`' in views:
            return frozenset(re.findall("`([^`]+)`", fields)) - {"llm_request"}
    raise AssertionError(f"docs/hooks.md does not say what {view} of {event} leaves out")


def planted(value: Any) -> Any:
    """The value with a text for the secret; in base64 where the API has bytes that may be text."""
    if isinstance(value, dict):
        if value.get("data") == SECRET:
            return {**value, "mimeType": "text/plain", "data": ENCODED}
        return {key.replace(SECRET, TEXT): planted(item) for key, item in value.items()}
    if isinstance(value, list):
        return [planted(item) for item in value]
    return value.replace(SECRET, TEXT) if isinstance(value, str) else value


HI = [{"role": "user", "parts": [{"text": "hi"}]}]


@functools.cache
def requests() -> list[tuple[str, Json]]:
    """A request for each text field that the SDK sends, with the field's path."""
    return [(next(left(body)), planted(body)) for body in bodies()]


def bodies() -> Iterator[Json]:
    config = [(f"config{path}", {"config": value}) for path, value in leaves_of(types.GenerateContentConfig)]
    contents = [(f"contents{path}", {"contents": value}) for path, value in leaves_of(list[types.Content])]
    for vertex in (False, True):
        sdk = Sdk(vertex=vertex)
        for _, given in [*contents, *config]:
            arguments: Json = {"contents": HI, **given}
            try:
                _, body = sdk.request(
                    lambda client, a=arguments: client.models.generate_content(model="m", **a)
                )
            except Exception:  # noqa: S112  # the SDK does not send this field to this API
                continue
            yield body
    for _, tool in leaves_of(types.Tool):
        yield {"contents": HI, "tools": [camel_case(tool)]}


UNKNOWN: list[Json] = [
    {"unknownField": {"a": [TEXT]}},
    {"contents": [{**HI[0], "unknownField": TEXT}]},
    {"contents": [{"role": "user", "unknownField": TEXT}]},
    {"contents": [{"parts": [{"text": "hi", "unknownField": TEXT}]}]},
    {"contents": [{"parts": [{"functionCall": {"name": "a", "unknownField": TEXT}}]}]},
    {"contents": [{"parts": [{"functionResponse": {"name": "a", "unknownField": TEXT}}]}]},
    {"contents": [{"parts": [{"text": "hi", "functionCall": {"name": TEXT}}]}]},
    {"contents": [{"parts": [{"unknownField": TEXT}]}]},
    {"contents": [{"parts": [{"toolCall": TEXT}]}]},
    {"systemInstruction": {"parts": [{"text": "hi"}], "unknownField": TEXT}},
    {"contents": HI, "toolConfig": {"unknownField": TEXT}},
    {"contents": HI, "generationConfig": {"unknownField": TEXT}},
]


def fits(name: str, path: str) -> bool:
    """Whether a field is in one of this name."""
    return f".{name}." in f".{path.replace('[]', '').lstrip('.')}."


@pytest.mark.parametrize("event", [BeforeModel, BeforeToolSelection])
@pytest.mark.parametrize("view", VIEWS)
def test_every_text_of_a_request_is_shown_or_named_as_left_out(view: str, event: Any) -> None:
    omitted = documented(event.name, view) - ({"tools"} if event is BeforeToolSelection else set())
    used: set[str] = set()
    for path, body in requests():
        shown = json.dumps(event("m", body).fields(view))
        if TEXT in shown or (view in ("raw", "body") and ENCODED in shown):
            continue
        named = {name for name in omitted if fits(name, path)}
        assert named, f"{path} is neither shown nor in docs/hooks.md"
        used |= named
    assert used == omitted
    assert len(requests()) > 500


@pytest.mark.parametrize("view", [view for view in VIEWS if view != "text"])
def test_every_text_in_an_unknown_field_is_shown(view: str) -> None:
    for body in UNKNOWN:
        assert TEXT in json.dumps(BeforeModel("m", body).fields(view)), body


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_that_is_returned_unchanged_leaves_every_field_as_it_was(view: str) -> None:
    # check_request refuses such roles and thoughts, and another model
    refused = (".role", ".modelName", ".thought")
    accepted = (body for path, body in requests() if not path.endswith(refused))
    for body in [*UNKNOWN, *accepted]:
        assert VIEWS[view]("m", body).edited(VIEWS[view]("m", body).view()) == ("m", body)


@pytest.mark.parametrize("view", VIEWS)
def test_every_text_of_an_answer_is_shown_or_named_as_left_out(view: str) -> None:
    omitted, used = documented("AfterModel", view), set[str]()
    for path, value in leaves_of(types.GenerateContentResponse):
        if any(name in path for name in NOT_IN_REST):
            continue
        body = planted(camel_case(value))
        if "usageMetadata" in body:
            body["usageMetadata"]["promptTokenCount"] = 1
        shown = json.dumps(AfterModel(SharedValue({}), body).fields(view)["llm_response"])
        if TEXT in shown or ENCODED in shown:
            continue
        named = {name for name in omitted if fits(name, ".".join(map(camel_name, path.split("."))))}
        assert named, f"{path} is neither shown nor in docs/hooks.md"
        used |= named
    assert used == omitted


def camel_name(name: str) -> str:
    return next(iter(camel_case({name: 0})))
