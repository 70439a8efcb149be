"""The turns of a request: which a hook is shown, and how an edited list goes back over them.

A turn without text (a bare call, a bare tool result, an image) is not shown and never lost. A call and the
turns that answer it form a unit: whatever a hook inserts, removes or reorders, nothing comes between them.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

from hookgate.translator.align import Message, align
from hookgate.translator.errors import EditError
from hookgate.translator.fields import JsonObject, read, read_list, write
from hookgate.translator.lenses import TEXT, Lens
from hookgate.translator.texts import has_part


class Turns:
    """The turns of a request, as a lens shows them: read once, for the view and for the edit of it."""

    def __init__(self, body: JsonObject, lens: Lens) -> None:
        self._body, self._lens = body, lens
        self._contents = read_list(body, "contents")
        forms = lens.forms(self._contents)
        self._indexes = [index for index, form in enumerate(forms) if form]
        self.messages = [
            (role_of(content), form) for content, form in zip(self._contents, forms, strict=True) if form
        ]

    def show(self) -> list[JsonObject]:
        """`[{"role", "content"}]` of each turn that is shown."""
        if self._lens is TEXT:
            return [{"role": role, "content": text} for role, text in self.messages]
        turns = (self._contents[index] for index in self._indexes)
        return [{"role": role_of(turn), "content": self._lens.show(turn)} for turn in turns]

    def edited(self, edited: Sequence[Message], head: int = 0, tail: int = 0) -> JsonObject:
        """The body after an edited list of turns; `edited` is that list without its ends.

        The first `head` and the last `tail` turns came back as they were shown. Raises EditError, with the
        turn's number in the whole list.
        """
        end = len(self.messages) - tail
        shown = self.messages[head:end]
        if shown == edited:
            return self._body
        matches = [None if match is None else head + match for match in align(shown, edited)]
        changed = dict(self._rewritten(edited, matches, head))
        if matches == list(range(head, end)):  # only edits: every turn stays where it is
            new = [*self._contents]
            for index, content in changed.items():
                new[index] = content
        else:
            new = self._arranged(changed, self._added(edited, matches, head), matches, range(head, end))
        single = isinstance(read(self._body, "contents"), dict) and len(new) == 1
        return write(self._body, "contents", new[0] if single else new)

    def _rewritten(
        self, edited: Sequence[Message], matches: Sequence[int | None], head: int
    ) -> Iterator[tuple[int, JsonObject]]:
        """The contents whose message came back otherwise, by their index."""
        for position, (message, match) in enumerate(zip(edited, matches, strict=True), head):
            if match is None or self.messages[match] == message:
                continue
            (shown_role, _), (role, form) = self.messages[match], message
            index = self._indexes[match]
            with _numbered(position):
                content = self._lens.edited(self._contents[index], form)
            yield index, content if role == shown_role else {**content, "role": role}

    def _added(self, edited: Sequence[Message], matches: Sequence[int | None], head: int) -> list[Any]:
        """The content of each message that is new; None for the others."""
        added: list[Any] = []
        for position, ((role, form), match) in enumerate(zip(edited, matches, strict=True), head):
            with _numbered(position):
                added.append(self._lens.new(role, form) if match is None else None)
        return added

    def _arranged(
        self, changed: dict[int, JsonObject], added: list[Any], matches: Sequence[int | None], span: range
    ) -> list[Any]:
        """The new contents when turns of `span` were added, removed or moved."""
        kept = set(matches)
        gone = [self._indexes[turn] for turn in span if turn not in kept]
        bare = {index: self._lens.bare(self._contents[index]) for index in gone}
        before, behind = range(span.start), range(span.stop, len(self.messages))
        added = [*([None] * len(before)), *added, *([None] * len(behind))]
        turns = [*before, *matches, *behind]
        places = [None if turn is None else self._indexes[turn] for turn in turns]
        return _arranged(self._contents, changed | bare, added, places)


def role_of(content: Any) -> str:
    """The role a hook is shown: `function` and an absent role are the user's."""
    return "model" if type(content) is dict and content.get("role") == "model" else "user"


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
            units[asked] += [*chain(*units[asked + 1 :]), index]
            del units[asked + 1 :]
            answered = True
            continue
        if answered or role_of(content) != "model":
            asked, answered = None, False
        units.append([index])
        if asked is None and has_part(content, "functionCall"):
            asked = len(units) - 1
    return units
