"""Mistakes in the JSON of settings files are named in plain words, with line, column and remedy."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.bodies.jsontext import Layout, commented, json_objects, layouts

from hookgate.hooks import SettingsError
from hookgate.hooks.settings.files import parse_settings
from hookgate.hooks.settings.json_mistakes import syntax_mistake

NO_VALUE = (
    "is not a value of JSON; write text in double quotation marks, a number such as 0.5, or true, false or "
    "null in lower case"
)
NOT_CLOSED = (
    "this string is not closed in its line; add the closing quotation mark, or write a line end as \\n"
)
BACKSLASH = "to write a backslash, double it: \\\\"
NO_KEY = "there is no key in double quotation marks here; write one, or write a list in [ and ]"
NO_COLON = "the colon after this key is missing; write the key, a colon and the value"
COLON = "this colon follows no key; write keys with their values in { and }"
NO_COMMA = "a comma is missing after this value; add it"
QUOTES = 'strings and keys begin and end with a double quotation mark ("), not with'
QUOTE = 'write a quotation mark in a string as \\", or close the string earlier'
TEXT_AFTER = "remove it, or a bracket that closes too early"
COMMENT = "does not begin a comment; write // before a comment, or remove it"


def mistakes(text: str) -> list[str]:
    """The problems of a settings file with this text, after the path."""
    with pytest.raises(SettingsError) as caught:
        parse_settings(Path("f"), text)
    return [str(problem).removeprefix("f:") for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # commas
        ('{"a": 1,\n}', "1:8: there is a comma before the closing }; remove the comma"),
        ('{"a": [1,,]}', "1:10: there is a comma before the closing ]; remove the comma"),
        ('{"a": 1,\n, "b": 2}', "2:1: there are two commas in a row; remove one of them"),
        ('{\n, "a": 1}', "2:1: there is a comma after the opening {; remove the comma"),
        ('{"a": 1 // one\n "b": 2}', f"1:7: {NO_COMMA}"),
        ('{"a": ["x"\n"y"]}', f"1:10: {NO_COMMA}"),
        ('{"a": {}\n"b": 2}', f"1:8: {NO_COMMA}"),
        ('{"a": true false}', f"1:10: {NO_COMMA}"),
        ('{"a": 1; "b": 2}', "1:8: members are separated by commas; replace the semicolon with one"),
        # strings
        ('{"a": "x,\n "b": "y"}', f"1:7: {NOT_CLOSED}"),
        ('{"a": "x\\"}', f"1:7: {NOT_CLOSED}"),
        ('{"a": "/tmp"x"}', f"1:13: the string ends at the quotation mark before 'x'; {QUOTE}"),
        ('{"a": "echo " $X""}', f"1:15: the string ends at the quotation mark before '$X'; {QUOTE}"),
        ('{"a: "x"}', f"1:7: the string ends at the quotation mark before 'x'; {QUOTE}"),
        ('{"a": "\tx"}', "1:8: there is a tab in a string; write it as \\t"),
        ('{"a": "\x01x"}', "1:8: there is a control character in a string; write it as \\u0001"),
        ('{"a": "\\d+"}', f"1:8: \\d is not an escape of JSON; {BACKSLASH}"),
        ('{"a": "\\u12"}', f"1:8: \\u must be followed by four hexadecimal digits; {BACKSLASH}"),
        ('{"a": "x\\\n"}', f"1:9: \\ is not an escape of JSON; {BACKSLASH}"),
        ("{'a': 1}", f"1:2: {QUOTES} '"),
        ('{"a": \'x\'}', f"1:7: {QUOTES} '"),
        ("{“a”: 1}", f"1:2: {QUOTES} “"),
        # keys and values
        ("{a: 1}", '1:2: the key a is not in double quotation marks; write "a"'),
        ("{: 1}", f"1:2: {NO_KEY}"),
        ('{{"a": 1}}', f"1:2: {NO_KEY}"),
        ('{"a"\n1}', f"1:4: {NO_COLON}"),
        ('{"a"}', f"1:4: {NO_COLON}"),
        ('{"a" = 1}', "1:6: a key is followed by a colon; replace the = with it"),
        ('{"a": }', "1:7: the value after the colon is missing; add it"),
        ('{"a": , "b": 1}', "1:7: the value after the colon is missing; add it"),
        ('{"a": ["b": 1]}', f"1:11: {COLON}"),
        ('{"a":: 1}', f"1:6: {COLON}"),
        ('{"a": True}', f"1:7: 'True' {NO_VALUE}"),
        ('{"a": 01}', f"1:8: '01' {NO_VALUE}"),
        ('{"a": 10s}', f"1:9: '10s' {NO_VALUE}"),
        ('{"a": x"}', f"1:7: 'x' {NO_VALUE}"),
        ('{"a":\xa01}', "1:6: there is a special blank, '\\xa0'; replace it with an ordinary one"),
        # brackets
        ('{"a": {"b": [\n1}}', "2:2: the [ of line 1 is not closed before this }; add ]"),
        ('{"a": [\n{"b": 1]}', "2:8: the { of line 2 is not closed before this ]; add }"),
        ('{"a": {\n"b": "}"\n\n', "2:9: the { of line 1 is not closed; end the file with }}"),
        ('{"a": [1,', "1:10: the [ of line 1 is not closed; end the file with ]}"),
        ('{"a": 1}}', "1:9: there is a } too many; remove it, or one of those before it"),
        ("]", "1:1: there is a ] without an opening bracket; remove it"),
        # text after the end
        ('{"a": 1}\n,"b": 2}', f"2:1: there is text after the end in line 1; {TEXT_AFTER}"),
        ('{"a": 1}\n{"b": 2}', f"2:1: there is text after the end in line 1; {TEXT_AFTER}"),
        # comments
        ('# mine\n{"a": 1}', f"1:1: # {COMMENT}"),
        ('{"a": 1, # one\n"b": 2}', f"1:10: # {COMMENT}"),
        ('{"a": 1 / one\n}', f"1:9: / {COMMENT}"),
        ('{"a": 1, /* one\n"b": 2}', "1:10: this comment has no end; close it with */"),
        ("/*/", "1:1: this comment has no end; close it with */"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_place_and_remedy(text: str, expected: str) -> None:
    place, message = expected.split(" ", 1)
    assert mistakes(text) == [f"{place} is not valid JSON: {message}"]


def test_each_key_that_is_given_twice_is_reported_at_its_second_place() -> None:
    text = '{"a": {"b": 1,\n "\\u0062": 2}, // "a": 3\n "a": 3, "c": {"a": 1, "x": "\\"a\\": {"}}'
    twice = "is given twice in one object, first in line 1; keep one of them"
    assert mistakes(text) == [
        f"2:2: is not valid JSON: the key 'b' {twice}",
        f"3:2: is not valid JSON: the key 'a' {twice}",
    ]


def test_a_mistake_after_a_key_that_is_given_twice_comes_first() -> None:
    assert mistakes('{"a": 1, "a": 2,\n "b"}') == [f"2:4: is not valid JSON: {NO_COLON}"]


@pytest.mark.parametrize(
    ("text", "kind", "closing"),
    [('{"a": 1 , \n}', "object", "}"), ('{"a": [1 , \n]}', "array", "]")],
)
def test_a_trailing_comma_is_named_as_newer_versions_of_python_report_it(
    text: str, kind: str, closing: str
) -> None:
    error = json.JSONDecodeError(f"Illegal trailing comma before end of {kind}", text, text.index(","))
    found = syntax_mistake(text, error)
    message = f"there is a comma before the closing {closing}; remove the comma"
    assert (found.message, found.offset) == (message, text.index(","))


def described(text: str) -> list[tuple[int, int, str]]:
    """The mistakes in the JSON of a settings file with this text: line, column and message."""
    try:
        parse_settings(Path("f"), text)
    except SettingsError as error:
        return [
            (problem.line or 0, problem.column or 0, problem.message)
            for problem in error.problems
            if "is not valid JSON" in problem.message
        ]
    return []


@given(
    json_objects,
    layouts,
    st.integers(0, 400),
    st.sampled_from(["", *"\"'{}[]:,/*#\\\n\t\0x0-. \xa0"]),
    st.integers(0, 9),
)
def test_no_slip_in_a_file_is_described_in_the_parser_s_words(
    value: Any, layout: Layout, at: int, inserted: str, removed: int
) -> None:
    text = commented(value, layout).text
    text = text[: at % len(text)] + inserted + text[at % len(text) + removed :]
    for line, column, message in described(text):
        assert column <= len(text.split("\n")[line - 1]) + 1
        assert not any(word in message for word in ("Expecting", "Invalid", "Unterminated", "delimiter"))
        assert len(message.splitlines()) == 1
