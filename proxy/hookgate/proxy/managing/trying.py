"""`hooks test`: hooks run on one event, and everything about it to see."""

import difflib
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from hookgate.hooks import Engine, Event, Run, Session
from hookgate.hooks.document import Document
from hookgate.hooks.events.reading import SAMPLES, event_of
from hookgate.hooks.kinds.builtin import PriceTable
from hookgate.hooks.kinds.making import make_runners
from hookgate.hooks.running import base_fields
from hookgate.hooks.settings import Configuration, Group
from hookgate.proxy.managing.loading import read_hooks
from hookgate.proxy.sources import Sources

_SESSION = Session("hookgate-test")


async def try_hooks(
    sources: Sources, name: str, only: str | None, given: Path | None, prices: PriceTable | None
) -> int:
    """Run the event's hooks and print input, output, time and the change they make; 1 when one failed."""
    hooks = read_hooks(sources)
    if only is not None:
        hooks.named(only)
    configuration = _narrowed(hooks.loaded.configuration, name, only)
    event = SAMPLES[name] if given is None else event_of(name, _document(given))
    engine = Engine(
        configuration,
        make_runners(
            configuration.hooks(),
            refusal=hooks.trust.refusal,
            http_targets=configuration.http_targets,
            prices=prices,
        ),
        refusal=hooks.trust.refusal,
    )
    try:
        outcome = await engine.fire(event, _SESSION)
    finally:
        await engine.close()
    if not outcome.runs:
        print(f"No {name} hook runs for this event; `hookgate hooks list` shows which there are.")
        return 1
    for run in outcome.runs:
        _print_run(run, event)
    verdict = outcome.verdict
    _print_outcome(verdict.decision, verdict.stop, verdict.reason)
    ends = verdict.stop or verdict.denied or verdict.synthetic
    if told := _difference(event, outcome.event) or ("" if ends else "The event goes on as it came."):
        print(told)
    return 1 if any(run.error for run in outcome.runs) else 0


def _narrowed(configuration: Configuration, name: str, only: str | None) -> Configuration:
    groups = []
    for group in configuration.for_event(name):
        hooks = tuple(hook for hook in group.hooks if only in (None, hook.name))
        if hooks:
            groups.append(Group(hooks, group.sequential, group.matcher))
    return replace(configuration, groups={name: tuple(groups)})


def _document(path: Path) -> dict[str, Any]:
    text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
    try:
        document = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{path}: is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise ValueError(f"{path}: has to hold an object")
    return document


def _print_run(run: Run, event: Event) -> None:
    print(f"=== {run.hook.name} ({run.hook.config.type}, {run.seconds * 1000:.1f} ms)")
    fields = {**base_fields(run.hook, event.name, _SESSION), **event.fields(run.hook.config.view)}
    print("--- input", json.dumps(Document(fields).value(), indent=2, ensure_ascii=False), sep="\n")
    if run.error:
        print(f"--- failed: {run.error}; the call {'is denied' if run.fails_closed else 'goes on'}")
    else:
        print("--- output", json.dumps(run.output, indent=2, ensure_ascii=False), sep="\n")
    if run.observed:
        print("--- mode is 'observe': nothing of it is applied")


def _print_outcome(decision: str, stop: bool, reason: str) -> None:
    print(f"=== together: {'stop' if stop else decision}{f', because: {reason}' if reason else ''}")


def _difference(before: Event, after: Event) -> str:
    old, new = (
        json.dumps(_plain(event), indent=2, ensure_ascii=False).splitlines() for event in (before, after)
    )
    return "\n".join(difflib.unified_diff(old, new, "before", "after", lineterm=""))


def _plain(event: Event) -> Any:
    """What an edit can change of an event."""
    body = getattr(event, "body", None)
    return Document(event.fields("text")).value() if body is None else body
