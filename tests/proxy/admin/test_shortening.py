"""Documents that are shortened for the page."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgate.proxy.admin.call_content import LONGEST_TEXT, MAX_CHARACTERS, MAX_ITEMS, shorten

_SMALL = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(max_size=50),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=5),
    max_leaves=30,
)


@given(_SMALL)
def test_what_is_small_stays_as_it_is(value: Any) -> None:
    assert shorten(value) == value


def test_what_is_left_out_is_counted() -> None:
    text = shorten({"a": "x" * (LONGEST_TEXT + 7)})["a"]
    assert text.endswith("(7 more characters)")
    assert len(text) < LONGEST_TEXT + 50
    items = shorten([0] * (MAX_ITEMS + 3))
    assert (len(items), items[-1]) == (MAX_ITEMS + 1, "… (3 more)")


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(["x" * LONGEST_TEXT] * 1500, id="many long texts"),
        pytest.param([[["x"] * 1000] * 1000] * 3, id="many short ones"),
        pytest.param([{"k" * 50 + str(number): 1 for number in range(1900)}] * 1900, id="many names"),
        pytest.param({"x" * 3_000_000: 1}, id="a long name"),
    ],
)
def test_a_large_document_is_cut_as_a_whole(value: Any) -> None:
    message = json.dumps(shorten(value), ensure_ascii=False)
    assert len(message) < 2 * MAX_CHARACTERS
    assert "more" in message


def test_numbers_that_a_browser_would_change_become_texts() -> None:
    assert shorten([2**53 - 1, 2**53, -(2**63), 10**30]) == [
        2**53 - 1,
        str(2**53),
        str(-(2**63)),
        str(10**30),
    ]


def test_a_document_of_any_depth_is_cut() -> None:
    value: Any = "end"
    for _ in range(100):
        value = [value]
    assert "deeper levels" in str(shorten(value))
    assert "end" not in str(shorten(value))
