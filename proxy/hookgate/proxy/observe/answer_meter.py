"""Reads an answer's bytes as they pass: the tokens that it reports, how much text it has, and how it ends.

An answer consists of JSON documents: a whole body, the elements of an array, or the events of a stream. Only
a document's own fields count, in any dialect: arguments of functions may contain fields with the same names.
"""

import json
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import orjson

from hookgate.hooks.policies.estimates import BYTES_PER_MEDIA_TOKEN, BYTES_PER_TOKEN
from hookgate.hooks.session import UNREADABLE_MODEL, ExpectedUse
from hookgate.proxy.observe.usage import Usage, UsageCounts
from hookgate.translator import BodyError
from hookgate.translator.fields import JsonObject, read, read_list
from hookgate.translator.streaming.events import only_text
from hookgate.translator.streaming.framing import Framing, JsonArray, ServerSentEvents

_MAX_KEPT = 256 * 1024
"""The bytes of a whole answer that are kept while it passes.

Of the beginning of a larger one, so much is searched for texts, and of its end `_TAIL` bytes for the usage.
"""
_TAIL = 64 * 1024
_MAX_PARSED = 4 * 1024 * 1024
"""The size in bytes of the largest event that is parsed. Others are searched for texts and the usage."""
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
        *("reasoning", "reasoning_content", "thought", "finishMessage", "finish_message"),
    }
)
_CALLS = frozenset(
    {
        *("args", "arguments", "executableCode", "executable_code", "functionCall", "function_call"),
        *("fileData", "file_data", "partialArgs", "partial_args", "toolCall", "tool_call"),
    }
)
_RESULTS = frozenset(
    {
        *("codeExecutionResult", "code_execution_result", "functionResponse", "function_response"),
        *("toolResponse", "tool_response"),
    }
)
_MEDIA = frozenset({"inlineData", "inline_data"})
_PICTURES = ("image/", "video/")
_SOUND = "audio/"
_BYTES_PER_MEDIA = 4096
"""The bytes of pictures and sound in base64 that count as one token, fewer than models use for them."""
_PICTURE_TOKENS = 258
_MAX_KINDS = 32
_TEXT = re.compile(rb'"(?:%b)"\s*:\s*"([^"\\]*(?:\\.[^"\\]*)*)' % "|".join(_TEXTS).encode())
_ENDS = frozenset(
    {
        *("response.completed", "response.incomplete", "response.failed"),
        *("interaction.completed", "interaction.failed", "interaction.requires_action"),
    }
)
_PLAIN = frozenset({"content", "finishReason", "index", "safetyRatings"})
"""Fields of candidates that contain no text besides the content."""
_CODES = frozenset(
    {
        *("ABORTED", "ALREADY_EXISTS", "CANCELLED", "DATA_LOSS", "DEADLINE_EXCEEDED", "FAILED_PRECONDITION"),
        *("INTERNAL", "INVALID_ARGUMENT", "NOT_FOUND", "OUT_OF_RANGE", "PERMISSION_DENIED"),
        *("RESOURCE_EXHAUSTED", "UNAUTHENTICATED", "UNAVAILABLE", "UNIMPLEMENTED", "UNKNOWN"),
    }
)
"""The codes of Google's errors."""
_LONGEST_WORD = 40
_WORD = re.compile(r"[0-9]{1,3}|[a-z]+(?:_[a-z]+)*")
"""Matches a status, or the type of an error of OpenAI's APIs. Other words could be anything, even a key."""
_MODEL = re.compile(r"(?:[\w./-]{1,256}/)?([a-z][a-z0-9_.:@-]{0,63})", re.ASCII)
"""Matches the name of a model; the group is the name without its collection, such as `models/`.

Names of models are in lower case. Other texts, such as most tokens, must not come to receipts as names.
"""


def _ignore_model(_: str) -> None:
    """Do nothing with the name of a model."""


