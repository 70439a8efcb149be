"""The sources of an answer's texts, such as the content and the refusal of a message, and their order."""

from collections.abc import Iterable

from hookgate.translator.fields import BodyError
from hookgate.translator.streaming.events import TextChannel

TextSources = Iterable[tuple[TextChannel, str]]
"""The sources of texts in the order of the texts: each the answer or thoughts of a candidate, and a name."""

_MOST = 64


class TextOrder:
    """Checks that the texts of each source of one answer follow one another.

    Hooks are shown the texts of a candidate as one text, and its thoughts as another. Clients leave out
    sources that they do not know, and join the others, so that a text between two texts could hide what they
    are together.
    """

    def __init__(self) -> None:
        self._current: dict[TextChannel, str] = {}
        self._earlier: set[tuple[TextChannel, str]] = set()

    def note(self, sources: TextSources) -> None:
        """Note the next texts. Raises BodyError if one continues after a text of another source."""
        for channel, source in sources:
            current = self._current.get(channel)
            if source == current:
                continue
            if (channel, source) in self._earlier or len(self._earlier) > _MOST:
                raise BodyError("", f"its {source} goes on after {current}, which some clients leave out")
            if current is not None:
                self._earlier.add((channel, current))
            self._current[channel] = source
