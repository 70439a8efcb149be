"""Tables of calls and progress of long commands, for terminals."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from importlib.util import find_spec

from hookgate.hooks.session import utc_text
from hookgate.proxy.audit.explaining import explain_outcome, outcome_lines
from hookgate.proxy.audit.reading import CallDetail, EndedCall
from hookgate.proxy.audit.stored import StoredRecord
from hookgate.translator.fields import JsonObject


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show the progress on a terminal while the block runs.

    Yields a function to call with the amount of work that was done since its last call, of `total`.
    """
    if not sys.stderr.isatty():
        yield lambda done: None
    elif find_spec("rich") is None:
        yield _Plain(what, total).more
        print(file=sys.stderr)
    else:
        from rich.console import Console  # noqa: PLC0415  # an extra has it
        from rich.progress import Progress  # noqa: PLC0415  # an extra has it

        with Progress(console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(what, total=total)
            yield lambda done: bar.update(task, advance=done)


class _Plain:
    """A line that is overwritten at each percent."""

    def __init__(self, what: str, total: int) -> None:
        self._what, self._total, self._done, self._shown = what, max(total, 1), 0, -1

    def more(self, done: int) -> None:
        self._done += done
        percent = min(100, 100 * self._done // self._total)
        if percent != self._shown:
            self._shown = percent
            print(f"\rhookgate: {self._what}: {percent} %", end="", file=sys.stderr, flush=True)


_COLUMNS = ("ended", "id", "outcome", "hook", "status", "ms", "tokens", "model", "key", "session", "reason")

_SHORT_ID = 12
"""The digits of an ID in tables. `hookgate audit show` accepts a part of an ID."""

_LONGEST_REASON = 100


def print_calls(calls: Sequence[EndedCall], *, as_json: bool, head: bool = True) -> None:
    """Print calls, one per line. `head` adds a line with the names of the columns."""
    if as_json:
        for call in calls:
            print(
                json.dumps({**asdict(call), "at": utc_text(call.at / 1000)}, ensure_ascii=False), flush=True
            )
        return
    rows = [_row(call) for call in calls]
    if head and sys.stdout.isatty() and find_spec("rich") is not None:
        _print_table(rows)
        return
    lines = [_COLUMNS, *rows] if head else rows
    widths = [max([len(name), *(len(row[at]) for row in rows)]) for at, name in enumerate(_COLUMNS)]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        print("  ".join(cells).rstrip(), flush=True)


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
        why.reason[:_LONGEST_REASON] or "-",
    )
    # Clients choose some of these, so control characters for the terminal are replaced.
    return tuple("".join(c if c.isprintable() else "\ufffd" for c in cell) for cell in cells)


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
