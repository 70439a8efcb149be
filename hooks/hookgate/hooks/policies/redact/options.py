"""The options of the policy `redact`."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from hookgate.hooks.policies.options import Globs, Options, closest_option
from hookgate.hooks.policies.redact.detectors import DETECTORS
from hookgate.hooks.policies.redact.detectors.detector import Detector, pattern_detector
from hookgate.hooks.policies.redact.detectors.numbering_plans import countries_with_plans
from hookgate.hooks.policies.redact.detectors.phones import PHONE, phones_of
from hookgate.hooks.policies.redact.detectors.phrases import MAX_DISGUISED, words_detectors
from hookgate.hooks.policies.redact.presidio import PresidioOptions
from hookgate.hooks.policies.redact.rules import GROUP, RuleSet, read_rules
from hookgate.hooks.policies.redact.streaming import AtCap
from hookgate.hooks.policies.speakers import SCOPES, Scope

_SAID_FOR = {"UK": "GB", "EL": "GR"}
"""Codes that are not those of ISO 3166, with the latter."""

HASH = re.compile(r"HG_[A-Z][A-Z0-9_]{1,23}_[0-9a-f]{16}")
"""The hash of a finding, which is also its pseudonym: nobody can guess it without the key."""

HASH_REMEDY = "copy it from a receipt, such as HG_EMAIL_9c1f04d2ab7e5a10"

Action = Literal["mask", "hash", "pseudonymise", "block"]


class RedactOptions(Options):
    """The options of the policy `redact`."""

    patterns: Mapping[str, str] = Field(default={}, strict=False)
    """Additional patterns by kind, in RE2's syntax: `{"TICKET": "TCK-[0-9]{6}"}`. A kind has 2 to 24
    capitals, digits and underscores, and begins with a capital."""

    words: Mapping[str, Globs] = Field(default={}, strict=False)
    """Additional words and phrases by kind: `{"CODENAME": ["Blue Heron"]}`."""

    ignore_case: bool = False
    """Whether `words` are matched regardless of case."""

    rules: tuple[RuleSet, ...] = Field(default=(), strict=False)
    """Rules in the format of gitleaks: paths of files, and tables."""

    presidio: PresidioOptions | None = Field(default=None, strict=False)
    """Options of Presidio as an additional detector."""

    phones: tuple[str, ...] = Field(default=(), strict=False)
    """Countries (ISO 3166) whose telephone numbers are found as they are written there, without `+`, such as
    `["DE", "GB"]`. Needs the extra `phones`."""

    detect: Globs | None = None
    """Kinds and groups of detectors to use, with wildcards. Groups are `credentials`, `personal`, `network`
    and the countries. Default: `credentials`."""

    skip: Globs = ()
    """Kinds and groups of detectors not to use, even if `detect` lists them."""

    allow: tuple[str, ...] = Field(default=(), strict=False)
    """The hashes of findings that stay, as receipts show them; `hookgate redact allow` adds them."""

    action: Action = "mask"
    """What to do with findings."""

    actions: Mapping[str, Action] = Field(default={}, strict=False)
    """Actions by kind or group, with wildcards: `{"PRIVATE_KEY": "block", "AWS_*": "hash"}`. The first that
    matches applies, or else `action`. A kind that is not detected is an error."""

    mask: str = "[{kind}]"
    """The replacement of masked findings; `{kind}` is replaced with the kind."""

    scopes: tuple[Scope, ...] = Field(default=tuple(sorted(SCOPES)), strict=False)
    """The texts to search; `other` is everything else in a request. Default: all."""

    cap: int = Field(default=8192, ge=256, le=1_000_000)
    """The maximum number of characters of a stream to hold back while they may be part of a secret."""

    at_cap: AtCap = "mask"
    """What to do when the cap is reached: mask the characters held back, or end the answer (`block`)."""

    limit: int = Field(default=100_000, ge=1)
    """The maximum number of possible secrets to check in one body; a body with more is blocked."""

    reason: str = ""
    """The reason that is given for blocked text."""

    @field_validator("patterns")
    @classmethod
    def _check_patterns(cls, patterns: Mapping[str, str]) -> Mapping[str, str]:
        _check_each(pattern_detector, patterns)
        return patterns

    @field_validator("words")
    @classmethod
    def _check_words(cls, words: Mapping[str, Globs]) -> Mapping[str, Globs]:
        _check_each(partial(words_detectors, disguised=False), words)
        return words

    @field_validator("rules", mode="before")
    @classmethod
    def _read_rules(cls, entries: Any, info: ValidationInfo) -> tuple[RuleSet, ...]:
        """Read the rules. The validation's context is the folder to which their paths refer."""
        if not isinstance(entries, list | tuple) or not all(isinstance(each, str | dict) for each in entries):
            raise ValueError('must be a list of files and rules, such as ["./gitleaks.toml"]')
        return read_rules(entries, info.context or Path())

    @field_validator("allow")
    @classmethod
    def _check_hashes(cls, hashes: tuple[str, ...]) -> tuple[str, ...]:
        for each in hashes:
            if not HASH.fullmatch(each):
                raise ValueError(f"{each!r} is not the hash of a finding; {HASH_REMEDY}")
        return hashes

    @field_validator("phones")
    @classmethod
    def _check_countries(cls, countries: tuple[str, ...]) -> tuple[str, ...]:
        known = countries_with_plans() if countries else ()
        for country in countries:
            if country not in known:
                raise ValueError(f"unknown country {country!r}; {_country_remedy(country, known)}")
        return countries

    @field_validator("detect", "skip", "actions")
    @classmethod
    def _check_names(
        cls, globs: Globs | Mapping[str, Action] | None, info: ValidationInfo
    ) -> Globs | Mapping[str, Action] | None:
        """Check names of detectors. The options that define kinds precede these, and are in `info`."""
        defining = ("patterns", "words", "rules", "presidio")
        if globs is None or not info.data.keys() >= set(defining):
            return globs  # an invalid option might define the kind
        patterns, words, rules, presidio = (info.data[name] for name in defining)
        custom = [pattern_detector(kind, pattern) for kind, pattern in patterns.items()]
        custom += [
            each for kind, some in words.items() for each in words_detectors(kind, some, disguised=False)
        ]
        detectors = (*custom, *DETECTORS, *_detectors_of(rules))
        groups = {name for detector in detectors for name in detector.names[1:]} | {"presidio", GROUP}
        known = groups | {detector.kind for detector in detectors}
        known |= {*(presidio.entities if presidio else ())}
        for glob in globs:
            if not any(fnmatchcase(name, glob) for name in known):
                raise ValueError(f"unknown detector {glob!r}; {_remedy(glob, known, groups)}")
        return globs

    @model_validator(mode="after")
    def _check_mask(self) -> Self:
        if re.search("[{}]", self.mask.replace("{kind}", "")):
            raise ValueError("mask: only {kind} is allowed in braces")
        self._check_actions()
        return self

    def _check_actions(self) -> None:
        """Check that each action applies to something: personal data, for one, is off by default."""
        names = {"presidio", *self.presidio.entities} if self.presidio else set()
        names.update(name for detector in self.detectors() for name in detector.names)
        for glob in self.actions:
            if not any(fnmatchcase(name, glob) for name in names):
                raise ValueError(f"actions: {glob!r} is not detected; add it to `detect`")

    def custom_detectors(self) -> tuple[Detector, ...]:
        """Return the detectors of `patterns` and `words`. Raises ValueError if one is invalid."""
        size = sum(len(word) for words in self.words.values() for word in words)
        return (
            *(pattern_detector(kind, pattern) for kind, pattern in self.patterns.items()),
            *(
                detector
                for kind, words in self.words.items()
                for detector in words_detectors(
                    kind, words, self.ignore_case, disguised=size <= MAX_DISGUISED
                )
            ),
        )

    def detectors(self, path: str | None = None) -> tuple[Detector, ...]:
        """Return all detectors to use for a file, or for text without a path.

        Custom ones are first, and those of rules last. Raises ValueError if there are none.
        """
        enabled = (
            *self.custom_detectors(),
            *(detector for detector in DETECTORS if self._is_on(detector)),
            *(phones_of(self.phones) if self.phones else ()),
            *_detectors_of(self.rules, path),
        )
        enabled = tuple(detector for detector in enabled if not _is_listed(detector, self.skip))
        if not enabled:
            raise ValueError("no detector is enabled; configure detectors, patterns or words")
        return enabled

    def _is_on(self, detector: Detector) -> bool:
        if self.phones and detector.kind == PHONE:
            return True
        return detector.group == "credentials" if self.detect is None else _is_listed(detector, self.detect)

    def actions_by_kind(self) -> dict[str, Action]:
        """Return the action for each kind that is detected."""
        actions_by_kind = {detector.kind: self._action_for(*detector.names) for detector in self.detectors()}
        entities = self.presidio.entities if self.presidio else ()
        return {kind: self._action_for(kind, "presidio") for kind in entities} | actions_by_kind

    def _action_for(self, *names: str) -> Action:
        matches = (
            act for glob, act in self.actions.items() if any(fnmatchcase(name, glob) for name in names)
        )
        return next(matches, self.action)


