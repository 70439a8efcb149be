"""A hook's input document: equal as JSON and as a value, on one line, and not shared with other hooks."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hookgate.hooks.events.base import Document, SharedValue

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.dictionaries(st.text(), st.tuples(JSON, st.booleans()), max_size=4)


@given(FIELDS)
def test_a_document_is_one_line_of_json_with_shared_fields_spliced_in(fields: Any) -> None:
    document = Document(
        {key: SharedValue(value) if shared else value for key, (value, shared) in fields.items()}
    )
    assert json.loads(document.json) == {key: value for key, (value, _) in fields.items()}
    assert list(json.loads(document.json)) == list(fields)
    assert b"\n" not in document.json


@given(FIELDS)
def test_a_document_s_value_is_new_for_each_caller(fields: Any) -> None:
    plain = {key: value for key, (value, _) in fields.items()}
    document = Document(plain)
    value = document.value()
    assert value == plain
    for inner in value.values():
        if isinstance(inner, dict | list):
            inner.clear()
    value.clear()
    assert document.value() == plain


def test_each_owner_has_its_own_copy_of_a_shared_value() -> None:
    shared = SharedValue({"messages": [1]})
    Document({"llm_request": shared}, "first").value()["llm_request"]["messages"].clear()
    assert Document({"llm_request": shared}, "second").value() == {"llm_request": {"messages": [1]}}
    assert Document({"llm_request": shared}, "second").view() == {"llm_request": {"messages": [1]}}
    assert json.loads(Document({"llm_request": shared}).json) == {"llm_request": {"messages": [1]}}


def test_a_copy_that_was_returned_unchanged_is_used_again() -> None:
    shared = SharedValue({"messages": [1]})
    copies = []
    for _ in range(2):
        document = Document({"llm_request": shared}, "hook")
        copies.append(document.value()["llm_request"])
        document.return_copies()
    assert copies[0] is copies[1]


def test_a_copy_that_is_still_in_use_or_was_modified_is_not_used_again() -> None:
    shared = SharedValue({"messages": [1]})
    first, second = (Document({"llm_request": shared}, "hook") for _ in range(2))
    kept, modified = (document.value()["llm_request"] for document in (first, second))
    assert kept is not modified
    modified["messages"].append(2)
    second.return_copies()
    third = Document({"llm_request": shared}, "hook").value()
    assert third == {"llm_request": {"messages": [1]}}
    assert third["llm_request"] is not modified


def test_integers_beyond_64_bits_stay_exact_beside_a_shared_value() -> None:
    document = Document({"llm_request": SharedValue({"seed": 2**70}), "count": -(2**80)})
    assert json.loads(document.json) == {"llm_request": {"seed": 2**70}, "count": -(2**80)}
