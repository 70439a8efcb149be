"""What verifying has found. Pure."""

from dataclasses import dataclass, field

MOST_TOLD = 100
"""Problems that are told one by one."""


@dataclass(slots=True)
class Report:
    """What was found."""

    records: int = 0
    writers: int = 0
    removed: int = 0
    """Chains whose first records retention has removed."""
    running: int = 0
    """Calls that have not ended, of writers that may still tell."""
    chains: list[str] = field(default_factory=list)
    """Where each chain begins and ends."""
    partial: bool = False
    """Whether nothing says what should stand before the first and behind the last record of a chain."""
    problems: list[str] = field(default_factory=list)
    more: int = 0
    """Problems beyond those that are listed."""

    @property
    def sound(self) -> bool:
        """Whether nothing is missing or changed."""
        return not self.problems

    def tell(self, problem: str) -> None:
        """One more problem."""
        if len(self.problems) < MOST_TOLD:
            self.problems.append(problem)
        else:
            self.more += 1
