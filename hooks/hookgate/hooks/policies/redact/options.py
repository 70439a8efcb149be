"""What the policy `redact` wants to know."""

from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from typing import Literal, Self

from pydantic import Field, model_validator

from hookgate.hooks.policies.mistakes import meant
from hookgate.hooks.policies.options import Globs, Options
from hookgate.hooks.policies.redact.detectors import DETECTORS
from hookgate.hooks.policies.redact.detectors.detector import Detector, pattern_detector, words_detector
from hookgate.hooks.policies.redact.held import AtCap
from hookgate.hooks.policies.redact.presidio import PresidioOptions
from hookgate.hooks.policies.redact.redaction import SCOPES, Scope

Act = Literal["mask", "hash", "pseudonymise", "block"]


class RedactOptions(Options):
    """What is looked for, where, and what becomes of it."""

    detect: Globs | None = None
    """Kinds and groups of detectors, with wildcards; those that are on by default, if left out."""

    skip: Globs = ()
    """Kinds and groups that are not looked for, even if they are on that list."""

    patterns: Mapping[str, str] = Field(default={}, strict=False)
    """Further patterns, in RE2's syntax, by their kind."""

    words: Mapping[str, Globs] = Field(default={}, strict=False)
    """Words and phrases that are looked for, by their kind."""

    ignore_case: bool = False
    """Whether these words are found in capitals and small letters alike."""

    action: Act = "mask"
    """What becomes of what is found."""

    actions: Mapping[str, Act] = Field(default={}, strict=False)
    """The same by kind or group, with wildcards; the first that holds counts."""

    mask: str = "[{kind}]"
    """What takes the place of what is masked; `{kind}` stands for what it was."""

    scopes: tuple[Scope, ...] = Field(default=tuple(sorted(SCOPES)), strict=False)
    """What is looked through: all of it, if left out."""

    cap: int = Field(default=8192, ge=256, le=1_000_000)
    """Characters of a stream that may wait until it is known whether they are a secret."""

    at_cap: AtCap = "mask"
    """What becomes of them then: masked all the same, or the answer ends (`block`)."""

    presidio: PresidioOptions | None = Field(default=None, strict=False)
    """Presidio as a further detector."""

    limit: int = Field(default=100_000, ge=1)
    """Suspects in one body, secrets or not, that are looked into; a body with more does not pass."""

    reason: str = ""
    """What the person is told of what is blocked."""

    @model_validator(mode="after")
    def _known(self) -> Self:
        groups = {each.group for each in self.own() + DETECTORS} | {"presidio"}
        known = groups | {each.kind for each in self.own() + DETECTORS}
        known |= {*(self.presidio.entities if self.presidio else ())}
        for option, globs in (("detect", self.detect or ()), ("skip", self.skip), ("actions", self.actions)):
            for glob in globs:
                if not any(fnmatchcase(name, glob) for name in known):
                    raise ValueError(
                        f"{option}: there is no detector {glob!r}; {_remedy(glob, known, groups)}"
                    )
        if "{kind}" not in self.mask.replace("{{", "").replace("}}", "") and "{" in self.mask:
            raise ValueError("mask: {kind} is all that may stand in braces")
        return self

    def own(self) -> tuple[Detector, ...]:
        """The detectors of patterns and words that are given here. Raises ValueError."""
        return (
            *(pattern_detector(kind, pattern) for kind, pattern in self.patterns.items()),
            *(words_detector(kind, words, self.ignore_case) for kind, words in self.words.items()),
        )

    def detectors(self) -> tuple[Detector, ...]:
        """All that are on, one's own first. Raises ValueError when none is."""
        own = self.own()
        found = (*own, *(each for each in DETECTORS if self._is_on(each)))
        found = tuple(each for each in found if not _named(each, self.skip))
        if not found:
            raise ValueError("nothing is looked for; name detectors, patterns or words")
        return found

    def _is_on(self, detector: Detector) -> bool:
        return detector.default if self.detect is None else _named(detector, self.detect)

    def acts(self) -> dict[str, Act]:
        """What becomes of each kind that is looked for."""
        acts = {each.kind: self._act(each.kind, each.group) for each in self.detectors()}
        entities = self.presidio.entities if self.presidio else ()
        return {kind: self._act(kind, "presidio") for kind in entities} | acts

    def _act(self, kind: str, group: str) -> Act:
        found = (
            act for glob, act in self.actions.items() if fnmatchcase(kind, glob) or fnmatchcase(group, glob)
        )
        return next(found, self.action)


def _remedy(glob: str, known: Collection[str], groups: Collection[str]) -> str:
    if near := meant(glob, known):
        return f"did you mean {near}?"
    return f"groups are {', '.join(sorted(groups))}; their kinds are listed in docs/redaction.md"


def _named(detector: Detector, globs: Globs) -> bool:
    return any(fnmatchcase(name, glob) for name in (detector.kind, detector.group) for glob in globs)
