"""Messages of a client, each of which is shown to hooks as a request."""

from collections.abc import Sequence
from typing import Any

from hookgate.translator.checks import canonical_base64, check_keys, check_request, make_canonical, with_data
from hookgate.translator.fields import (
    BodyError,
    EditError,
    JsonObject,
    camel,
    is_text,
    joined_text,
    read,
    read_list,
    read_object,
    same,
    without,
    write,
)
from hookgate.translator.live.audio import is_audio_type
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
_TEXT_PART = frozenset({"text", "thought"})
_SIGNALS = ("activityStart", "activityEnd", "audioStreamEnd")


class ClientMessage:
    """A message of a client. Raises BodyError if hooks could not judge it."""

    def __init__(self, message: Any) -> None:
        if not isinstance(message, dict):
            raise BodyError("", "a message must be a JSON object")
        self.message = make_canonical(message)
        given = [key for key, value in message.items() if value is not None]
        if len(given) != 1 or camel(given[0]) not in CLIENT_KINDS:
            raise BodyError("", f"a message must have one field, which is one of {', '.join(CLIENT_KINDS)}")
        self._key, self.kind = given[0], camel(given[0])
        self.body: JsonObject = self.message[self._key]
        """The object that the message contains."""
        if not isinstance(self.body, dict):
            raise BodyError(self._key, "it must be an object")
        self.audio_bytes = 0
        """The length of the audio in the message, which hooks cannot judge, in bytes."""
        self.request: JsonObject | None = check_request(self._as_request()) if self._has_text() else None
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
        """Return whether the input is text, after making its audio canonical.

        Raises BodyError for anything but text, audio and signals.
        """
        check_keys(self.body, self._key, ("text", "audio", "mediaChunks", *_SIGNALS))
        for name in _SIGNALS:
            if read(self.body, name) not in (None, True, False, {}):
                raise BodyError(name, "it must be empty")
        blobs = [*self._items("mediaChunks"), *self._items("audio")]
        written: dict[int, str] = {}
        for blob in blobs:
            kind = read(check_keys(blob, "audio", ("data", "mimeType")), "mimeType")
            if not is_audio_type(kind):
                raise BodyError(self._key, "hooks cannot judge video and images here; only audio is accepted")
            data = blob.get("data")
            canonical = canonical_base64(data) if isinstance(data, str) else None
            if canonical is None:
                raise BodyError(f"{self._key}.audio.data", "it must be base64 as in RFC 4648")
            self.audio_bytes += len(canonical) * 3 // 4
            if canonical != data:
                written[id(blob)] = canonical
        self.message = with_data(self.message, written)
        self.body = self.message[self._key]
        text = read(self.body, "text")
        if text is not None and not isinstance(text, str):
            raise BodyError(f"{self._key}.text", "it must be a string")
        return bool(text)

    def _as_request(self) -> JsonObject:
        match self.kind:
            case "setup":
                return without(self.body, "model")
            case "clientContent":
                return {"contents": read_list(self.body, "turns")}
            case "realtimeInput":
                return {"contents": [{"role": "user", "parts": [{"text": read(self.body, "text")}]}]}
        parts = [{"functionResponse": each} for each in read_list(self.body, "functionResponses")]
        return {"contents": [{"role": "user", "parts": parts}]}

    @property
    def is_text(self) -> bool:
        """Whether it is one turn of nothing but texts, or of nothing but thoughts, as most messages are."""
        turns = read_list(self.request or {}, "contents")
        if self.kind not in ("clientContent", "realtimeInput") or len(turns) != 1:
            return False
        parts = read_list(turns[0], "parts")
        if not all(is_text(part) and part.keys() <= _TEXT_PART for part in parts):
            return False
        return len({bool(part.get("thought")) for part in parts}) == 1

    def continues(self, earlier: "ClientMessage") -> bool:
        """Return whether its texts and those of an earlier message, which it follows, can be one turn."""
        return same(_beside_texts(self), _beside_texts(earlier))

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


def one_turn(messages: Sequence[ClientMessage]) -> JsonObject:
    """Return a request with the texts of messages in one turn. Each continues the one before it."""
    turns = [turn for each in messages for turn in read_list(each.request or {}, "contents")]
    parts = [part for turn in turns for part in read_list(turn, "parts")]
    return {"contents": [write(turns[0], "parts", parts)]}


def _beside_texts(message: ClientMessage) -> list[Any]:
    """Return what the only turn of a message has besides its texts, and whether these are thoughts."""
    [turn] = read_list(message.request or {}, "contents")
    return [without(turn, "parts"), bool(read_list(turn, "parts")[0].get("thought"))]


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


def blocked_calls(calls: Sequence[tuple[JsonObject, str]]) -> JsonObject:
    """Return the message of a client that tells a model why calls were not run."""
    responses = [failed_call_response(call, reason) for call, reason in calls]
    return {"toolResponse": {"functionResponses": responses}}
