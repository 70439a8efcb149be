"""A rule that can be used, and the detector that it becomes."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import re2  # type: ignore[import-untyped]  # it has no stubs

from hookgate.hooks.policies.options import compile_pattern, describe_value
from hookgate.hooks.policies.redact.closure import begins_at_boundary, language
from hookgate.hooks.policies.redact.detectors.detector import WORD, Detector
from hookgate.hooks.policies.redact.detectors.randomness import bits_per_character
from hookgate.hooks.policies.redact.opening import first_words
from hookgate.hooks.policies.redact.rules.syntax import rewrite_pattern
from hookgate.hooks.policies.redact.rules.tables import AllowlistTable, RuleTable

GROUP = "rules"
"""The group of the detectors of rules."""

_MEMORY = 8 << 20
"""The maximum memory in bytes for the patterns of an allowlist, which are compiled as one."""

_LONGEST_KIND = 24
_BOUNDARY = re.compile(r"((?:\(\?[ms-]*:|\()*)\\b")
_WORD_CHARACTER = re.compile(r"\w", re.ASCII)


@dataclass(frozen=True, slots=True)
class UnusableRule:
    """A rule, or a part of a file, that is not used."""

    source: str
    """The file, as the settings name it, or `settings`."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that can be used."""

    source: str
    """The file, as the settings name it, or `settings`."""

    table: RuleTable
    allowlists: tuple[AllowlistTable, ...]
    """Its own, and those of its file that apply to it."""

    pattern: str
    """The pattern as streams support it, without `lead`."""

    lead: str
    """The optional text at the beginning of matches."""

    preceded_by: str
    """See Detector."""

    def detector(self, path: str | None = None) -> Detector | None:
        """Return the detector for a file, or for text without a path; None if the rule does not apply."""
        if self.table.path and (path is None or not re2.search(self.table.path, path)):
            return None
        allowed: list[_Allowed] = []
        for allowlist in self.allowlists:
            allows_path = path is not None and any(re2.search(each, path) for each in allowlist.paths)
            if allowlist.condition in ("OR", "||"):
                if allows_path:
                    return None
            elif allowlist.commits or (allowlist.paths and not allows_path):
                continue  # not everything that it requires is there
            elif allows_path and not (allowlist.regexes or allowlist.stopwords):
                return None
            allowed.append(_Allowed.from_table(allowlist))
        judged = _Judged(
            self.table.entropy,
            tuple(word.lower() for word in self.table.keywords),
            _compiled(f"(?:{self.lead})$") if self.lead else None,
            tuple(each for each in allowed if each.regexes or each.stopwords),
        )
        return Detector(
            kind_of(self.table.id),
            self.pattern,
            group=GROUP,
            preceded_by=self.preceded_by,
            note=self.table.description,
            rule=f"{self.source}: {self.table.id}",
            secret_group=self.table.secret_group,
            fits=judged.fits,
        )


def make_rule(source: str, table: RuleTable, shared: Iterable[AllowlistTable] = ()) -> Rule:
    """Return the rule of a table. Raises ValueError with the reason if it cannot be used."""
    if not table.regex:
        raise ValueError("has no regex: it selects files by their names" if table.path else "has no regex")
    groups = compile_pattern(table.regex).groups
    if table.secret_group > groups:
        raise ValueError(f"secretGroup is {table.secret_group}, but its regex has {groups} groups")
    try:
        rewritten = rewrite_pattern(table.regex)
        pattern, preceded_by = _without_boundary(rewritten.pattern)
        prefixes = language(pattern).prefixes
    except RecursionError:
        raise ValueError("its regex nests too deeply") from None
    for each in (pattern, rf"(?:{prefixes})\z"):
        compile_pattern(each)
    return Rule(source, table, (*table.allowlists, *shared), pattern, rewritten.lead, preceded_by)


def _without_boundary(pattern: str) -> tuple[str, str]:
    """Return a pattern without the word boundary at its beginning, and what must precede it then.

    After an escape such as `\\n`, a word begins that `\\b` does not see.
    """
    boundary = _BOUNDARY.match(pattern)
    if boundary is None:
        return pattern, ""
    words = first_words(pattern)
    shorter = boundary[1] + pattern[boundary.end() :]
    begins_word = words is not None and all(
        _WORD_CHARACTER.match(character) for word in words for character in word[0]
    )
    return (shorter, WORD) if begins_word and begins_at_boundary(pattern) else (pattern, "")


def kind_of(name: str) -> str:
    """Return the kind of the findings of a rule: its name in capitals, which is cut if it is too long."""
    kind = re.sub(r"[^A-Z0-9]+", "_", name.upper(), flags=re.ASCII).strip("_")
    if not kind[:1].isalpha() or len(kind) == 1:
        kind = f"RULE_{kind}".rstrip("_")
    return kind[:_LONGEST_KIND].rstrip("_")


@dataclass(frozen=True, slots=True)
class _Allowed:
    """An allowlist with its patterns compiled, for text whose path is not in question any more."""

    is_any: bool
    target: str
    regexes: Any
    stopwords: Any

    @classmethod
    def from_table(cls, table: AllowlistTable) -> "_Allowed":
        return cls(
            table.condition in ("OR", "||"),
            table.regex_target or "secret",
            _compiled("|".join(f"(?:{each})" for each in table.regexes)) if table.regexes else None,
            _compiled(f"(?i:{'|'.join(map(re2.escape, table.stopwords))})") if table.stopwords else None,
        )

    def allows(self, texts: dict[str, str]) -> bool:
        """Return whether a finding is allowed. `texts` are its secret, match and line."""
        checks = [
            pattern.search(text) is not None
            for pattern, text in ((self.regexes, texts[self.target]), (self.stopwords, texts["secret"]))
            if pattern is not None
        ]
        return any(checks) if self.is_any else all(checks)


@dataclass(frozen=True, slots=True)
class _Judged:
    """What decides about matches of a rule besides its pattern."""

    entropy: float
    keywords: tuple[str, ...]
    lead: Any
    allowed: tuple[_Allowed, ...]

    def fits(self, before: str, match: str, secret: str) -> bool:
        """Return whether a match counts. See `Detector.fits`."""
        near = (before + match).lower()
        if self.keywords and not any(word in near for word in self.keywords):
            return False
        if self.entropy and bits_per_character(secret) <= self.entropy:
            return False
        if not self.allowed:
            return True
        lead = self.lead.search(before)[0] if self.lead else ""
        line = before.rpartition("\n")[2] + match
        texts = {"secret": secret, "match": lead + match, "line": line}
        return not any(each.allows(texts) for each in self.allowed)


def _compiled(pattern: str) -> Any:
    """Compile the patterns of an allowlist. Raises ValueError if they are too large together."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise ValueError(f"its allowlists are too large: {describe_value(error)}") from None
