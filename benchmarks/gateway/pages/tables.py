"""Tables of a run, for the terminal and for a page in Markdown."""

from collections.abc import Sequence

from benchmarks.gateway.configurations import CONFIGURATIONS
from benchmarks.gateway.loads import CALLS, EVENT_RATE, LOADS
from benchmarks.gateway.pages.figures import ALONE, Figures

BASES = ("copying", "naive")
"""The configurations to which the others are compared."""


def terminal(figures: Figures, load: str) -> str:
    """Return the description and the table of a load, with columns aligned for a terminal."""
    rows = table(figures, load)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *cells in rows:
        padded = [cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True)]
        lines.append("  ".join(["", first.ljust(widths[0]), *padded]))
    return "\n".join([f"{load}: {LOADS[load].description}", *lines, _headroom(figures, load)])


def circumstances(figures: Figures) -> str:
    """Return the circumstances of the run, and the configurations that were skipped, one per line."""
    about = [f"{name}: {text}" for name, text in figures.about.items()]
    skipped = [f"skipped: {CONFIGURATIONS[name].title}: {why}" for name, why in figures.skipped.items()]
    return "\n".join([*about, *skipped])


def as_markdown(cells: Sequence[Sequence[str]]) -> str:
    """Return a header and rows of cells as a table in Markdown, with columns of figures right-aligned."""
    header, *rows = cells
    align = ["---" if any(not _is_figure(row[i]) for row in rows) else "---:" for i in range(len(header))]
    return "\n".join(f"| {' | '.join(row)} |" for row in [header, align, *rows])


def _is_figure(cell: str) -> bool:
    return not cell or cell.lstrip("*")[0].isdigit()


def table(figures: Figures, load: str) -> list[list[str]]:
    """Return the cells of a load's table: a header, then a row for each configuration.

    A figure is the median of the rounds, with the minimum and the maximum. A ratio is computed within each
    round; a ratio above 1 is better than the base.
    """
    samples = figures.samples[load]
    names = list(next(iter(samples.values()))[0])
    compared = [(base, name) for name in _compared(names) for base in BASES if figures.has(load, base)]
    header = [load, *names, *(f"{name.split('/')[0]} vs. {base}" for base, name in compared)]
    rows = []
    for configuration in samples:
        ratios = [
            figures.ratio(load, configuration, base, name).text(2)
            if configuration not in (base, ALONE)
            else ""
            for base, name in compared
        ]
        cells = [figures.spread(load, configuration, name).text() for name in names]
        rows.append([title(configuration), *cells, *ratios])
    return [header, *rows]


def title(configuration: str) -> str:
    """Return the title of a configuration in tables."""
    if configuration == ALONE:
        return "generator and upstream alone"
    name, _, beside = configuration.partition("+")
    return CONFIGURATIONS[name].title + (f" ({beside})" if beside else "")


def _compared(names: Sequence[str]) -> list[str]:
    """Return the names of the figures with ratios: rates, and the processor time per call or event."""
    return [name for name in names if name in (CALLS, EVENT_RATE) or name.startswith("CPU us")]


def _headroom(figures: Figures, load: str) -> str:
    """Return a line that compares the rate without a proxy with that of the fastest proxy except nginx.

    If the ratio is near 1, the generator or the upstream may be the bottleneck.
    """
    rates = [name for name in (CALLS, EVENT_RATE) if name in next(iter(figures.samples[load].values()))[0]]
    measured = [name for name in figures.samples[load] if name not in (ALONE, "nginx")]
    if not rates or not figures.has(load, ALONE) or not measured:
        return ""
    alone = figures.spread(load, ALONE, rates[0]).median
    fastest = max(measured, key=lambda name: figures.spread(load, name, rates[0]).median)
    ratio = alone / figures.spread(load, fastest, rates[0]).median
    return (
        f"  generator and upstream alone: {ratio:.1f} times the rate of the fastest proxy ({title(fastest)})"
    )
