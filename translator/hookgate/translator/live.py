"""Messages of the Live API, by which a client and a model talk over a WebSocket.

Each message of a client is shown to hooks as a request, and each kind of content in the messages of a server
as a candidate of a response. Hooks would not see messages and fields of other kinds: they are refused from a
client, and removed from a server's messages.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from hookgate.translator.checks import (
    check_canonical,
    check_keys,
    check_request,
    check_spellings,
    is_canonical_base64,
)
from hookgate.translator.conversation.candidates import group_parts
from hookgate.translator.fields import (
    BodyError,
    EditError,
    JsonObject,
    camel,
    has_part,
    is_text,
    joined_text,
    parts_of,
    read,
    read_list,
    read_object,
    same,
    without,
    write,
)
from hookgate.translator.streaming.events import failed_call_response

CLIENT_KINDS = ("setup", "clientContent", "realtimeInput", "toolResponse")
"""The kinds of messages of a client."""

_SETUP = (
    "model",
    "generationConfig",
    "systemInstruction",
    "tools",
    "realtimeInputConfig",
    "sessionResumption",
    "contextWindowCompression",
    "inputAudioTranscription",
    "outputAudioTranscription",
    "proactivity",
    "explicitVadSignal",
    "historyConfig",
    "safetySettings",
    "labels",
)
_SIGNALS = ("activityStart", "activityEnd", "audioStreamEnd")
_AUDIO = re.compile(
    r"audio/[A-Za-z0-9.+-]{1,32}(?:; ?(?:rate|channels)=[0-9]{1,6}|; ?codecs?=[A-Za-z0-9]{1,8}){0,3}"
)
_AUDIO_FIELDS = frozenset({"mimeType", "data"})


class ClientMessage:
    """A message of a client. Raises BodyError if hooks could not judge it."""

    def __init__(self, message: Any) -> None:
        if not isinstance(message, dict):
            raise BodyError("", "a message must be a JSON object")
        check_canonical(message)
        given = [key for key, value in message.items() if value is not None]
        if len(given) != 1 or camel(given[0]) not in CLIENT_KINDS:
            raise BodyError("", f"a message must have one field, which is one of {', '.join(CLIENT_KINDS)}")
        self.message, self._key, self.kind = message, given[0], camel(given[0])
        self.body: JsonObject = message[self._key]
        """The object that the message contains."""
        if not isinstance(self.body, dict):
            raise BodyError(self._key, "it must be an object")
        self.audio_bytes = 0
        """The length of the audio in the message, which hooks cannot judge, in bytes."""
        self.request: JsonObject | None = check_request(self._shown()) if self._has_text() else None
        """The request that hooks are shown; None if the message has no text."""

    def _has_text(self) -> bool:
        match self.kind:
            case "setup":
                check_keys(self.body, self._key, _SETUP)
                if read(read_object(self.body, "sessionResumption"), "handle") is not None:
                    raise BodyError(
                        "setup.sessionResumption.handle",
                        "hooks would not see the earlier turns; start a new session",
                    )
            case "clientContent":
                check_keys(self.body, self._key, ("turns", "turnComplete"))
                _check_flag(self.body, "turnComplete")
                return bool(self._items("turns"))
            case "toolResponse":
                check_keys(self.body, self._key, ("functionResponses",))
                if not all(isinstance(each, dict) for each in self._items("functionResponses")):
                    raise BodyError(f"{self._key}.functionResponses", "a result must be an object")
            case _:
                return self._check_realtime_input()
        return True

    def _items(self, name: str) -> list[Any]:
        """Return the items of a field. Raises BodyError if it is neither a list nor an object."""
        if not isinstance(read(self.body, name), list | dict | None):
            raise BodyError(f"{self._key}.{name}", "it must be a list of objects")
        return read_list(self.body, name)

    def _check_realtime_input(self) -> bool:
        """Return whether the input is text. Raises BodyError for anything but text, audio and signals."""
        check_keys(self.body, self._key, ("text", "audio", "mediaChunks", *_SIGNALS))
        for name in _SIGNALS:
            if read(self.body, name) not in (None, True, False, {}):
                raise BodyError(name, "it must be empty")
        blobs = [*self._items("mediaChunks"), *self._items("audio")]
        for blob in blobs:
            kind = read(check_keys(blob, "audio", ("data", "mimeType")), "mimeType")
            if not isinstance(kind, str) or not _AUDIO.fullmatch(kind):
                raise BodyError(self._key, "hooks cannot judge video and images here; only audio is accepted")
            if not (isinstance(blob.get("data"), str) and is_canonical_base64(blob["data"])):
                raise BodyError(f"{self._key}.audio.data", "it must be base64 as in RFC 4648")
            self.audio_bytes += len(blob["data"]) * 3 // 4
        text = read(self.body, "text")
        if text is not None and not isinstance(text, str):
            raise BodyError(f"{self._key}.text", "it must be a string")
        return bool(text)

    def _shown(self) -> JsonObject:
        match self.kind:
            case "setup":
                return without(self.body, "model")
            case "clientContent":
                return {"contents": read_list(self.body, "turns")}
            case "realtimeInput":
                return {"contents": [{"role": "user", "parts": [{"text": read(self.body, "text")}]}]}
        parts = [{"functionResponse": each} for each in read_list(self.body, "functionResponses")]
        return {"contents": [{"role": "user", "parts": parts}]}

    def edited(self, request: JsonObject) -> JsonObject:
        """Return the message with an edited request. Settings that it has no field for are dropped.

        Raises EditError if the message cannot contain an edit.
        """
        if request is self.request:
            return self.message
        match self.kind:
            case "setup":
                return self.with_body(self._edited_setup(request))
            case "clientContent":
                return self.with_body(write(self.body, "turns", read_list(request, "contents")))
            case "realtimeInput":
                return self.with_body(write(self.body, "text", _only_text(request)))
        parts = [part for turn in read_list(request, "contents") for part in read_list(turn, "parts")]
        results = [read(part, "functionResponse") if isinstance(part, dict) else None for part in parts]
        if not all(isinstance(result, dict) for result in results):
            raise EditError("contents", "tool results only", parts)
        return self.with_body(write(self.body, "functionResponses", results))

    def _edited_setup(self, request: JsonObject) -> JsonObject:
        if read_list(request, "contents"):
            raise EditError("contents", "no turns: the setup of a session has none", request["contents"])
        shown = self.request or {}
        kept = {key: value for key, value in self.body.items() if key in request or key not in shown}
        return kept | {key: value for key, value in request.items() if camel(key) in _SETUP}

    def with_body(self, body: JsonObject) -> JsonObject:
        """Return the message with another body."""
        return {self._key: body}


def with_transcriptions(setup: JsonObject) -> JsonObject:
    """Return a setup with which a server transcribes what is said, by either side."""
    if read(setup, "inputAudioTranscription") is None:
        setup = write(setup, "inputAudioTranscription", {})
    modalities = read_list(read_object(setup, "generationConfig"), "responseModalities")
    # Without modalities, or with an empty list, which is the same in protobuf's JSON, the model decides.
    speaks = not modalities or any(str(each).upper() != "TEXT" for each in modalities)
    if speaks and read(setup, "outputAudioTranscription") is None:
        setup = write(setup, "outputAudioTranscription", {})
    return setup


def _check_flag(obj: JsonObject, name: str) -> None:
    if not isinstance(read(obj, name), bool | None):
        raise BodyError(name, "it must be true or false")


def _only_text(request: JsonObject) -> str:
    contents = read_list(request, "contents")
    if len(contents) != 1 or not all(map(is_text, read_list(contents[0], "parts"))):
        raise EditError("contents", "one turn of text", contents)
    return joined_text(contents[0])


# ---- messages of a server


_SERVER = ("setupComplete", "serverContent", "toolCall", "toolCallCancellation", "usageMetadata", "goAway")
_SERVER_FIELDS = frozenset({*_SERVER, "sessionResumptionUpdate"})
_CONTENT_FIELDS = frozenset(
    {
        "modelTurn",
        "turnComplete",
        "interrupted",
        "generationComplete",
        "waitingForInput",
        "turnCompleteReason",
        "groundingMetadata",
        "inputTranscription",
        "outputTranscription",
    }
)
_TRANSCRIPTIONS = ("inputTranscription", "outputTranscription")
_JUDGED = ("modelTurn", "groundingMetadata", *_TRANSCRIPTIONS)
"""The kinds of content that hooks judge."""

_TRANSCRIPTION_FIELDS = frozenset({"text", "finished", "languageCode"})
_TURN_FIELDS = frozenset({"parts", "role"})
_TOOL_CALL_FIELDS = frozenset({"functionCalls"})


class ServerMessage:
    """A message of a server, without what hooks cannot judge. Raises BodyError if it is invalid."""

    def __init__(self, message: Any) -> None:
        if not isinstance(message, dict):
            raise BodyError("", "a message must be a JSON object")
        check_spellings(message)
        self.message = _only(message, _SERVER_FIELDS)
        content = _object(self.message, "serverContent")
        check_spellings(content)
        self.content = _only(content, _CONTENT_FIELDS)
        for name in _TRANSCRIPTIONS:
            said = _object(self.content, name)
            if not isinstance(read(said, "text"), str | None):
                raise BodyError(f"serverContent.{name}.text", "it must be a string")
            if said and (kept := _only(said, _TRANSCRIPTION_FIELDS)) is not said:
                self.content = write(self.content, name, kept)
        self.turn = _model_turn(self.content)
        """What the model has written or spoken; empty if the message contains none of it."""
        if len(self.turn) != len(_object(self.content, "modelTurn")):
            self.content = write(self.content, "modelTurn", self.turn)
        if self.content is not content:
            self.message = write(self.message, "serverContent", self.content)
        self.usage = _object(self.message, "usageMetadata")
        """The tokens that the server counts in the message; empty if it counts none."""
        tool_call = _object(self.message, "toolCall")
        check_spellings(tool_call, "toolCall")
        if (kept := _only(tool_call, _TOOL_CALL_FIELDS)) is not tool_call:
            self.message = write(self.message, "toolCall", kept)
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
        blobs = (read_object(part, "inlineData") for part in read_list(self.turn, "parts") if _is_audio(part))
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


def blocked_calls(calls: Sequence[tuple[JsonObject, str]]) -> JsonObject:
    """Return the message of a client that tells a model why calls were not run."""
    responses = [failed_call_response(call, reason) for call, reason in calls]
    return {"toolResponse": {"functionResponses": responses}}


_REMEMBERED = 8192
"""The number of characters of a text that are shown again: not all, because a turn may have many calls."""


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
        strands = {(kind, bool(part.get("thought"))) for part in parts if is_text(part)}
        earlier = [
            {"text": text, **({"thought": True} if strand[1] else {})}
            for strand, text in self._texts.items()
            if strand in strands
        ]
        return _with_parts(candidate, [*earlier, *parts]) if earlier else candidate

    def latest(self, kind: str, candidate: JsonObject, shown: JsonObject, edited: JsonObject) -> JsonObject:
        """Note the text of a candidate, and return what hooks left of the candidate itself.

        Args:
            kind: The kind of its content.
            candidate: The candidate without the text that it continues.
            shown: The candidate as `continued` returned it.
            edited: What hooks left of that.
        """
        new = edited
        if shown is not candidate:
            before, parts = parts_of(shown), parts_of(candidate)
            owners = [int(number >= len(before) - len(parts)) for number in range(len(before))]
            left = group_parts(owners, before, parts_of(edited), first=1).get(1, [])
            new = _with_parts(edited, left)
        texts = [part for part in parts_of(new) if is_text(part)]
        for thought in {bool(part.get("thought")) for part in texts}:
            more = "".join(part["text"] for part in texts if bool(part.get("thought")) is thought)
            self._texts[kind, thought] = (self._texts.get((kind, thought), "") + more)[-_REMEMBERED:]
        return candidate if same(new, candidate) else new


def _with_parts(candidate: JsonObject, parts: list[Any]) -> JsonObject:
    return write(candidate, "content", write(read_object(candidate, "content"), "parts", parts))


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
        self._add("modelTurn", [part for part in parts if not _is_audio(part)])
        spoken = "".join(message.transcribed("outputTranscription") for message in messages)
        self._add("outputTranscription", [{"text": spoken}] if spoken else [])
        for message in messages:
            if (sources := read(message.content, "groundingMetadata")) is not None:
                self._add("groundingMetadata", [], {"groundingMetadata": sources})
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
    if kind == "groundingMetadata" and (sources := read(candidate, kind)) is not None:
        return {kind: sources}
    return {}


def _model_turn(content: JsonObject) -> JsonObject:
    """Return the model's turn in the content of a message, without fields that hooks cannot judge."""
    turn = _only(_object(content, "modelTurn"), _TURN_FIELDS)
    parts = read(turn, "parts")
    if not isinstance(parts, list | dict | None) or not all(
        isinstance(part, dict) for part in read_list(turn, "parts")
    ):
        raise BodyError("serverContent.modelTurn.parts", "it must be a list of objects")
    if has_part(turn, "functionCall"):
        raise BodyError("serverContent.modelTurn", "a function call belongs in toolCall")
    return turn


def _is_audio(part: Any) -> bool:
    """Return whether a part is audio, and nothing else: no field of it could contain a text."""
    if not isinstance(part, dict) or set(map(camel, part)) != {"inlineData"}:
        return False
    blob = read_object(part, "inlineData")
    kind, data = read(blob, "mimeType"), blob.get("data")
    if not set(map(camel, blob)) <= _AUDIO_FIELDS or not isinstance(kind, str) or not _AUDIO.fullmatch(kind):
        return False
    return data is None or (isinstance(data, str) and is_canonical_base64(data))


def _object(obj: JsonObject, name: str) -> JsonObject:
    """Return a field that must be an object; empty if it is missing. Raises BodyError for anything else."""
    value = read(obj, name)
    if not isinstance(value, dict | None):
        raise BodyError(name, "it must be an object")
    return value or {}


def _only(obj: JsonObject, fields: frozenset[str]) -> JsonObject:
    """Return the object with these fields only; the same object if it has no others."""
    kept = {key: value for key, value in obj.items() if camel(key) in fields}
    return obj if len(kept) == len(obj) else kept
