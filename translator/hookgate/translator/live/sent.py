"""Text that was sent already, which hooks judge again together with the text that continues it.

Both sides of a session send texts in several messages, each of which is sent on when it was judged. A secret
in two of them is found only if hooks see them as one text.
"""

from collections.abc import Sequence
from typing import Any

from hookgate.translator.conversation.alignment import align_parts
from hookgate.translator.conversation.candidates import group_parts
from hookgate.translator.fields import (
    EditError,
    JsonObject,
    is_text,
    parts_of,
    read_list,
    read_object,
    same,
    texts_of,
    write,
)
from hookgate.translator.streaming.edits import common_prefix

REMEMBERED = 8192
"""The number of characters of a text that are shown again: not all, because a session may be long."""


def _check_edit(earlier: str, edited_earlier: str, own: str, edited_own: str) -> None:
    """Check what a hook left of a text that continues an earlier one. Raises EditError.

    The earlier text was sent, so an edit of it has no effect. It is redundant if the hook has also edited the
    beginning of the text that follows: then nothing is left that is on both sides of the border.
    """
    if edited_earlier != earlier and common_prefix(own, edited_own):
        raise EditError("text", "the text that was sent before to stay as it was", edited_earlier)


class ClientText:
    """The end of what a client has said so far in its session.

    It is not forgotten when the model has answered: nobody but the server knows which messages of the client
    it has read before. Turns of all roles are one text.
    """

    def __init__(self) -> None:
        self._text = ""

    @property
    def size(self) -> int:
        """The number of characters that are shown again with the next message."""
        return len(self._text)

    def continued(self, request: JsonObject) -> JsonObject:
        """Return a request with the text that it continues before its own, as other parts of the turn."""
        contents = read_list(request, "contents")
        at = next((at for at, turn in enumerate(contents) if any(texts_of(turn))), len(contents))
        if at == len(contents) or not self._text:
            return request
        turn = contents[at]
        parts = [{"text": self._text}, *read_list(turn, "parts")]
        if any(part.get("thought") for part in parts):  # some hooks read thoughts apart from texts
            parts.insert(0, {"text": self._text, "thought": True})
        turn = write(turn, "parts", parts)
        return write(request, "contents", [*contents[:at], turn, *contents[at + 1 :]])

    def latest(self, request: JsonObject, shown: JsonObject, edited: JsonObject) -> JsonObject:
        """Note the text of a request, and return what hooks left of the request itself.

        Args:
            request: The request without the text that it continues.
            shown: The request as `continued` returned it.
            edited: What hooks left of that.

        Raises EditError if hooks edited what was sent before, and left the text that continues it.
        """
        left = request if edited is shown else _without_earlier(request, shown, edited)
        self._text = (self._text + _joined(_parts(left)))[-REMEMBERED:]
        return left


def _parts(request: JsonObject) -> list[Any]:
    """Return the parts of all turns of a request."""
    turns = read_list(request, "contents")
    return [part for turn in turns if isinstance(turn, dict) for part in read_list(turn, "parts")]


def _joined(parts: Sequence[Any]) -> str:
    return "".join(part["text"] for part in parts if is_text(part))


def _without_earlier(request: JsonObject, shown: JsonObject, edited: JsonObject) -> JsonObject:
    """Return what hooks left of a request that was shown with text before its own. Raises EditError."""
    own, before = set(map(id, _parts(request))), _parts(shown)
    sent = {number for number, part in enumerate(before) if id(part) not in own}
    if not sent:
        return edited
    matches = iter(align_parts(before, _parts(edited)))
    turns: list[Any] = []
    edited_earlier: list[Any] = []
    for turn in read_list(edited, "contents"):
        parts = read_list(turn, "parts") if isinstance(turn, dict) else []
        kept: list[Any] = []
        for part in parts:
            (edited_earlier if next(matches) in sent else kept).append(part)
        if len(kept) == len(parts):
            turns.append(turn)
        elif kept:
            turns.append(write(turn, "parts", kept))
    left = write(edited, "contents", turns)
    earlier = [before[number] for number in sorted(sent)]
    _check_edit(_joined(earlier), _joined(edited_earlier), _joined(_parts(request)), _joined(_parts(left)))
    return request if same(left, request) else left


class ModelTurn:
    """The end of what a model has written and spoken so far in its turn.

    A tool call divides the turn, because the client must have received what is before the call to let
    the model continue. Hooks are shown the text before it again, so that they find what is on both sides.
    """

    def __init__(self) -> None:
        self._texts: dict[tuple[str, bool], str] = {}  # by kind of content, and whether it is a thought

    def continued(self, kind: str, candidate: JsonObject) -> JsonObject:
        """Return a candidate of this kind with the text that it continues before its own, as other parts."""
        parts = parts_of(candidate)
        channels = {(kind, bool(part.get("thought"))) for part in parts if is_text(part)}
        earlier = [
            {"text": text, **({"thought": True} if channel[1] else {})}
            for channel, text in self._texts.items()
            if channel in channels
        ]
        return _with_parts(candidate, [*earlier, *parts]) if earlier else candidate

    def latest(self, kind: str, candidate: JsonObject, shown: JsonObject, edited: JsonObject) -> JsonObject:
        """Note the text of a candidate, and return what hooks left of the candidate itself.

        Args:
            kind: The kind of its content.
            candidate: The candidate without the text that it continues.
            shown: The candidate as `continued` returned it.
            edited: What hooks left of that.

        Raises EditError if hooks edited what was sent before, and left the text that continues it.
        """
        new = edited
        if shown is not candidate:
            before, parts = parts_of(shown), parts_of(candidate)
            earlier = len(before) - len(parts)
            owners = [int(number >= earlier) for number in range(len(before))]
            groups = group_parts(owners, before, parts_of(edited), first=1)
            left = groups.get(1, [])
            for channel in (False, True):
                texts = (before[:earlier], groups.get(0, []), parts, left)
                _check_edit(*(_joined(_parts_of_channel(each, channel)) for each in texts))
            new = _with_parts(edited, left)
        for channel in (False, True):
            if more := _joined(_parts_of_channel(parts_of(new), channel)):
                self._texts[kind, channel] = (self._texts.get((kind, channel), "") + more)[-REMEMBERED:]
        return candidate if same(new, candidate) else new


def _parts_of_channel(parts: Sequence[Any], thought: bool) -> list[Any]:  # which of the two
    """Return the texts of parts that are thoughts, or the others."""
    return [part for part in parts if is_text(part) and bool(part.get("thought")) is thought]


def _with_parts(candidate: JsonObject, parts: list[Any]) -> JsonObject:
    return write(candidate, "content", write(read_object(candidate, "content"), "parts", parts))
