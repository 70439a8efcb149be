"""What is found: kinds of findings with points and patterns, which are in `rules.toml` beside this module."""

import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import re2  # type: ignore[import-untyped]  # it has no stubs

from hookgate.hooks.policies.options import compile_pattern


@dataclass(frozen=True, slots=True)
class InjectionKind:
    """A kind of findings."""

    about: str
    """What findings of this kind say."""
    points: int
    """How much a finding of this kind counts in a result."""
    patterns: tuple[str, ...] = ()
    """What is found in the plain spelling of a text. What has no patterns is found by other means."""


@dataclass(frozen=True, slots=True)
class InjectionFinding:
    """A place at which something of a kind was found."""

    at: int
    """The number of the first byte, in the plain spelling."""
    kind: str


_WORD = re.compile(r"\{([a-z_]+)\}")
_CONTINUED = "\n    "
"""What stands between the lines of a pattern."""


def _read_kinds() -> dict[str, InjectionKind]:
    """Return the kinds by their names."""
    text = files(__package__).joinpath("rules.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text)
    words = {name: word.replace(_CONTINUED, "") for name, word in table["words"].items()}

    def expanded(pattern: str) -> str:
        return _WORD.sub(lambda name: expanded(words[name[1]]), pattern.replace(_CONTINUED, ""))

    return {
        name: InjectionKind(kind["about"], kind["points"], tuple(map(expanded, kind.get("patterns", ()))))
        for name, kind in table["kinds"].items()
    }


KINDS: Mapping[str, InjectionKind] = _read_kinds()
"""All kinds by their names."""


def search(text: str, tools: Collection[str] = ()) -> Iterator[InjectionFinding]:
    """Yield what is found in a text in plain spelling. `tools` are the names of declared tools."""
    data = text.encode()
    for kind, pattern in _patterns():
        for match in pattern.finditer(data):
            yield InjectionFinding(match.start(), kind)
    if tools:
        # A name that is an ordinary word has to be called a tool.
        names = {name.casefold(): not name.isalpha() or not name[1:].islower() for name in tools}
        for match in compile_pattern(_ORDERED.replace(" ", r"\s")).finditer(data):
            name, called_tool = match[1].decode(), match[2]
            if names.get(name) or (called_tool and name in names):
                yield InjectionFinding(match.start(), "declared_tool")


_ORDERED = (
    r"\b(?:call|use|using|invoke|run|execute|trigger|with)(?: the| your| tool| function| named| called)* "
    r"['\"(]?([a-z][\w.-]*[a-z0-9])(?:['\")]* (tool|function)\b)?"
)


@cache
def _patterns() -> list[tuple[str, Any]]:
    """Return a pattern for each kind, as a search for many takes little longer than one for one."""
    options = re2.Options()
    options.max_mem = _MEMORY
    return [
        (name, re2.compile("|".join(f"(?:{each})" for each in kind.patterns).replace(" ", r"\s"), options))
        for name, kind in KINDS.items()
        if kind.patterns
    ]


_MEMORY = 1 << 26
"""The bytes that a pattern may take, so that searches need not forget what they have learned of it."""
