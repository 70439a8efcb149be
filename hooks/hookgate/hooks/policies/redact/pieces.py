"""What became of a text: pieces in order, which stand for all of it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kept:
    """Text that goes on as it is."""

    original: str

    @property
    def output(self) -> str:
        return self.original


@dataclass(frozen=True, slots=True)
class Replaced:
    """A finding, and what goes out instead."""

    kind: str
    original: str
    output: str


@dataclass(frozen=True, slots=True)
class Dropped:
    """More of a finding that was replaced before all of it had come. It goes out as nothing."""

    original: str

    @property
    def output(self) -> str:
        return ""


@dataclass(frozen=True, slots=True)
class Blocked:
    """A finding that may not be cut short. Nothing of it goes out, and nothing after it."""

    kind: str
    original: str

    @property
    def output(self) -> str:
        return ""


Piece = Kept | Replaced | Dropped | Blocked
"""Each has `original`, the text it stands for, and `output`, what goes out in its place."""
