"""Canonical forms: all spellings of a document have the same form, as tool pins and recordings require."""

from typing import Any

import pytest

from hookgate.hooks.policies.canonical import canonical_form, digest


def key(value: Any) -> str:
    return digest(canonical_form(value))


SCHEMA = {"type": "OBJECT", "properties": {"file_path": {"type": "STRING", "minLength": 1}}}


@pytest.mark.parametrize(
    "other",
    [
        {"parameters": SCHEMA, "name": "read"},
        {"name": "read", "parameters": SCHEMA, "description": None},
        {
            "name": "read",
            "parameters": {
                "type": "OBJECT",
                "properties": {"file_path": {"type": "STRING", "min_length": 1.0}},
            },
        },
    ],
    ids=["another order", "a null", "snake_case and a float"],
)
def test_spellings_of_the_same_are_the_same(other: Any) -> None:
    assert key(other) == key({"name": "read", "parameters": SCHEMA})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"parameters": SCHEMA}, {"parameters": {**SCHEMA, "properties": {"filePath": {"type": "STRING"}}}}),
        ({"args": {"a_b": 1}}, {"args": {"aB": 1}}),
        ({"args": {"a": None}}, {"args": {}}),
        ({"nullable": 1}, {"nullable": True}),
        ({"max_items": 1, "maxItems": 2}, {"max_items": 3, "maxItems": 2}),
        ({"properties": {"args": {"min_length": 1}}}, {"properties": {"args": {"min_length": 2}}}),
    ],
    ids=[
        "names in a schema",
        "names of arguments",
        "nulls in arguments",
        "a truth",
        "given twice",
        "below a name",
    ],
)
def test_different_values_have_different_forms(one: Any, other: Any) -> None:
    assert key(one) != key(other)
