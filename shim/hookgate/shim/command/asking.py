"""A POST to the gateway, and JSON, without imports that are slow: an agent waits for each event.

`_json` and `_socket` are what `json` and `socket` are made of. With these two, the command takes 1.4 times as
long as a Python that does nothing; with `json` 2.2 times, and with `socket` as well 2.5 times.
"""

import _socket
import time
from _json import encode_basestring_ascii, make_encoder, make_scanner

from hookgate.shim.command.gateway import GatewayAddress
from hookgate.shim.http import HttpError, HttpResponse, ResponseReader, post_request

_SPACE = " \t\r\n"


def from_json(data: bytes) -> object:
    """Parse a UTF-8 JSON document. Raises ValueError if it is invalid."""
    text = data.decode("utf-8-sig").strip(_SPACE)
    try:
        value, end = make_scanner(_ScannerOptions)(text, 0)  # type: ignore[arg-type]  # it reads these attributes
        if end == len(text):
            return value
    except RecursionError:
        raise ValueError("too many nested brackets") from None
    except Exception:  # noqa: S110  # only `json` has error messages, and knows what its scanner needs
        pass
    import json  # noqa: PLC0415  # see the module's docstring

    slowly: object = json.loads(text, parse_constant=_reject_constant)
    return slowly


def to_json(value: object) -> bytes:
    """Serialize a value from `from_json` as one line of ASCII JSON."""
    try:
        options = (None, None, encode_basestring_ascii, None, ": ", ", ", False, False, True)
        encoder = make_encoder(*options)  # type: ignore[arg-type]  # without a function for other types
        return "".join(encoder(value, 0)).encode()
    except TypeError:  # another Python's encoder has other parameters
        import json  # noqa: PLC0415  # see the module's docstring

        return json.dumps(value).encode()


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


class GatewayUnreachable(Exception):  # noqa: N818  # named for what happened
    """The gateway did not answer in time; the message names it and says why."""


class GatewayRefusal(Exception):  # noqa: N818  # named for what happened
    """The gateway rejected the event; the message says why."""


def post_event(
    gateway: GatewayAddress, event: str, body: bytes, headers: dict[str, str], seconds: float
) -> bytes:
    """Post an event of the contract and return the gateway's output document. See `post_to_gateway`."""
    return post_to_gateway(gateway, f"/hookgate/v1/events/{event}", body, headers, seconds).body


def post_to_gateway(
    gateway: GatewayAddress, path: str, body: bytes, headers: dict[str, str], seconds: float
) -> HttpResponse:
    """Post a document to a path of the gateway and return the response, whose status is 200.

    `seconds` is the time for everything. Raises GatewayUnreachable or GatewayRefusal.
    """
    lines = {"user-agent": "hookgate-shim", "content-type": "application/json", "connection": "close"}
    request = post_request(gateway.authority, f"{gateway.path}{path}", {**lines, **headers}, body)
    try:
        response = _exchange(gateway, request, time.monotonic() + seconds)
    except TimeoutError:
        raise GatewayUnreachable(f"the gateway {gateway.url} did not answer within {seconds:g} s") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise GatewayUnreachable(f"the gateway {gateway.url} is not reachable: {reason}") from None
    if response.status == 200:
        return response
    message = f"the gateway {gateway.url} answered {response.status}: {_error_message(response.body)}"
    raise GatewayUnreachable(message) if response.status >= 500 else GatewayRefusal(message)


def _exchange(gateway: GatewayAddress, request: bytes, deadline: float) -> HttpResponse:
    """Return the response. Raises OSError."""
    connection = _connect(gateway, deadline)
    try:
        connection.settimeout(_seconds_left(deadline))
        try:  # noqa: SIM105  # contextlib is slow to import
            connection.sendall(request)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the server may reject a long body before its end; its response says why
        reader, response = ResponseReader(), None
        while response is None:
            connection.settimeout(_seconds_left(deadline))
            response = reader.feed(connection.recv(65536))
        return response
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
    raise last_error or HttpError("the host name has no address")


def _connect_tls(gateway: GatewayAddress, deadline: float) -> _socket.socket:
    import socket  # noqa: PLC0415  # socket and ssl are slow to import
    import ssl  # noqa: PLC0415  # only https needs it

    plain = socket.create_connection((gateway.host, gateway.port), timeout=_seconds_left(deadline))
    try:
        return ssl.create_default_context().wrap_socket(plain, server_hostname=gateway.host)
    except BaseException:
        plain.close()
        raise


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
