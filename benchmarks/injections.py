"""How many injected instructions the policy `injections` finds, and how many ordinary results it marks.

    python -m benchmarks.injections [FILE ...] [--folder FOLDER ...] [--cost] [--threshold POINTS]

FILE has labelled results as JSON lines: objects with `attack` (a boolean), `kind` (a name) and `result` (any
JSON value, as a tool returns it). The texts in FOLDER, such as those of installed packages, count as ordinary
results. `--cost` compares the processor time with that of the policy `redact` on the same texts.
"""

import argparse
import asyncio
import gzip
import inspect
import json
import sysconfig
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from time import process_time
from typing import Any

from hookgate.hooks import SessionContext
from hookgate.hooks.policies.injections.policy import injections_policy
from hookgate.hooks.policies.redact.policy import redact_policy
from hookgate.hooks.policy_environment import Policy, PolicyEnvironment

_LARGEST = 300_000
"""The size in bytes from which files are left out, as tools shorten them."""

Findings = Callable[[Any], dict[str, int]]


def main() -> None:
    arguments = _parser().parse_args()
    find = _findings(injections_policy({"threshold": arguments.threshold}, PolicyEnvironment(Path())))
    for file in arguments.file:
        print(_table(file, find))
    for folder in arguments.folder:
        print(_false_finds(folder, find))
    if arguments.cost:
        print(_cost([*_texts(Path(sysconfig.get_paths()["purelib"]))][:1000]))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, nargs="*")
    parser.add_argument("--folder", type=Path, action="append", default=[])
    parser.add_argument("--threshold", type=int, default=2)
    parser.add_argument("--cost", action="store_true")
    return parser


def _findings(policy: Policy) -> Findings:
    """Return a function that returns the findings in a result, by kind; none if it has too few points."""
    loop = asyncio.new_event_loop()

    def find(result: Any) -> dict[str, int]:
        output = loop.run_until_complete(_judged(policy, result))
        findings: dict[str, int] = (output or {}).get("hookSpecificOutput", {}).get("findings", {})
        return findings

    return find


async def _judged(policy: Policy, result: Any) -> dict[str, Any] | None:
    event = {"hook_event_name": "AfterTool", "tool_name": "tool", "tool_response": {"llmContent": result}}
    output = policy(event, SessionContext("s"))
    judged: dict[str, Any] | None = await output if inspect.isawaitable(output) else output
    return judged


def _table(file: Path, find: Findings) -> str:
    of: Counter[tuple[bool, str]] = Counter()
    marked: Counter[tuple[bool, str]] = Counter()
    for line in file.read_text(encoding="utf-8").splitlines():
        sample = json.loads(line)
        key = not sample["attack"], sample["kind"]
        of[key] += 1
        marked[key] += bool(find(sample["result"]))
    rows = []
    for is_ordinary in sorted({is_ordinary for is_ordinary, _ in of}):
        keys = [key for key in sorted(of) if key[0] == is_ordinary]
        title = "**ordinary, marked**" if is_ordinary else "**attacks, found**"
        rows.append(_row(title, sum(marked[key] for key in keys), sum(of[key] for key in keys)))
        rows += [_row(key[1], marked[key], of[key]) for key in keys]
    return "\n".join([f"\n| {file.stem} | |", "|---|---|", *rows])


def _row(title: str, part: int, whole: int) -> str:
    return f"| {title} | {part} of {whole} ({part / whole:.1%}) |"


def _false_finds(folder: Path, find: Findings) -> str:
    files, size, marked = 0, 0, {}
    for path, text in _files(folder):
        files, size = files + 1, size + len(text)
        if kinds := find(text):
            marked[path] = kinds
    rows = [f"  {path}: {', '.join(kinds)}" for path, kinds in marked.items()]
    per_megabyte = len(marked) / max(size / 1e6, 1e-6)
    share = f"{len(marked)} of {files} texts are marked"
    head = f"\n{folder}: {share} ({size / 1e6:.0f} MB, {per_megabyte:.2f} per MB)"
    return "\n".join([head, *rows])


def _files(folder: Path) -> Iterator[tuple[Path, str]]:
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.is_symlink() or path.stat().st_size > _LARGEST:
            continue
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = gzip.decompress(data)
        if b"\0" not in data:
            yield path, data.decode(errors="replace")


def _texts(folder: Path) -> Iterator[str]:
    return (text for _, text in _files(folder))


def _cost(texts: list[str]) -> str:
    size = sum(map(len, texts)) / 1024
    times = {}
    for name, factory in (("injections", injections_policy), ("redact", redact_policy)):
        policy = factory({}, PolicyEnvironment(Path()))
        find = _findings(policy)
        find("warm up")
        start = process_time()
        for text in texts:
            find(text)
        times[name] = (process_time() - start) / size * 1e6
    ratio = times["injections"] / times["redact"]
    return f"\nProcessor time per KiB: {times['injections']:.0f} us, {ratio:.1f} times that of redact"


if __name__ == "__main__":
    main()
