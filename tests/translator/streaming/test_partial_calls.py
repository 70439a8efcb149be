"""Calls whose arguments a stream contains in pieces are made whole."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgate.translator import BodyError
from hookgate.translator.streaming.partial_calls import UnfinishedCalls, with_whole_calls

Json = dict[str, Any]

NAMES = st.text("abcé_-1", min_size=1, max_size=4)
LEAVES = (
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-1, 1) | st.text("ab \"'$.[]é", max_size=6)
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3) | st.dictionaries(NAMES, inner, min_size=1, max_size=3)
    ),
    max_leaves=6,
)


def event(*parts: Json, index: int = 0) -> Json:
    return {"candidates": [{"index": index, "content": {"role": "model", "parts": list(parts)}}]}


@st.composite
def streams(draw: st.DrawFn) -> tuple[Json, list[Json]]:
    """Arguments, and the pieces of a call with them."""
    arguments = draw(st.dictionaries(NAMES, VALUES, max_size=3))
    pieces: list[Json] = []

    def add(path: str, value: Any) -> None:
        if isinstance(value, dict):
            for name, inner in value.items():
                plain = name.replace("-", "").isalnum() and draw(st.booleans())
                add(
                    f"{path}.{name}" if plain else f"{path}{draw(st.sampled_from(QUOTES)).format(name)}",
                    inner,
                )
        elif isinstance(value, list):
            for number, inner in enumerate(value):
                add(f"{path}[{number}]", inner)
        elif isinstance(value, str):
            cut = draw(st.integers(0, len(value)))
            pieces.append({"jsonPath": path, "stringValue": value[:cut], "willContinue": True})
            pieces.append({"jsonPath": path, "stringValue": value[cut:]})
        elif isinstance(value, bool):
            pieces.append({"jsonPath": path, "boolValue": value})
        elif value is None:
            pieces.append({"jsonPath": path, "nullValue": "NULL_VALUE"})
        else:
            pieces.append({"jsonPath": path, "numberValue": value})

    add("$", arguments)
    calls: list[Json] = [{"name": "f", "id": "1", "willContinue": True}]
    calls += [{"partialArgs": [piece], "willContinue": True} for piece in pieces]
    return arguments, [{"functionCall": call} for call in [*calls, {}]]


QUOTES = ["['{}']", '["{}"]']


@given(stream=streams(), together=st.integers(1, 5))
def test_assembled_arguments_are_those_that_were_cut(stream: tuple[Json, list[Json]], together: int) -> None:
    arguments, parts = stream
    events = [event(*parts[at : at + together]) for at in range(0, len(parts), together)]
    opened = UnfinishedCalls()
    assert [opened.note(each) for each in events] == [True] * (len(events) - 1) + [False]
    new = [part for each in with_whole_calls(events) for part in each["candidates"][0]["content"]["parts"]]
    calls = [part["functionCall"] for part in new if "functionCall" in part]
    assert json.dumps(calls) == json.dumps([{"name": "f", "id": "1", "args": arguments}])


@pytest.mark.parametrize(
    "pieces",
    [
        [{"stringValue": "a"}],
        [{"jsonPath": "$", "stringValue": "a"}],
        [{"jsonPath": "$[0]", "stringValue": "a"}],
        [{"jsonPath": "$..a", "stringValue": "a"}],
        [{"jsonPath": "$.a[*]", "stringValue": "a"}],
        [{"jsonPath": "$.a[1]", "stringValue": "a"}],
        [{"jsonPath": "$.a[-1]", "stringValue": "a"}],
        [{"jsonPath": "$.a" + "[0]" * 99, "stringValue": "a"}],
        [{"jsonPath": "$.a", "stringValue": "a", "numberValue": 1}],
        [{"jsonPath": "$.a", "numberValue": True}],
        [{"jsonPath": "a", "stringValue": "a"}],
        [{"jsonPath": "$.a", "stringValue": "a"}, {"jsonPath": "$.a[]"}],
        [{"jsonPath": "$.a[]", "stringValue": "a"}],
        [{"jsonPath": "$.a", "stringValue": 1}],
        [{"jsonPath": "$.a", "numberValue": 1}, {"jsonPath": "$.a", "numberValue": 2}],
        [{"jsonPath": "$.a", "numberValue": 1}, {"jsonPath": "$.a", "stringValue": "b"}],
        [{"jsonPath": "$.a", "stringValue": "b"}, {"jsonPath": "$.a.b", "stringValue": "b"}],
        [{"jsonPath": "$.a.b", "stringValue": "b"}, {"jsonPath": "$.a", "stringValue": "b"}],
        ["text"],
    ],
)
def test_arguments_that_are_not_clear_are_refused(pieces: list[Any]) -> None:
    events = [
        event({"functionCall": {"name": "f", "partialArgs": [piece], "willContinue": True}})
        for piece in pieces[:1]
    ]
    events += [
        event({"functionCall": {"partialArgs": [piece], "willContinue": True}}) for piece in pieces[1:]
    ]
    events.append(event({"functionCall": {}}))
    with pytest.raises(BodyError, match="cannot be put together"):
        with_whole_calls(events)


@pytest.mark.parametrize(
    ("pieces", "arguments"),
    [
        ([{"jsonPath": "$.a[]"}], {"a": []}),
        ([{"jsonPath": "$.a[0]", "numberValue": 1}, {"jsonPath": "$.a[]"}], {"a": [1]}),
        ([{"jsonPath": "$.a[0][]"}, {"jsonPath": "$.a[0][]"}, {"jsonPath": "$.a[]"}], {"a": [[]]}),
    ],
)
def test_the_end_of_a_list_is_a_piece(pieces: list[Json], arguments: Json) -> None:
    [new] = with_whole_calls([event({"functionCall": {"name": "f", "partialArgs": pieces}})])
    assert new == event({"functionCall": {"name": "f", "args": arguments}})


def test_calls_of_several_candidates_are_kept_apart() -> None:
    def piece(text: str, index: int, **call: Any) -> Json:
        part = {"functionCall": {"partialArgs": [{"jsonPath": "$.a", "stringValue": text}], **call}}
        return event(part, index=index)

    events = [
        piece("a", 0, name="f", willContinue=True),
        piece("x", 1, name="g", willContinue=True),
        event({"text": "so"}, index=0),
        piece("b", 0),
        piece("y", 1),
    ]
    new = with_whole_calls(events)
    assert new[0]["candidates"][0]["content"]["parts"] == [
        {"functionCall": {"name": "f", "args": {"a": "ab"}}}
    ]
    assert new[1]["candidates"][0]["content"]["parts"] == [
        {"functionCall": {"name": "g", "args": {"a": "xy"}}}
    ]
    assert new[2] is events[2]


def test_whole_calls_are_left_alone() -> None:
    events = [
        event({"functionCall": {"name": "f", "args": {"a": 1}}}),
        event({"functionCall": {"name": "g"}}),
    ]
    assert with_whole_calls(events)[0] is events[0]
    assert with_whole_calls(events)[1] is events[1]
