"""Messages of a server, whose kinds of content are each shown to hooks as a candidate of a response."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from hookgate.translator.checks import check_spellings, check_thought
from hookgate.translator.fields import (
    BodyError,
    JsonObject,
    has_part,
    joined_text,
    parts_of,
    read,
    read_list,
    read_object,
    without,
    write,
)
from hookgate.translator.live.audio import is_audio
from hookgate.translator.live.facts import CONTENT, MESSAGE, TOOL_CALL, TURN, only_known

_TRANSCRIPTIONS = ("inputTranscription", "outputTranscription")
_SOURCES = ("groundingMetadata", "urlContextMetadata")
_JUDGED = ("modelTurn", *_SOURCES, *_TRANSCRIPTIONS)
"""The kinds of content that hooks judge."""


class ServerMessage:
    """A message of a server, without what hooks cannot judge. Raises BodyError if it is invalid."""

    def __init__(self, message: Any, sent_calls: Collection[str] = ()) -> None:
        """`sent_calls` are the IDs of calls that the client has received, which alone can be cancelled."""
        if not isinstance(message, dict):
            raise BodyError("", "a message must be a JSON object")
        check_spellings(message)
        self.message = _with_cancellations(only_known(message, MESSAGE), sent_calls)
        content = _object(self.message, "serverContent")
        check_spellings(content)
        for name in _TRANSCRIPTIONS:
            if not isinstance(read(_object(content, name), "text"), str | None):
                raise BodyError(f"serverContent.{name}.text", "it must be a string")
        self.content = only_known(content, CONTENT)
        self.turn = _model_turn(self.content)
        if not isinstance(read(self.turn, "parts"), list | None):
            raise BodyError("serverContent.modelTurn.parts", "the parts must be a list")
        """What the model has written or spoken; empty if the message contains none of it."""
        if len(self.turn) != len(_object(self.content, "modelTurn")):
            self.content = write(self.content, "modelTurn", self.turn)
        if self.content is not content:
            self.message = write(self.message, "serverContent", self.content)
        self.usage = _object(self.message, "usageMetadata")
        """The tokens that the server counts in the message; empty if it counts none."""
        tool_call = _object(self.message, "toolCall")
        check_spellings(tool_call, "toolCall")
        if (kept := only_known(tool_call, TOOL_CALL)) is not tool_call:
            self.message = write(self.message, "toolCall", kept)
        if not isinstance(read(tool_call, "functionCalls"), list | None):
            raise BodyError("toolCall.functionCalls", "the calls must be a list")
        self.calls: list[JsonObject] = read_list(tool_call, "functionCalls")
        """The tool calls in the message."""
        if not all(isinstance(call, dict) for call in self.calls):
            raise BodyError("toolCall.functionCalls", "a call must be an object")

    def transcribed(self, name: str) -> str:
        """Return the text of a transcription, by the name of its field."""
        return read(_object(self.content, name), "text") or ""

    @property
    def has_content(self) -> bool:
        """Whether the message contains anything that hooks judge."""
        return bool(self.calls) or any(read(self.content, kind) is not None for kind in _JUDGED)

    @property
    def media_bytes(self) -> int:
        """The length of the audio in the message, in bytes."""
        blobs = (read_object(part, "inlineData") for part in read_list(self.turn, "parts") if is_audio(part))
        return sum(len(str(blob.get("data", ""))) * 3 // 4 for blob in blobs)

    @property
    def generation_ends(self) -> bool:
        """Whether the model has finished its turn, of which a transcription may still be missing."""
        return bool(read(self.content, "generationComplete"))

    @property
    def turn_ends(self) -> bool:
        """Whether the model's turn ends with this message."""
        return any(read(self.content, name) for name in ("turnComplete", "interrupted"))

    def without_content(self, *kinds: str) -> JsonObject:
        """Return the message without these kinds of content; empty if nothing is left."""
        content = self.content
        for kind in kinds:
            content = without(content, kind)
        if content is self.content:
            return self.message
        left = bool(content)
        return (
            write(self.message, "serverContent", content) if left else without(self.message, "serverContent")
        )


def _with_calls(message: JsonObject, calls: Sequence[JsonObject]) -> JsonObject:
    """Return a message with other tool calls; without the field if there are none."""
    if not calls:
        return without(message, "toolCall")
    return write(message, "toolCall", write(_object(message, "toolCall"), "functionCalls", [*calls]))


