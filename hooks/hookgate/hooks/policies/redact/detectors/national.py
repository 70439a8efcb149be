"""Numbers that states give to persons. Where bare digits say nothing, a word has to stand before them."""

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

NATIONAL: tuple[Detector, ...] = (
    Detector("US_SSN", r"\b\d{3}-\d{2}-\d{4}\b", is_ssn, "US"),
    Detector(
        "UK_NINO",
        r"\b[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z](?:\d{6}| \d\d \d\d \d\d )[A-D]\b",
        is_nino,
        "GB",
    ),
    Detector(
        "DE_TAX_ID", r"(?:[1-9]\d{10}|[1-9]\d \d{3} \d{3} \d{3})\b", is_german_tax_id, "DE", after=r"[^\w.]"
    ),
    Detector(
        "FR_NIR",
        r"[1-478] ?\d\d ?(?:0[1-9]|1[0-2]|[2-9]\d) ?(?:\d\d|2[AB]) ?\d{3} ?\d{3} ?\d\d\b",
        is_nir,
        "FR",
        after=r"[^\w.]",
    ),
    Detector("ES_DNI", r"\b\d{8}-?[A-HJ-NP-TV-Z]\b", is_dni, "ES"),
    Detector("ES_NIE", r"\b[XYZ]-?\d{7}-?[A-HJ-NP-TV-Z]\b", is_dni, "ES"),
    Detector(
        "NL_BSN",
        r"(?i)\b(?:bsn|sofi|burgerservice)(?:[- ]?nummer)?[\s:=#.-]{1,4}(\d{9}|\d{4}\.\d\d\.\d{3})\b",
        is_bsn,
        "NL",
    ),
    Detector("IN_AADHAAR", r"\b[2-9]\d{3}(?: \d{4} | ?-\d{4}- ?)\d{4}\b", is_aadhaar, "IN"),
    Detector(
        "IN_AADHAAR", r"(?i)\baadh?aar(?:[- ](?:number|no\.?))?[\s:=#-]{1,4}([2-9]\d{11})\b", is_aadhaar, "IN"
    ),
    Detector("BR_CPF", r"\b\d{3}\.\d{3}\.\d{3}-\d{2}\b", is_cpf, "BR"),
)
