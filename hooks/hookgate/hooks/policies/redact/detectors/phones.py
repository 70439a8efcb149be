"""Detectors of telephone numbers: in international form, and as they are written within a country."""

import re
from collections.abc import Callable
from functools import cache, partial

from hookgate.hooks.policies.redact.detectors.checks import digits_of
from hookgate.hooks.policies.redact.detectors.detector import WORD, WORD_END, Detector
from hookgate.hooks.policies.redact.detectors.digit_groups import BLANK, DIGITS, GROUP, number_in
from hookgate.hooks.policies.redact.detectors.numbering_plans import NumberingPlans

PHONE = "PHONE"
"""The kind of telephone numbers."""

_BETWEEN = rf"(?:[./-]|{BLANK})"
_EXTENSION = rf"(?:{BLANK}?(?:x|ext\.?|#){BLANK}?\d{{1,6}})?"
_BEFORE_PLUS = r"[^\w\]]"  # not a sum, and not after a replacement


def is_international(text: str) -> bool:
    """Check the number of digits: at most 15 with the country code (ITU-T E.164), and at least 8."""
    return 8 <= len(digits_of(_without_extension(text))) <= 15


def is_american(text: str) -> bool:
    """Check area and exchange (North American Numbering Plan): 2 to 9 first, and no service such as 911."""
    digits = "".join(map(str, digits_of(_without_extension(text))))[-10:]
    area, exchange = digits[:3], digits[3:6]
    return all(code[0] in "23456789" and code[1:] != "11" for code in (area, exchange))


def _phone(
    pattern: str, check: Callable[[str], bool] | None = None, *, preceded_by: str = WORD, after: str = ""
) -> Detector:
    """Return a detector of numbers, with an extension if there is one, before the pattern `after`."""
    whole = f"({pattern}{_EXTENSION}){WORD_END}{after}"
    return Detector(PHONE, whole, check, "personal", preceded_by=preceded_by)


def _longest(
    pattern: str, within: Callable[[str], tuple[int, int] | None], *, preceded_by: str, before: str = ""
) -> Detector:
    """Return a detector of the longest number at the start of a match, after the pattern `before`."""
    whole = f"{before}({pattern}{_EXTENSION}){WORD_END}"
    return Detector(PHONE, whole, group="personal", preceded_by=preceded_by, within=within)


def _international(groups: int) -> Detector:
    """Return a detector of numbers with a country code and this many groups of digits after it."""
    area = rf"\d{{0,2}}{_BETWEEN}?\(0?\d{{1,4}}\)|\d{{0,5}}{_BETWEEN}\d{{1,5}}"
    pattern = rf"\+[1-9](?:{area}){_BETWEEN}?\d{{1,8}}(?:{_BETWEEN}\d{{2,8}}){{{groups - 2}}}"
    return _phone(pattern, is_international, preceded_by=_BEFORE_PLUS)


PHONES = (
    # Most groups first: if they have too many digits, the last group is not part of the telephone number.
    *(_international(groups) for groups in (5, 4, 3, 2)),
    _phone(r"\+[1-9]\d{7,14}", preceded_by=_BEFORE_PLUS),
    _phone(r"(?:\b1[-. ])?\(\d{3}\) ?\d{3}[-.]\d{4}", is_american, preceded_by=""),
    _phone(r"(?:1[-. ])?\d{3}(?:-\d{3}-|\.\d{3}\.)\d{4}", is_american),
)
"""Numbers with a country code after `+`, and those of North America."""

_NUMBER = rf"(?:\({DIGITS}\){_BETWEEN}?)?{DIGITS}(?:{_BETWEEN}(?:\({DIGITS}\){_BETWEEN}?)?{DIGITS}){{0,16}}"
_WITH_AREA = (
    rf"(?:\({DIGITS}\){_BETWEEN}?|\d{BLANK}\({DIGITS}\){BLANK}?|0{DIGITS}{_BETWEEN})"
    rf"{DIGITS}(?:{_BETWEEN}{DIGITS}){{0,16}}"
)
_IN_GROUPS = "|".join(rf"[1-9]{DIGITS}(?:{between}\d{{2,17}}){{2,17}}" for between in ("-", BLANK))
_BEFORE_NUMBER = r"[^\w.,+$#@/-]"

# Accented letters stand outside of the group that ignores case: in it, the search takes ten times as long.
_WORDS = (
    "(?:(?i:(?:tele|home|work|user|cell|mobile|office|customer|business)?phone|tele?|telefon[eo]?|mobile?|movil"
    "|cell|cellulare|celular|handy|gsm|fax|whatsapp|sms|call|text|dial|ring|reach|contact|message|desk|office"
    "|landline|hotline|portable)"
    "|[Tt]él(?:éphone)?|[Tt]eléfono|[Mm]óvil)(?i:[a-z_]{0,17})"
)
_PARTICLES = (
    "me|us|him|her|them|you|back|on|at|to|is|was|number|no|nr|numero|nummer|the|my|our|new|am|unter|au|al"
)
_GAP = r"(?:[\s:=.*_`|>(-]|\\{0,3}[\"'n]|&quot;|%3[AaDd]|%2[02]|\\{1,4}u00(?:22|3[aAdD])){1,17}?"
"""Characters between a word and a number: signs and blanks, escaped or not."""

