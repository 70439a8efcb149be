"""Parses the answers on a connection to an upstream, incrementally and without I/O.

The parser is llhttp. Ambiguous answers are refused: if the upstream and the gateway disagree about the end of
an answer, the gateway might deliver one call's answer to another call.
"""

import re

import httptools
from multidict import CIMultiDict

MAX_HEAD = 64 * 1024
"""The maximum size of an answer's headers in bytes, including those of interim answers.

It also limits the bytes between two pieces of a body: chunk sizes, chunk extensions and trailers.
"""

_VERSIONS = (b"HTTP/1.1 ", b"HTTP/1.0 ")
_FIELD = re.compile(r"\n([!#-'*+.0-9A-Z^-z|~-]+):[ \t]*([^\r\n]*)")


class InvalidAnswerError(Exception):
    """Raised for an answer that is ambiguous or not valid HTTP. The message describes the problem."""


class AnswerParser:
    """Parses one answer after another: `begin`, then `feed` until `complete`."""

    __slots__ = (
        "_chunks",
        "_fields",
        "_has_no_body",
        "_overhead",
        "_parser",
        "_partial_head",
        "_reads_until_close",
        "complete",
        "headers",
        "keep_alive",
        "raw_reason",
        "status",
        "unread",
    )

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        # This allows control characters in values. Such headers are harmless, because they are not forwarded.
        self._parser.set_dangerous_leniencies(lenient_headers=True)
        self._fields: list[tuple[str, str]] = []
        self._partial_head = bytearray()
        self._chunks: list[bytes] = []
        self.headers: CIMultiDict[str] = CIMultiDict()
        """The headers of the answer. Bytes that are not UTF-8 are surrogates, as in `surrogateescape`."""
        self.begin()

    def begin(self, *, has_no_body: bool = False) -> None:
        """Prepare for the next answer. If `has_no_body` is true, it ends with its headers in any case."""
        self._has_no_body = has_no_body
        self._overhead = 0  # bytes received since the last byte of a body
        self._chunks.clear()
        self.unread = 0
        """The number of bytes of the body that `take` would return."""
        self.status = 0
        """The status of the answer; 0 until all of its headers have arrived."""
        self.raw_reason = b""
        """The reason phrase."""
        self.complete = False
        """Whether the answer has ended. Further data is ignored, but then the connection cannot be reused."""
        self.keep_alive = False
        """Whether the connection can be reused after this answer. Valid once the answer is complete."""

    def feed(self, data: bytes) -> None:
        """Parse the next bytes of the answer. Raises InvalidAnswerError."""
        if self.complete:
            self.keep_alive = False
            return
        self._overhead += len(data)
        try:
            if self.status:
                self._parser.feed_data(data)
            else:
                self._feed_head(data)
        except (InvalidAnswerError, httptools.HttpParserError) as error:
            if not self.complete:
                raise _invalid(error) from None
            self.keep_alive = False  # type: ignore[unreachable]  # the parser has called on_message_complete
        if self._overhead > MAX_HEAD and not self.complete:
            raise InvalidAnswerError("its headers, or the sizes of its chunks, are too large")

    def feed_eof(self) -> bool:
        """Handle the end of the connection. Returns whether the answer is complete.

        Raises InvalidAnswerError if the incomplete headers are invalid.
        """
        if self.status:
            self.complete = self.complete or self._reads_until_close
        elif self._partial_head:
            try:
                self._parser.feed_data(self._partial_head)
            except httptools.HttpParserError as error:
                raise _invalid(error) from None
        return self.complete

    def take(self) -> bytes:
        """Return the bytes of the body that have arrived since the last call, which may be none."""
        chunks = self._chunks
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        chunks.clear()
        self.unread = 0
        return data

    def _feed_head(self, data: bytes) -> None:
        """Parse headers once they are complete, and then the data that follows them.

        Parsing them earlier would copy them again with each small piece that arrives.
        """
        start = 0
        if self._partial_head:
            start = max(0, len(self._partial_head) - 2)
            self._partial_head += data
            if (end := _head_end(self._partial_head, start)) == 0:
                return
            data = bytes(self._partial_head)
            self._partial_head.clear()
        else:
            end = _head_end(data, 0)
        position = 0
        while end:
            if end > MAX_HEAD:
                raise InvalidAnswerError("its headers are too large")
            head = data[position:end]
            self._fields = _fields(head)
            self._parser.feed_data(head)
            position = end
            if self.status:
                break
            end = _head_end(data, position)
        rest = data[position:]
        if self.status:
            self._overhead = len(rest)
            self._parser.feed_data(rest)
        else:
            self._partial_head += rest

    # ---- called by the parser

    def on_message_begin(self) -> None:
        """Refuse a second answer: there was no request for it."""
        if self.complete:
            raise InvalidAnswerError("data follows its end")

    def on_status(self, reason: bytes) -> None:
        """Store the reason phrase."""
        self.raw_reason = reason

    def on_headers_complete(self) -> None:
        """Check the status and the framing of the answer. Interim answers are skipped."""
        status, headers = self._parser.get_status_code(), CIMultiDict(self._fields)
        if not 200 <= status <= 599 and (not 100 <= status < 200 or status == 101):
            raise InvalidAnswerError(f"its status {status:03} is not a final status")
        has_length, codings = "Content-Length" in headers, headers.getall("Transfer-Encoding", ())
        if codings:
            if len(codings) > 1 or codings[0].lower() != "chunked":
                raise InvalidAnswerError("its Transfer-Encoding is not chunked")
            if self._parser.get_http_version() != "1.1":
                raise InvalidAnswerError("its HTTP version does not support Transfer-Encoding")
        if status < 200:
            if has_length or codings:
                raise InvalidAnswerError("an interim answer has a body")
            return
        self.status, self.headers = status, headers
        self._reads_until_close = not (has_length or codings)
        self.complete = self._has_no_body  # the parser expects a body, so the connection is not kept

    def on_body(self, data: bytes) -> None:
        """Keep a piece of the body until it is taken."""
        if not self.complete:
            self._overhead = 0
            self._chunks.append(data)
            self.unread += len(data)

    def on_message_complete(self) -> None:
        """Mark the answer as complete, unless it is an interim answer."""
        if self.status and not self.complete:
            self.complete = True
            self.keep_alive = self._parser.should_keep_alive()


