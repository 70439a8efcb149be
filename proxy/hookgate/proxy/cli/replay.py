"""`hookgate replay`: applies another policy to recorded calls, and reports what would change."""

import argparse
import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from hookgate.hooks.settings import SettingsSource, load_sources
from hookgate.proxy.cli.terminal import progress
from hookgate.proxy.config import read_config
from hookgate.proxy.errors import pluralize
from hookgate.proxy.observe.logs import escape_controls
from hookgate.proxy.observe.usage import read_prices
from hookgate.proxy.policy import read_all_sources
from hookgate.proxy.replay.recordings import RecordedEnd, RecordedStart, read_export
from hookgate.proxy.replay.replaying import Replay, ReplayClock, replaying_engine
from hookgate.proxy.replay.report import ReplayChange, ReplayReport


def files_of(given: argparse.Namespace) -> tuple[list[Path], list[Path]]:
    """Return the settings files, if any are given, and the exports. Raises ValueError if these are missing.

    A flag takes all words that follow it, including those for exports. Exports are the files from the first
    `.jsonl` on, or else the last file.
    """
    files: list[Path] = given.policy or []
    if given.export:
        return files, given.export
    if not files:
        raise ValueError("an export is missing: hookgate replay AUDIT.jsonl…")
    first = next((at for at, path in enumerate(files) if path.suffix == ".jsonl"), len(files) - 1)
    if first == 0:
        raise ValueError("settings or an export are missing: hookgate replay --policy FILE… AUDIT.jsonl…")
    return files[:first], files[first:]


async def run_replay(given: argparse.Namespace) -> int:
    """Replay all calls and print the report. Raises ValueError if a file cannot be used."""
    policies, exports = files_of(given)
    config = read_config(vars(given)).config
    if policies:
        # As policy files, whose defaults differ from those of other settings: a hook that fails denies.
        sources = [SettingsSource(path, "policy") for path in policies]
    else:
        sources = read_all_sources(config).places()
    configuration = load_sources(sources)
    prices = read_prices(given.prices or config.prices.file)
    clock = ReplayClock()
    engine = replaying_engine(configuration, clock, prices)
    try:
        with progress("replaying", sum(map(_size, exports)), "bytes", quiet=given.quiet) as read:
            records = chain.from_iterable(read_export(path, read) for path in exports)
            report = await _replay(Replay(engine, clock, prices), records)
    finally:
        await engine.close()
    print(json.dumps(report.as_json(), indent=2, ensure_ascii=False) if given.json else _report_text(report))
    return 0


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


async def _replay(replay: Replay, records: Iterator[RecordedStart | RecordedEnd]) -> ReplayReport:
    report = ReplayReport()
    for recorded in records:
        await replay.compare(recorded, report)
    return report


def _report_text(report: ReplayReport) -> str:
    """Return the report as text."""
    replayed = pluralize(report.replayed, "call or event", "calls and events")
    lines = [f"{replayed} replayed, {report.unchanged} unchanged."]
    if report.without_content:
        lines.append(f'{report.without_content} left out: recorded without content (audit.content = "off").')
    if report.refused:
        lines.append(f"{report.refused} left out: refused before any hook ran.")
    if count := report.cannot_say.count:
        lines.append(
            f"{count} cannot be compared: hooks saw more than the audit stored "
            f'(audit.content = "redacted").    e.g. {", ".join(report.cannot_say.samples)}'
        )
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
    return [
        line
        for what, change in most_first
        for line in (
            f"  {change.count:>6}  {what}    e.g. {', '.join(change.samples)}",
            *(f"          {escape_controls(reason, keep_lines=False)}" for reason in change.reasons),
        )
    ]
