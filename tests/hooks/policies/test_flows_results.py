"""Results of tools for flow rules: what has fields, and what only looks so."""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hookgate.hooks.policies import options
from hookgate.hooks.policies.flows.block_yaml import NotYaml, read_block_yaml
from hookgate.hooks.policies.flows.results import field_values, structure_of
from hookgate.hooks.policies.tool_results import MAX_VALUES

KEYS = st.from_regex(r"[a-z][a-z_]{0,6}", fullmatch=True)
TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"], include_characters="\n"), max_size=60)
VALUES = st.recursive(
    TEXTS | st.integers(0, 999),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3) | st.dictionaries(KEYS, inner, min_size=1, max_size=3)
    ),
    max_leaves=12,
)
MAILS = st.lists(st.dictionaries(KEYS, VALUES, min_size=1, max_size=4), min_size=1, max_size=3)


def shape(value: Any) -> Any:
    """A value without what does not matter: the spelling of scalars, and of white space in them."""
    if isinstance(value, dict):
        return {key: shape(member) for key, member in value.items()}
    if isinstance(value, list):
        return [shape(member) for member in value]
    return " ".join(str(value).split())


@given(MAILS)
def test_what_is_read_of_dumped_yaml_has_the_shape_of_what_was_dumped(mails: list[Any]) -> None:
    """It may be refused, but no text becomes a field, and no field another one's."""
    try:
        read = read_block_yaml(yaml.safe_dump(mails, allow_unicode=True))
    except NotYaml:
        return
    assert shape(read) == shape(mails)


def test_ordinary_yaml_is_read() -> None:
    mails = [
        {"id": "1", "to": ["a@x.example", "b@x.example"], "body": 'Hi: there\n\nIt\'s "me"\n- from: x\n'},
        {"id": "2", "shared": {"a@x.example": "rw"}, "body": "long " * 40, "n": 3},
    ]
    assert shape(read_block_yaml(yaml.safe_dump(mails))) == shape(mails)
    assert shape(read_block_yaml(yaml.safe_dump(mails[0]))) == shape(mails[0])
    assert set(field_values(read_block_yaml(yaml.safe_dump(mails)), ("shared", "id"))) == {
        "1",
        "2",
        "a@x.example",
        "rw",
    }


@pytest.mark.parametrize(
    "text",
    [
        "hello",
        "a: b: c",
        "a: 'b",
        "a: 'b' c",
        "a: b\na: c",
        "a: b\n- c",
        "- a\nb: c",
        "a: &x b",
        "a: *x",
        "a: {b: c}",
        "? a\n: b",
        "a: b\n c: d",
        "- " * 60 + "a",
        "a: b\n\n\tc: d",
        "Found: 1 mail\nfrom: x\n\nHello there",
    ],
)
def test_what_is_no_dumped_yaml_has_no_fields(text: str) -> None:
    assert structure_of({"llmContent": text}) == text


def test_json_is_read_only_as_the_whole_of_a_result() -> None:
    assert structure_of({"llmContent": ' {"a": 1} '}) == {"a": 1}
    assert structure_of({"llmContent": [{"type": "text", "text": "[1]"}]}) == [1]
    assert structure_of({"llmContent": 'mail: {"a": 1}'}) == 'mail: {"a": 1}'
    two = {"llmContent": [{"type": "text", "text": "[1]"}, {"type": "text", "text": "[2]"}]}
    assert structure_of(two) == two
    assert list(field_values({"a": '{"b": "c"}'}, ("b",))) == []


def test_json_with_too_many_values_is_not_parsed_and_has_no_fields() -> None:
    most = f"[{'1,' * (MAX_VALUES - 3)}1]"
    assert len(structure_of({"llmContent": most})) == MAX_VALUES - 2
    for text in (f"[{'1,' * MAX_VALUES}1]", f'{{"id": [{"[]," * MAX_VALUES}[]]}}'):
        assert structure_of({"llmContent": text}) == text


def test_long_names_of_a_result_are_not_remembered() -> None:
    before = options._matches.cache_info().currsize
    result = {f"{'x' * 1000}{number}": number for number in range(50)} | {f"{'ID' * 50}": "a"}
    assert list(field_values(result, ("idid*",))) == ["a"]
    assert options._matches.cache_info().currsize <= before
