"""Redaction of text: speed, what a stream has to wait for, and how well the detectors detect."""

import base64
import json
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.payloads import WORDS
from tests.support.texts.secrets import LOOKALIKES, PLANTED, fragments, mask, planted

from hookgate.hooks.policies.redact import SENSITIVE, ReplacedFragment, Scanner, TextRedactor

SHARED = Path(__file__).parents[2] / "shared" / "wire"
MEGABYTE = 1_000_000
TAIL = 256
EVENT = 100
ROUNDS = 5
SAMPLES = 300

CRAFTED = ("4111111111111112 ", "password=abcdefg1 ", "eyJ-", "-----BEGIN ", "a@b.", "4", "+49 30 ")


def main() -> None:
    began = time.perf_counter()
    scanner = Scanner(SENSITIVE)
    print(f"redaction: {len(SENSITIVE)} detectors, compiled in {(time.perf_counter() - began) * 1e3:.0f} ms")
    speed(scanner)
    waiting(scanner)
    quality(scanner)


def speed(scanner: Scanner) -> None:
    rnd = random.Random(1)  # noqa: S311  # texts of a benchmark
    secrets = "".join(planted(seed, rnd.choice(list(PLANTED)))[0] + WORDS * 6 for seed in range(200))
    texts = {"clean words": WORDS, "clean code": Path(__file__).read_text(), "with secrets": secrets}
    texts["base64"] = base64.b64encode(rnd.randbytes(MEGABYTE)).decode()
    texts |= {f"crafted: {unit}": unit for unit in CRAFTED}
    print("redaction: a text of 1 MB in one piece")
    for name, text in texts.items():
        whole = (text * (MEGABYTE // len(text) + 1))[:MEGABYTE]
        times = [_seconds(scanner, [whole]) for _ in range(ROUNDS if "crafted" not in name else 2)]
        print(f"  {name:46} {min(times) * 1e3:9.1f} ms")
    events = [WORDS[i % 40 :] + WORDS[: i % 40] for i in range(2000)]
    per_event = min(_seconds(scanner, [e[:EVENT] for e in events]) for _ in range(ROUNDS)) / len(events)
    print(f"redaction: an event of {EVENT} characters\n  {'feed':46} {per_event * 1e6:9.1f} us\n")


def _seconds(scanner: Scanner, chunks: Iterable[str]) -> float:
    redactor = TextRedactor(scanner, mask)
    begin = time.perf_counter()
    for chunk in chunks:
        redactor.feed(chunk)
    redactor.finish()
    return time.perf_counter() - begin


def waiting(scanner: Scanner) -> None:
    """What a reader waits for, beside the two usual ways: a tail of fixed length, and the whole answer."""
    streams = list(_captured()) or [_generated(seed) for seed in range(20)]
    print(f"redaction: {len(streams)} streams, {sum(map(len, streams))} events, what is held after an event")
    ways = {"what is undecided": [_held(scanner, stream) for stream in streams]}
    totals = [_sums(map(len, stream)) for stream in streams]
    ways[f"the last {TAIL} characters"] = [[min(TAIL, come) for come in total] for total in totals]
    ways["all of it"] = totals
    for name, held in ways.items():
        after = [count for stream in held for count in stream]
        waits = max(_longest_wait(total, kept) for total, kept in zip(totals, held, strict=True))
        print(
            f"  {name:30} mean {statistics.mean(after):8.1f} characters   at most {max(after):6}"
            f"   longest wait {waits:3} events"
        )
    print()


def _captured() -> Iterator[list[str]]:
    for file in sorted((SHARED / "responses").glob("*/streaming-*.txt")):
        lines = file.read_text().splitlines()
        events = [json.loads(line[5:]) for line in lines if line.startswith("data:")]
        texts = [text for event in events if (text := "".join(_texts(event)))]
        if len(texts) > 1:
            yield texts


def _texts(event: dict[str, Any]) -> Iterator[str]:
    for candidate in event.get("candidates", []):
        for part in candidate.get("content", {}).get("parts", []):
            yield part.get("text", "")


def _generated(seed: int) -> list[str]:
    rnd = random.Random(seed)  # noqa: S311  # texts of a benchmark
    text = WORDS * 30
    return [text[at : at + rnd.randrange(5, EVENT)] for at in range(0, len(text), EVENT)]


def _held(scanner: Scanner, stream: list[str]) -> list[int]:
    redactor, held = TextRedactor(scanner, mask), []
    for event in stream:
        redactor.feed(event)
        held.append(len(redactor.held))
    return held


def _sums(counts: Iterable[int]) -> list[int]:
    total, sums = 0, []
    for count in counts:
        total += count
        sums.append(total)
    return sums


def _longest_wait(come: list[int], held: list[int]) -> int:
    """In events: how long the first held character, after each, has been held or will be."""
    gone = [total - kept for total, kept in zip(come, held, strict=True)]
    ends = [next((j for j in range(i, len(gone)) if gone[j] >= come[i]), len(gone)) for i in range(len(come))]
    return max(end - i for i, end in enumerate(ends))


def quality(scanner: Scanner) -> None:
    """By kind: found of those planted, and right among what was found there and in the look-alikes."""
    right, wrong, total = defaultdict(int), defaultdict(int), defaultdict(int)
    for label in PLANTED:  # what is found around a secret as well counts as right
        kind = label.split()[0]
        for seed in range(SAMPLES):
            text, secret = planted(seed, label)
            found = [each for each in fragments(scanner, [text]) if isinstance(each, ReplacedFragment)]
            total[kind] += 1
            right[kind] += any(fragment.kind == kind and secret in fragment.original for fragment in found)
            for fragment in found:
                wrong[fragment.kind] += fragment.kind != kind or secret not in fragment.original
    false = {name: _false_alarms(scanner, name) for name in LOOKALIKES}
    for kinds in false.values():
        for kind, count in kinds.items():
            wrong[kind] += count
    print(f"redaction: {SAMPLES} texts with a planted secret of each sort")
    for kind in total:
        precision = right[kind] / (right[kind] + wrong[kind])
        print(f"  {kind:24} recall {right[kind] / total[kind]:6.1%}   precision {precision:6.1%}")
    print(f"redaction: look-alikes with a finding, of {SAMPLES} each")
    for name, kinds in false.items():
        print(f"  {name:24} {sum(kinds.values()):4}   {', '.join(sorted(kinds))}")


def _false_alarms(scanner: Scanner, name: str) -> dict[str, int]:
    kinds: dict[str, int] = defaultdict(int)
    for seed in range(SAMPLES):
        rnd = random.Random(seed)  # noqa: S311  # texts of a benchmark
        text = f"see {LOOKALIKES[name](rnd)} there"
        found = [each.kind for each in fragments(scanner, [text]) if isinstance(each, ReplacedFragment)]
        if found:
            kinds[found[0]] += 1
    return kinds


if __name__ == "__main__":
    main()
