"""How well redaction finds credentials of others: `python -m benchmarks.credentials [FILE [RULES]]`.

The first table counts those of a file, by default `../shared/corpora/credentials.jsonl`. One is hidden if no
run of 60 % of it, at least ten characters, is left. The second counts what is found in real files, by kind.
RULES is a file in the format of gitleaks, whose rules are used besides the built-in detectors.
"""

import json
import random
import re
import sys
import sysconfig
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.texts.secrets import fragments, redacted

from hookgate.hooks.policies.redact import ReplacedFragment, Scanner
from hookgate.hooks.policies.redact.detectors.credentials import CREDENTIALS
from hookgate.hooks.policies.redact.rules import read_rules

ROOT = Path(__file__).parents[1]
COLLECTED = ROOT.parent / "shared" / "corpora" / "credentials.jsonl"
MEGABYTE = 1_000_000
SHOWN = 60

DISTINCTIVE = re.compile(
    r"(?:[a-z]{1,8}|[A-Z]{1,8})\d{0,2}[_.-]|AKIA|EAA|ATATT|BBDC|ABSK|AKCp|cmVmd|dapi|pat\w{14}\.|oy2"
    r"|SK\w{32}$|AC\w{32}$|AIza|ya29|ey[JA]|\$\d|-----|SU[A-Z2-7]{56}|.*(?:\.atlasv1\.|NRAL$|\dQ~)|\d+:AA|\d+\|"
)
"""What begins the credentials whose format alone tells what they are."""

SUFFIXES = re.compile(r"\.(?:py|md|txt|js|mjs|json|rst|ts|toml|yaml|yml|html|css|lock)")
MATERIAL = {
    "installed packages": (Path(sysconfig.get_paths()["purelib"]), 12 * MEGABYTE),
    "Python's library": (Path(sysconfig.get_paths()["stdlib"]), 8 * MEGABYTE),
    "Node's modules": (Path("/usr/lib/node_modules"), 8 * MEGABYTE),
    "documentation": (Path("/usr/share/doc"), 4 * MEGABYTE),
    "documentation of hookgate": (ROOT / "docs", 2 * MEGABYTE),
    "locks": (ROOT / "tests" / "e2e", 2 * MEGABYTE),
}
"""By name, the folder and how much of it is read."""

LEFT_OUT = {"test", "tests", "site-packages"}
"""Folders below these that are not read: tests contain made-up keys, and packages are listed separately."""


def main() -> None:
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else COLLECTED
    rules = read_rules(sys.argv[2:], Path())
    detectors = (rule.detector() for each in rules for rule in each.rules)
    scanner = Scanner([*CREDENTIALS, *filter(None, detectors)])
    print(f"credentials: {len(CREDENTIALS)} rows, {len({row.kind for row in CREDENTIALS})} kinds\n")
    if file.exists():
        print(collected(scanner, file))
    clean(scanner)


def collected(scanner: Scanner, file: Path) -> str:
    """Return a table of how many of the collected credentials are hidden, and list all others."""
    hidden: Counter[str] = Counter()
    total: Counter[str] = Counter()
    missed: list[dict[str, Any]] = []
    for line in file.read_text().splitlines():
        each = json.loads(line)
        group = "format" if DISTINCTIVE.match(each["secret"]) else "name or text before it"
        total[group] += 1
        if is_left(each["secret"], redacted(scanner, each["text"])):
            missed.append(each)
        else:
            hidden[group] += 1
    for each in missed:
        print(f"missed {each['rule']}: {each['text'][:SHOWN]!r}", file=sys.stderr)
    counts = [(group, count, hidden[group]) for group, count in total.items()]
    counts.append(("both", total.total(), hidden.total()))
    rows = (f"| {group} | {count} | {found} ({found / count:.1%}) |\n" for group, count, found in counts)
    return "| recognized by its | collected | hidden |\n|---|---|---|\n" + "".join(rows)


def is_left(secret: str, out: str, shortest: int = 10) -> bool:
    """Whether a run of 60 % of the secret, at least `shortest` characters, can still be read."""
    size = min(max(shortest, -(-len(secret) * 6 // 10)), len(secret))
    return any(secret[at : at + size] in out for at in range(len(secret) - size + 1))


def clean(scanner: Scanner) -> None:
    """Count by kind what is found in real files, which have no secrets."""
    kinds: Counter[str] = Counter()
    whole = 0
    print("| text without secrets | size | false positives |\n|---|---|---|")
    for name, (folder, limit) in MATERIAL.items():
        size, found = 0, 0
        for file, text in files(folder, limit):
            size += len(text)
            for fragment in fragments(scanner, [text]):
                if isinstance(fragment, ReplacedFragment):
                    found += 1
                    kinds[fragment.kind] += 1
                    print(f"found {fragment.kind} {fragment.original[:SHOWN]!r} in {file}", file=sys.stderr)
        whole += size
        print(f"| {name} | {size / MEGABYTE:.1f} MB | {found} |")
    print(f"| all | {whole / MEGABYTE:.1f} MB | {kinds.total()} |\n")
    print("| kind | per MB |\n|---|---|")
    for kind, count in kinds.most_common():
        print(f"| {kind} | {count / whole * MEGABYTE:.2f} |")
    print(f"| all | {kinds.total() / whole * MEGABYTE:.2f} |")


def files(folder: Path, limit: int) -> Iterator[tuple[Path, str]]:
    """Text files under a folder in random order, up to a number of characters."""
    found = sorted(path for path in folder.rglob("*") if SUFFIXES.fullmatch(path.suffix) and path.is_file())
    random.Random(5).shuffle(found)  # noqa: S311  # files of a benchmark
    size = 0
    for path in found:
        if size < limit and not LEFT_OUT & {*path.relative_to(folder).parts}:
            try:
                text = path.read_text()[:200_000]
            except (UnicodeDecodeError, OSError):
                continue
            size += len(text)
            yield path, text


if __name__ == "__main__":
    main()
