"""Detectors of personal data: email and IP addresses, telephone, card and account numbers."""

import re
from collections import defaultdict
from collections.abc import Callable

from hookgate.hooks.policies.redact.detectors.checks import (
    IBAN_LENGTHS,
    is_card,
    is_iban,
)
from hookgate.hooks.policies.redact.detectors.detector import WORD, WORD_END, Detector
from hookgate.hooks.policies.redact.detectors.digit_groups import BLANK
from hookgate.hooks.policies.redact.detectors.phones import PHONES
from hookgate.hooks.policies.redact.detectors.values import is_marked

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

# The length is bounded, so that a long run of letters is not held back as an address. A match begins only at
# the start of a run, so that RE2 has only one count to track.
_LETTERS = "\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f"  # accented Latin letters
_LOCAL = rf"[A-Za-z0-9_{_LETTERS}][A-Za-z0-9_.+%'{_LETTERS}-]{{0,63}}"
_DOMAIN = rf"(?:[A-Za-z0-9{_LETTERS}-]+\.)+[A-Za-z]{{2,24}}"
_AT = "(?:@|%40|&#64;|\\\\{1,4}u0040)"
_AT_SIGN = re.compile(_AT)
_BEFORE_LOCAL = f"[^A-Za-z0-9_{_LETTERS}]"

_BEFORE_DIGITS = r"[^\w.]"  # not the digits of a fraction
_HYPHEN = "[-\u2011]"


def is_email(text: str) -> bool:
    """Check the local part's length (RFC 5321). Rejects Git remotes, and files such as `icon@2x.png`."""
    local, domain = _AT_SIGN.split(text, maxsplit=1)
    if len(local) > 64 or local == "git" or is_marked(local):
        return False
    return not domain.startswith("-") and domain.rpartition(".")[2].lower() not in _FILES


def _iban_pattern(form: Callable[[list[str], int], str]) -> str:
    """Return a pattern with each country's length, so that a word after an IBAN is not matched as its end."""
    countries: dict[int, list[str]] = defaultdict(list)
    for country, length in IBAN_LENGTHS.items():
        countries[length].append(country)
    return "|".join(form(names, length) for length, names in sorted(countries.items()))


def _ibans(countries: list[str], length: int) -> str:
    groups, rest = divmod(length - 4, 4)
    tail = f"{BLANK}?[A-Z0-9]{{{rest}}}" if rest else ""
    return rf"(?:{'|'.join(countries)})\d\d(?:{BLANK}?[A-Z0-9]{{4}}){{{groups}}}{tail}"


def _lower_case_ibans(countries: list[str], length: int) -> str:
    """Return a pattern of lower-case IBANs: digits, except for four letters of a bank in many countries."""
    groups, rest = divmod(length - 4, 4)
    bank, tail = rf"{BLANK}?(?:[a-z]{{4}}|\d{{4}})", rf"{BLANK}?\d{{{rest}}}" if rest else ""
    names = "|".join(countries).lower()
    return rf"(?:{names})\d\d{bank}(?:{BLANK}?\d{{4}}){{{groups - 1}}}{tail}"


def _card_pattern() -> str:
    """Return a pattern of card numbers, without separators or in the groups printed on cards."""
    grouped = [
        form
        for between in (BLANK, _HYPHEN)
        for form in (
            rf"\d{{4}}(?:{between}\d{{4}}){{2,3}}(?:{between}\d{{3}})?",
            rf"\d{{4}}{between}\d{{6}}{between}\d{{4,5}}",
            rf"4\d{{3}}(?:{between}\d{{3}}){{3}}",
            rf"6\d{{5}}{between}\d{{13}}",
        )
    ]
    return "|".join([r"\d{12,19}", *grouped])


def _personal(
    kind: str, pattern: str, check: Callable[[str], bool] | None, preceded_by: str = WORD
) -> Detector:
    """Return a detector whose matches end at the end of a word."""
    return Detector(kind, f"({pattern}){WORD_END}", check, "personal", preceded_by=preceded_by)


PERSONAL: tuple[Detector, ...] = (
    _personal("EMAIL", f"{_LOCAL}{_AT}{_DOMAIN}", is_email, preceded_by=_BEFORE_LOCAL),
    _personal("CARD", _card_pattern(), is_card, preceded_by=_BEFORE_DIGITS),
    _personal("IBAN", _iban_pattern(_ibans), is_iban),
    _personal("IBAN", _iban_pattern(_lower_case_ibans), is_iban),
    *PHONES,
)

# Not part of `personal`: an address such as 127.0.0.1, or a version, is seldom a person's.
NETWORK: tuple[Detector, ...] = (
    Detector(
        "IP_ADDRESS",
        r"\b(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)\.){3}(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)\b",
        group="network",
    ),
    Detector("IP_ADDRESS", r"\b(?:[0-9A-Fa-f]{1,4}:){7}[0-9A-Fa-f]{1,4}\b", group="network"),
)
