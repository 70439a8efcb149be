"""JSON with comments: the parsed value, and the place of each value in the text."""

import json
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.bodies.jsontext import Layout, commented, json_objects, layouts

from hookgate.hooks.settings import files
from hookgate.hooks.settings.positions import Positions


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Every value within a value, with the keys that lead to it."""
    yield path, value
    members = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, member in members:
        yield from places(member, (*path, key))


@given(json_objects, layouts)
def test_comments_anywhere_change_no_value(value: Any, layout: Layout) -> None:
    assert files.parse_jsonc(commented(value, layout).text) == value


@given(json_objects, layouts)
def test_leaving_comments_out_keeps_every_offset_and_line(value: Any, layout: Layout) -> None:
    text = commented(value, layout).text
    bare = files.without_comments(text)
    assert len(bare) == len(text)
    assert [at for at, c in enumerate(bare) if c == "\n"] == [at for at, c in enumerate(text) if c == "\n"]
    assert all(new in (old, " ") for old, new in zip(text, bare, strict=True))


@given(st.text(alphabet='/*"\\ \n\ra1', max_size=30))
def test_a_string_keeps_what_looks_like_a_comment(text: str) -> None:
    quoted = json.dumps({"k": text})
    assert files.without_comments(quoted) == quoted


@given(json_objects, layouts)
def test_every_value_is_found_at_its_place(value: Any, layout: Layout) -> None:
    text = commented(value, layout).text
    for path, member in places(value):
        span = files.span_of(text, path)
        assert span is not None
        assert files.parse_jsonc(text[slice(*span)]) == member


@given(json_objects, layouts)
def test_the_line_of_a_value_is_where_its_text_begins(value: Any, layout: Layout) -> None:
    written = commented(value, layout)
    positions = Positions(files.without_comments(written.text))
    for path, _ in places(value):
        assert positions.line(path) == written.lines[path]


def test_the_line_of_a_missing_value_is_that_of_its_closest_parent() -> None:
    text = '// settings\n{\n  "hooks": {\n    "BeforeTool": [\n      {}\n    ]\n  }\n}'
    positions = Positions(files.without_comments(text))
    assert positions.line(["hooks", "BeforeTool", 0, "matcher"]) == 5
    assert positions.line(["hooks", "BeforeTool", 1]) == 4
    assert positions.line(["tools"]) == 2


def test_a_missing_value_has_no_span() -> None:
    text = '{"a": [1, {"b": 2}]}'
    for path in (["b"], ["a", 2], ["a", 0, "b"], ["a", "0"], ["a", 1, 0]):
        assert files.span_of(text, path) is None


def test_a_string_that_is_not_closed_takes_linear_time() -> None:
    """Reading it anew from each of its quotation marks would take hours."""
    text = '{"a": "' + '\\"' * 1_000_000
    assert files.without_comments(text) == text