def _detectors_of(sets: Iterable[RuleSet], path: str | None = None) -> Iterator[Detector]:
    """Yield the detectors of rules that apply to a file, or to text without a path."""
    for rule in (rule for each in sets for rule in each.rules):
        if (detector := rule.detector(path)) is not None:
            yield detector


def _check_each(make: Callable[[str, Any], object], definitions: Mapping[str, Any]) -> None:
    """Make the detector of each kind. Raises one ValueError for all that are invalid."""
    mistakes = []
    for kind, definition in definitions.items():
        try:
            make(kind, definition)
        except ValueError as error:
            mistakes.append(str(error))
    if mistakes:
        raise ValueError("; ".join(mistakes))


def _country_remedy(country: str, known: Collection[str]) -> str:
    code = _SAID_FOR.get(country.upper(), country.upper())
    if code in known:
        return f"did you mean {code}?"
    return "use codes of ISO 3166 with a numbering plan, such as DE, GB and US"


def _remedy(glob: str, known: Collection[str], groups: Collection[str]) -> str:
    if suggestion := closest_option(glob, known):
        return f"did you mean {suggestion}?"
    return (
        f'groups are {", ".join(sorted(groups))}; the page "Redaction" of the documentation lists their kinds'
    )


def _is_listed(detector: Detector, globs: Globs) -> bool:
    return any(fnmatchcase(name, glob) for name in detector.names for glob in globs)
