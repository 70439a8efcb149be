"""Pieces of texts, by which a text is found again in another one.

They are hashes of runs of letters and digits, chosen by winnowing (Schleimer, Wilkerson and Aiken, 2003), so
that two texts with a long enough run in common have a piece in common, wherever it stands.
"""

import base64
import binascii
import contextlib
import re
from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import unquote
from zlib import crc32

from hookgate.hooks.policies.flows.words import fact_of, words_of
from hookgate.hooks.policies.spelling import same_spelling

_RUN = 16
_WINDOW = 8
"""Of so many runs that follow one another, one is chosen: texts with 23 letters and digits in a row in common
have a piece in common."""

_NOT_WORD = re.compile(r"[\W_]+")
_CODE = re.compile(r"[^\W_]{5,}")
"""What may be a number or code, which is a piece even if it is short."""

_FEW_WORDS = 3
_SHORTEST_WORD = 6
"""Of texts of few words, such as a password, all words of this length are pieces."""


def pieces_of(kind: str, texts: Iterable[str], *, is_source: bool = False) -> set[int]:
    """Return the pieces of texts, also where they continue one another.

    All words of other texts are pieces, but of a source only those of texts that have few.
    """
    pieces: set[int] = set()
    squeezed: list[str] = []
    for text in texts:
        folded = same_spelling(text)
        pieces |= {fact_of(kind, code) for code in set(_CODE.findall(folded)) if any(map(str.isdigit, code))}
        words = words_of(text)
        if len(words) <= _FEW_WORDS or not is_source:
            pieces |= {fact_of(kind, word) for word in set(words) if len(word) >= _SHORTEST_WORD}
        squeezed.append(_NOT_WORD.sub("", folded))
    return pieces | {fact_of(kind, run.hex()) for run in _chosen_runs("".join(squeezed).encode())}


def _chosen_runs(data: bytes) -> set[bytes]:
    """Return the run with the least hash of each window, the first one if there are several."""
    hashes = [crc32(data[at : at + _RUN]) for at in range(len(data) - _RUN + 1)]
    chosen: set[bytes] = set()
    least = -1
    for end in range(min(_WINDOW, len(hashes)), len(hashes) + 1):
        start = max(0, end - _WINDOW)
        if least < start:
            window = hashes[start:end]
            if not window:
                break
            least = start + window.index(min(window))
        elif hashes[end - 1] < hashes[least]:
            least = end - 1
        else:
            continue
        chosen.add(data[least : least + _RUN])
    return chosen


_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{8,}")
_HEX = re.compile(r"(?:[0-9a-fA-F]{2}){4,}")


def readings_of(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield texts as they are, backwards, and with what is encoded in them: percent signs, base64 and hex."""
    yield texts
    yield [text[::-1] for text in reversed(texts)]
    joined = "".join(texts)
    for found in ([unquote(text) for text in texts if "%" in text], list(_decoded(joined))):
        if found:
            yield found


def _decoded(text: str) -> Iterator[str]:
    for found in _BASE64.finditer(text):
        run = found[0].replace("-", "+").replace("_", "/")
        for start in range(4):  # the encoded text may begin anywhere
            whole = run[start : len(run) - (len(run) - start) % 4]
            with contextlib.suppress(binascii.Error):
                yield base64.b64decode(whole).decode(errors="replace")
            if rest := run[start + len(whole) :]:
                with contextlib.suppress(binascii.Error):
                    yield base64.b64decode(rest + "=" * (4 - len(rest))).decode(errors="replace")
    for found in _HEX.finditer(text):
        yield bytes.fromhex(found[0]).decode(errors="replace")
