"""A stream of a dialect as the gateway frames, shows, closes and encodes it."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from hookgate.translator import Framing
from hookgate.translator.strictjson import dumps, loads

Json = dict[str, Any]


def streamed(
    framing: Framing,
    opens: Callable[[Json], Json],
    closes: Callable[[Json, Json], Json],
    data: bytes,
    *,
    change: Callable[[Json], Json],
    cuts: tuple[int, ...],
) -> bytes:
    """What the client gets of a stream whose responses were changed, and whose bytes came in pieces."""
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    frames = [frame for a, b in pairwise(edges) for frame in framing.feed(data[a:b])]
    out = b""
    for frame in [*frames, *framing.finish()]:
        if not frame.data:
            out += framing.encode(frame, frame.data)
            continue
        body = loads(frame.data)
        closed = closes(body, change(opens(body)))
        out += framing.encode(frame, frame.data if closed is body else dumps(closed))
    return out
