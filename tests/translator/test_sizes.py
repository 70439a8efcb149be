"""The size of a JSON value, which is measured only as far as necessary."""

from typing import Any

import pytest

from hookgate.translator.fields import is_larger


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ("x" * 100, 101),
        (["x" * 60, {"a": ["x" * 40]}], 106),
        ({"x" * 100: 1}, 102),
        ([1] * 100, 101),
        ({}, 1),
    ],
)
def test_a_value_is_as_large_as_its_texts_names_and_values(value: Any, size: int) -> None:
    assert not is_larger(value, size)
    assert is_larger(value, size - 1)
