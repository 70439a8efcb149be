"""Text about recorded calls: tables, and the reasons of outcomes."""

import json
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from shutil import get_terminal_size
from typing import Any

from hookgate.hooks.timestamps import utc_text
from hookgate.proxy.audit.index.reporting import Report
from hookgate.proxy.audit.listing import call_document
from hookgate.proxy.audit.reading import CHANGES, CallDetail, EndedCall, RecordedChange
from hookgate.proxy.audit.stored import StoredRecord
from hookgate.proxy.cli.terminal import table_lines
from hookgate.proxy.observe.explaining import describe_blocked, explain_outcome, items, objects
from hookgate.proxy.observe.logs import escape_controls
from hookgate.translator.fields import JsonObject, read_object

_COLUMNS = ("ended", "id", "outcome", "hook", "status", "ms", "tokens", "model", "key", "session", "reason")

_NARROW = ("ended", "id", "outcome", "hook", "key", "model", "reason")
"""The columns on a terminal that has no room for all of them."""

_WIDE = 160
"""The width from which a terminal has room for all columns."""

_WIDEST = {"outcome": 11, "hook": 14, "key": 12, "model": 18}
"""The longest cells of narrow tables."""

_SHORT_ID = 12
"""The digits of an ID in tables. `hookgate audit show` accepts a part of an ID."""

_LONGEST_REASON = 100


def print_calls(calls: Sequence[EndedCall], *, as_json: bool, head: bool = True) -> None:
    """Print calls, one per line. `head` adds a line with the names of the columns."""
    if as_json:
        for call in calls:
            print(json.dumps(call_document(call), ensure_ascii=False), flush=True)
        return
    rows = [_row(call) for call in calls]
    columns: Sequence[str] = _COLUMNS
    if sys.stdout.isatty() and (width := get_terminal_size().columns) < _WIDE:
        columns, rows = _NARROW, [_narrow(row, width) for row in rows]
    elif head and sys.stdout.isatty() and find_spec("rich") is not None:
        _print_table(rows)
        return
    lines = table_lines([columns, *rows])
    for line in lines if head else lines[1:]:
        print(line, flush=True)


def _narrow(row: Sequence[str], width: int) -> tuple[str, ...]:
    """Return a row of the columns for a narrow terminal, on one line of it."""
    cells = dict(zip(_COLUMNS, row, strict=True))
    cells["ended"] = cells["ended"][5:19].replace("T", " ")
    cells["id"] = cells["id"][:8]
    for name, longest in _WIDEST.items():
        cells[name] = _cut(cells[name], longest)
    room = width - sum(_WIDEST.values()) - len(cells["ended"]) - len(cells["id"]) - 2 * (len(_NARROW) - 1)
    cells["reason"] = _cut(cells["reason"], max(room, 8))
    return tuple(cells[name] for name in _NARROW)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def print_report(report: Report) -> None:
    """Print a report as a table, with the time that it covers and the total."""
    rows = [[escape_controls(_amount(value), keep_lines=False) for value in row] for row in report.rows]
    total = ["all", *[""] * (len(report.by) - 1), *map(_amount, report.total)]
    lines = table_lines([[*report.by, *report.columns], *rows, total])
    since = "All calls" if report.since is None else f"From {utc_text(report.since / 1000)}"
    until = "now" if report.until is None else utc_text(report.until / 1000)
    print(f"{since} until {until}")
    print(*lines, sep="\n")
    if len(report.rows) < report.groups:
        print(f"{report.groups - len(report.rows)} more; list more of them with --limit")


def _amount(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4f}".rstrip("0").rstrip(".") or "0"
    return str(value) if value != "" else "-"


def print_changes(changes: Sequence[RecordedChange], *, as_json: bool) -> None:
    """Print changes, one per line."""
    for each in changes:
        if as_json:
            document = {"id": each.id, "at": utc_text(each.at / 1000), **each.body}
            print(json.dumps(document, ensure_ascii=False))
            continue
        body = dict(each.body)
        kind, who = body.pop("event"), body.pop("by", "a gateway")
        what = body.pop("change", "settings in use" if kind == "policy" else kind)
        about = ", ".join(
            f"{name}: {_plain(value)}" for name, value in body.items() if value not in (None, "", [])
        )
        print(f"{utc_text(each.at / 1000)}  {each.id[:_SHORT_ID]}  {what} by {who}; {about}")