_TOLD = rf"{_WORDS}{_GAP}(?:(?i:{_PARTICLES}){_GAP}){{0,3}}"
_TOLD_AFTER = rf"{BLANK}\(?(?i:(?:tele)?phone|tel|mobile?|cell|fax|office|home|work|desk|direct)\b"
_OTHER_SCRIPTS = "[\u0370-\u1fff\u3040-\ud7ff]"
"""A class of characters: letters that are not Latin."""

_END_OF_NUMBER = re.compile(r"[x#e]")
_NO_NUMBER = re.compile(
    r"(?:1[89]|20)\d\d([-./ ]?)(?:0?[1-9]|1[0-2])\1(?:0?[1-9]|[12]\d|3[01])(?:[-./ ]\d.*)?"  # a date
    r"|\d{1,2}([-./ ])\d{1,2}\2(?:1[89]|20)\d\d(?:[-./ ]\d.*)?"
    r"|(?:1[89]|20)\d\d[-/ ]\d{4}"  # years, or the number of a vulnerability
    r"|\d{1,3}(?:\.\d{1,3}){3}(?:[/ -].*)?"  # an address of the Internet
    r"|\d{3}-\d\d-\d{4}|\d{5}-\d{4}"  # an American social security number, or ZIP code
    r"|\d+\.\d+|\d\..*|.*\D\d\..*|.*\.\d(?:\D.*)?"  # a number with a fraction, or a version
)
_MOST_DIGITS, _FEWEST_DIGITS, _FEWEST_UNTOLD = 15, 7, 9
_MOST_ZEROS = 3


def _without_extension(text: str) -> str:
    return _END_OF_NUMBER.split(text, maxsplit=1)[0].rstrip()


@cache
def phones_of(countries: tuple[str, ...]) -> tuple[Detector, ...]:
    """Return detectors of the numbers of these countries, without `+`.

    Raises ValueError if the package `phonenumbers` is not installed.
    """
    plans = NumberingPlans(countries)
    told = partial(_phone_in, is_number=partial(_is_told, plans))
    written = partial(_phone_in, is_number=partial(_is_written, plans))
    return (
        _longest(_NUMBER, told, before=_TOLD, preceded_by=r"[\W_]"),
        _phone(_NUMBER, partial(_is_all, told), preceded_by=_BEFORE_NUMBER, after=_TOLD_AFTER),
        _longest(r"\d{10,17}", told, before="[\\s:.\uff1a]{0,3}", preceded_by=_OTHER_SCRIPTS),
        _longest(f"(?:{_WITH_AREA}|{_IN_GROUPS})", written, preceded_by=_BEFORE_NUMBER),
    )


def _is_all(within: Callable[[str], tuple[int, int] | None], text: str) -> bool:
    return within(text) == (0, len(text))


def _phone_in(text: str, is_number: Callable[[str], bool]) -> tuple[int, int] | None:
    """Return the begin and end of the number that begins a text, with its extension, or None."""
    written = _without_extension(text)
    if len(digits_of(written)) > _MOST_DIGITS or _NO_NUMBER.fullmatch(written):
        return None
    found = number_in(written, is_number)
    return (0, len(text)) if found == (0, len(written)) else found


def _is_told(plans: NumberingPlans, text: str) -> bool:
    """Return whether a text after a word such as `phone` is a number."""
    groups = GROUP.findall(text)
    digits = "".join(groups)
    if len(digits) < _FEWEST_DIGITS or len(groups[-1]) == 1 or _NO_NUMBER.fullmatch(text):
        return False
    return plans.is_number(digits)


def _is_written(plans: NumberingPlans, text: str) -> bool:
    """Return whether a text is a number although no word tells so.

    It has an area code in parentheses, or begins with what is dialled before a number, or has the groups in
    which its country writes numbers. A series such as `100 200 300` is none.
    """
    groups = GROUP.findall(text)
    digits = "".join(groups)
    if len(digits) < _FEWEST_UNTOLD or len(groups[-1]) == 1 or _NO_NUMBER.fullmatch(text):
        return False
    if sum(group[0] == "0" for group in groups) > _MOST_ZEROS or groups[0] == "0":
        return False
    if text[0] == "(" or digits[0] == "0":
        return plans.is_number(digits)
    return plans.is_usual(groups) and not all(group[-1] == "0" for group in groups)