class AnswerMeter:
    """Reads one answer: feed its bytes, or note its events, then call `finish`."""

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
        self._text_bytes = self._result_bytes = self._media_tokens = 0
        self._repeated: dict[str, int] = {}
        """The bytes of text in events that repeat other events, by their types."""
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
            if len(self._whole) > _MAX_KEPT + _TAIL:
                del self._whole[_MAX_KEPT:-_TAIL]
        elif self._decoder is not None:
            self._decode(chunk, self._decoder)

    def note(self, document: JsonObject) -> None:
        """Read a document that has been parsed: an event of a stream, or the whole answer that was fed.

        The cost is proportional to its size.
        """
        self._whole.clear()
        self._is_whole = False
        self._note_document(document)

    def note_whole(self, data: bytes) -> None:
        """Read all of a whole answer, of which `feed` keeps only a part. Costs in proportion to its size."""
        if (document := _parsed(data)) is not None:
            self.note(document)

    def finish(self) -> None:
        """Read what is left, after the last byte."""
        if self._is_whole:
            self._read(bytes(self._whole))
        elif self._decoder is not None:
            with suppress(BodyError):
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
        text_bytes = max(self._text_bytes, *self._repeated.values(), 0)
        output = text_bytes // _BYTES_PER_TOKEN + self._media_tokens
        output = max(output, expected.output_tokens if unknown else 0)
        results = max(0, self._result_bytes // _BYTES_PER_TOKEN - self._counts.tool_tokens)
        return Usage(
            0 if reported.input_tokens else expected.input_tokens,
            max(0, output - reported.output_tokens) + results,
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
        if len(data) > (_MAX_KEPT if self._is_whole else _MAX_PARSED):
            self._note_large(data)
        elif (document := _parsed(data)) is not None:
            self._note_document(document)
        elif data.strip() == _DONE:
            self._has_ended = True
        elif self._is_whole:
            self._note_large(data)

    def _note_large(self, data: bytes) -> None:
        self._has_event = self._has_ended = True
        self._text_bytes += sum(len(found[1]) for found in _TEXT.finditer(data))
        tail = data[-_TAIL:]
        for found in [*_USAGE.finditer(tail)][-1:]:
            usage, _ = _raw_decoded(tail[found.end() :])
            self._counts.add(usage)

    def _note_document(self, document: JsonObject) -> None:
        self._has_event = True
        if (text := only_text(document)) is not None and document["candidates"][0].keys() <= _PLAIN:
            if document["candidates"][0].get("finishReason"):
                self._has_ended = True
            if document.get("modelVersion") != self._model:
                self._read_model(document)
            self._counts.add(document.get("usageMetadata"))
            self._text_bytes += _size(text)
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
        self._measure(document, kind)

    def _measure(self, document: JsonObject, kind: object) -> None:
        """Measure what a document contains. Events without deltas repeat the texts of those with deltas."""
        sizes = _Sizes(document)
        self._result_bytes += sizes.results
        if (
            not isinstance(kind, str)
            or "delta" in document
            or "candidates" in document
            or "choices" in document
        ):
            self._text_bytes += sizes.text
            self._media_tokens += sizes.media_tokens
            return
        key = kind if kind in self._repeated or len(self._repeated) < _MAX_KINDS else ""
        self._repeated[key] = self._repeated.get(key, 0) + sizes.text

    def _read_model(self, answer: JsonObject) -> None:
        """Note the model that an answer names in any dialect, or that its name is not readable."""
        name = answer.get("modelVersion") or answer.get("model")
        if name and name != self._model:
            self._model = name
            found = _MODEL.fullmatch(name) if isinstance(name, str) else None
            self._note_model(found[1] if found else UNREADABLE_MODEL)


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
    words = [word for word in map(str, facts) if word in _CODES or _is_word(word)]
    return f"the answer has an error{': ' if words else ''}{' '.join(words)}"


def _is_word(text: str) -> bool:
    return len(text) <= _LONGEST_WORD and text != "None" and _WORD.fullmatch(text) is not None


class _Sizes:
    """What a document contains: bytes of text and of tools' results, and the tokens of pictures and sound."""

    def __init__(self, document: JsonObject) -> None:
        self.text = self.results = self.media_tokens = 0
        level: list[Any] = [document]
        while level:
            below: list[Any] = []
            for item in level:
                if type(item) is list:
                    below += item
                elif type(item) is dict:
                    for name, value in item.items():
                        if type(value) is str:
                            self.text += _size(value) if name in _TEXTS else 0
                        elif name in _CALLS:
                            self.text += _size(str(value))
                        elif name in _RESULTS:
                            self.results += _size(str(value))
                        elif name in _MEDIA and type(value) is dict:
                            self._add_media(value)
                        else:
                            below.append(value)
            level = below

    def _add_media(self, blob: JsonObject) -> None:
        kind, size = str(read(blob, "mimeType")), _size(str(blob.get("data")))
        if kind.startswith(_PICTURES):
            self.media_tokens += max(_PICTURE_TOKENS, size // _BYTES_PER_MEDIA)
        elif kind.startswith(_SOUND):
            self.media_tokens += size // _BYTES_PER_MEDIA
        else:
            self.text += size * 3 // 4  # of the text that is in base64


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="replace"))
