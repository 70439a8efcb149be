"""Joins texts to payloads of a limited size, and spreads the edits of payloads over the texts again.

A text that is cut continues in the next payload, which begins with the end of the part before it, so that
what spans the border is found.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from hookgate.hooks.errors import HookError
from hookgate.hooks.policies.services.texts import Text
from hookgate.translator.streaming.edits import respread

OVERLAP = 500
"""The number of characters of a text that are repeated where it is cut."""

_BORDER = "changed text at a border between two parts, which cannot be put together"


@dataclass(slots=True)
class Payload:
    """Texts to judge at once: runs of parts that continue each other, with a separator between runs."""

    separator: str
    context: str = ""
    """The end of the part before this payload, if its first run continues a text."""
    runs: list[list[tuple[int, str]]] = field(default_factory=lambda: [[]])
    """The parts of texts with the indexes of these."""
    size: int = 0

    @property
    def text(self) -> str:
        """The text to judge."""
        return self.context + self.separator.join(map(_joined, self.runs))

    def next_payload(self) -> "Payload":
        """Return an empty payload that continues the last run of this one."""
        last = self.context if len(self.runs) == 1 else ""
        context = (last + _joined(self.runs[-1]))[-OVERLAP:]
        return Payload(self.separator, context, size=len(context))


def _joined(run: Sequence[tuple[int, str]]) -> str:
    return "".join(part for _, part in run)


def make_payloads(texts: Sequence[Text], size: int) -> list[Payload]:
    """Return payloads of at most `size` characters, which must be more than OVERLAP."""
    payloads = [Payload(_separator(texts))]
    for index, text in enumerate(texts):
        if index and not text.continues:
            if payloads[-1].size + len(payloads[-1].separator) < size:
                payloads[-1].runs.append([])
                payloads[-1].size += len(payloads[-1].separator)
            else:
                payloads.append(Payload(payloads[-1].separator))
        done = 0
        while done < len(text.text):
            if payloads[-1].size == size:
                payloads.append(payloads[-1].next_payload())
            part = text.text[done : done + size - payloads[-1].size]
            payloads[-1].runs[-1].append((index, part))
            payloads[-1].size += len(part)
            done += len(part)
    return payloads


def _separator(texts: Sequence[Text]) -> str:
    """Return a line that no text contains, so that it can be found again."""
    dashes = 3
    while True:
        separator = f"\n{'-' * dashes}\n"
        if not any(separator in f"\n{run}\n" for run in _runs(texts)):
            return separator
        dashes *= 2


def _runs(texts: Sequence[Text]) -> Iterator[str]:
    """Yield the texts, those that continue each other as one."""
    run: list[str] = []
    for text in texts:
        if run and not text.continues:
            yield "".join(run)
            run = []
        run.append(text.text)
    yield "".join(run)


def spread_edits(payloads: Sequence[Payload], edited: Sequence[str | None]) -> dict[int, str]:
    """Return new texts by index, from the edits of payloads; None stands for an unchanged payload.

    Raises HookError if an edit does not only change texts, or if it changes text at the border of two
    payloads, and not the same way in both.
    """
    shares: defaultdict[int, list[str]] = defaultdict(list)
    touched: set[int] = set()
    before = ""
    for payload, new in zip(payloads, edited, strict=True):
        new_runs = [None] * len(payload.runs) if new is None else new.split(payload.separator)
        if len(new_runs) != len(payload.runs):
            raise HookError("changed what separates two texts")
        for number, (run, new_run) in enumerate(zip(payload.runs, new_runs, strict=True)):
            old = [part for _, part in run]
            context = payload.context if number == 0 else ""
            parts = old if new_run is None else _spread(context, old, new_run, before)
            for (index, part), share in zip(run, parts, strict=True):
                shares[index].append(share)
                touched |= {index} if share != part else set()
            before = "".join(parts)
    return {index: "".join(shares[index]) for index in touched}


def _spread(context: str, old: Sequence[str], new: str, before: str) -> list[str]:
    """Return the shares of a new run. `before` is the new text before the border."""
    if not context:
        return respread(old, new)
    kept, *parts = respread([context, *old], new)
    if kept != context and not (kept and before.endswith(kept)):
        raise HookError(_BORDER)
    return parts
