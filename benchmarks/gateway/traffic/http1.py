"""The parts of HTTP/1.1 that the upstream and the load generator need, such as finding the end of a message.

Messages are not validated, because the benchmarks create both sides. This keeps the parsing fast, so that
neither side is the bottleneck.
"""

_END_OF_CHUNKS = b"0\r\n\r\n"


class MessageReader:
    """Finds the end of each message on a connection that carries one message after another.

    Attributes:
        head: The start line and headers of the current message; empty until they are complete.
    """

    def __init__(self) -> None:
        self.head = b""
        self._waiting = b""
        self._left: int | None = None
        self._tail = b""

    def feed(self, data: bytes) -> bool:
        """Process received bytes. Returns True if they complete the message; then call `begin_next`."""
        if not self.head:
            data = self._waiting + data
            end = data.find(b"\r\n\r\n")
            if end < 0:
                self._waiting = data
                return False
            self.head, self._waiting = data[: end + 4], b""
            self._left = content_length(self.head)
            data = data[end + 4 :]
        if self._left is None:
            self._tail = (self._tail + data)[-5:]
            return self._tail == _END_OF_CHUNKS
        self._left -= len(data)
        return self._left <= 0

    def begin_next(self) -> None:
        """Prepare for the next message."""
        self.head, self._tail = b"", b""


def content_length(head: bytes) -> int | None:
    """Return the size of the body according to the headers, or None if the body is chunked."""
    lower = head.lower()
    at = lower.find(b"\r\ncontent-length:")
    if at >= 0:
        return int(lower[at + 17 : lower.index(b"\r\n", at + 17)])
    return None if b"\r\ntransfer-encoding:" in lower else 0


def post(path: str, host: str, body: bytes) -> bytes:
    """Return a POST request as bytes, with the headers that Gemini CLI sends."""
    return (
        f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nAccept: */*\r\n"
        f"User-Agent: GeminiCLI/0.61.0/gemini-2.5-flash (linux; x64)\r\nx-goog-api-key: benchmark\r\n"
        f"x-goog-api-client: google-genai-sdk/1.30.0 gl-node/v20\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode() + body


def body_of(answer: bytes) -> bytes:
    """Return the body of a complete answer, with its chunks joined."""
    head, _, rest = answer.partition(b"\r\n\r\n")
    if content_length(head + b"\r\n\r\n") is not None:
        return rest
    parts = []
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        count = int(size, 16)
        parts.append(rest[:count])
        rest = rest[count + 2 :]
        if not count:
            break
    return b"".join(parts)
