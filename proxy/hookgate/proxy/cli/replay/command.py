"""`hookgate replay`: applies another policy to recorded calls, and reports what would change."""

import argparse
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path

from hookgate.hooks import Engine, load_settings
from hookgate.hooks.policies import BUILTINS
from hookgate.hooks.policies.counters import MemoryCounters
from hookgate.hooks.policies.limits import limits_policy
from hookgate.hooks.runner_factory import make_runners
from hookgate.proxy.cli.replay.recordings import CallStart, RecordedCall, read_export
from hookgate.proxy.cli.replay.replaying import Replay, ReplayClock
from hookgate.proxy.cli.terminal import add_quiet_flag, progress
from hookgate.proxy.errors import pluralize
from hookgate.proxy.observe.outcomes import JUDGED
from hookgate.proxy.observe.record import CallRecord, make_receipt
from hookgate.proxy.observe.usage import read_prices
from hookgate.translator.fields import JsonObject, read_object

_MAX_COUNTS = 1_000_000
"""The maximum number of counts of limits to keep. A gateway keeps them in its database."""


SAMPLES = 5
"""The number of receipts that the report names for each change."""

Rule = tuple[str, str]
"""An event and the name of one of its hooks."""


@dataclass(slots=True)
class ReplayChange:
    """A change in a rule's decision or in the outcome, with the number of calls and sample receipt IDs."""

    count: int = 0
    samples: list[str] = field(default_factory=list)

    def add(self, receipt: str) -> None:
        self.count += 1
        if len(self.samples) < SAMPLES:
            self.samples.append(receipt)


@dataclass(slots=True)
class ReplayReport:
    """The result of replaying all recorded calls."""

    replayed: int = 0
    unchanged: int = 0
    without_content: int = 0
    """Calls that cannot be replayed, because the audit did not store their content."""
    refused: int = 0
    """Calls that hookgate refused before any hook ran, so that no policy can change their outcome."""
    cannot_say: ReplayChange = field(default_factory=ReplayChange)
    """Calls whose hooks saw more than the audit stored, so that their decisions cannot be compared."""
    failed: Counter[str] = field(default_factory=Counter)
    """The number of calls in which a hook failed, by hook."""
    rules: dict[Rule, dict[str, ReplayChange]] = field(default_factory=dict)
    """The changes of decisions by rule, as `old → new`."""
    outcomes: dict[str, ReplayChange] = field(default_factory=dict)
    """The changes of outcomes, as `old → new`."""

    def add(self, was: RecordedCall, now: CallRecord) -> None:
        """Compare one recorded call with its replay."""
        self.replayed += 1
        hooks = make_receipt(now)["hooks"]
        before, after = _decisions_by_rule(was.hooks), _decisions_by_rule(hooks)
        unsure = was.masked and any(map(_reads_content, (*was.hooks, *hooks)))
        changed = False
        ends_earlier = now.outcome not in _WITH_ANSWER  # later hooks do not run then, which is not a change
        for rule in sorted(after.keys() if ends_earlier else before.keys() | after.keys()):
            old, new = before.get(rule, "did not run"), after.get(rule, "does not run")
            if unsure and not _is_stricter(new, old):
                continue
            if old != new and {old, new} - {"did not run", "does not run", "allow"}:
                self.rules.setdefault(rule, {}).setdefault(f"{old} → {new}", ReplayChange()).add(was.id)
                changed = True
        may_say = not unsure or _is_stricter(str(now.outcome), was.outcome)
        if may_say and not was.event and was.outcome in JUDGED and was.outcome != now.outcome:
            self.outcomes.setdefault(f"{was.outcome} → {now.outcome}", ReplayChange()).add(was.id)
            changed = True
        if unsure and not changed:
            self.cannot_say.add(was.id)
        else:
            self.unchanged += not changed
        for tally in now.hooks.values():
            self.failed[tally.hook] += bool(tally.failures)

    def as_json(self) -> JsonObject:
        """Return the report as a JSON object."""
        return {
            "replayed": self.replayed,
            "unchanged": self.unchanged,
            "without_content": self.without_content,
            "refused": self.refused,
            "cannot_say": {"calls": self.cannot_say.count, "receipts": self.cannot_say.samples},
            "failed": {hook: count for hook, count in self.failed.items() if count},
            "outcomes": _listed(self.outcomes),
            "rules": [
                {"event": event, "hook": hook, "changes": _listed(changes)}
                for (event, hook), changes in self.rules.items()
            ],
        }


_WITH_ANSWER = ("answered", "blocked")
"""Outcomes of calls whose answer from the model has passed all hooks."""


