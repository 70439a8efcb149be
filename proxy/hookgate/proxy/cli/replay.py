"""`hookgate replay`: applies another policy to recorded calls, and reports what would change."""

import argparse
import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from hookgate.hooks import Engine, load_settings
from hookgate.hooks.runner_factory import make_runners
from hookgate.proxy.cli.replaying import RecordedCall, ReplayChange, ReplayReport, read_export, replay_call
from hookgate.proxy.cli.tables import progress
from hookgate.proxy.errors import pluralize
from hookgate.proxy.observe.usage import read_prices


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "--policy",
        type=Path,
        nargs="+",
        action="extend",
        required=True,
        metavar="FILE",
        help="settings files with the hooks to try, highest precedence first",
    )
    parser.add_argument("--prices", type=Path, metavar="FILE", help="a price table, for limits on cost")
    parser.add_argument("--json", action="store_true", help="print the report as JSON, for programs")
    parser.add_argument(
        "export",
        type=Path,
        nargs="*",
        metavar="AUDIT",
        help="a file that `hookgate audit export` has written",
    )


def files_of(given: argparse.Namespace) -> tuple[list[Path], list[Path]]:
    """Return the settings files and the exports. Raises ValueError if either is missing.

    A flag takes all words that follow it, also those for exports. Exports are the files from the first
    `.jsonl` on, or else the last file.
    """
    files: list[Path] = given.policy
    if given.export:
        return files, given.export
    first = next((at for at, path in enumerate(files) if path.suffix == ".jsonl"), len(files) - 1)
    if first == 0:
        raise ValueError("settings or an export are missing: hookgate replay --policy FILE… AUDIT.jsonl…")
    return files[:first], files[first:]


async def run_replay(given: argparse.Namespace) -> int:
    """Replay all calls and print the report. Raises ValueError if a file cannot be used."""
    policies, exports = files_of(given)
    configuration = load_settings(policies)
    prices = read_prices(given.prices)
    engine = Engine(configuration, make_runners(configuration.hooks(), prices=prices))
    try:
        with progress("replaying", sum(map(_size, exports))) as read:
            report = await _replay(engine, chain.from_iterable(read_export(path, read) for path in exports))
    finally:
        await engine.close()
    print(json.dumps(report.as_json(), indent=2, ensure_ascii=False) if given.json else _shown(report))
    return 0


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


async def _replay(engine: Engine, calls: Iterator[RecordedCall]) -> ReplayReport:
    report = ReplayReport()
    for recorded in calls:
        if recorded.request is None and recorded.outcome == "refused" and not recorded.hooks:
            report.refused += 1
        elif recorded.request is None:
            report.without_content += 1
        else:
            report.add(recorded, await replay_call(engine, recorded))
    return report


def _shown(report: ReplayReport) -> str:
    """Return the report as text."""
    replayed = pluralize(report.replayed, "call or event", "calls and events")
    lines = [f"{replayed} replayed, {report.unchanged} unchanged."]
    if report.without_content:
        lines.append(f'{report.without_content} left out: recorded without content (audit.content = "off").')
    if report.refused:
        lines.append(f"{report.refused} left out: refused before any hook ran.")
    lines += [
        f"The hook {hook!r} failed in {count} of them." for hook, count in report.failed.items() if count
    ]
    if report.outcomes:
        lines += ["", "Outcomes of calls:", *_changes(report.outcomes)]
    for (event, hook), changes in report.rules.items():
        lines += ["", f"{event} {hook}:", *_changes(changes)]
    return "\n".join(lines)


def _changes(changes: dict[str, ReplayChange]) -> list[str]:
    most_first = sorted(changes.items(), key=lambda each: -each[1].count)
    return [f"  {change.count:>6}  {what}    e.g. {', '.join(change.samples)}" for what, change in most_first]