class Segment:
    """Messages of a server that are judged together, because only together do they make a text."""

    def __init__(self, messages: Sequence[ServerMessage]) -> None:
        self._messages = messages
        self.heard = "".join(message.transcribed("inputTranscription") for message in messages)
        """What the user has said, as a text."""
        self.candidates: list[JsonObject] = []
        """What the model has written, what it has spoken, its sources, and its calls, each as a candidate."""
        self.kinds: list[str] = []
        """The kind of content that each candidate is."""
        parts = [part for message in messages for part in read_list(message.turn, "parts")]
        self._add("modelTurn", [part for part in parts if not is_audio(part)])
        spoken = "".join(message.transcribed("outputTranscription") for message in messages)
        self._add("outputTranscription", [{"text": spoken}] if spoken else [])
        for message in messages:
            for kind in _SOURCES:
                if (sources := read(message.content, kind)) is not None:
                    self._add(kind, [], {kind: sources})
        self._add("toolCall", [{"functionCall": call} for message in messages for call in message.calls])

    @property
    def is_transcribed(self) -> bool:
        """Whether there is no speech without a transcription."""
        return "outputTranscription" in self.kinds or not any(each.media_bytes for each in self._messages)

    @property
    def untranscribed_bytes(self) -> int:
        """The length of the audio if there is no transcription of it, in bytes."""
        return 0 if self.is_transcribed else sum(each.media_bytes for each in self._messages)

    def _add(self, kind: str, parts: list[Any], beside: JsonObject | None = None) -> None:
        if parts or beside:
            self.kinds.append(kind)
            self.candidates.append({"content": {"role": "model", "parts": parts}, **(beside or {})})

    def calls(self, candidates: Sequence[JsonObject]) -> list[JsonObject]:
        """Return the tool calls in edited candidates."""
        if "toolCall" not in self.kinds:
            return []
        parts = parts_of(candidates[self.kinds.index("toolCall")])
        calls = (read(part, "functionCall") for part in parts if isinstance(part, dict))
        return [call for call in calls if isinstance(call, dict)]

    def edited(
        self, heard: str, candidates: Sequence[JsonObject], calls: Sequence[JsonObject]
    ) -> Iterator[JsonObject]:
        """Yield the messages after edits of hooks.

        If hooks have edited what the model has written or spoken, its audio is removed.
        """
        pairs = zip(self.kinds, candidates, self.candidates, strict=True)
        speech_edited = any(new is not old for kind, new, old in pairs if kind != "toolCall")
        content: JsonObject = {"inputTranscription": {"text": heard}} if heard else {}
        if speech_edited:
            for kind, candidate in zip(self.kinds, candidates, strict=True):
                fields = _content_of(kind, candidate)
                if fields.keys() & content.keys():  # sources of several messages
                    yield {"serverContent": content}
                    content = {}
                content |= fields
        if content:
            yield {"serverContent": content}
        for message in self._messages:
            left = message.without_content(*(_JUDGED if speech_edited else ("inputTranscription",)))
            left = _with_calls(left, calls) if message.calls else left
            if left:
                yield left


def _content_of(kind: str, candidate: JsonObject) -> JsonObject:
    """Return the fields of serverContent for an edited candidate of a kind."""
    turn = read_object(candidate, "content")
    if kind == "modelTurn":
        return {kind: turn} if read_list(turn, "parts") else {}
    if kind == "outputTranscription":
        return {kind: {"text": text}} if (text := joined_text(turn)) else {}
    if kind in _SOURCES and (sources := read(candidate, kind)) is not None:
        return {kind: sources}
    return {}


def _model_turn(content: JsonObject) -> JsonObject:
    """Return the model's turn in the content of a message, without fields that hooks cannot judge."""
    turn = only_known(_object(content, "modelTurn"), TURN)
    parts = read(turn, "parts")
    if not isinstance(parts, list | dict | None) or not all(
        isinstance(part, dict) for part in read_list(turn, "parts")
    ):
        raise BodyError("serverContent.modelTurn.parts", "it must be a list of objects")
    if has_part(turn, "functionCall"):
        raise BodyError("serverContent.modelTurn", "a function call belongs in toolCall")
    for part in read_list(turn, "parts"):
        check_thought(part, "serverContent.modelTurn.parts")
    return turn


def _object(obj: JsonObject, name: str) -> JsonObject:
    """Return a field that must be an object; empty if it is missing. Raises BodyError for anything else."""
    value = read(obj, name)
    if not isinstance(value, dict | None):
        raise BodyError(name, "it must be an object")
    return value or {}


def _with_cancellations(message: JsonObject, sent_calls: Collection[str]) -> JsonObject:
    """Return the message without cancellations of calls that the client has not received."""
    cancelled = _object(message, "toolCallCancellation")
    ids = read_list(cancelled, "ids")
    left = [each for each in ids if isinstance(each, str) and each in sent_calls]
    if len(left) == len(ids):
        return message
    if not left:
        return without(message, "toolCallCancellation")
    return write(message, "toolCallCancellation", write(cancelled, "ids", left))
