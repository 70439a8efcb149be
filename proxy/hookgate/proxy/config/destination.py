"""Where an export sends records, as its URL says: the kind of receiver, its address, and whether with TLS."""

import re
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from hookgate.proxy.config.values import is_loopback

DestinationKind = Literal["otlp", "syslog", "splunk", "elastic", "webhook", "s3"]
"""The kinds of receivers."""

_SCHEMES: dict[str, tuple[DestinationKind, bool]] = {
    "otlp+https": ("otlp", True),
    "otlp+http": ("otlp", False),
    "syslog+tls": ("syslog", True),
    "syslog+tcp": ("syslog", False),
    "splunk+https": ("splunk", True),
    "splunk+http": ("splunk", False),
    "elastic+https": ("elastic", True),
    "elastic+http": ("elastic", False),
    "https": ("webhook", True),
    "http": ("webhook", False),
    "s3": ("s3", True),
    "s3+https": ("s3", True),
    "s3+http": ("s3", False),
}
_SYSLOG_PORTS = {True: 6514, False: 514}
_PATHS = {"otlp": "/v1/logs", "splunk": "/services/collector/event"}
"""The paths of receivers whose URL has none."""

DESTINATION_PATTERN = rf"^({'|'.join(map(re.escape, _SCHEMES))})://[^\s?#@\\]+$"


@dataclass(frozen=True, slots=True)
class Destination:
    """A receiver of records."""

    kind: DestinationKind
    secure: bool
    host: str
    """Its host; empty for S3 at AWS."""
    port: int | None
    path: str
    """Begins with `/`. For S3 it is the bucket and the prefix, and for Elastic the index."""

    @property
    def origin(self) -> str:
        """The scheme, host and port of an HTTP receiver."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port is None else f":{self.port}"
        return f"{'https' if self.secure else 'http'}://{host}{port}"

    @property
    def is_private(self) -> bool:
        """Whether nobody else can read what is sent: by TLS, or because the receiver is on this machine."""
        return self.secure or is_loopback(self.host)


def parse_destination(text: str) -> Destination:
    """Parse the URL of a receiver. Raises ValueError if it is not one."""
    scheme, separator, _ = text.partition("://")
    if not separator or scheme not in _SCHEMES:
        raise ValueError(f"must begin with one of {', '.join(f'{each}://' for each in _SCHEMES)}")
    if re.search(r"[\s?#@\\]", text):
        raise ValueError(
            "must have no more than a scheme, host, port and path; a secret belongs in secret_file"
        )
    kind, secure = _SCHEMES[scheme]
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise ValueError("is not a URL; check its host and port") from None
    if not host:
        raise ValueError("names no host, or for s3:// no bucket")
    path = parts.path.rstrip("/")
    if scheme == "s3":
        return Destination(kind, secure, "", None, f"/{parts.netloc}{path}")
    if kind == "syslog":
        if path:
            raise ValueError("must have no path: syslog has none")
        return Destination(kind, secure, host, port or _SYSLOG_PORTS[secure], "")
    if kind == "elastic" and not re.fullmatch(r"(/[^/]+)*/[^/]+", path):
        raise ValueError("must end with the index or data stream, such as elastic+https://host:9200/hookgate")
    if kind == "s3" and not path.strip("/"):
        raise ValueError("must end with the bucket, such as s3+https://minio.example:9000/audit")
    return Destination(kind, secure, host, port, path or _PATHS.get(kind, "/"))


def destination_url(text: str) -> str:
    """Check and return the URL of a receiver. Raises ValueError."""
    parse_destination(text)
    return text
