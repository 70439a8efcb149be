"""Shows the conversation of a request as messages, and applies edited messages to its contents.

Messages are the system instruction and the turns.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, Protocol

from hookgate.translator.conversation.alignment import Message, align
from hookgate.translator.conversation.parts import (
    apply_parts,
    new_content,
    read_typed_part,
    show_other_fields,
    show_parts,
    without_parts,
)
from hookgate.translator.fields import (
    EditError,
    JsonObject,
    has_part,
    is_text,
    joined_text,
    joined_texts,
    read,
    read_list,
    read_object,
    texts_of,
    with_texts,
    without,
    without_texts,
    write,
)
from hookgate.translator.streaming.edits import respread
from hookgate.translator.strictjson import dumps, loads


class TurnLens(Protocol):
    """A way to show turns and to apply edits. A turn's form is its shown content as a string."""

    def forms(self, contents: Sequence[Any]) -> list[str]:
        """Return the form of each turn. It is empty for turns that are not shown."""

    def show(self, content: JsonObject) -> JsonObject:
        """Return the message for a turn, without its role."""

    def read(self, content: Any, path: str) -> str:
        """Return the form of a content that a hook returned. Raises EditError."""

    def edited(self, content: JsonObject, form: str) -> JsonObject:
        """Return the turn with an edited form. Raises EditError, with a path from the message."""

    def bare(self, content: JsonObject) -> JsonObject:
        """Return the rest of the turn after a hook has removed its message."""

    def new(self, role: str, form: str) -> JsonObject:
        """Return the turn for a message that a hook added. Raises EditError, with a path from the message."""


class TextLens:
    """Shows the joined text parts. Parts of other types in a hook's content become text, as JSON."""

    def forms(self, contents: Sequence[Any]) -> list[str]:
        return joined_texts(contents)

    def show(self, content: JsonObject) -> JsonObject:
        return {"content": joined_text(content)}

    def read(self, content: Any, path: str) -> str:
        if isinstance(content, str):
            return content
        if not isinstance(content, list):
            raise EditError(path, "a string or a list of parts", content)
        return "".join(_part_as_text(part, f"{path}[{i}]") for i, part in enumerate(content))

    def edited(self, content: JsonObject, form: str) -> JsonObject:
        texts = texts_of(content)
        return content if "".join(texts) == form else with_texts(content, respread(texts, form))

    def bare(self, content: JsonObject) -> JsonObject:
        return without_texts(content)

    def new(self, role: str, form: str) -> JsonObject:
        return {"role": role, "parts": [{"text": form}]}


def _part_as_text(part: Any, path: str) -> str:
    if isinstance(part, dict) and part.get("type", "text") != "text":
        return dumps(part).decode()
    text: str = read_typed_part(part, path, ("text",))["text"]
    return text


class PartsLens:
    """Shows all parts, typed, and the other fields of a turn."""

    def forms(self, contents: Sequence[Any]) -> list[str]:
        return [self._form(content) if isinstance(content, dict) else "" for content in contents]

    def _form(self, content: JsonObject) -> str:
        shown = self.show(content)
        return dumps(shown["content"]).decode() if shown["content"] or "fields" in shown else ""

    def show(self, content: JsonObject) -> JsonObject:
        return {"content": show_parts(content), **show_other_fields(content, "parts", "role")}

    def read(self, content: Any, path: str) -> str:
        if not isinstance(content, str | list):
            raise EditError(path, "a list of typed parts, or a string", content)
        given = [content] if isinstance(content, str) else content
        return dumps([read_typed_part(part, f"{path}[{i}]") for i, part in enumerate(given)]).decode()

    def edited(self, content: JsonObject, form: str) -> JsonObject:
        return apply_parts(content, loads(form.encode()))

    def bare(self, content: JsonObject) -> JsonObject:
        return without_parts(content)

    def new(self, role: str, form: str) -> JsonObject:
        return new_content(role, loads(form.encode()))


TEXT = TextLens()
PARTS = PartsLens()


