"""`hookgate replay`: recorded calls through another policy, and what would change."""

import argparse
import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from hookgate.hooks import Engine, load_settings
from hookgate.hooks.kinds.making import make_runners
from hookgate.proxy.managing.progress import progress
from hookgate.proxy.prices import read_prices
from hookgate.proxy.replay.arguments import files_of
from hookgate.proxy.replay.comparing import Change, Report
from hookgate.proxy.replay.recorded import Recorded, read_export
from hookgate.proxy.replay.replaying import replayed
from hookgate.proxy.wording import counted


async def run(given: argparse.Namespace) -> int:
    """Replay all and print the report. Raises ValueError for files that cannot be used."""
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


async def _replay(engine: Engine, calls: Iterator[Recorded]) -> Report:
    report = Report()
    for recorded in calls:
        if recorded.request is None and recorded.outcome == "refused" and not recorded.hooks:
            report.refused += 1
        elif recorded.request is None:
            report.without_content += 1
        else:
            report.add(recorded, await replayed(engine, recorded))
    return report


def _shown(report: Report) -> str:
    """The report for people."""
    replayed = counted(report.replayed, "call or event", "calls and events")
    lines = [f"{replayed} replayed, {report.unchanged} unchanged."]
    if report.without_content:
        lines.append(f'{report.without_content} left out: recorded without content (audit.content = "off").')
    if report.refused:
        lines.append(f"{report.refused} left out: refused before any hook.")
    lines += [
        f"The hook {hook!r} failed in {count} of them." for hook, count in report.failed.items() if count
    ]
    if report.outcomes:
        lines += ["", "How calls end:", *_changes(report.outcomes)]
    for (event, hook), changes in report.rules.items():
        lines += ["", f"{event} {hook}:", *_changes(changes)]
    return "\n".join(lines)


def _changes(changes: dict[str, Change]) -> list[str]:
    most_first = sorted(changes.items(), key=lambda each: -each[1].count)
    return [f"  {change.count:>6}  {what}    e.g. {', '.join(change.samples)}" for what, change in most_first]
