"""What tells who somebody is, whatever the country: addresses, telephones, cards, accounts."""

import re
from collections import defaultdict
from collections.abc import Callable

from hookgate.hooks.policies.redact.detectors.beginnings import WORD, WORD_END
from hookgate.hooks.policies.redact.detectors.checks import digits_of, is_card, is_iban
from hookgate.hooks.policies.redact.detectors.detector import Detector
from hookgate.hooks.policies.redact.detectors.entropy import is_marked
from hookgate.hooks.policies.redact.detectors.tables import IBAN_LENGTHS

_FILES = {
    "png",
    "jpg",
    "jpeg",
    "gif",
    "svg",
    "webp",
    "ico",
    "js",
    "mjs",
    "cjs",
    "ts",
    "tsx",
    "jsx",
    "css",
    "map",
    "json",
}

# Bounded, so that a long run of letters is not held back as an address; and it begins once in a run, so that
# RE2 has one count to keep.
_LETTERS = "\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f"  # of Latin, with accents
_LOCAL = rf"[A-Za-z0-9_{_LETTERS}][A-Za-z0-9_.+%'{_LETTERS}-]{{0,63}}"
_DOMAIN = rf"(?:[A-Za-z0-9{_LETTERS}-]+\.)+[A-Za-z]{{2,24}}"
_AT = "(?:@|%40|&#64;|\\\\{1,4}u0040)"
_AT_SIGN = re.compile(_AT)
_BEFORE_LOCAL = f"[^A-Za-z0-9_.+%{_LETTERS}-]"

_BEFORE_PLUS = r"[^\w\]]"  # no sum, and nothing that was replaced
_BEFORE_DIGITS = r"[^\w.]"  # not the digits of a fraction
_BLANK = "[ \u00a0\u202f]"  # also those at which no line breaks
_HYPHEN = "[-\u2011]"


def is_email(text: str) -> bool:
    """RFC 5321's length of the local part; neither a remote of git nor a file such as `icon@2x.png`."""
    local, domain = _AT_SIGN.split(text, maxsplit=1)
    if len(local) > 64 or local == "git" or is_marked(local):
        return False
    return not domain.startswith("-") and domain.rpartition(".")[2].lower() not in _FILES


def is_international_phone(text: str) -> bool:
    """ITU-T E.164: up to 15 digits with the country's; under 8 they are some other number."""
    return 8 <= len(digits_of(text)) <= 15


def is_american_phone(text: str) -> bool:
    """North American Numbering Plan: area and exchange begin with 2 to 9 and are no service such as 911."""
    digits = "".join(map(str, digits_of(text)))[-10:]
    area, exchange = digits[:3], digits[3:6]
    return all(code[0] in "23456789" and code[1:] != "11" for code in (area, exchange))


def _iban_pattern(form: Callable[[list[str], int], str]) -> str:
    """Each country's own length, so that a word behind one in groups of four is not taken for its end."""
    countries: dict[int, list[str]] = defaultdict(list)
    for country, length in IBAN_LENGTHS.items():
        countries[length].append(country)
    return "|".join(form(names, length) for length, names in sorted(countries.items()))


def _ibans(countries: list[str], length: int) -> str:
    groups, rest = divmod(length - 4, 4)
    tail = f"{_BLANK}?[A-Z0-9]{{{rest}}}" if rest else ""
    return rf"(?:{'|'.join(countries)})\d\d(?:{_BLANK}?[A-Z0-9]{{4}}){{{groups}}}{tail}"


def _small_ibans(countries: list[str], length: int) -> str:
    """In small letters: of digits, but for the four letters of a bank that many countries begin with."""
    groups, rest = divmod(length - 4, 4)
    bank, tail = rf"{_BLANK}?(?:[a-z]{{4}}|\d{{4}})", rf"{_BLANK}?\d{{{rest}}}" if rest else ""
    names = "|".join(countries).lower()
    return rf"(?:{names})\d\d{bank}(?:{_BLANK}?\d{{4}}){{{groups - 1}}}{tail}"


def _card_pattern() -> str:
    """In one, or in the groups that are printed on cards."""
    grouped = [
        form
        for between in (_BLANK, _HYPHEN)
        for form in (
            rf"[2-6]\d{{3}}(?:{between}\d{{4}}){{3}}(?:{between}\d{{3}})?",
            rf"3\d{{3}}{between}\d{{6}}{between}\d{{4,5}}",
        )
    ]
    return "|".join([r"[2-6]\d{12,18}", *grouped])


def _personal(kind: str, pattern: str, check: Callable[[str], bool] | None, after: str = WORD) -> Detector:
    """One that ends where a word does."""
    return Detector(kind, f"({pattern}){WORD_END}", check, "personal", after=after)


def _international(groups: int) -> Detector:
    """With the country's code, and this many groups of digits after it."""
    between = rf"(?:[./-]|{_BLANK})"
    area = rf"\d{{0,2}}{between}?\(0?\d{{1,4}}\)|\d{{0,5}}{between}\d{{1,5}}"
    pattern = rf"\+[1-9](?:{area}){between}?\d{{2,8}}(?:{between}\d{{2,8}}){{{groups - 2}}}"
    return _personal("PHONE", pattern, is_international_phone, after=_BEFORE_PLUS)


PERSONAL: tuple[Detector, ...] = (
    _personal("EMAIL", f"{_LOCAL}{_AT}{_DOMAIN}", is_email, after=_BEFORE_LOCAL),
    _personal("CARD", _card_pattern(), is_card, after=_BEFORE_DIGITS),
    _personal("IBAN", _iban_pattern(_ibans), is_iban),
    _personal("IBAN", _iban_pattern(_small_ibans), is_iban),
    # The most groups first: where those are too many digits, the last was a number behind the telephone.
    *(_international(groups) for groups in (5, 4, 3, 2)),
    _personal("PHONE", r"\+[1-9]\d{7,14}", None, after=_BEFORE_PLUS),
    Detector(
        "PHONE", rf"((?:\b1[-. ])?\(\d{{3}}\) ?\d{{3}}[-.]\d{{4}}){WORD_END}", is_american_phone, "personal"
    ),
    _personal("PHONE", r"(?:1[-. ])?\d{3}(?:-\d{3}-|\.\d{3}\.)\d{4}", is_american_phone),
    Detector(
        "IP_ADDRESS",
        r"\b(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)\.){3}(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)\b",
        group="personal",
        default=False,
    ),
)
