"""Numbers that states give to persons. Where bare digits say nothing, a word has to stand before them."""

from collections.abc import Callable

from hookgate.hooks.policies.redact.detectors.beginnings import WORD_END
from hookgate.hooks.policies.redact.detectors.checks import (
    is_aadhaar,
    is_bsn,
    is_cpf,
    is_dni,
    is_german_tax_id,
    is_nino,
    is_nir,
    is_ssn,
)
from hookgate.hooks.policies.redact.detectors.detector import Detector

_NO_FRACTION = r"[^\w.]"
_IS = r"(?:[\s:=#.*_`|-]|\\{0,3}[\"']|&quot;|%3[AaDd]|%2[02]|\\{1,4}u00(?:22|3[aAdD])){1,8}"
"""What may stand between a name and its number: signs and blanks, also as escapes."""


def _national(
    kind: str, number: str, check: Callable[[str], bool], country: str, before: str = ""
) -> Detector:
    """A number of a country, as a word of its own, behind what has to stand `before` it."""
    return Detector(kind, rf"{before}({number}){WORD_END}", check, country, after=_NO_FRACTION)


NATIONAL: tuple[Detector, ...] = (
    _national("US_SSN", r"\d{3}-\d{2}-\d{4}", is_ssn, "US"),
    _national(
        "UK_NINO",
        r"[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z](?:\d{6}| \d\d \d\d \d\d )[A-D]",
        is_nino,
        "GB",
    ),
    _national(
        "DE_TAX_ID",
        r"[1-9]\d{10}|[1-9]\d \d{3} \d{3} \d{3}",
        is_german_tax_id,
        "DE",
    ),
    _national(
        "FR_NIR",
        r"[1-478] ?\d\d ?(?:0[1-9]|1[0-2]|[2-9]\d) ?(?:\d\d|2[AB]) ?\d{3} ?\d{3} ?\d\d",
        is_nir,
        "FR",
    ),
    _national("ES_DNI", r"\d{8}-?[A-HJ-NP-TV-Z]", is_dni, "ES"),
    _national("ES_NIE", r"[XYZ]-?\d{7}-?[A-HJ-NP-TV-Z]", is_dni, "ES"),
    _national(
        "NL_BSN",
        r"\d{9}|\d{4}\.\d\d\.\d{3}",
        is_bsn,
        "NL",
        before=rf"(?i:bsn|sofi|burgerservice)(?i:[- ]?nummer)?{_IS}",
    ),
    _national("IN_AADHAAR", r"[2-9]\d{3}(?: \d{4} | ?-\d{4}- ?)\d{4}", is_aadhaar, "IN"),
    _national(
        "IN_AADHAAR",
        r"[2-9]\d{11}",
        is_aadhaar,
        "IN",
        before=rf"(?i:aadh?aar)(?i:[- ](?:number|no\.?))?{_IS}",
    ),
    _national("BR_CPF", r"\d{3}\.\d{3}\.\d{3}-\d{2}", is_cpf, "BR"),
)
