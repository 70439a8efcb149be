"""A bar chart of a run, as SVG: calls and events per second of processor time, relative to bare aiohttp."""

from collections.abc import Iterator
from xml.sax.saxutils import escape

from benchmarks.gateway.loads import CPU_CALL, CPU_EVENT
from benchmarks.gateway.pages.figures import Figures
from benchmarks.gateway.pages.tables import title

_GROUPS = (
    ("small", CPU_CALL, "Small calls"),
    ("agent", CPU_CALL, "Agents’ calls of 122 KB"),
    ("streams", CPU_EVENT, "Events of streams"),
)
_CONFIGURATIONS = ("copying", "naive", "litellm", "mitmproxy", "plain", "runtime", "redact", "observe")
_MAX_RATIO = 1.25
"""The ratio at the right edge."""

_LEFT, _WIDTH, _BAR, _GAP, _HEADING = 330, 400, 16, 6, 34


def picture(figures: Figures) -> str:
    """Return a bar for the median of each ratio to bare aiohttp, with a line from minimum to maximum."""
    bars = list(_bars(figures))
    height = bars[-1][0] + _BAR + 30
    body = "\n".join(element for _, element in bars)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + 90}" height="{height}" '
        f'font-family="sans-serif" font-size="12" fill="#24292f">\n'
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n{body}\n</svg>\n'
    )


def _bars(figures: Figures) -> Iterator[tuple[int, str]]:
    """Yield the top edge of each element in pixels, and the element."""
    top = 10
    for load, name, heading in _GROUPS:
        if not figures.has(load, "copying"):
            continue
        text = f"{heading} per second of processor time, bare aiohttp = 1"
        yield top, f'<text x="10" y="{top + 20}" font-weight="bold">{escape(text)}</text>'
        top += _HEADING
        for configuration in _CONFIGURATIONS:
            if figures.has(load, configuration):
                yield top, _bar(figures, load, configuration, name, top)
                top += _BAR + _GAP
        top += _GAP


def _bar(figures: Figures, load: str, configuration: str, name: str, top: int) -> str:
    ratio = figures.ratio(load, configuration, "copying", name)
    color = "#1f6feb" if configuration in ("plain", "runtime", "redact", "observe") else "#8c959f"
    middle, y = top + _BAR / 2, top + 12
    scale = _WIDTH / _MAX_RATIO
    end = min(ratio.maximum, _MAX_RATIO)
    return (
        f'<text x="{_LEFT - 8}" y="{y}" text-anchor="end">{escape(_short(configuration))}</text>'
        f'<rect x="{_LEFT}" y="{top}" width="{ratio.median * scale:.1f}" height="{_BAR}" fill="{color}"/>'
        f'<line x1="{_LEFT + ratio.minimum * scale:.1f}" x2="{_LEFT + end * scale:.1f}" '
        f'y1="{middle}" y2="{middle}" stroke="#24292f"/>'
        f'<text x="{_LEFT + max(ratio.median, end) * scale + 6:.1f}" y="{y}">{ratio.median:.2f}</text>'
    )


def _short(configuration: str) -> str:
    return {"naive": "the naive floor", "observe": "hookgate, redact in observe mode"}.get(
        configuration, title(configuration)
    )
