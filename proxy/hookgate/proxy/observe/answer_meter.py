"""Reads an answer's bytes as they pass: the tokens that it reports, how much text it has, and how it ends.

An answer consists of JSON documents: a whole body, the elements of an array, or the events of a stream. Only
a document's own fields count, in any dialect: arguments of functions may contain fields with the same names.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import orjson

from hookgate.hooks.policies.estimates import BYTES_PER_MEDIA_TOKEN, BYTES_PER_TOKEN
from hookgate.hooks.session import ExpectedUse
from hookgate.proxy.observe.usage import Usage, UsageCounts
from hookgate.translator import BodyError
from hookgate.translator.fields import JsonObject, read, read_list
from hookgate.translator.streaming.events import only_text
from hookgate.translator.streaming.framing import Framing, JsonArray, ServerSentEvents

_MAX_PARSED = 256 * 1024
"""The size in bytes of the largest document that is parsed.

Of others, so much of their beginning is searched for texts, and their end for the usage.
"""
_TAIL = 64 * 1024
_USAGE = re.compile(rb'"usage(?:Metadata)?"\s*:\s*(?=\{)')
_DONE = b"[DONE]"
_BYTES_PER_TOKEN = 8
"""The bytes of text in an answer that count as one token if the answer reports fewer.

In ordinary text a token has half as many, so that this exceeds no report that is true.
"""

_NESTED = ("response", "interaction")
"""The fields of events and of Code Assist's answers that contain the answer itself."""
_TEXTS = frozenset(
    {
        *("text", "content", "delta", "arguments", "code", "refusal", "transcript"),
        *("reasoning", "reasoning_content", "thought"),
    }
)
_TEXT = re.compile(rb'"(?:%b)"\s*:\s*"([^"\\]*(?:\\.[^"\\]*)*)' % "|".join(_TEXTS).encode())
_ENDS = frozenset(
    {
        *("response.completed", "response.incomplete", "response.failed"),
        *("interaction.completed", "interaction.failed", "interaction.requires_action"),
    }
)
_END_FIELDS = frozenset({"finishReason", "finish_reason"})
_WORD = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_MODEL = re.compile(r"(?:[\w./-]{1,256}/)?([a-z][a-z0-9_.:@-]{0,63})", re.ASCII)
"""Matches the name of a model; the group is the name without its collection, such as `models/`.

Names of models are in lower case. Other texts, such as most tokens, must not come to receipts as names.
"""


def _ignore_model(_: str) -> None:
    """Do nothing with the name of a model."""


