"""Detectors of national identification numbers: one row for each format.

A number of digits only, whose check digits fit many other numbers, is found only after its name.
"""

from collections.abc import Callable
from functools import partial

from hookgate.hooks.policies.redact.detectors import national_checks as checks
from hookgate.hooks.policies.redact.detectors.detector import WORD_END, Detector
from hookgate.hooks.policies.redact.detectors.digit_groups import DIGITS, number_in

_NO_FRACTION = r"[^\w.]"
_IS = r"(?:[\s:=#.*_`|(-]|\\{0,3}[\"'n]|&quot;|%3[AaDd]|%2[02]|\\{1,4}u00(?:22|3[aAdD])){1,17}"
"""Characters between a name and its number: signs and blanks, escaped or not."""

_SUFFIX = r"(?i:[ _-]?(?:number|nummer|numero|no|nr|num))?"
_GROUPS = rf"{DIGITS}(?:[ ./-]{DIGITS}){{0,16}}"
_BIRTH = r"(?:0[1-9]|[12]\d|3[01])"
_MONTH = r"(?:0[1-9]|1[0-2])"


def _national(
    kind: str, number: str, check: Callable[[str], bool] | None, country: str, *, end: str = WORD_END
) -> Detector:
    """Return a detector of a country's number, as a separate word."""
    return Detector(kind, f"({number}){end}", check, "personal", country=country, preceded_by=_NO_FRACTION)


def _named(
    kind: str, names: str, check: Callable[[str], bool], country: str, number: str = _GROUPS
) -> Detector:
    """Return a detector of a country's number after one of its names, which is a pattern in lower case.

    With digits in groups, other groups may follow the number.
    """
    pattern = f"(?i:{names}){_SUFFIX}{_IS}({number}){WORD_END}"
    preceded_by = r"[\W_]"
    if number != _GROUPS:
        return Detector(kind, pattern, check, "personal", country=country, preceded_by=preceded_by)
    within = partial(number_in, is_number=check)
    return Detector(kind, pattern, None, "personal", country=country, preceded_by=preceded_by, within=within)


