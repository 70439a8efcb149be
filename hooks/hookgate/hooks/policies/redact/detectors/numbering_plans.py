"""Which digits are a telephone number in some countries, by the numbering plans of libphonenumber.

Its Python port, `phonenumbers`, is installed with the extra `phones`. It parses and checks a number for one
country in some 20 microseconds. Here, the plans of all countries are compiled into a few patterns of RE2, so
that a check takes five microseconds for 40 countries, whatever the text is.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from importlib import import_module
from typing import Any

import re2  # type: ignore[import-untyped]  # it has no stubs

_TYPES = ("fixed_line", "mobile", "voip", "personal_number", "pager")
"""The types of numbers that people have: not those of services, which are free of charge or cost more."""

_ABROAD = "00|011"
"""What is dialled before the code of another country, instead of `+`."""

_FEWEST_GROUPS = 3
"""The groups of digits by which a number is told apart from other numbers."""

_FORMATTED = re.compile(r"\((?:[^()]|\([^()]*\))*\)")
"""Matches the groups of digits in the pattern of a format."""


class NumberingPlans:
    """The numbering plans of some countries."""

    def __init__(self, countries: Iterable[str]) -> None:
        """`countries` are codes of ISO 3166 in capitals, which `countries_with_plans` returns."""
        metadata = import_module("phonenumbers.phonemetadata").PhoneMetadata
        plans = [metadata.metadata_for_region(country) for country in countries]
        self._national = _compiled(map(_numbers, plans))
        self._dialled = _compiled(form for plan in plans for form in _dialled(plan))
        self._with_country = _compiled(f"(?:{plan.country_code}){_numbers(plan)}" for plan in plans)
        self._written = _compiled(form for plan in plans for form in _written(plan))
        self._rewritten = [
            (re.compile(plan.national_prefix_for_parsing), plan.national_prefix_transform_rule)
            for plan in plans
            if plan.national_prefix_transform_rule
        ]

    def is_number(self, digits: str) -> bool:
        """Return whether these are the digits of a number in any form: as dialled, or without a prefix."""
        return any(
            plan.fullmatch(digits) for plan in (self._national, self._dialled, self._with_country)
        ) or any(map(self._national.fullmatch, self._without_prefix(digits)))

    def is_usual(self, groups: Sequence[str]) -> bool:
        """Return whether a number is written in groups of digits in which its country usually writes them."""
        return self._written.fullmatch(" ".join(groups)) is not None and self.is_number("".join(groups))

    def _without_prefix(self, digits: str) -> Iterator[str]:
        """Yield the digits without prefixes that stand for others, such as 15 of mobiles in Argentina."""
        for prefix, rule in self._rewritten:
            if (match := prefix.match(digits)) and match.lastindex:
                yield match.expand(rule) + digits[match.end() :]


@cache
def countries_with_plans() -> Collection[str]:
    """Return the countries with a plan. Raises ValueError if the package `phonenumbers` is not installed."""
    try:
        regions: Collection[str] = import_module("phonenumbers").SUPPORTED_REGIONS
    except ImportError:
        raise ValueError("phonenumbers is not installed; install hookgate with its extra phones") from None
    return regions


_MEMORY = 64 << 20
"""The bytes that a search may take for its states. With the plans of all countries, 8 MB are too few."""


def _compiled(patterns: Iterable[str]) -> Any:
    options = re2.Options()
    options.log_errors, options.max_mem = False, _MEMORY
    return re2.compile("|".join(dict.fromkeys(patterns)) or "[^\\s\\S]", options)


def _numbers(plan: Any) -> str:
    described = (getattr(plan, kind) for kind in _TYPES)
    patterns = (each.national_number_pattern for each in described if each)
    return f"(?:{'|'.join(dict.fromkeys(filter(None, patterns)))})"


def _dialled(plan: Any) -> Iterator[str]:
    """Yield patterns of what is dialled: within the country, with a prefix other than 1, and from abroad."""
    if plan.national_prefix and plan.national_prefix != "1":
        yield plan.national_prefix + _numbers(plan)
    yield f"(?:{_ABROAD}){plan.country_code}{_numbers(plan)}"


def _written(plan: Any) -> Iterator[str]:
    """Yield patterns of the groups in which numbers are written, three or more, with blanks between them."""
    before = f"(?:{plan.national_prefix} ?)?" if plan.national_prefix else ""
    for each in plan.number_format:
        groups = _FORMATTED.findall(each.pattern)
        if len(groups) >= _FEWEST_GROUPS:
            yield before + " ".join(f"(?:{group[1:-1]})" for group in groups)
