"""HTTP/1.1 without I/O: the bytes of a POST, and a reader of the response. Both of the shim's clients use it.

It imports nothing, since an agent waits for each run of `hookgate event`.
"""

TYPE_CHECKING = False  # as in typing, whose import would cost more than this module
if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from typing import TypeVar

    T = TypeVar("T")
    Steps = Generator[None, bytes, T]

_LONGEST_HEAD = 64 * 1024
_HEAD_END = b"\r\n\r\n"


class HttpError(OSError):
    """Raised if there was no complete response; the message says why."""


class HttpResponse:
    """A response; its header names are in lower case."""

    __slots__ = ("body", "headers", "reusable", "status")

    def __init__(self, status: int, headers: "Mapping[str, str]", body: bytes, *, reusable: bool) -> None:
        """`reusable` says whether the connection can be used for another request."""
        self.status, self.headers, self.body, self.reusable = status, headers, body, reusable


def post_request(authority: str, target: str, headers: "Mapping[str, str]", body: bytes) -> bytes:
    """Return the bytes of a POST request."""
    lines = [f"POST {target} HTTP/1.1", f"host: {authority}", f"content-length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


class ResponseReader:
    """Reads one response from what a connection receives."""

    def __init__(self) -> None:
        self.begun = False
        """Whether anything has been received."""
        self._data = bytearray()
        self._steps = self._response()
        next(self._steps)

    def feed(self, data: bytes) -> HttpResponse | None:
        """Take what was received, or no bytes at its end, and return the response once it is complete.

        Raises HttpError.
        """
        self.begun = self.begun or bool(data)
        try:
            self._steps.send(data)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]  # of the generator below
        return None

    def _response(self) -> "Steps[HttpResponse]":
        status, version, headers = 0, "", dict[str, str]()
        while status < 200:  # those with status 1xx come before the final response
            first, *lines = (yield from self._until(_HEAD_END)).split("\r\n")
            version, _, rest = first.partition(" ")
            if not version.startswith("HTTP/1."):
                raise HttpError(f"the server does not speak HTTP/1.1: {first[:40]!r}")
            status = _number(rest[:3], 10)
            pairs = (line.partition(":") for line in lines)
            headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        if "chunked" in headers.get("transfer-encoding", "").lower():
            body = yield from self._chunks()
        elif "content-length" in headers:
            body = yield from self._exactly(_number(headers["content-length"], 10))
        else:
            while data := (yield):
                self._data += data
            return HttpResponse(status, headers, bytes(self._data), reusable=False)
        closes = headers.get("connection", "").lower() == "close" or version == "HTTP/1.0"
        return HttpResponse(status, headers, body, reusable=not closes and not self._data)

    def _chunks(self) -> "Steps[bytes]":
        chunks = []
        while size := _number((yield from self._until(b"\n")).partition(";")[0], 16):
            chunks.append((yield from self._exactly(size)))
            yield from self._until(b"\n")
        while (yield from self._until(b"\n")).strip():
            pass  # trailers
        return b"".join(chunks)

    def _until(self, end: bytes) -> "Steps[str]":
        while (at := self._data.find(end)) < 0:
            if len(self._data) > _LONGEST_HEAD:
                raise HttpError("the response header is too long")
            yield from self._more()
        return (yield from self._exactly(at + len(end)))[:at].decode("latin-1")

    def _exactly(self, size: int) -> "Steps[bytes]":
        while len(self._data) < size:
            yield from self._more()
        data = bytes(self._data[:size])
        del self._data[:size]
        return data

    def _more(self) -> "Steps[None]":
        data = yield
        if not data:
            raise HttpError("the connection was closed in the middle of the response")
        self._data += data


def _number(text: str, base: int) -> int:
    try:
        number = int(text, base)
    except ValueError:
        number = -1
    if number < 0:
        raise HttpError(f"the response has {text[:20]!r} instead of a number")
    return number
