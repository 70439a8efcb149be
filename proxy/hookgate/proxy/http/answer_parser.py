"""The answers on one connection to an upstream, read from bytes as they arrive. Performs no I/O.

llhttp finds the structure of an answer. What is ambiguous is refused: an upstream and a gateway that disagree
about where an answer ends could take one call's answer for another's.
"""

import re

import httptools
from multidict import CIMultiDict

MAX_HEAD = 64 * 1024
"""The largest size of an answer's headers in bytes, including the interim answers before it.

Also the largest number of bytes between two pieces of a body: sizes and extensions of chunks, and trailers.
"""

_VERSIONS = (b"HTTP/1.1 ", b"HTTP/1.0 ")
_FIELD = re.compile(r"\n([!#-'*+.0-9A-Z^-z|~-]+):[ \t]*([^\r\n]*)")


class InvalidAnswerError(Exception):
    """Raised for an answer that is not valid HTTP, or that is ambiguous. The message says what is wrong."""


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
        # Accepts control characters in values: such headers are not forwarded, but do no harm either.
        self._parser.set_dangerous_leniencies(lenient_headers=True)
        self._fields: list[tuple[str, str]] = []
        self._partial_head = bytearray()
        self._chunks: list[bytes] = []
        self.headers: CIMultiDict[str] = CIMultiDict()
        """The headers of the answer. Bytes that are not UTF-8 are surrogates, as in `surrogateescape`."""
        self.begin()

    def begin(self, *, has_no_body: bool = False) -> None:
        """Expect the answer to a request. `has_no_body`: it ends with its headers, whatever these say."""
        self._has_no_body = has_no_body
        self._overhead = 0  # bytes received since the last byte of a body
        self._reads_until_close = False
        self._chunks.clear()
        self.unread = 0
        """The number of bytes of the body that can be taken."""
        self.status = 0
        """The status of the answer; 0 until all of its headers have arrived."""
        self.raw_reason = b""
        """The reason phrase."""
        self.complete = False
        """Whether the answer has ended. More data is ignored, and its connection cannot be used again."""
        self.keep_alive = False
        """Whether the connection can carry another answer after this one, which is complete."""

    def feed(self, data: bytes) -> None:
        """Parse more of the answer. Raises InvalidAnswerError."""
        if self.complete:
            self.keep_alive = False
        else:
            self._feed(data)

    def _feed(self, data: bytes) -> None:
        self._overhead += len(data)
        try:
            if self.status:
                self._parser.feed_data(data)
            else:
                self._feed_head(data)
        except (InvalidAnswerError, httptools.HttpParserError) as error:
            if not self.complete:
                raise _invalid(error) from None
            self.keep_alive = False  # the error is in data after the end
        if self._overhead > MAX_HEAD and not self.complete:
            raise InvalidAnswerError("its headers, or the sizes of its chunks, are too large")

    def feed_eof(self) -> bool:
        """Note the end of the connection. Returns whether the answer is complete.

        Raises InvalidAnswerError if the headers that have arrived could not have become valid ones.
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
        """Return what has arrived of the body since the last time, or nothing."""
        chunks = self._chunks
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        chunks.clear()
        self.unread = 0
        return data

    def _feed_head(self, data: bytes) -> None:
        """Parse headers once they are complete, and pass on what follows them.

        If they arrive in small pieces, they would otherwise be copied with each of them.
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
        """Refuse a second answer, which no request asked for."""
        if self.complete:
            raise InvalidAnswerError("data follows its end")

    def on_status(self, reason: bytes) -> None:
        """Note the reason phrase."""
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
                raise InvalidAnswerError("its HTTP version has no Transfer-Encoding")
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
        """Note the end of the answer. Interim answers have ends, too."""
        if self.status and not self.complete:
            self.complete = True
            self.keep_alive = self._parser.should_keep_alive()


def _head_end(data: bytes | bytearray, start: int) -> int:
    """Return where the headers in `data` end, or 0 if they are incomplete.

    Lines that end without CR are recognized only to be refused at once.
    """
    if (end := data.find(b"\n\r\n", start)) >= 0:
        return end + 3
    end = data.find(b"\n\n", start)
    return end + 2 if end >= 0 else 0


def _fields(head: bytes) -> list[tuple[str, str]]:
    """Return the names and values of headers. Raises InvalidAnswerError for what the parser would accept."""
    if not head.startswith(_VERSIONS):
        raise InvalidAnswerError("its version is neither HTTP/1.1 nor HTTP/1.0")
    fields = _FIELD.findall(head.decode("utf-8", "surrogateescape"))
    # Every line but the first and the last is a header. Some servers continue a header on another line.
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