_WITHOUT_CONTENT = frozenset({"builtin:models", "builtin:limits"})
"""The types of hooks that do not read what a call says."""

_STRICTEST_LAST = (
    *("allow", "answered", "edit", "ask", "answer", "blocked", "synthetic", "deny", "denied", "stop"),
    "stopped",
)
"""The words for decisions and outcomes."""


def _reads_content(hook: JsonObject) -> bool:
    return hook.get("type") not in _WITHOUT_CONTENT


def _is_stricter(new: str, old: str) -> bool:
    """Return whether a decision or outcome in words is stricter than another one."""

    def strictness(text: str) -> int:
        words = re.findall("[a-z]+", text)
        return max((_STRICTEST_LAST.index(word) for word in words if word in _STRICTEST_LAST), default=0)

    return strictness(new) > strictness(old)


def _listed(changes: dict[str, ReplayChange]) -> list[JsonObject]:
    return [
        {"change": what, "calls": change.count, "receipts": change.samples}
        for what, change in sorted(changes.items(), key=lambda each: -each[1].count)
    ]


def _decisions_by_rule(hooks: Iterable[JsonObject]) -> dict[Rule, str]:
    """Return a short description of what each rule did in a call."""
    return {(str(hook.get("event")), str(hook.get("hook"))): _words(hook) for hook in hooks}


def _words(hook: JsonObject) -> str:
    decisions = read_object(hook, "decisions")
    said = next((each for each in ("stop", "deny", "answer", "ask") if decisions.get(each)), "allow")
    if hook.get("failures"):
        said = f"{said}, failed"
    findings = ", ".join(f"{kind} {count}" for kind, count in sorted(read_object(hook, "findings").items()))
    if hook.get("edits"):
        said = "edit" if said == "allow" else f"{said}, edit"
    return f"{said} ({findings})" if findings else said


def add_replay(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `hookgate replay`."""
    parser.add_argument(
        "--policy",
        type=Path,
        nargs="+",
        action="extend",
        required=True,
        metavar="FILE",
        help="settings files with the hooks to try, highest precedence first",
    )
    parser.add_argument(
        "--prices",
        type=Path,
        metavar="FILE",
        help="a price table, for limits on cost (default: the one that comes with hookgate)",
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON, for programs")
    add_quiet_flag(parser)
    parser.add_argument(
        "export",
        type=Path,
        nargs="*",
        metavar="AUDIT",
        help="a file that `hookgate audit export` has written",
    )


def files_of(args: argparse.Namespace) -> tuple[list[Path], list[Path]]:
    """Return the settings files and the exports. Raises ValueError if either is missing.

    A flag takes all words that follow it, including those for exports. Exports are the files from the first
    `.jsonl` on, or else the last file.
    """
    files: list[Path] = args.policy
    if args.export:
        return files, args.export
    first = next((at for at, path in enumerate(files) if path.suffix == ".jsonl"), len(files) - 1)
    if first == 0:
        raise ValueError("settings or an export are missing: hookgate replay --policy FILE… AUDIT.jsonl…")
    return files[:first], files[first:]


async def run_replay(args: argparse.Namespace) -> int:
    """Replay all calls and print the report. Raises ValueError if a file cannot be used."""
    policies, exports = files_of(args)
    configuration = load_settings(policies)
    prices = read_prices(args.prices)
    clock = ReplayClock()
    runners = make_runners(
        configuration.hooks(),
        http_targets=configuration.http_targets,
        builtins={**BUILTINS, "limits": partial(limits_policy, clock=clock)},
        counters=MemoryCounters(clock, _MAX_COUNTS),
        prices=prices,
    )
    engine = Engine(configuration, runners)
    try:
        with progress("replaying", sum(map(_size, exports)), "bytes", quiet=args.quiet) as read:
            records = chain.from_iterable(read_export(path, read) for path in exports)
            report = await _replay(Replay(engine, clock, prices), records)
    finally:
        await engine.close()
    print(json.dumps(report.as_json(), indent=2, ensure_ascii=False) if args.json else _report_text(report))
    return 0


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


async def _replay(replay: Replay, records: Iterator[CallStart | RecordedCall]) -> ReplayReport:
    report = ReplayReport()
    for recorded in records:
        if isinstance(recorded, CallStart):
            await replay.begin(recorded)
        elif recorded.outcome == "refused" and not recorded.hooks:
            await replay.end(recorded)
            report.refused += 1
        elif (recorded.event and recorded.request is None) or (now := await replay.end(recorded)) is None:
            report.without_content += 1
        else:
            report.add(recorded, now)
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
    return [f"  {change.count:>6}  {what}    e.g. {', '.join(change.samples)}" for what, change in most_first]
