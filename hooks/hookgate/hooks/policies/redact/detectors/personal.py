"""What tells who somebody is, whatever the country: addresses, telephones, cards, accounts."""

from collections import defaultdict

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
_LOCAL = r"[A-Za-z0-9_][A-Za-z0-9_.+%'-]{0,63}"
_DOMAIN = r"(?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,24}\b"
_BEFORE_LOCAL = "[^A-Za-z0-9_.+%-]"

_BEFORE_PLUS = r"[^\w\]]"  # no sum, and nothing that was replaced
_BEFORE_DIGITS = r"[^\w.]"  # not the digits of a fraction


def is_email(text: str) -> bool:
    """RFC 5321's length of the local part; neither a remote of git nor a file such as `icon@2x.png`."""
    local, _, domain = text.partition("@")
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


def _iban_pattern() -> str:
    """Each country's own length, so that a word behind one in groups of four is not taken for its end."""
    countries: dict[int, list[str]] = defaultdict(list)
    for country, length in IBAN_LENGTHS.items():
        countries[length].append(country)
    return rf"\b(?:{'|'.join(_ibans(names, length) for length, names in sorted(countries.items()))})\b"


def _ibans(countries: list[str], length: int) -> str:
    groups, rest = divmod(length - 4, 4)
    tail = f" ?[A-Z0-9]{{{rest}}}" if rest else ""
    return rf"(?:{'|'.join(countries)})\d\d(?: ?[A-Z0-9]{{4}}){{{groups}}}{tail}"


def _international(groups: int) -> Detector:
    """With the country's code, and this many groups of digits after it."""
    area = r"[ ./-]?\(0?\d{1,4}\)|[ ./-]\d{1,5}"
    pattern = rf"\+[1-9]\d{{0,2}}(?:{area})[ ./-]?\d{{2,8}}(?:[ ./-]\d{{2,8}}){{{groups - 2}}}\b"
    return Detector("PHONE", pattern, is_international_phone, "personal", after=_BEFORE_PLUS)


PERSONAL: tuple[Detector, ...] = (
    Detector("EMAIL", f"{_LOCAL}@{_DOMAIN}", is_email, "personal", after=_BEFORE_LOCAL),
    Detector(
        "CARD",
        r"(?:[2-6]\d{12,18}|[2-6]\d{3} \d{4} \d{4} \d{4}(?: \d{3})?|[2-6]\d{3}-\d{4}-\d{4}-\d{4}"
        r"|3\d{3} \d{6} \d{4,5}|3\d{3}-\d{6}-\d{4,5})\b",
        is_card,
        "personal",
        after=_BEFORE_DIGITS,
    ),
    Detector("IBAN", _iban_pattern(), is_iban, "personal"),
    # The most groups first: where those are too many digits, the last was a number behind the telephone.
    *(_international(groups) for groups in (5, 4, 3, 2)),
    Detector("PHONE", r"\+[1-9]\d{7,14}\b", None, "personal", after=_BEFORE_PLUS),
    Detector("PHONE", r"(?:\b1[-. ])?\(\d{3}\) ?\d{3}[-.]\d{4}\b", is_american_phone, "personal"),
    Detector("PHONE", r"\b(?:1[-. ])?\d{3}(?:-\d{3}-|\.\d{3}\.)\d{4}\b", is_american_phone, "personal"),
    Detector(
        "IP_ADDRESS",
        r"\b(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)\.){3}(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)\b",
        group="personal",
        default=False,
    ),
)
