"""Reads rules: files in the format of gitleaks and betterleaks, and tables in settings, within bounds."""

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hookgate.hooks.policies.redact.opening import first_words, heads_of
from hookgate.hooks.policies.redact.rules.filters import read_filter
from hookgate.hooks.policies.redact.rules.rule import Rule, UnusableRule, make_rule
from hookgate.hooks.policies.redact.rules.tables import (
    AllowlistTable,
    RuleTable,
    SharedAllowlistTable,
    read_table,
)
from hookgate.hooks.settings.files import open_at_once

SETTINGS = "settings"
"""The source of rules that are tables in settings."""

_MAX_BYTES = 1024 * 1024
"""The default rules of gitleaks have a tenth of it."""

_MAX_RULES, _MAX_WORDS = 1000, 8192
"""The maximum numbers of rules, and of first words of matches, of one policy."""

_MAX_ALIKE, _MAX_GENERAL = 32, 8
"""The maximum numbers of rules that begin with the same characters, and of those that begin with any."""

_MAX_NAMED, _LONGEST_REASON = 10, 320

_STRING_OR_COMMENT = re.compile(
    r"""'{3}.*?(?:'{3}|\Z)|"{3}(?:\\.|[^\\])*?(?:"{3}|\Z)|'[^'\n]*'?|"(?:\\.|[^"\\\n])*"?|#[^\n]*""",
    re.DOTALL,
)
_LONG_KEY = re.compile(r"(?<![\w-])(?:[\w-]+[ \t]*\.[ \t]*){16}")
_NEEDS_MORE = {
    "required": "it needs findings of other rules nearby, which is not supported",
    "components": "it needs findings of other rules nearby, which is not supported",
}
"""Why rules with these keys are not used: without them, they would match much that is not a secret."""


_FILTERS = frozenset({"filter", "prefilter"})
"""Filters of betterleaks that apply to all rules of a file."""


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The rules of one file, or of settings."""

    source: str
    """The file, as the settings name it, or `settings`."""

    rules: tuple[Rule, ...]
    unusable: tuple[UnusableRule, ...] = ()

    def describe_unusable(self) -> str:
        """Return a line about the rules that are not used."""
        names = ", ".join(f"{each.id} ({each.reason})" for each in self.unusable[:_MAX_NAMED])
        more = f" and {len(self.unusable) - _MAX_NAMED} more" if len(self.unusable) > _MAX_NAMED else ""
        return f"{self.source}: not used: {names}{more}; `hookgate redact rules` lists all"


def read_rules(entries: Sequence[str | Mapping[str, Any]], root: Path) -> tuple[RuleSet, ...]:
    """Read the files and tables of the option `rules`.

    A rule of a file that cannot be used is in `unusable`. Raises ValueError for a file that cannot be read,
    and for a table in settings that cannot be used.

    Args:
        entries: Paths of files, and rules as tables.
        root: The folder to which relative paths refer.
    """
    tables = [entry for entry in entries if not isinstance(entry, str)]
    sets = [_read_file(entry, root) for entry in entries if isinstance(entry, str)]
    if tables:
        sets.append(RuleSet(SETTINGS, tuple(map(_own_rule, tables))))
    bounds = _Bounds()
    return tuple(bounds.within(each) for each in sets)


def _own_rule(table: Mapping[str, Any]) -> Rule:
    try:
        return make_rule(SETTINGS, read_table(RuleTable, table))
    except ValueError as error:
        raise ValueError(f"the rule {str(table.get('id', ''))[:100]!r}: {error}") from None


def _read_file(name: str, root: Path) -> RuleSet:
    try:
        document = _parsed(_read_text(root / Path(name).expanduser()))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    tables = document.get("rules")
    if not isinstance(tables, list):
        raise ValueError(f"{name}: has no [[rules]]; name a file in the format of gitleaks")
    unusable = [UnusableRule(name, *problem) for problem in _unsupported(document)]
    shared: list[SharedAllowlistTable] = []
    for table in _allowlists(document):
        try:
            shared.append(read_table(SharedAllowlistTable, table, known_only=True))
        except ValueError as error:
            unusable.append(UnusableRule(name, "[allowlist]", str(error)))
    for key in _FILTERS & document.keys():
        try:
            tables_of_filter = read_filter(str(document[key])).allowlists
            shared += [read_table(SharedAllowlistTable, table) for table in tables_of_filter]
        except ValueError as error:
            unusable.append(UnusableRule(name, key, str(error)))
    rules = []
    for number, table in enumerate(tables, start=1):
        try:
            rules.append(_rule(name, table, shared))
        except ValueError as error:
            unusable.append(UnusableRule(name, _name_of(table, number), _shortened(str(error))))
    return RuleSet(name, tuple(rules), tuple(unusable))


def _rule(name: str, table: Any, shared: Iterable[SharedAllowlistTable]) -> Rule:
    if not isinstance(table, dict):
        raise ValueError("is not a table")
    if reason := next((_NEEDS_MORE[key] for key in map(str.lower, table) if key in _NEEDS_MORE), None):
        raise ValueError(reason)
    if table.get("skipReport"):
        raise ValueError("only other rules use it (skipReport)")
    rest = {key: value for key, value in table.items() if key.lower() not in ("allowlist", "allowlists")}
    rest["allowlists"] = [*_allowlists(table)]
    if "filter" in table:
        said = read_filter(str(table["filter"]))
        rest["allowlists"] += said.allowlists
        rest.setdefault("entropy", said.entropy)
    read = read_table(RuleTable, rest, known_only=True)
    applying: list[AllowlistTable] = [
        each for each in shared if not each.target_rules or read.id in each.target_rules
    ]
    return make_rule(name, read, applying)


def _allowlists(table: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the allowlists of a file or of a rule, in the present and the earlier form."""
    for key, value in table.items():
        if key.lower() == "allowlist":
            yield value
        elif key.lower() == "allowlists":
            yield from value if isinstance(value, list) else [value]


