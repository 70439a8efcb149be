"""The sources of an answer's texts, such as the content and the refusal of a message, and their order."""

from collections.abc import Iterable

from hookgate.translator.fields import BodyError

TextSources = Iterable[tuple[int, str]]
"""The sources of texts in the order of the texts: each the index of a candidate, and a name."""

_MOST = 64


class TextOrder:
    """Checks that the texts of each source of one answer follow one another.

    Hooks are shown the texts of a candidate as one text. Clients leave out sources that they do not know, and
    join the others, so that a text between two texts could hide what they are together.
    """

    def __init__(self) -> None:
        self._current: dict[int, str] = {}  # by candidate
        self._earlier: set[tuple[int, str]] = set()

    def note(self, sources: TextSources) -> None:
        """Note the next texts. Raises BodyError if one continues after a text of another source."""
        for candidate, source in sources:
            current = self._current.get(candidate)
            if source == current:
                continue
            if (candidate, source) in self._earlier or len(self._earlier) > _MOST:
                raise BodyError("", f"its {source} goes on after {current}, which some clients leave out")
            if current is not None:
                self._earlier.add((candidate, current))
            self._current[candidate] = source
