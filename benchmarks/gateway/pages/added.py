"""What a user notices of the gateway: the milliseconds that it adds to calls and to events of streams."""

from textwrap import fill

from benchmarks.gateway.loads import DELAY, FIRST, P50
from benchmarks.gateway.pages.figures import ALONE, Figures, spread
from benchmarks.gateway.pages.tables import as_markdown

_ROWS = {"plain": "no hooks", "runtime": "a hook in the gateway's process", "redact": "the policy `redact`"}
"""The configurations of the gateway that are shown, by their names in the figures."""

_COLUMNS = {
    "a call of 122 KB": ("open", P50),
    "the first event of a stream": ("first", FIRST),
    "each further event": ("paced", DELAY),
}


def added_times(figures: Figures) -> str:
    """Return a sentence about an agent's call, and a table. Raises KeyError if a figure is missing."""
    calls = {name: _added(figures, "open", name, P50) for name in _ROWS}
    sentence = (
        f"A coding agent's call of 122 KB takes about {calls['plain']} longer through the gateway, "
        f"{calls['runtime']} with a hook in its process, and {calls['redact']} with the policy `redact`."
    )
    rows = [
        [title, *(_added(figures, load, name, figure) for load, figure in _COLUMNS.values())]
        for name, title in _ROWS.items()
    ]
    return f"{fill(sentence, 120)}\n\n{as_markdown([['added with', *_COLUMNS], *rows])}"


def _added(figures: Figures, load: str, configuration: str, figure: str) -> str:
    """Return by how many milliseconds a configuration exceeds the upstream alone, as text."""
    pairs = zip(figures.values(load, configuration, figure), figures.values(load, ALONE, figure), strict=True)
    return f"{spread([with_proxy - alone for with_proxy, alone in pairs]).median:.1f} ms"
