"""Receivers of syslog: messages of RFC 5424 over TLS (RFC 5425) or TCP, with counted octets (RFC 6587).

Syslog has no acknowledgement. Each batch has a connection of its own, and counts as accepted once the
receiver has read it to the end: with TLS it then answers the end of the connection, and with TCP it closes
its own side. What was only in a buffer is sent again.
"""

import logging
import re
import socket
import ssl
import time
from collections.abc import Sequence

from hookgate.hooks.timestamps import utc_text
from hookgate.proxy.exports.documents import SentDocument
from hookgate.proxy.exports.receivers import DELIVERY_SECONDS, Accepted, Delivery, ReceiverAccess

log = logging.getLogger("hookgate.exports")

_AUDIT = 13 * 8
"""The facility "log audit"."""

_WARNING, _INFORMATIONAL = 4, 6

_NO_ANSWER = (
    "%s does not answer the end of a connection, as RFC 5425 demands, so it is not noticed if something on "
    "the way to it loses records; with rsyslog, use the stream driver ossl"
)


class SyslogReceiver:
    """A receiver of syslog. It blocks its thread, which serves no other export."""

    def __init__(self, access: ReceiverAccess) -> None:
        self._destination, self._tls = access.settings.destination, access.tls
        self._answers_ends: bool | None = None
        """Whether the receiver answers the end of a connection with TLS; None if that is not known."""

    async def deliver(self, batch: Sequence[SentDocument]) -> Delivery:
        """Send documents, each as one message. Raises OSError if the receiver does not read them in time."""
        if self._tls is not None and self._answers_ends is None:
            self._send(b"", self._tls)
        self._send(b"".join(map(_frame, batch)), self._tls)
        return Accepted()

    async def close(self) -> None:
        """Do nothing: no connection is kept."""

    def _send(self, data: bytes, tls: ssl.SSLContext | None) -> None:
        host, until = self._destination.host, time.monotonic() + DELIVERY_SECONDS
        with socket.create_connection((host, self._destination.port), DELIVERY_SECONDS) as plain:
            if tls is None:
                plain.settimeout(_left(until))
                plain.sendall(data)
                plain.shutdown(socket.SHUT_WR)
                _await_end(plain, until)
                return
            with tls.wrap_socket(plain, server_hostname=host) as encrypted:
                encrypted.settimeout(_left(until))
                encrypted.sendall(data)
                encrypted.settimeout(_left(until))
                self._end(encrypted, is_empty=not data)

    def _end(self, encrypted: ssl.SSLSocket, *, is_empty: bool) -> None:
        """Wait until the receiver has read everything, and has answered the end of the connection.

        Of a receiver that closes even an empty connection without an answer, a closed connection is enough.
        """
        try:
            encrypted.unwrap()
        except ssl.SSLEOFError:
            if self._answers_ends or (self._answers_ends is None and not is_empty):
                raise
            if self._answers_ends is None:
                log.warning(_NO_ANSWER, self._destination.host)
            self._answers_ends = False
        else:
            self._answers_ends = True


def _left(until: float) -> float:
    if (left := until - time.monotonic()) <= 0:
        raise TimeoutError
    return left


def _await_end(connection: socket.socket, until: float) -> None:
    connection.settimeout(_left(until))
    while connection.recv(4096):
        connection.settimeout(_left(until))


def _frame(document: SentDocument) -> bytes:
    severity = _WARNING if document.is_incident else _INFORMATIONAL
    host = re.sub(r"[^!-~]", "-", document.host)[:255] or "-"
    at = utc_text(document.at / 1000)
    header = f"<{_AUDIT + severity}>1 {at} {host} hookgate {document.writer} {document.type} - "
    message = header.encode() + document.encoded
    return b"%d %b" % (len(message), message)
