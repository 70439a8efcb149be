"""Generate docs/claims.md from the claims of the published hook documents, and the tests that run them.

python docs/generators/claims_table.py > docs/claims.md
"""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_CLAIMS = Path(__file__).parents[2] / "tests" / "conformance" / "claims.toml"

_INTRODUCTION = """\
# What the hook documents promise

<!-- Made by: python docs/generators/claims_table.py > docs/claims.md -->

Five published documents describe hooks: two of TerminaI, and three of Gemini CLI. They disagree in places.
This page lists {count} of their claims that can be checked, in our own words, and says of each whether it is
true of hookgate. {different} claims differ, each for a stated reason. Every claim has a test, which runs in
the project's own test suite. [Hooks](hooks.md) and the [Reference](reference.md) describe what hookgate does.
"""


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim of the documents. `file` and `test` name the test; `differs` is a reason, or empty."""

    text: str
    file: str
    test: str
    differs: str = ""


def read_claims(path: Path = _CLAIMS) -> dict[str, list[Claim]]:
    """Return the claims by group, in order."""
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    places = document["places"]
    groups: dict[str, list[Claim]] = {}
    for group in document["group"]:
        for text, where, *reason in group["claims"]:
            place, _, test = where.partition("::")
            groups.setdefault(group["name"], []).append(Claim(text, places[place], test, *reason))
    return groups


def claims_table() -> str:
    """Return the page as Markdown."""
    groups = read_claims()
    claims = [claim for group in groups.values() for claim in group]
    different = sum(bool(claim.differs) for claim in claims)
    introduction = _INTRODUCTION.format(count=len(claims), different=different)
    return "\n".join([introduction, *(line for name in groups for line in _section(name, groups[name]))])


def _section(name: str, claims: list[Claim]) -> Iterator[str]:
    yield f"## {name}\n"
    yield "| claim | hookgate | test |"
    yield "| --- | --- | --- |"
    for claim in claims:
        answer = f"differs: {claim.differs}" if claim.differs else "works"
        yield f"| {claim.text} | {answer} | [`{claim.test}`](../{claim.file}) |"
    yield ""


if __name__ == "__main__":
    print(claims_table(), end="")