def _plain(value: Any) -> str:
    """Return a value as text: strings, and lists of them, as they are, and others as JSON."""
    if isinstance(value, list):
        return ", ".join(map(_plain, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def print_call(detail: CallDetail, *, as_json: bool) -> None:
    """Print everything that is recorded about a call, first its outcome and the reason."""
    documents = {
        name: _document(each) for name, each in (("start", detail.start), ("end", detail.end)) if each
    }
    if as_json:
        print(json.dumps(documents, ensure_ascii=False))
        return
    for line in outcome_lines(detail.end.record.body if detail.end else {}):
        print(line)
    for name, document in documents.items():
        print(f"\n{name}:")
        print(json.dumps(document, indent=2, ensure_ascii=True))  # no control characters for the terminal


def _document(stored: StoredRecord) -> JsonObject:
    document = {**stored.record.document(), "hash": stored.hash}
    return document if stored.content is None else {**document, "content": stored.content}


def _row(call: EndedCall) -> tuple[str, ...]:
    body = call.body
    usage, timings = body.get("usage") or {}, body.get("timings") or {}
    tokens = f"{usage['input_tokens']}+{usage['output_tokens']}" if usage else "-"
    ms = timings.get("total_ms")
    why = explain_outcome(body)
    cells = (
        utc_text(call.at / 1000),
        call.id[:_SHORT_ID],
        call.outcome if call.type == "end" else f"{call.outcome} ({body.get('event')})",
        ", ".join(why.hooks) or "-",
        str(body.get("status") or "-"),
        "-" if ms is None else f"{ms:.0f}",
        tokens,
        call.model or "-",
        call.key or "-",
        call.session or "-",
        _shortened(why.reason or _describe_ignored(body)) or "-",
    )
    return tuple(escape_controls(cell, keep_lines=False) for cell in cells)  # clients choose some of these


def _shortened(reason: str) -> str:
    return reason if len(reason) <= _LONGEST_REASON else f"{reason[: _LONGEST_REASON - 1]}…"


def _print_table(rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console  # noqa: PLC0415  # an extra has it
    from rich.table import Table  # noqa: PLC0415  # an extra has it

    table = Table(box=None)
    for name in _COLUMNS:
        table.add_column(name, no_wrap=name in ("ended", "id"))
    for row in rows:
        table.add_row(*(cell.replace("[", "\\[") for cell in row))
    # The table's colors are escape sequences; its cells contain none.
    Console(file=getattr(sys.stdout, "unescaped", sys.stdout)).print(table)


_VERBS = {"deny": "denied", "stop": "stopped the agent", "answer": "answered", "ask": "asked the user"}
"""The decisions with an effect on the agent, in the past tense."""


def describe_found(found: JsonObject) -> str:
    """Return a line about a finding: its kind, its place, from where its rule comes, and its hash."""
    by = f", by {source}" if (source := found.get("source")) else ""
    hashed = f"; {digest}" if (digest := found.get("hash")) else ""
    return f"{found.get('kind')} at {found.get('place') or 'the top'}{by}{hashed}"


def outcome_lines(body: JsonObject) -> Iterator[str]:
    """Yield the lines that introduce a call to a reader.

    They contain its outcome, the hooks that decided it, the reason, what was blocked, and the effects of all
    hooks.
    """
    why, status = explain_outcome(body), body.get("status")
    if body.get("event") in CHANGES:
        yield f"change:  {body.get('change') or 'the settings in use'}, by {body.get('by') or 'a gateway'}"
        return
    yield f"outcome: {body.get('outcome') or 'in progress'}{f', with status {status}' if status else ''}"
    if why.hooks:
        yield f"hooks:   {', '.join(why.hooks)}"
    if why.reason and not body.get("blocked"):
        yield f"reason:  {why.reason}"
    for each in objects(body.get("blocked")):
        deciding = ", ".join(str(hook) for hook in items(each.get("hooks"))) or "the gateway"
        yield f"blocked: {describe_blocked(each)} ({each.get('event')}, by {deciding})"
    listed, count = len(objects(body.get("blocked"))), body.get("blocked_count")
    if isinstance(count, int) and count > listed:
        yield f"         and {count - listed} more"
    if effects := "; ".join(_effects_of_hooks(body)):
        yield f"effects: {effects}"
    for hook in objects(body.get("hooks")):
        would_be = " (observed, so it stayed)" if hook.get("mode") == "observe" else ""
        for each in objects(hook.get("found")):
            yield f"found:   {describe_found(each)}{would_be}"


def _effects_of_hooks(body: JsonObject) -> Iterator[str]:
    """Yield what each hook edited and found, how often it failed, and what it would have decided.

    Hooks without effects are omitted.
    """
    for hook in objects(body.get("hooks")):
        edited = "would have edited" if hook.get("mode") == "observe" else "edited"
        edits = ", ".join(map(str, items(hook.get("edits"))))
        findings = ", ".join(f"{kind} {count}" for kind, count in read_object(hook, "findings").items())
        effects = _observed_decisions(hook)
        effects += [f"{edited} {edits}"] if edits else []
        effects += [f"found {findings}"] if findings else []
        if hook.get("failures"):
            effects.append(f"failed in {hook['failures']} of {hook.get('runs')} runs{_causes(hook)}")
        if effects:
            yield f"{hook.get('hook')} ({hook.get('event')}) {' and '.join(effects)}"


def _describe_ignored(body: JsonObject) -> str:
    """Return a line about hooks that failed without denying, and what others would have decided."""
    hooks = objects(body.get("hooks"))
    failed = dict.fromkeys(
        f"{hook.get('hook')} failed{_causes(hook)}"
        for hook in hooks
        if hook.get("failures") and hook.get("mode") != "observe"
    )
    observed = [f"{hook.get('hook')} {each}" for hook in hooks for each in _observed_decisions(hook)]
    return "; ".join([*([f"{', '.join(failed)}; the call continued"] if failed else []), *observed])


def _causes(hook: JsonObject) -> str:
    """Return why a hook failed, in parentheses; nothing if that is not on record."""
    causes = ", ".join(map(str, read_object(hook, "causes")))
    return f" ({causes})" if causes else ""


def _observed_decisions(hook: JsonObject) -> list[str]:
    """Return what a hook would have done in observe mode; an empty list in enforce mode."""
    if hook.get("mode") != "observe":
        return []
    made = read_object(hook, "decisions")
    return [f"would have {verb}" for decision, verb in _VERBS.items() if made.get(decision)]
