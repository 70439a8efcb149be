"""A POST to the gateway, and JSON, without imports that are slow: an agent waits for each event."""

import _socket
import time
from _json import encode_basestring_ascii, make_encoder, make_scanner

from hookgate.shim.command.gateway import GatewayAddress

_SPACE = " \t\r\n"


def from_json(data: bytes) -> object:
    """Return the value of a JSON document in UTF-8. Raises ValueError if it is invalid."""
    text = data.decode("utf-8-sig").strip(_SPACE)
    try:
        value, end = make_scanner(_ScannerOptions)(text, 0)  # type: ignore[arg-type]  # it reads these attributes
    except (StopIteration, SystemError, ValueError):
        return _parse_slowly(text)  # only `json` itself has an error message
    except RecursionError:
        raise ValueError("too many nested brackets") from None
    return value if end == len(text) else _parse_slowly(text)


def to_json(value: object) -> bytes:
    """Return a value, which came from `from_json`, as JSON on one line of ASCII."""
    encoder = make_encoder(None, _reject_type, encode_basestring_ascii, None, ": ", ", ", False, False, True)
    return "".join(encoder(value, 0)).encode()


def _parse_slowly(text: str) -> object:
    import json  # noqa: PLC0415  # see the module's docstring

    value: object = json.loads(text, parse_constant=_reject_constant)
    return value


def _reject_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


class _ScannerOptions:
    """The scanner's options: those of `json.loads` by default, except that NaN and Infinity are errors."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = staticmethod(_reject_constant)


def _reject_type(value: object) -> object:
    raise TypeError(f"{type(value).__name__} is not JSON serializable")


_EVENTS = "/hookgate/v1/events/"
_HEADER_END = b"\r\n\r\n"


class GatewayUnreachable(Exception):  # noqa: N818  # named for what happened
    """The gateway did not answer in time; the message names it and says why."""


class GatewayRefusal(Exception):  # noqa: N818  # named for what happened
    """The gateway rejected the event; the message says why."""


def post_to_gateway(
    gateway: GatewayAddress, event: str, body: bytes, headers: dict[str, str], seconds: float
) -> bytes:
    """Post an event and return the gateway's output document.

    `seconds` is the time for everything. Raises GatewayUnreachable or GatewayRefusal.
    """
    request = _request(gateway, event, body, headers)
    try:
        status, answer = _exchange(gateway, request, time.monotonic() + seconds)
    except TimeoutError:
        raise GatewayUnreachable(f"the gateway {gateway.url} did not answer within {seconds:g} s") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise GatewayUnreachable(f"the gateway {gateway.url} is not reachable: {reason}") from None
    if status >= 500:
        raise GatewayUnreachable(f"the gateway {gateway.url} answered {status}: {_error_message(answer)}")
    if status != 200:
        raise GatewayRefusal(f"the gateway {gateway.url} answered {status}: {_error_message(answer)}")
    return answer


def _request(gateway: GatewayAddress, event: str, body: bytes, headers: dict[str, str]) -> bytes:
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


def _exchange(gateway: GatewayAddress, request: bytes, deadline: float) -> tuple[int, bytes]:
    """Return the status and body of the response. Raises OSError, or ValueError if it is not HTTP."""
    connection = _connect(gateway, deadline)
    try:
        connection.settimeout(_seconds_left(deadline))
        try:  # noqa: SIM105  # contextlib is slow to import
            connection.sendall(request)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the server may reject a long body before its end; its response says why
        reader = _Reader(connection, deadline)
        status, headers = reader.head()
        while status < 200:
            status, headers = reader.head()
        return status, reader.body(headers)
    finally:
        connection.close()


def _connect(gateway: GatewayAddress, deadline: float) -> _socket.socket:
    if gateway.secure:
        return _connect_tls(gateway, deadline)
    last_error: OSError | None = None
    # A name given as str would import the tables for international names; bytes are used as they are.
    for family, kind, protocol, _, address in _socket.getaddrinfo(
        gateway.host.encode(), gateway.port, 0, _socket.SOCK_STREAM
    ):
        connection = _socket.socket(family, kind, protocol)
        try:
            connection.settimeout(_seconds_left(deadline))
            connection.connect(address)
        except OSError as error:
            connection.close()
            last_error = error
        else:
            return connection
    raise last_error or OSError("the host name has no address")


def _connect_tls(gateway: GatewayAddress, deadline: float) -> _socket.socket:
    import socket  # noqa: PLC0415  # socket and ssl are slow to import
    import ssl  # noqa: PLC0415  # only https needs it

    plain = socket.create_connection((gateway.host, gateway.port), timeout=_seconds_left(deadline))
    try:
        return ssl.create_default_context().wrap_socket(plain, server_hostname=gateway.host)
    except BaseException:
        plain.close()
        raise


class _Reader:
    """Reads a response from a connection."""

    def __init__(self, connection: _socket.socket, deadline: float) -> None:
        self._connection, self._deadline = connection, deadline
        self._received = b""

    def head(self) -> tuple[int, dict[str, str]]:
        """Return the status, and the headers with their names in lower case."""
        first, *lines = self._read_until(_HEADER_END).decode("latin-1").split("\r\n")
        version, _, rest = first.partition(" ")
        if not version.startswith("HTTP/1.") or not rest[:3].isdigit():
            raise ValueError("the server does not speak HTTP")
        pairs = (line.partition(":") for line in lines)
        return int(rest[:3]), {name.strip().lower(): value.strip() for name, _, value in pairs}

    def body(self, headers: dict[str, str]) -> bytes:
        """Return the body: chunked, of the given length, or up to the end of the connection."""
        if "chunked" in headers.get("transfer-encoding", "").lower():
            return self._chunks()
        if "content-length" in headers:
            return self._read_exactly(int(headers["content-length"]))
        while self._receive():
            pass
        return self._received

    def _chunks(self) -> bytes:
        chunks = []
        while size := int(self._read_until(b"\r\n").partition(b";")[0], 16):
            chunks.append(self._read_exactly(size))
            self._read_until(b"\r\n")
        return b"".join(chunks)

    def _read_until(self, end: bytes) -> bytes:
        while end not in self._received:
            self._receive_required()
        before, _, self._received = self._received.partition(end)
        return before

    def _read_exactly(self, size: int) -> bytes:
        while len(self._received) < size:
            self._receive_required()
        data, self._received = self._received[:size], self._received[size:]
        return data

    def _receive_required(self) -> None:
        if not self._receive():
            raise OSError("the connection was closed in the middle of the response")

    def _receive(self) -> bool:
        self._connection.settimeout(_seconds_left(self._deadline))
        data = self._connection.recv(65536)
        self._received += data
        return bool(data)


def _seconds_left(deadline: float) -> float:
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError
    return seconds


def _error_message(answer: bytes) -> str:
    """Return the message of an error in Google's format, on one line."""
    message: object = None
    try:
        value = from_json(answer)
        if isinstance(value, dict) and isinstance(value.get("error"), dict):
            message = value["error"].get("message")
    except ValueError:
        pass
    return " ".join(message.split()) if isinstance(message, str) else "the server is not a hookgate gateway"
