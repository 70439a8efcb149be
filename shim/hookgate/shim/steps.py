"""The shim's logic does no I/O: it says what it wants next; who runs it gets that, waiting or awaiting."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from hookgate.shim.decisions import Json, Question

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Fire:
    """Fire an event with these fields of its own; answered with its Decision."""

    event: str
    fields: Json


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the user; answered with whether they agree, or None when there is nobody to ask."""

    question: Question


Step = Generator[Fire | Ask, Any, T]
"""Wants events and answers, and returns a T."""
