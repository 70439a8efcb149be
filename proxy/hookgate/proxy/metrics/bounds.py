"""Values that clients choose, brought down to labels that an operator has named. Pure."""

from collections.abc import Iterable
from fnmatch import fnmatchcase

NONE, OTHER = "none", "other"

DECISIONS = frozenset({"allow", "ask", "deny", "stop", "answer"})


class Models:
    """Labels for models: names, or patterns with wildcards, of which the first that fits is the label."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._patterns = tuple(dict.fromkeys(patterns))

    def label(self, model: str) -> str:
        """The label: a pattern, `other`, or `none` without a model."""
        if not model:
            return NONE
        return next((each for each in self._patterns if fnmatchcase(model, each)), OTHER)


def status_class(status: int, without: str) -> str:
    """`2xx` and so on; `without` where there is no status."""
    return f"{status // 100}xx" if status else without


def decision(said: str) -> str:
    """What a hook decided: its output may hold any word."""
    return said if said in DECISIONS else OTHER