class Turns:
    """The turns of a request as shown by a lens. They are read once, for the view and its edit."""

    def __init__(self, body: JsonObject, lens: TurnLens) -> None:
        self._body, self._lens = body, lens
        self._contents = read_list(body, "contents")
        forms = lens.forms(self._contents)
        self._indexes = [index for index, form in enumerate(forms) if form]
        self.messages = [
            (role_of(content), form) for content, form in zip(self._contents, forms, strict=True) if form
        ]

    def show(self) -> list[JsonObject]:
        """Return `[{"role", "content"}]` for the turns that are shown."""
        if self._lens is TEXT:
            return [{"role": role, "content": text} for role, text in self.messages]
        turns = (self._contents[index] for index in self._indexes)
        return [{"role": role_of(turn), **self._lens.show(turn)} for turn in turns]

    def edited(self, edited: Sequence[Message], head: int = 0, tail: int = 0) -> JsonObject:
        """Return the body after an edited list of turns. `edited` is the list without its unchanged ends.

        The first `head` and the last `tail` turns are unchanged. Raises EditError, with the turn's index in
        the whole list.
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
        """Yield the contents whose messages have changed, with their indexes."""
        for position, (message, match) in enumerate(zip(edited, matches, strict=True), head):
            if match is None or self.messages[match] == message:
                continue
            (shown_role, _), (role, form) = self.messages[match], message
            index = self._indexes[match]
            with _numbered(position):
                content = self._lens.edited(self._contents[index], form)
            yield index, content if role == shown_role else {**content, "role": role}

    def _added(self, edited: Sequence[Message], matches: Sequence[int | None], head: int) -> list[Any]:
        """Return the content of each new message, and None for the others."""
        added: list[Any] = []
        for position, ((role, form), match) in enumerate(zip(edited, matches, strict=True), head):
            with _numbered(position):
                added.append(self._lens.new(role, form) if match is None else None)
        return added

    def _arranged(
        self, changed: dict[int, JsonObject], added: list[Any], matches: Sequence[int | None], span: range
    ) -> list[Any]:
        """Return the new contents if turns of `span` were added, removed or moved."""
        kept = set(matches)
        gone = [self._indexes[turn] for turn in span if turn not in kept]
        bare = {index: self._lens.bare(self._contents[index]) for index in gone}
        before, behind = range(span.start), range(span.stop, len(self.messages))
        added = [*([None] * len(before)), *added, *([None] * len(behind))]
        turns = [*before, *matches, *behind]
        places = [None if turn is None else self._indexes[turn] for turn in turns]
        return _arranged(self._contents, changed | bare, added, places)


def role_of(content: Any) -> str:
    """Return the role to show: "model", or "user" for all other roles, including `function` and none."""
    return "model" if type(content) is dict and content.get("role") == "model" else "user"


@contextmanager
def _numbered(position: int) -> Iterator[None]:
    """Prefix the path of an EditError with the index of the turn."""
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
    """Return the contents in the order of the edited list, with hidden units after the units they followed.

    A new message is inserted directly before the unit of the next message that the hook kept, or at the end.
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
    """Return the changed contents at `indexes`, without those that a removal left without parts."""
    now = [(changed.get(i, contents[i]), i in changed) for i in indexes]
    return [content for content, touched in now if not touched or read_list(content, "parts")]


class _Units:
    """Contents split into units that stay together, each followed by the hidden units after it."""

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
        """Return the contents that move together with the one at `index`, or None if already taken."""
        train = self._trains.pop(self._unit_of[index], None)
        return None if train is None else self.rest() + train

    def rest(self) -> list[int]:
        """Return the remaining contents that precede all kept ones: all contents if the hook kept none."""
        leading, self._leading = self._leading, []
        return leading


