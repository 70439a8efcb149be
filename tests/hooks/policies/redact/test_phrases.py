"""Words of a configuration are found in all spellings that have the same normal form."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.texts.secrets import redacted

from hookgate.hooks.policies.redact import Scanner, words_detectors
from hookgate.hooks.policies.redact.options import RedactOptions

WORDS = ["Blue Heron", "Operation Größe 7", "C++ Élan", "東京 Plan", "x"]
SCANNERS = {
    ignore_case: Scanner(words_detectors("NAME", WORDS, ignore_case)) for ignore_case in (False, True)
}
BLANKS = [" ", "\t", "\n", "\r\n", "\v", "\u0085", "\u00a0", "\u2003", "\u2028", "\u202f", "\u3000", "\u200b"]
ESCAPED_BLANKS = [
    "%20",
    "%0A",
    "%2520",
    "%C2%A0",
    r"\u0020",
    r"\\u0020",
    r"\u00A0",
    r"\n",
    r"\t",
    r"\x20",
    "+",
    "%E2%80%8B",
    "%25e3%2580%2580",
    r"\u2003",
]
INVISIBLE = ["", "", "\u00ad", "\u200b", "\u200d\u2060", "\ufeff", "\ufe0f", "\U000e0041"]


def percent(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode())


def twice(character: str) -> str:
    return percent(character).replace("%", "%25")


def backslash(character: str) -> str:
    return rf"\u{ord(character):04x}"


def full_width(character: str) -> str:
    return chr(ord(character) + 0xFEE0) if "!" <= character <= "~" else character


def decomposed(character: str) -> str:
    return unicodedata.normalize("NFD", character)


FORMS = [str, full_width, decomposed, percent, twice, backslash]


@st.composite
def disguises(draw: st.DrawFn, ignore_case: bool) -> str:
    """Return a word in one of its spellings."""
    text = ""
    for character in draw(st.sampled_from(WORDS)):
        if character == " ":
            text += "".join(draw(st.lists(st.sampled_from(BLANKS + ESCAPED_BLANKS), min_size=1, max_size=3)))
            continue
        cases = [character, *({character.upper(), character.lower()} if ignore_case else ())]
        case = draw(st.sampled_from([each for each in cases if len(each) == 1]))
        text += draw(st.sampled_from(FORMS))(case) + draw(st.sampled_from(INVISIBLE))
    return text


befores = st.sampled_from(["", "to ", "(", "é ", "\\n", "%20", "\\u0020", "\n", "%20%0A", "\\n\\u0020"])
afters = st.sampled_from(["", " is", ").", "\\n", "%20", "\n", "\\u0020"])


@pytest.mark.parametrize("before", ["\\n", "%20", "\\u0020%20"])
@pytest.mark.parametrize("word", ["%78", "\\u0078", "%2578"])
@pytest.mark.parametrize("after", ["\\n", "%20", "\\u0020"])
def test_an_escaped_word_between_escapes_is_found_wherever_a_stream_is_cut(
    before: str, word: str, after: str
) -> None:
    text = before + word + after
    for cut in range(len(text) + 1):
        assert redacted(SCANNERS[False], text[:cut], text[cut:]) == f"{before}[NAME]{after}"
    assert redacted(SCANNERS[False], *text) == f"{before}[NAME]{after}"


@pytest.mark.parametrize("ignore_case", [False, True])
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_disguised_word_is_found_wherever_a_stream_is_cut(ignore_case: bool, data: st.DataObject) -> None:
    before, word, after = data.draw(befores), data.draw(disguises(ignore_case)), data.draw(afters)
    text = before + word + after
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=6)))
    chunks = [text[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    whole = redacted(SCANNERS[ignore_case], text)
    assert whole.startswith(f"{before}[NAME]")
    assert whole.endswith(after)
    assert redacted(SCANNERS[ignore_case], *chunks) == whole
    assert redacted(SCANNERS[ignore_case], *text) == whole


@pytest.mark.parametrize(
    "text",
    [
        "Blue Herons",
        "xBlue Heron",
        "BlueHeron",
        "Blue, Heron",
        "Blue 1 Heron",
        "Blue Hero",
        "%42lue",
        "blue heron",
    ],
)
def test_other_words_stay(text: str) -> None:
    scanner = Scanner(words_detectors("NAME", ["Blue Heron"]))
    assert redacted(scanner, text) == redacted(scanner, *text) == text


@pytest.mark.parametrize("word", ["Ｂｌｕｅ　Ｈｅｒｏｎ", "Blue\u00a0Heron", "Bl\u00adue  Heron"])
def test_words_of_a_list_have_a_normal_form_too(word: str) -> None:
    assert redacted(Scanner(words_detectors("NAME", [word])), "a Blue Heron.") == "a [NAME]."


def test_a_long_list_is_found_with_any_blanks() -> None:
    words = [f"Customer Number{number}" for number in range(400)]
    scanner = Scanner(RedactOptions(words={"NAME": words}, detect=("NAME",)).detectors())
    text = "(Customer\u00a0\n Number399) Customer Number4000"
    assert redacted(scanner, text) == redacted(scanner, *text) == "([NAME]) Customer Number4000"