class AnswerMeter:
    """Reads one answer: feed all of its bytes, then call `finish`."""

    def __init__(self, *, streamed: bool = False, note_model: Callable[[str], None] = _ignore_model) -> None:
        """Create the meter of one answer.

        Args:
            streamed: Whether the answer ends with an event that says so. Any other answer is one document.
            note_model: Called with the name of the model that the answer says it is from, and again if a
                later document names another one.
        """
        self._streamed, self._note_model = streamed, note_model
        self._model: object = None
        self._decoder: Framing | None = None
        self._whole = bytearray()
        self._is_whole: bool | None = None
        self._counts = UsageCounts()
        self._text_bytes = 0
        self._has_event = self._has_ended = False
        self._error = ""

    def feed(self, chunk: bytes) -> None:
        """Read the next bytes of the answer, which may be split anywhere."""
        if self._is_whole is None:
            if not (begin := chunk.lstrip()[:1]):
                return
            self._is_whole = begin == b"{" or not self._streamed
            self._decoder = None if self._is_whole else JsonArray() if begin == b"[" else ServerSentEvents()
        if self._is_whole:
            self._whole += chunk
            if len(self._whole) > _MAX_PARSED + _TAIL:
                del self._whole[_MAX_PARSED:-_TAIL]
        elif self._decoder is not None:
            self._decode(chunk, self._decoder)

    def note(self, data: bytes, document: JsonObject) -> None:
        """Read a document that has been parsed: an event of a stream, or the whole answer that was fed."""
        self._whole.clear()
        self._is_whole = False
        if len(data) > _MAX_PARSED:
            self._note_large(data)
            self._read_model(document)
        else:
            self._note_document(document)

    def finish(self) -> None:
        """Read what is left, after the last byte."""
        if self._is_whole:
            self._read(bytes(self._whole))
        elif self._decoder is not None:
            for frame in self._decoder.finish():
                self._read(frame.data or frame.raw)
        self._decoder, self._is_whole = None, False
        self._whole.clear()

    @property
    def usage(self) -> Usage:
        """The tokens that the documents so far report, each count as its largest value."""
        return self._counts.usage()

    def unreported(self, expected: ExpectedUse, *, was_left: bool = False) -> Usage:
        """Return an estimate of the tokens that the answer has used and does not report.

        `expected` is what the call was expected to use at most. `was_left` says that the client left before
        the end of the answer; the model may have used all of that then.
        """
        reported = self.usage
        unknown = was_left and not reported.output_tokens
        output = max(self._text_bytes // _BYTES_PER_TOKEN, expected.output_tokens if unknown else 0)
        return Usage(
            0 if reported.input_tokens else expected.input_tokens, max(0, output - reported.output_tokens)
        )

    @property
    def failure(self) -> str:
        """How the upstream failed in an answer that is complete; empty if it did not."""
        if self._error or self._has_ended or not self._streamed:
            return self._error
        return "the stream ended before the model had finished" if self._has_event else ""

    def _decode(self, chunk: bytes, decoder: Framing) -> None:
        try:
            for frame in decoder.feed(chunk):
                if frame.data:
                    self._read(frame.data)
        except BodyError:
            self._decoder = None  # it is not a stream of documents

    def _read(self, data: bytes) -> None:
        if len(data) > _MAX_PARSED:
            self._note_large(data)
        elif (document := _parsed(data)) is not None:
            self._note_document(document)
        elif data.strip() == _DONE:
            self._has_ended = True
        elif self._is_whole:
            self._note_large(data)

    def _note_large(self, data: bytes) -> None:
        self._has_event = self._has_ended = True
        self._text_bytes += sum(len(found[1]) for found in _TEXT.finditer(data[:_MAX_PARSED]))
        tail = data[-_TAIL:]
        for found in [*_USAGE.finditer(tail)][-1:]:
            usage, _ = _raw_decoded(tail[found.end() :])
            self._counts.add(usage)

    def _note_document(self, document: JsonObject) -> None:
        self._has_event = True
        if (text := only_text(document)) is not None and _END_FIELDS.isdisjoint(document["candidates"][0]):
            self._read_model(document)  # most events
            self._counts.add(document.get("usageMetadata"))
            self._text_bytes += len(text) if text.isascii() else len(text.encode(errors="replace"))
            return
        answers = [document, *(each for name in _NESTED if isinstance(each := document.get(name), dict))]
        for answer in answers:
            self._read_model(answer)
            self._counts.add(answer.get("usageMetadata"))
            self._counts.add(answer.get("usage"))
            self._has_ended = self._has_ended or _ends(answer)
            if not self._error and (error := answer.get("error")):
                self._error = _described(error)
        kind = document.get("type") or document.get("event_type")
        if kind == "error" and not self._error:
            self._error = _described(document)
        self._has_ended = self._has_ended or (isinstance(kind, str) and kind in _ENDS)
        if not isinstance(kind, str) or "delta" in document:  # other events repeat the text of deltas
            self._text_bytes += _text_size(document)

    def _read_model(self, answer: JsonObject) -> None:
        """Note the model that an answer names in any dialect. Anything but a name is ignored."""
        name = answer.get("modelVersion") or answer.get("model")
        if name and name != self._model:
            self._model = name
            if isinstance(name, str) and (found := _MODEL.fullmatch(name)):
                self._note_model(found[1])


def passing_use(size: int, media: int, *, is_answer: bool) -> Usage:
    """Return an estimate of the tokens of one message of a Live session.

    Args:
        size: Its size in bytes.
        media: The bytes of its audio, which the message contains in base64.
        is_answer: Whether it is the model's.
    """
    text = max(0, size - media * 4 // 3)
    if is_answer:
        return Usage(0, text // _BYTES_PER_TOKEN + media // BYTES_PER_MEDIA_TOKEN)
    return Usage(text // BYTES_PER_TOKEN + media // BYTES_PER_MEDIA_TOKEN)


def _parsed(data: bytes) -> JsonObject | None:
    """Return the JSON object in a document, which may have lone surrogates; None if there is none."""
    try:
        value: Any = orjson.loads(data)
    except orjson.JSONDecodeError:
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


def _raw_decoded(data: bytes) -> tuple[Any, int]:
    try:
        return json.JSONDecoder().raw_decode(data.decode(errors="replace"))
    except (ValueError, RecursionError):
        return None, 0


def _ends(answer: JsonObject) -> bool:
    """Return whether an event ends its answer: generateContent, or a chat completion."""
    if isinstance(feedback := read(answer, "promptFeedback"), dict) and read(feedback, "blockReason"):
        return True
    candidates, choices = read_list(answer, "candidates"), read_list(answer, "choices")
    return any(isinstance(each, dict) and read(each, "finishReason") for each in [*candidates, *choices])


def _described(error: Any) -> str:
    """Return the code and the status of an error, without its message, which may quote the call."""
    facts = [error.get(name) for name in ("code", "status", "type")] if isinstance(error, dict) else []
    words = [str(fact) for fact in facts if fact is not None and _WORD.fullmatch(str(fact))]
    return f"the answer has an error{': ' if words else ''}{' '.join(words)}"


def _text_size(document: JsonObject) -> int:
    """Return the size in bytes of the texts that a document shows, including arguments of functions."""
    return sum(
        len(text) if text.isascii() else len(text.encode(errors="replace")) for text in _texts(document)
    )


def _texts(document: JsonObject) -> Iterator[str]:
    level: list[Any] = [document]
    while level:
        below: list[Any] = []
        for item in level:
            if type(item) is list:
                below += item
            elif type(item) is dict:
                for name, value in item.items():
                    if type(value) is str:
                        if name in _TEXTS:
                            yield value
                    elif name == "args":
                        yield str(value)
                    else:
                        below.append(value)
        level = below
