"""Which texts of an answer clients show as one, and the order of its texts."""

from collections.abc import Iterable

from hookgate.translator.fields import BodyError, JsonObject
from hookgate.translator.streaming.events import TextChannel

TextSources = Iterable[tuple[TextChannel, str]]
"""The sources of texts in the order of the texts: each the answer or thoughts of a candidate, and a name."""

SourceFields = tuple[str, ...]
"""The source of a text in an event: the values of `_ORIGIN`, and those of `KIND_OF_PART`.

Clients show texts of different sources separately.
"""

_ORIGIN = ("type", "index", "output_index", "content_index", "summary_index")
"""The fields of an event that say which step, item or content of an answer it continues, in any dialect."""

KIND_OF_PART = ("type", "refusal")
"""The fields of a part that say which text of a message it continues."""

PLAIN_SOURCE: SourceFields = ("None",) * (len(_ORIGIN) + len(KIND_OF_PART))
"""The source of a text in an event and a part without such fields."""


def source_fields(event: JsonObject, part: JsonObject) -> SourceFields:
    """Return the source of the text of a part of an event."""
    return tuple(map(str, [*map(event.get, _ORIGIN), *map(part.get, KIND_OF_PART)]))


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
