"""Joins texts to payloads of a limited size, and spreads the edits of payloads over the texts again.

A payload begins with the end of the one before it, so that what spans their border is found.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from hookgate.hooks.errors import HookError
from hookgate.hooks.policies.services.texts import Text
from hookgate.translator.streaming.edits import respread

SEPARATOR = "\n\n"
"""Stands between texts that do not continue each other."""

OVERLAP = 500
"""The number of characters with which a payload repeats the end of the one before it."""


@dataclass(slots=True)
class Payload:
    """A text to judge: the end of the payload before it, and parts of texts."""

    context: str = ""
    parts: list[tuple[int | None, str]] = field(default_factory=list)
    """Parts of texts with their indexes, and separators without one."""
    size: int = 0

    @property
    def text(self) -> str:
        """The text to judge."""
        return self.context + "".join(part for _, part in self.parts)

    def next(self) -> "Payload":
        """Return an empty payload that follows this one."""
        context = self.text[-OVERLAP:]
        return Payload(context, size=len(context))


def join_texts(texts: Sequence[Text], size: int) -> list[Payload]:
    """Return payloads of at most `size` characters, which must be more than OVERLAP."""
    payloads = [Payload()]

    def add(index: int | None, text: str) -> None:
        done = 0
        while done < len(text):
            if payloads[-1].size == size:
                payloads.append(payloads[-1].next())
            part = text[done : done + size - payloads[-1].size]
            payloads[-1].parts.append((index, part))
            payloads[-1].size += len(part)
            done += len(part)

    for index, text in enumerate(texts):
        if index and not text.continues:
            add(None, SEPARATOR)
        add(index, text.text)
    return payloads


def spread_edits(payloads: Sequence[Payload], edited: Sequence[str | None]) -> dict[int, str]:
    """Return new texts by index, from the edits of payloads; None stands for an unchanged payload.

    Raises HookError if an edit does not only change texts, or if it changes text at the border of two
    payloads, and not the same way in both.
    """
    shares: defaultdict[int, list[str]] = defaultdict(list)
    touched: set[int] = set()
    before = ""
    for payload, new in zip(payloads, edited, strict=True):
        old = [part for _, part in payload.parts]
        parts = old
        if new is not None:
            context = [payload.context] if payload.context else []
            parts = respread([*context, *old], new)[len(context) :]
            kept = new.removesuffix("".join(parts))
            if kept != payload.context and not (kept and before.endswith(kept)):
                raise HookError("changed text at a border between two parts, which cannot be put together")
        for (index, part), share in zip(payload.parts, parts, strict=True):
            if index is not None:
                shares[index].append(share)
                touched |= {index} if share != part else set()
            elif share != part:
                raise HookError("changed what separates two texts")
        before = "".join(parts)
    return {index: "".join(shares[index]) for index in touched}
