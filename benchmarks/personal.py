"""How well redaction finds personal data that others collected: `python -m benchmarks.personal [FILE]`.

The first table counts the data of a file by kind, by default `../shared/corpora/personal.jsonl`, without and
with telephone numbers of the 40 largest economies. A number or address is hidden if no run of 60 % of it, at
least six characters, is left. The second counts what is found in real files, which have no personal data but
that of authors.
"""

import json
import sys
import time
from collections import Counter
from pathlib import Path

from benchmarks.credentials import COLLECTED, MATERIAL, MEGABYTE, SHOWN, files, is_left
from tests.support.texts.countries import LARGEST_ECONOMIES
from tests.support.texts.secrets import fragments, redacted

from hookgate.hooks.policies.redact import DETECTORS, ReplacedFragment, Scanner
from hookgate.hooks.policies.redact.detectors.checks import is_iban, luhn
from hookgate.hooks.policies.redact.detectors.phones import phones_of

FILE = COLLECTED.with_name("personal.jsonl")
SHORTEST = 6
PERSONAL = [detector for detector in DETECTORS if detector.group in ("personal", "network")]


def main() -> None:
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else FILE
    began = time.perf_counter()
    phones = phones_of(LARGEST_ECONOMIES)
    taken = time.perf_counter() - began
    print(f"personal: plans of {len(LARGEST_ECONOMIES)} countries in {taken * 1e3:.0f} ms\n")
    without, everywhere = Scanner(PERSONAL), Scanner([*PERSONAL, *phones])
    if file.exists():
        print(collected(without, everywhere, file))
    clean(without, everywhere)


def collected(without: Scanner, everywhere: Scanner, file: Path) -> str:
    """Return a table of what is hidden by kind, and list everything else."""
    total: Counter[str] = Counter()
    hidden: dict[Scanner, Counter[str]] = {without: Counter(), everywhere: Counter()}
    valid: Counter[str] = Counter()
    for line in file.read_text().splitlines():
        each = json.loads(line)
        outputs = {scanner: redacted(scanner, each["text"]) for scanner in hidden}
        for span in each["spans"]:
            kind, value = span["kind"], span["value"]
            total[kind] += 1
            valid[kind] += is_valid(kind, value)
            for scanner, out in outputs.items():
                hidden[scanner][kind] += not is_left(value, out, SHORTEST)
            if is_left(value, outputs[everywhere], SHORTEST):
                print(f"missed {kind}: {value!r} in {each['text'][:SHOWN]!r}", file=sys.stderr)
    table = "| kind | collected | valid | hidden | hidden with `phones` |\n|---|---|---|---|---|\n"
    for kind, count in total.items():
        cells = (f"{of[kind]} ({of[kind] / count:.0%})" for of in hidden.values())
        table += f"| {kind} | {count} | {valid[kind]} | {' | '.join(cells)} |\n"
    return table


def is_valid(kind: str, value: str) -> bool:
    """Whether the check digits are right, if there are any."""
    if kind == "CREDIT_CARD":
        return luhn([int(digit) for digit in value if digit.isdigit()])
    return is_iban(value) if kind == "IBAN_CODE" else True


def clean(without: Scanner, everywhere: Scanner) -> None:
    """Count by kind what is found in real files."""
    whole, took = 0, Counter[Scanner]()
    kinds: dict[Scanner, Counter[str]] = {without: Counter(), everywhere: Counter()}
    for folder, limit in MATERIAL.values():
        for file, text in files(folder, limit):
            whole += len(text)
            for scanner, found in kinds.items():
                began = time.process_time()
                replaced = [each for each in fragments(scanner, [text]) if isinstance(each, ReplacedFragment)]
                took[scanner] += time.process_time() - began
                found.update(fragment.kind for fragment in replaced)
                for fragment in replaced if scanner is everywhere else ():
                    if fragment.kind not in ("EMAIL", "IP_ADDRESS"):
                        print(
                            f"found {fragment.kind} {fragment.original[:SHOWN]!r} in {file}", file=sys.stderr
                        )
    print(f"| kind | per MB of {whole / MEGABYTE:.0f} MB | with `phones` |\n|---|---|---|")
    for kind, count in kinds[everywhere].most_common():
        before = kinds[without][kind]
        print(f"| {kind} | {before / whole * MEGABYTE:.2f} | {count / whole * MEGABYTE:.2f} |")
    speeds = (f"{took[scanner] / whole * 1e9:.0f} ms" for scanner in kinds)
    print(f"| time per MB | {' | '.join(speeds)} |")


if __name__ == "__main__":
    main()
