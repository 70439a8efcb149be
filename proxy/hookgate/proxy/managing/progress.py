"""How far something is that takes a while: shown on a terminal, and nowhere else."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Gives what is to be told how much more is done, of `total` in all."""
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
    """A line that is written again for each percent."""

    def __init__(self, what: str, total: int) -> None:
        self._what, self._total, self._done, self._shown = what, max(total, 1), 0, -1

    def more(self, done: int) -> None:
        self._done += done
        percent = min(100, 100 * self._done // self._total)
        if percent != self._shown:
            self._shown = percent
            print(f"\rhookgate: {self._what}: {percent} %", end="", file=sys.stderr, flush=True)
