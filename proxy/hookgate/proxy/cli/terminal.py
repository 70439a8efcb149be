"""What commands print for people, and ask them: tables of text, progress, and a confirmation."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec


def table_lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table of text, its columns aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return [line.rstrip() for line in padded]


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table of text with the names of its columns."""
    print(*table_lines([columns, *rows]), sep="\n")


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


def confirm(question: str, *, yes: bool) -> bool:
    """Return whether the user agrees: with the flag --yes, or else by an answer on the terminal."""
    if yes:
        return True
    if not sys.stdin.isatty():
        print("Cannot ask for confirmation without a terminal; pass --yes.")
        return False
    return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
