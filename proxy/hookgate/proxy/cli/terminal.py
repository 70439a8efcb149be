"""What commands print for people, and ask them: tables of text, progress, and a confirmation."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from shutil import get_terminal_size


def table_lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table of text, its columns aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return [line.rstrip() for line in padded]


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table of text with the names of its columns."""
    print(*table_lines([columns, *rows]), sep="\n")


@contextmanager
def progress(what: str, total: int, unit: str, *, quiet: bool) -> Iterator[Callable[[int], None]]:
    """Show the progress on a terminal while the block runs: the share, the rate, and the time that is left.

    Yields a function to call with the number of units that were done since its last call, of `total`.
    """
    if quiet or not sys.stderr.isatty():
        yield lambda done: None
        return
    line = _ProgressLine(what, total, unit)
    try:
        yield line.advance
    finally:
        line.clear()


_REDRAW_SECONDS = 0.1


class _ProgressLine:
    """A line that is overwritten."""

    def __init__(self, what: str, total: int, unit: str) -> None:
        self._what, self._total, self._unit = what, max(total, 1), unit
        self._done, self._began, self._draw_at = 0, time.monotonic(), 0.0

    def advance(self, done: int) -> None:
        self._done += done
        now = time.monotonic()
        if now >= self._draw_at:
            self._draw_at = now + _REDRAW_SECONDS
            line = describe_progress(self._what, self._done, self._total, self._unit, now - self._began)
            self._write(line[: get_terminal_size().columns - 1])

    def clear(self) -> None:
        self._write("")

    def _write(self, line: str) -> None:
        print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)


def describe_progress(what: str, done: int, total: int, unit: str, seconds: float) -> str:
    """Return the line about work of which a part is done after some seconds."""
    done = min(done, total)
    line = f"{what}: {100 * done // total} %"
    if not done or seconds <= 0:
        return line
    rate = done / seconds
    left = timedelta(seconds=round((total - done) / rate))
    return f"{line}, {rate:,.0f} {unit}/s, {left} left"


def confirm(question: str, *, yes: bool) -> bool:
    """Return whether the user agrees: with the flag --yes, or else by an answer on the terminal."""
    if yes:
        return True
    if not sys.stdin.isatty():
        print("Cannot ask for confirmation without a terminal; pass --yes.")
        return False
    return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