def _unsupported(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the parts of a file that have no effect, with the reasons."""
    if "extend" in document:
        yield "[extend]", 'other files are not read; name them in "rules" as well'


def _shortened(reason: str) -> str:
    """Return a reason, which may quote a pattern, without its middle if it is long."""
    return reason if len(reason) <= _LONGEST_REASON else f"{reason[:200]} … {reason[-100:]}"


def _name_of(table: Any, number: int) -> str:
    name = table.get("id") if isinstance(table, dict) else None
    return name[:200] if isinstance(name, str) and name else f"rule {number}"


def _read_text(path: Path) -> str:
    try:
        with open(path, "rb", opener=open_at_once) as file:
            data = file.read(_MAX_BYTES + 1)
        text = data.decode()
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}; check the path") from None
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8") from None
    if len(data) > _MAX_BYTES:
        raise ValueError(f"is larger than {_MAX_BYTES} bytes; split it")
    return text


def _parsed(text: str) -> dict[str, Any]:
    """Parse TOML. Raises ValueError."""
    keys = _STRING_OR_COMMENT.sub("s", text)
    if _LONG_KEY.search(keys):  # the parser takes the square of its length
        raise ValueError("is not valid TOML: a key has more than 16 parts")
    try:
        return tomllib.loads(text)
    except ValueError as error:  # also for a number with too many digits
        raise ValueError(f"is not valid TOML: {error}") from None
    except RecursionError:
        raise ValueError("is not valid TOML: it nests too deeply") from None


class _Bounds:
    """Counts the rules of a policy. Those beyond the bounds are not used: they would make searches slow."""

    def __init__(self) -> None:
        self._rules = self._words = self._general = 0
        self._by_head: Counter[bytes] = Counter()

    def within(self, rules: RuleSet) -> RuleSet:
        """Return the set with the rules beyond the bounds as unusable."""
        kept: list[Rule] = []
        unusable = list(rules.unusable)
        for rule in rules.rules:
            if reason := self._exceeded(rule):
                unusable.append(UnusableRule(rules.source, rule.table.id, reason))
            else:
                kept.append(rule)
        return RuleSet(rules.source, tuple(kept), tuple(unusable))

    def _exceeded(self, rule: Rule) -> str:
        """Count a rule. Returns the reason why it is not used, or an empty string."""
        words = first_words(rule.pattern)
        heads = heads_of(words) if words else frozenset()
        if self._rules == _MAX_RULES:
            return f"there are more than {_MAX_RULES} rules"
        if words is None and self._general == _MAX_GENERAL:
            return f"more than {_MAX_GENERAL} rules begin with any characters, which makes searches slow"
        if words and self._words + len(words) > _MAX_WORDS:
            return f"all rules together begin in more than {_MAX_WORDS} ways"
        if any(self._by_head[head] == _MAX_ALIKE for head in heads):
            return f"more than {_MAX_ALIKE} rules begin with the same characters"
        self._rules += 1
        self._general += words is None
        self._words += len(words or ())
        self._by_head.update(heads)
        return ""
