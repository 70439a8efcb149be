"""What redaction hides of what others collected, by kind.

python -m benchmarks.collected > docs/detection.md
"""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from benchmarks.credentials import COLLECTED, collected, is_left
from benchmarks.personal import FILE, PERSONAL
from benchmarks.personal import collected as collected_personal
from tests.support.texts.countries import LARGEST_ECONOMIES
from tests.support.texts.secrets import fragments

from hookgate.hooks.policies.redact import ReplacedFragment, Scanner
from hookgate.hooks.policies.redact.detectors.credentials import CREDENTIALS
from hookgate.hooks.policies.redact.detectors.phones import phones_of

_INTRODUCTION = """\
# Figures of detection by kind

<!-- Made by: python -m benchmarks.collected > docs/detection.md -->

What [redaction](redaction-scope.md#how-well-it-detects) hides of credentials and personal data that others
collected. A credential is hidden if no run of 60 % of it, at least ten characters, is left.

## Credentials
"""

_WHY = {
    "cs:BASE64 encoded PEM Private Key": "a key in a document that is in base64",
    "cs:NewRelic Credentials": "public by design",
    "cs:Stripe Credentials": "public by design: publishable keys",
    "cs:Twilio Credentials": "public: the name of an account",
    "kingfisher.blogger.1": "the alphabet and digits in their order, which look made up",
    "kingfisher.gcp.1": "a name without a value, and digits without a name",
    "kingfisher.generic.5": "passwords of plain words, without a digit",
    "kingfisher.netrc.1": "the label is the host; the password is hidden",
    "kingfisher.odbc.1": "a password of plain words; a variable",
    "kingfisher.psexec.1": "the label is the user's name; passwords of plain words",
}
"""By rule, why its examples are not hidden."""


def main() -> None:
    print(page(), end="")


def page() -> str:
    """Return the page as Markdown."""
    scanner = Scanner(CREDENTIALS)
    kinds: Counter[str] = Counter()
    rules: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    for line in COLLECTED.read_text().splitlines():
        each = json.loads(line)
        rules[each["rule"]] += 1
        kind = _kind_of(scanner, each)
        if kind is None:
            missed[each["rule"]] += 1
        else:
            kinds[kind] += 1
    reasons = (f"{rule} | {count} of {rules[rule]} | {_WHY.get(rule, '')}" for rule, count in missed.items())
    everywhere = Scanner([*PERSONAL, *phones_of(LARGEST_ECONOMIES)])
    return "\n".join(
        [
            _INTRODUCTION,
            collected(scanner, COLLECTED),
            "Hidden, by the kind of the finding:\n",
            _table("kind | hidden", (f"{kind} | {count}" for kind, count in sorted(kinds.items()))),
            "Not hidden, by the rule of the collection. Values without a telling format, name or text are\n"
            "out of reach:\n",
            _table("rule | missed | why", reasons),
            "## Personal data\n",
            collected_personal(Scanner(PERSONAL), everywhere, FILE).rstrip("\n"),
            "",
        ]
    )


def _kind_of(scanner: Scanner, each: dict[str, Any]) -> str | None:
    """Return the kind of the finding that hides most of a collected credential. Returns None if none does."""
    found = list(fragments(scanner, [each["text"]]))
    if is_left(each["secret"], "".join(fragment.output for fragment in found)):
        return None
    begin = each["text"].find(each["secret"])
    end = begin + len(each["secret"])
    at, overlaps = 0, Counter[str]()
    for fragment in found:
        is_replaced = isinstance(fragment, ReplacedFragment)
        size = len(fragment.original if is_replaced else fragment.output)
        if is_replaced:
            overlaps[fragment.kind] += max(min(at + size, end) - max(at, begin), 0)
        at += size
    return overlaps.most_common(1)[0][0]


def _table(header: str, rows: Iterator[str]) -> str:
    line = "|---" * (header.count("|") + 1)
    return "\n".join([f"| {header} |", f"{line}|", *(f"| {row} |" for row in rows)]) + "\n"


if __name__ == "__main__":
    main()
