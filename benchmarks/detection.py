"""How well redaction detects in what tools print: `python -m benchmarks.detection`."""

import random
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.support.texts.corpora import CORPORA, left_of, material, secrets
from tests.support.texts.secrets import fragments

from hookgate.hooks.policies.redact import SENSITIVE, ReplacedFragment, Scanner

PLANTED = 500
SIZE = 3_000_000


def main() -> None:
    scanner = Scanner(SENSITIVE)
    only = sys.argv[1:]
    print(f"detection: {PLANTED} secrets of all kinds in what each tool prints of real files\n")
    print("| printed by | missed | text without secrets | findings in it | of them addresses |")
    print("|---|---|---|---|---|")
    for name, form in CORPORA.items():
        if only and name not in only:
            continue
        rnd = random.Random(name)  # noqa: S311  # texts of a benchmark
        lines = material(rnd, Path(sysconfig.get_paths()["purelib"]), SIZE)
        planted = secrets(rnd, PLANTED)
        with tempfile.TemporaryDirectory() as folder:
            text = form(rnd, Path(folder), lines, planted)
            clean = "\n".join(
                form(rnd, Path(folder), lines[at : at + 60], []) for at in range(0, len(lines), 60)
            )
        out = "".join(fragment.output for fragment in fragments(scanner, [text]))
        missed = [each for each in planted if left_of(each, out, encoded="kubectl" in name)]
        began = time.perf_counter()
        found = [each for each in fragments(scanner, [clean]) if isinstance(each, ReplacedFragment)]
        took = (time.perf_counter() - began) / len(clean) * 1e9
        kinds = Counter(fragment.kind for fragment in found)
        for fragment in found:
            if fragment.kind != "EMAIL":
                print(f"  found {fragment.kind} {fragment.original[:80]!r}", file=sys.stderr)
        size = len(clean) / 1e6
        print(f"| `{name}` | {len(missed)} | {size:.1f} MB | {len(found)} | {kinds['EMAIL']} |")
        print(f"  {took:.1f} ms per MB; {dict(kinds)}", file=sys.stderr)
        for each in missed[:20]:
            shown = left_of(each, out, encoded="kubectl" in name)[0]
            around = out[max(out.index(shown) - 60, 0) :][:160]
            print(f"  missed {each.label} {each.name} {each.text[:60]!r}: {around!r}", file=sys.stderr)


if __name__ == "__main__":
    main()
