"""One POST to the gateway over a connection of its own, by hand: an HTTP library takes longer to import
than the gateway to answer.
"""

import _socket
import time

from hookgate.shim.command.gateway import Gateway

_EVENTS = "/hookgate/v1/events/"
_END = b"\r\n\r\n"


class Unreachable(Exception):  # noqa: N818  # what happened, not a mistake
    """No gateway answered in time; the text says which and why."""


class Refused(Exception):  # noqa: N818  # a verdict of the gateway
    """The gateway answered that it does not take the event; the text says why."""


def ask(gateway: Gateway, event: str, body: bytes, headers: dict[str, str], seconds: float) -> bytes:
    """The output document that the gateway answers. Raises Unreachable or Refused."""
    request = _request(gateway, event, body, headers)
    try:
        status, answer = _exchanged(gateway, request, time.monotonic() + seconds)
    except TimeoutError:
        raise Unreachable(f"the gateway {gateway.url} did not answer within {seconds:g} s") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise Unreachable(f"the gateway {gateway.url} is not reachable: {why}") from None
    if status >= 500:
        raise Unreachable(f"the gateway {gateway.url} answered {status}: {_told(answer)}")
    if status != 200:
        raise Refused(f"the gateway {gateway.url} answered {status}: {_told(answer)}")
    return answer


def _request(gateway: Gateway, event: str, body: bytes, headers: dict[str, str]) -> bytes:
    lines = {
        "host": gateway.authority,
        "user-agent": "hookgate-shim",
        "content-type": "application/json",
        "content-length": str(len(body)),
        "connection": "close",
        **headers,
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"POST {gateway.path}{_EVENTS}{event} HTTP/1.1\r\n{head}\r\n".encode("ascii") + body


def _exchanged(gateway: Gateway, request: bytes, deadline: float) -> tuple[int, bytes]:
    """Status and body of the answer. Raises OSError, and ValueError for what is no HTTP."""
    connection = _connected(gateway, deadline)
    try:
        connection.settimeout(_left(deadline))
        try:  # noqa: SIM105  # contextlib takes its time to import
            connection.sendall(request)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it may have refused a long body before the end, and the answer says why
        reader = _Reader(connection, deadline)
        status, headers = reader.head()
        while status < 200:
            status, headers = reader.head()
        return status, reader.body(headers)
    finally:
        connection.close()


def _connected(gateway: Gateway, deadline: float) -> _socket.socket:
    if gateway.secure:
        return _secured(gateway, deadline)
    failed: OSError | None = None
    # As bytes the name is taken as it is; a text would bring in the tables of international names.
    for family, kind, protocol, _, address in _socket.getaddrinfo(
        gateway.host.encode(), gateway.port, 0, _socket.SOCK_STREAM
    ):
        connection = _socket.socket(family, kind, protocol)
        try:
            connection.settimeout(_left(deadline))
            connection.connect(address)
        except OSError as error:
            connection.close()
            failed = error
        else:
            return connection
    raise failed or OSError("it has no address")


def _secured(gateway: Gateway, deadline: float) -> _socket.socket:
    import socket  # noqa: PLC0415  # both take as long to import as a bare start
    import ssl  # noqa: PLC0415  # for https alone: it takes as long as the rest

    plain = socket.create_connection((gateway.host, gateway.port), timeout=_left(deadline))
    try:
        return ssl.create_default_context().wrap_socket(plain, server_hostname=gateway.host)
    except BaseException:
        plain.close()
        raise


class _Reader:
    """An answer as it comes in."""

    def __init__(self, connection: _socket.socket, deadline: float) -> None:
        self._connection, self._deadline = connection, deadline
        self._received = b""

    def head(self) -> tuple[int, dict[str, str]]:
        """Status and headers, their names in lower case."""
        first, *lines = self._until(_END).decode("latin-1").split("\r\n")
        version, _, rest = first.partition(" ")
        if not version.startswith("HTTP/1.") or not rest[:3].isdigit():
            raise ValueError("what answers there does not speak HTTP")
        pairs = (line.partition(":") for line in lines)
        return int(rest[:3]), {name.strip().lower(): value.strip() for name, _, value in pairs}

    def body(self, headers: dict[str, str]) -> bytes:
        """The body, by whichever of HTTP's three ways it says its length."""
        if "chunked" in headers.get("transfer-encoding", "").lower():
            return self._chunks()
        if "content-length" in headers:
            return self._exactly(int(headers["content-length"]))
        while self._more():
            pass
        return self._received

    def _chunks(self) -> bytes:
        chunks = []
        while size := int(self._until(b"\r\n").partition(b";")[0], 16):
            chunks.append(self._exactly(size))
            self._until(b"\r\n")
        return b"".join(chunks)

    def _until(self, end: bytes) -> bytes:
        while end not in self._received:
            self._need()
        before, _, self._received = self._received.partition(end)
        return before

    def _exactly(self, size: int) -> bytes:
        while len(self._received) < size:
            self._need()
        taken, self._received = self._received[:size], self._received[size:]
        return taken

    def _need(self) -> None:
        if not self._more():
            raise OSError("the connection ended in the middle of the answer")

    def _more(self) -> bool:
        self._connection.settimeout(_left(self._deadline))
        piece = self._connection.recv(65536)
        self._received += piece
        return bool(piece)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _told(answer: bytes) -> str:
    """The message of an error in Google's shape, on one line."""
    from hookgate.shim.command.quickjson import loads  # noqa: PLC0415  # only a failed event needs it

    message: object = None
    try:
        value = loads(answer)
        if isinstance(value, dict) and isinstance(value.get("error"), dict):
            message = value["error"].get("message")
    except ValueError:
        pass
    return " ".join(message.split()) if isinstance(message, str) else "something else answers there"