def _head_end(data: bytes | bytearray, start: int) -> int:
    """Return the offset of the end of the headers in `data`, or 0 if they are incomplete.

    Lines that end without CR also count, so that such headers are refused at once.
    """
    if (end := data.find(b"\n\r\n", start)) >= 0:
        return end + 3
    end = data.find(b"\n\n", start)
    return end + 2 if end >= 0 else 0


def _fields(head: bytes) -> list[tuple[str, str]]:
    """Return the names and values of the headers.

    Raises InvalidAnswerError for invalid headers that llhttp would accept.
    """
    if not head.startswith(_VERSIONS):
        raise InvalidAnswerError("its version is neither HTTP/1.1 nor HTTP/1.0")
    fields = _FIELD.findall(head.decode("utf-8", "surrogateescape"))
    # Every line except the first and the last must be a header. A folded header has more lines than names.
    if b"\0" in head or len(fields) != head.count(b"\n") - 2:
        raise InvalidAnswerError("a header has a NUL byte, or a line is not a header")
    return [(name, value.rstrip(" \t")) for name, value in fields]


def _invalid(error: Exception) -> InvalidAnswerError:
    cause = error.__context__ if isinstance(error, httptools.HttpParserCallbackError) else error
    return (
        cause
        if isinstance(cause, InvalidAnswerError)
        else InvalidAnswerError(f"it is not valid HTTP: {cause}")
    )
