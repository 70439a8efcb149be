"""Files of text in base64: large ones are read in slices, with the same result."""

import codecs
from base64 import b64encode
from binascii import Error

import pytest

from hookgate.translator.checks import is_canonical_base64
from hookgate.translator.text_files import decode_text_file, encode_base64, show_text_file

SLICE = 256 * 1024


@pytest.mark.parametrize("size", [SLICE * 3 // 4 + by for by in range(-2, 5)] + [SLICE * 2 + 1])
@pytest.mark.parametrize("line", [0, 76])
def test_large_files_are_decoded_like_small_ones(size: int, line: int) -> None:
    raw = bytes(32 + number % 90 for number in range(size))
    data = b64encode(raw).decode()
    assert encode_base64(raw) == data
    if line:
        data = "\r\n".join(data[at : at + line] for at in range(0, len(data), line))
    assert decode_text_file(data) == (raw, "utf-8")
    assert decode_text_file(data.replace("=", "").replace("+", "-").replace("/", "_")) == (raw, "utf-8")


@pytest.mark.parametrize("at", [0, 1, SLICE - 3, SLICE - 1, SLICE, SLICE + 2])
def test_padding_between_slices_ends_a_piece_like_any_other(at: int) -> None:
    begin = "QUJD" * (at // 4) + "QUI="
    assert show_text_file(begin + "QUJD", "text/plain") == "ABC" * (at // 4) + "ABABC"


def test_large_data_that_is_not_base64_is_reported() -> None:
    with pytest.raises(Error):
        decode_text_file("QUJD" * SLICE + "Q", "text/plain")
    assert show_text_file("QUJD" * SLICE + "Q", "text/plain") == "QUJD" * SLICE + "Q"


@pytest.mark.parametrize("by", range(-3, 4))
def test_characters_on_the_border_of_slices_are_whole(by: int) -> None:
    text = "a" * (SLICE + by) + "é€😀" * 9
    for encoding in ("utf-8", "utf-16"):
        shown = show_text_file(encode_base64(text.encode(encoding)), "text/plain")
        assert shown is not None
        assert shown.lstrip("\ufeff") == text


@pytest.mark.parametrize("size", [1, SLICE // 4, SLICE])
@pytest.mark.parametrize(
    ("head", "group", "tail", "canonical"),
    [
        ("", "QUJD", "", True),
        ("", "QUJD", "QUI=", True),
        ("", "QU-_", "QQ==", True),
        ("", "QU-_", "QU+/", False),
        ("", "QUJD", "QUJ=", False),
        ("QUI=", "QUJD", "", False),
        ("", "QUJD", "\nQUJ", False),
        ("", "QUJD", "Q", False),
    ],
)
def test_large_base64_is_checked_like_small_one(
    size: int, head: str, group: str, tail: str, canonical: bool
) -> None:
    assert is_canonical_base64(head + group * size + tail) is canonical


@pytest.mark.parametrize("mark", [codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_LE])
def test_ascii_in_a_file_that_begins_like_a_wide_encoding_is_shown_as_well(mark: bytes) -> None:
    shown = show_text_file(encode_base64(mark + b"the forbidden word"))
    assert shown is not None
    assert "the forbidden word" in shown


def test_a_file_in_a_wide_encoding_is_shown_once() -> None:
    text = "The same, in English and 中文。\n" * 20
    assert show_text_file(encode_base64(text.encode("utf-16-le"))) == text
