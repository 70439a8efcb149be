"""Values are counted exactly before a text is parsed; long base64 strings are removed first."""

import json
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgate.translator import strictjson
from hookgate.translator.fields import TooLargeError
from hookgate.translator.inline_data import LONG, lift
from hookgate.translator.strictjson import Bounds, dumps, exceeds, loads, parse

STRINGS = st.one_of(
    st.text(max_size=6), st.text(alphabet='\\"[]{},: \n', max_size=12), st.just("[[[[,,,,"), st.just("\\\\")
)
VALUES = st.recursive(
    st.one_of(st.none(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), STRINGS),
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(STRINGS, inner, max_size=5)),
    max_leaves=30,
)
INDENTS = st.sampled_from([None, 0, 1, "\t"])


def count(value: Any) -> int:
    """How many values there are: this one, and those in it."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(count, inside))


@given(VALUES, INDENTS, st.booleans(), st.integers(1, 40))
def test_the_bound_on_values_is_exact_wherever_the_text_is_split(
    value: Any, indent: Any, escaped: bool, size: int
) -> None:
    data = json.dumps(value, indent=indent, ensure_ascii=escaped).encode(errors="surrogatepass")
    values = count(value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strictjson, "_SLICE", size)
        assert not exceeds(data, values)
        assert exceeds(data, values - 1)


@given(VALUES, INDENTS, st.integers(1, 40))
def test_the_colons_outside_of_strings_are_the_keys(value: Any, indent: Any, size: int) -> None:
    data = json.dumps(value, indent=indent).encode()

    def keys(value: Any) -> int:
        inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return (len(value) if isinstance(value, dict) else 0) + sum(map(keys, inside))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strictjson, "_SLICE", size)
        assert b"".join(strictjson.structure(data)).count(b":") == keys(value)


def test_a_text_full_of_commas_and_brackets_is_one_value() -> None:
    data = json.dumps({"text": '[{"a": 1}, ' * 100_000}).encode()
    assert parse(data, Bounds(text=len(data), values=2)).count == 2


@pytest.mark.parametrize("unit", [b"[],", b'{"a":1},', b"1e300,", b'"",', b"{},", b"[[]],"])
def test_one_value_too_many_is_refused_before_anything_is_parsed(
    unit: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = b"[" + unit * 10_000 + b"1]"
    values = count(json.loads(data))
    parse(data, Bounds(len(data), values))
    monkeypatch.setattr("hookgate.translator.strictjson.orjson.loads", pytest.fail)
    with pytest.raises(TooLargeError, match=f"more than {values - 1} values"):
        parse(data, Bounds(len(data), values - 1))


def test_counting_stops_with_the_first_slice_that_holds_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    read = []

    def counted(data: bytes) -> Any:
        for marks in slices(data):
            read.append(marks)
            yield marks

    slices = strictjson.structure
    monkeypatch.setattr(strictjson, "structure", counted)
    assert exceeds(b"[" + b"[]," * 5_000_000 + b"1]", 1000)
    assert len(read) == 1


# ---- base64

IMAGE = b64encode(b"\x01\xff\x02" * (LONG // 4 + 1)).decode()
TEXT = "QUJD" * (LONG // 4 + 1)


@pytest.mark.parametrize(
    "value",
    [
        {"data": IMAGE, "text": "a"},
        [{"data": IMAGE}, {"data": IMAGE + "=="}, {"data": IMAGE + "\\"}, {"data": '"' + IMAGE}],
        {"data": {"data": IMAGE, '"data': IMAGE}},
        ['"data":"' + IMAGE + '"', '\\"data":"' + IMAGE],
        [IMAGE, IMAGE + "==", IMAGE + "\\", IMAGE + '"', '"' + IMAGE],
        {IMAGE: 1, "a": {"b": [IMAGE]}},
        ['say "' + IMAGE + '" and go', "\\" + IMAGE],
        IMAGE,
        {"a": IMAGE + "é"},
    ],
)
@pytest.mark.parametrize("indent", [None, 4])
def test_what_is_taken_out_is_put_back(value: Any, indent: int | None) -> None:
    data = json.dumps(value, indent=indent).encode()
    lifted = lift(data)
    assert lifted.put_back(json.loads(lifted.text), len(data)) == value
    assert json.loads(data) == value


def test_an_image_does_not_count_as_text_and_is_sent_unchanged() -> None:
    value = {"contents": [{"parts": [{"inlineData": {"mimeType": "image/png", "data": IMAGE * 20}}]}]}
    parsed = parse(dumps(value), Bounds(text=1000, values=10))
    assert dumps(parsed.value) == dumps(value)


@pytest.mark.parametrize(
    ("data", "more"),
    [(TEXT, {}), (TEXT, {"mimeType": "image/png"}), (IMAGE, {"mimeType": "text/plain"})],
    ids=["by its content", "by its content, as an image", "by its type"],
)
def test_a_file_of_text_counts_as_text(data: str, more: Any) -> None:
    body = dumps({"contents": [{"parts": [{"inlineData": {**more, "data": data}}]}]})
    bounds = Bounds(text=len(data) * 3 // 4 - 1000, values=1000)
    with pytest.raises(TooLargeError, match="bytes with files of text"):
        parse(body, bounds)
    with pytest.raises(TooLargeError, match="bytes with files of text"):
        loads(body, bounds)
    assert loads(body, Bounds(bounds.text + 2000, 1000)) == json.loads(body)


def test_a_long_text_counts_as_text() -> None:
    with pytest.raises(TooLargeError, match="more than 1000 bytes"):
        parse(dumps({"text": IMAGE}), Bounds(text=1000, values=10))


@pytest.mark.parametrize(
    "data",
    [
        b'{"data":"x"' + IMAGE.encode() + b'"y"}',
        b'{"a":"data":"' + IMAGE.encode() + b'"}',
        b'{"data":"' + IMAGE.encode(),
        b'"data":"' + IMAGE.encode() + b'"',
        b'{"x"data":"' + IMAGE.encode() + b'"}',
    ],
)
def test_removing_strings_does_not_make_invalid_json_valid(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # each parser's own
        json.loads(lift(data).text)


# ---- what the exact look costs


def test_large_integers_are_kept_beside_large_floats_and_text() -> None:
    text = '{"a":[1e300,123456789012345678901234,{"b":"9999999999999999999999"}],"c":-18446744073709551616}'
    assert dumps(loads(text.encode())) == dumps(json.loads(text))


@given(st.lists(st.one_of(st.integers(-(2**80), 2**80), st.floats(1e18, 1e300), STRINGS), max_size=8))
def test_large_numbers_are_what_the_standard_library_makes_of_them(values: list[Any]) -> None:
    data = json.dumps([{"k": value} for value in values]).encode()
    ours = loads(data)
    assert ours == parse(data, Bounds(len(data), len(data))).value
    assert [(type(each["k"]), each["k"]) for each in ours] == [
        (type(value), value) for value in json.loads(json.dumps(values))
    ]


def test_a_repeated_key_of_a_large_body_is_refused_without_a_slow_parser(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hookgate.translator.strictjson.json.loads", pytest.fail)
    data = b'{"a":1,"a":"' + b'\\"' * 600_000 + b'"}'
    with pytest.raises(ValueError, match="a key is given twice"):
        loads(data)


def test_json_in_strings_and_large_floats_need_no_slow_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hookgate.translator.strictjson.json.loads", pytest.fail)
    nested = {"a": json.dumps({"b": json.dumps({"c": ":"})}), "d": 1e300, "e": '":', "f": [": ", '" :']}
    assert loads(json.dumps(nested).encode()) == nested
