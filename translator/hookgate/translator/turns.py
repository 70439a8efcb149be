"""The turns of a request: which a hook is shown, and how an edited list goes back over them.

A turn without text (a bare call, a bare tool result, an image) is not shown and never lost. A call and the
turns that answer it form a unit: whatever a hook inserts, removes or reorders, nothing comes between them.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

from hookgate.translator.align import Message, align
from hookgate.translator.errors import EditError
from hookgate.translator.fields import JsonObject, read, read_list, write
from hookgate.translator.lenses import Lens
from hookgate.translator.texts import has_part


def _contents(body: JsonObject) -> list[Any]:
    return read_list(body, "contents")


def shown_turns(body: JsonObject, lens: Lens) -> list[tuple[int, Message]]:
    """Each content that the lens shows: its index in contents, and the message."""
    form = lens.form
    return [
        (index, Message(role_of(content), text))
        for index, content in enumerate(_contents(body))
        if type(content) is dict and (text := form(content))
    ]


def role_of(content: Any) -> str:
    """The role a hook is shown: `function` and an absent role are the user's."""
    return "model" if isinstance(content, dict) and content.get("role") == "model" else "user"


def apply_turns(body: JsonObject, edited: Sequence[Message], lens: Lens) -> JsonObject:
    """The body after an edited list of turns. Raises EditError, with the turn's number in `edited`."""
    turns = shown_turns(body, lens)
    shown = [message for _, message in turns]
    if shown == list(edited):
        return body
    contents = _contents(body)
    matches = [None if m is None else turns[m][0] for m in align(shown, edited)]
    kept = set(matches)
    changed = {i: lens.bare(contents[i]) for i, _ in turns if i not in kept}
    changed.update(_edited(contents, dict(turns), edited, matches, lens))
    if matches == [index for index, _ in turns]:  # only edits: every turn stays where it is
        new = [changed.get(index, content) for index, content in enumerate(contents)]
    else:
        new = _arranged(contents, changed, _added(edited, matches, lens), matches)
    single = isinstance(read(body, "contents"), dict) and len(new) == 1
    return write(body, "contents", new[0] if single else new)


def _edited(
    contents: list[Any],
    turns: Mapping[int, Message],
    edited: Sequence[Message],
    matches: Sequence[int | None],
    lens: Lens,
) -> Iterator[tuple[int, JsonObject]]:
    """The contents whose message came back otherwise, by their index."""
    for position, (message, match) in enumerate(zip(edited, matches, strict=True)):
        if match is None or turns[match] == message:
            continue
        with _numbered(position):
            content = lens.edited(contents[match], message.text)
        same_role = turns[match].role == message.role
        yield match, content if same_role else {**content, "role": message.role}


def _added(edited: Sequence[Message], matches: Sequence[int | None], lens: Lens) -> list[Any]:
    """The content of each message that is new; None for the others."""
    added: list[Any] = []
    for position, (message, match) in enumerate(zip(edited, matches, strict=True)):
        with _numbered(position):
            added.append(lens.new(message.role, message.text) if match is None else None)
    return added


@contextmanager
def _numbered(position: int) -> Iterator[None]:
    """Put the number of the turn before the path of an EditError."""
    try:
        yield
    except EditError as error:
        error.path = f"[{position}].{error.path}"
        raise


def _arranged(
    contents: list[Any],
    changed: dict[int, JsonObject],
    added: Sequence[Any],
    matches: Sequence[int | None],
) -> list[Any]:
    """The new contents: units in the order of the edited list, hidden ones behind the unit they followed.

    A new message goes directly before the unit of the next message the hook kept, or to the end.
    """
    units = _Units(contents, [m for m in matches if m is not None])
    out: list[Any] = []
    waiting: list[Any] = []
    for new, match in zip(added, matches, strict=True):
        if match is None:
            waiting.append(new)
        elif (indexes := units.take(match)) is not None:
            out += [*waiting, *_present(contents, changed, indexes)]
            waiting = []
    out += _present(contents, changed, units.rest())
    return out + waiting


def _present(contents: list[Any], changed: dict[int, JsonObject], indexes: list[int]) -> list[Any]:
    """The contents at `indexes` as changed, less those that a removal left without any part."""
    now = [(changed.get(i, contents[i]), i in changed) for i in indexes]
    return [content for content, touched in now if not touched or read_list(content, "parts")]


class _Units:
    """Contents cut into units that stay together, each followed by the hidden units behind it."""

    def __init__(self, contents: list[Any], kept: list[int]) -> None:
        self._unit_of: dict[int, int] = {}
        self._trains: dict[int, list[int]] = {}
        self._leading: list[int] = []
        anchors = set(kept)
        train = self._leading
        for number, unit in enumerate(_cut_into_units(contents)):
            if anchors.intersection(unit):
                train = self._trains[number] = []
            train += unit
            self._unit_of.update(dict.fromkeys(unit, number))

    def take(self, index: int) -> list[int] | None:
        """The contents that come along with the one at `index`, or None when they were taken already."""
        train = self._trains.pop(self._unit_of[index], None)
        return None if train is None else self.rest() + train

    def rest(self) -> list[int]:
        """The contents before every kept one that were not taken yet: all, when the hook kept nothing."""
        leading, self._leading = self._leading, []
        return leading


def _cut_into_units(contents: list[Any]) -> list[list[int]]:
    """A call, whatever else its model turn says after it, and the answers are one unit.

    Chats that stream keep a model turn as several contents, one for each chunk.
    """
    units: list[list[int]] = []
    asked: int | None = None  # the unit in which the model turn that is being answered first called
    answered = False
    for index, content in enumerate(contents):
        if asked is not None and has_part(content, "functionResponse"):
            units[asked:] = [[*chain(*units[asked:]), index]]
            answered = True
            continue
        if answered or role_of(content) != "model":
            asked, answered = None, False
        units.append([index])
        if asked is None and has_part(content, "functionCall"):
            asked = len(units) - 1
    return units