NATIONAL: tuple[Detector, ...] = (
    _national("US_SSN", r"\d{3}-\d{2}-\d{4}", checks.is_ssn, "US"),
    _named("US_SSN", "ssn|social[ _-]?security", checks.is_nine_digit_ssn, "US"),
    _national("US_ITIN", r"9\d{2}-\d{2}-\d{4}", checks.is_itin, "US"),
    _national("CA_SIN", r"\d{3}-\d{3}-\d{3}", checks.is_sin, "CA"),
    _named("CA_SIN", "sin|social[ _-]?insurance", checks.is_sin, "CA"),
    _national("MX_CURP", rf"[A-Z]{{4}}\d\d{_MONTH}{_BIRTH}[HMX][A-Z]{{5}}[A-Z0-9]\d", checks.is_curp, "MX"),
    _national("MX_RFC", rf"[A-Z]{{4}}\d\d{_MONTH}{_BIRTH}[A-Z0-9]{{2}}[0-9A]", checks.is_rfc, "MX"),
    _national("BR_CPF", r"\d{3}\.\d{3}\.\d{3}-\d{2}", checks.is_cpf, "BR"),
    _named("BR_CPF", "cpf", checks.is_cpf, "BR"),
    _national("AR_CUIL", r"(?:2[03-7]|3[034])-\d{8}-\d", checks.is_cuil, "AR"),
    _national("CL_RUT", r"\d{1,2}\.\d{3}\.\d{3}-[0-9Kk]", checks.is_rut, "CL"),
    _national(
        "UK_NINO",
        r"[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z](?:\d{6}| \d\d \d\d \d\d )[A-D]",
        checks.is_nino,
        "GB",
    ),
    _named("UK_NHS", "nhs", checks.is_nhs_number, "GB"),
    _named("IE_PPS", "ppsn?", checks.is_pps_number, "IE", r"\d{7}[A-Wa-w][A-IWa-iw]?"),
    _national("DE_TAX_ID", r"[1-9]\d{10}|[1-9]\d \d{3} \d{3} \d{3}", checks.is_german_tax_id, "DE"),
    _national(
        "DE_PENSION_ID",
        rf"\d\d ?{_BIRTH}{_MONTH}\d\d ?[A-Z] ?\d{{3}}",
        checks.is_german_pension_number,
        "DE",
    ),
    _named("AT_SVNR", "svnr|sv|(?:sozial)?versicherungs", checks.is_austrian_number, "AT"),
    _national("CH_AHV", r"756\.\d{4}\.\d{4}\.\d\d|756\d{10}", checks.is_ahv_number, "CH"),
    _national(
        "FR_NIR",
        r"[1-478] ?\d\d ?(?:0[1-9]|1[0-2]|[2-9]\d) ?(?:\d\d|2[AB]) ?\d{3} ?\d{3} ?\d\d",
        checks.is_nir,
        "FR",
    ),
    _national("BE_NRN", r"\d\d\.\d\d\.\d\d-\d{3}\.\d\d", checks.is_belgian_number, "BE"),
    _named("BE_NRN", "nrn|niss|insz|rijksregister|registre national", checks.is_belgian_number, "BE"),
    _named("NL_BSN", "bsn|sofi|burgerservice", checks.is_bsn, "NL"),
    _national("ES_DNI", r"\d{8}-?[A-HJ-NP-TV-Z]", checks.is_dni, "ES"),
    _national("ES_NIE", r"[XYZ]-?\d{7}-?[A-HJ-NP-TV-Z]", checks.is_dni, "ES"),
    _named("PT_NIF", "nif|contribuinte", checks.is_portuguese_tax_number, "PT"),
    _national(
        "IT_FISCAL_CODE",
        r"[A-Z]{6}[0-9LMNP-V]{2}[A-EHLMPRST][0-9LMNP-V]{2}[A-Z][0-9LMNP-V]{3}[A-Z]",
        checks.is_codice_fiscale,
        "IT",
    ),
    _national("FI_HETU", r"\d{6}[-+A-FU-Y]\d{3}[0-9A-FHJ-NPR-Y]", checks.is_hetu, "FI"),
    _national("SE_PERSONNUMMER", r"(?:19|20)?\d{6}[-+]\d{4}", checks.is_personnummer, "SE"),
    _named("SE_PERSONNUMMER", "person|pnr", checks.is_personnummer, "SE"),
    _national("NO_FNR", r"\d{6} ?\d{5}", checks.is_norwegian_number, "NO"),
    _named("DK_CPR", "cpr", checks.is_cpr, "DK"),
    _national("PL_PESEL", r"\d{11}", checks.is_pesel, "PL"),
    _national("CZ_BIRTH_NUMBER", r"\d{6}/\d{4}", checks.is_birth_number, "CZ"),
    _named("RO_CNP", "cnp", checks.is_cnp, "RO"),
    _named("BG_EGN", "egn", checks.is_egn, "BG"),
    _named("HR_OIB", "oib", checks.is_oib, "HR"),
    _named("GR_AMKA", "amka", checks.is_amka, "GR"),
    _named("TR_TCKN", r"tckn|t\.?c\.?(?: kimlik)?", checks.is_turkish_number, "TR"),
    _national("RU_SNILS", r"\d{3}-\d{3}-\d{3}[ -]\d\d", checks.is_snils, "RU"),
    _named("RU_INN", "inn", checks.is_inn, "RU"),
    _national(
        "CN_ID", rf"[1-9]\d{{5}}(?:19|20)\d\d{_MONTH}{_BIRTH}\d{{3}}[0-9Xx]", checks.is_chinese_number, "CN"
    ),
    _national("TW_ID", r"[A-Z][1289]\d{8}", checks.is_taiwanese_number, "TW"),
    _national("HK_ID", r"[A-Z]{1,2}\d{6}\([0-9A]\)", checks.is_hong_kong_number, "HK", end=""),
    _named("JP_MY_NUMBER", "my[ _-]?number|individual[ _-]?number", checks.is_my_number, "JP"),
    _national("KR_RRN", r"\d{6}-[1-8]\d{6}", checks.begins_with_date, "KR"),
    _national("IN_AADHAAR", r"[2-9]\d{3}(?: \d{4} | ?-\d{4}- ?)\d{4}", checks.is_aadhaar, "IN"),
    _named("IN_AADHAAR", "aadh?aar", checks.is_aadhaar, "IN"),
    _national("IN_PAN", r"[A-Z]{3}P[A-Z]\d{4}[A-Z]", None, "IN"),
    _national("PK_CNIC", r"[1-7]\d{4}-\d{7}-\d", None, "PK"),
    _national("SG_NRIC", r"[STFGM]\d{7}[A-Z]", checks.is_nric, "SG"),
    _national("MY_NRIC", r"\d{6}-\d\d-\d{4}", checks.begins_with_date, "MY"),
    _national("TH_ID", r"\d-\d{4}-\d{5}-\d\d-\d", checks.is_thai_number, "TH"),
    _named("ID_NIK", "nik", checks.is_nik, "ID"),
    _national("AE_EMIRATES_ID", r"784-\d{4}-\d{7}-\d", checks.is_emirates_id, "AE"),
    _named("IL_ID", "teudat[ _-]?zehut|israeli id", checks.is_israeli_number, "IL"),
    _national("ZA_ID", r"\d{10}[012][89]\d", checks.is_south_african_number, "ZA"),
    _named("AU_TFN", "tfn|tax[ _-]?file", checks.is_tax_file_number, "AU"),
    _named("AU_MEDICARE", "medicare", checks.is_medicare_number, "AU"),
    _named("NZ_IRD", "ird", checks.is_ird_number, "NZ"),
)