def _cut_into_units(contents: list[Any]) -> list[list[int]]:
    """Split contents into units. A call, the rest of its model turn, and its responses are one unit.

    Chats that use streaming keep a model turn as several contents, one for each chunk.
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


ROLES = ("user", "model", "system")


class Messages:
    """The messages of a request, in the form of a lens: the system instruction, then the turns."""

    def __init__(self, body: JsonObject, lens: TurnLens) -> None:
        self._body, self._lens = body, lens
        self._instruction = read_object(body, "systemInstruction")
        [form] = lens.forms([self._instruction])
        self._system = [("system", form)] if form else []
        self._turns = Turns(body, lens)

    def show(self) -> list[JsonObject]:
        """Return a new list `[{"role", "content"}]`: the system instruction, and the turns that are shown."""
        turns = self._turns.show()
        if not self._system:
            return turns
        return [{"role": "system", **self._lens.show(self._instruction)}, *turns]

    def edited(self, messages: Any) -> JsonObject:
        """Return the body after a hook's list of messages, or the body itself if nothing changed.

        A list without system messages keeps the system instruction, since older hooks return turns only. A
        system message with empty content removes it. Raises EditError.
        """
        if not isinstance(messages, list):
            raise EditError("messages", "a list of {role, content}", messages)
        shown = self._system + self._turns.messages
        head, tail = _echoed(shown, messages) if self._lens is TEXT else (0, 0)
        between = [
            _read_message(messages[index], index, self._lens) for index in range(head, len(messages) - tail)
        ]
        first = len(self._system)
        if head >= first and not any(role == "system" for role, _ in between):
            return self._with_turns(between, range(first, len(messages)), head - first, tail)
        edited = [*shown[:head], *between, *shown[len(shown) - tail :]]
        places = [place for place, (role, _) in enumerate(edited) if role != "system"]
        body = self._with_turns([edited[place] for place in places], places)
        system = [message for message in edited if message[0] == "system"]
        return self._with_system(body, system) if system and system != self._system else body

    def _with_turns(
        self, turns: Sequence[Message], places: Sequence[int], head: int = 0, tail: int = 0
    ) -> JsonObject:
        """Return the body with edited turns. `places` are their indexes among all messages, for errors."""
        try:
            return self._turns.edited(turns, head, tail)
        except EditError as error:
            number, rest = error.path.removeprefix("[").split("]", 1)
            error.path = f"messages[{places[int(number)]}]{rest}"
            raise

    def _with_system(self, body: JsonObject, edited: Sequence[Message]) -> JsonObject:
        """Apply system messages. The shown one is the instruction; others become parts around it."""
        own = self._lens.bare(self._instruction)
        before: list[Any] = []
        after: list[Any] = []
        parts = before if self._system else after
        for (_, form), match in zip(edited, align(self._system, edited), strict=True):
            if match is None:
                parts += [part for part in read_list(self._lens.new("system", form), "parts") if part["text"]]
            else:
                own, parts = self._lens.edited(self._instruction, form), after
        parts = [*before, *read_list(own, "parts"), *after]
        if not any(part.get("text") or not is_text(part) for part in parts):
            return without(body, "systemInstruction")
        single = isinstance(self._instruction.get("parts"), dict) and len(parts) == 1
        return write(body, "systemInstruction", write(own, "parts", parts[0] if single else parts))


def _echoed(shown: Sequence[Message], messages: Sequence[Any]) -> tuple[int, int]:
    """Return the number of unchanged messages at the beginning, and of other unchanged ones at the end."""
    head = _echoed_first(zip(shown, messages, strict=False))
    return head, _echoed_first(zip(reversed(shown[head:]), reversed(messages[head:]), strict=False))


def _echoed_first(pairs: Iterable[tuple[Message, Any]]) -> int:
    count = 0
    for (role, text), item in pairs:
        if type(item) is not dict or item.get("content") != text or item.get("role") != role:
            break
        count += 1
    return count


def _read_message(item: Any, index: int, lens: TurnLens) -> Message:
    if not isinstance(item, dict):
        raise EditError(f"messages[{index}]", "an object {role, content}", item)
    role, content = item.get("role"), item.get("content")
    if role not in ROLES:
        raise EditError(f"messages[{index}].role", "'user', 'model' or 'system'", role)
    return role, lens.read(content, f"messages[{index}].content")
