"""Generate docs/national-numbers.md from the table of national identification numbers.

PYTHONPATH=docs python -m generators.national_numbers > docs/national-numbers.md
"""

import inspect
import re
from types import MappingProxyType

from generators.credential_kinds import code, shown_pattern, table

from hookgate.hooks.policies.redact.detectors.detector import Detector
from hookgate.hooks.policies.redact.detectors.national import NATIONAL

_INTRODUCTION = """\
# National identification numbers

<!-- Made by: PYTHONPATH=docs python -m generators.national_numbers > docs/national-numbers.md -->

    {{"type": "builtin", "builtin": "redact", "options": {{"detect": ["credentials", "FR", "US_SSN"]}}}}

This masks all numbers of France, and social security numbers of the United States. The policy
[redact](redaction.md) finds {kinds} kinds of numbers of {countries} countries. Each can be switched by
its kind, its country, or as `personal`; all are off by default.

A format is a pattern in RE2's syntax. Numbers that would be too common are found only *after* a name,
which is such a pattern as well, or as the value of a field with this name. The check is what else must
hold.
"""

_COUNTRIES = MappingProxyType(
    {
        "AE": "United Arab Emirates",
        "AR": "Argentina",
        "AT": "Austria",
        "AU": "Australia",
        "BE": "Belgium",
        "BG": "Bulgaria",
        "BR": "Brazil",
        "CA": "Canada",
        "CH": "Switzerland",
        "CL": "Chile",
        "CN": "China",
        "CZ": "Czechia, Slovakia",
        "DE": "Germany",
        "DK": "Denmark",
        "ES": "Spain",
        "FI": "Finland",
        "FR": "France",
        "GB": "United Kingdom",
        "GR": "Greece",
        "HK": "Hong Kong",
        "HR": "Croatia",
        "ID": "Indonesia",
        "IE": "Ireland",
        "IL": "Israel",
        "IN": "India",
        "IT": "Italy",
        "JP": "Japan",
        "KR": "South Korea",
        "MX": "Mexico",
        "MY": "Malaysia",
        "NL": "Netherlands",
        "NO": "Norway",
        "NZ": "New Zealand",
        "PK": "Pakistan",
        "PL": "Poland",
        "PT": "Portugal",
        "RO": "Romania",
        "RU": "Russia",
        "SE": "Sweden",
        "SG": "Singapore",
        "TH": "Thailand",
        "TR": "Turkey",
        "TW": "Taiwan",
        "US": "United States",
        "ZA": "South Africa",
    }
)

_NAMES = re.compile(r"\(\?i:(?P<names>.*?)\)\(\?i:\[ _-\]")
"""The names at the beginning of the pattern of a number that is found only after one of them."""


def national_numbers() -> str:
    """Return the page as Markdown. Raises KeyError for a country without a name."""
    countries = {detector.country for detector in NATIONAL}
    kinds = {detector.kind for detector in NATIONAL}
    return "\n".join(
        [
            _INTRODUCTION.format(kinds=len(kinds), countries=len(countries)),
            table(["kind", "country", "format", "check"], [_row(detector) for detector in NATIONAL]).rstrip(
                "\n"
            ),
            "",
        ]
    )


def _row(detector: Detector) -> list[str]:
    names = _NAMES.match(detector.pattern)
    found = f"after {code(names['names'])}" if names else code(shown_pattern(detector.pattern))
    return [detector.kind, f"{_COUNTRIES[detector.country]} ({detector.country})", found, _check(detector)]


def _check(detector: Detector) -> str:
    """Return what the docstring of the check says of the number."""
    check = detector.check or getattr(detector.within, "keywords", {}).get("is_number")
    text = (inspect.getdoc(check) or "").partition("\n")[0] if check else ""
    return text.rpartition(": ")[2].rstrip(".")


if __name__ == "__main__":
    print(national_numbers(), end="")
