"""Where the bytes of an upload go: back through the gateway, as the client reached it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from aiohttp import hdrs, web

from hookgate.proxy.errors import ApiError
from hookgate.proxy.routes import Route

_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?")
_PORTS = {"http": 80, "https": 443}
_UPLOAD_URLS = ("X-Goog-Upload-URL", "X-Goog-Upload-Control-URL")


@dataclass(frozen=True, slots=True)
class Way:
    """How a client reached the gateway, and the upstream behind it."""

    scheme: str
    host: str
    session: str
    origin: str
    uploads: bool
    """Whether the request is part of an upload: a Location leads to the next part of it."""

    @classmethod
    def of(cls, request: web.BaseRequest, route: Route, origin: str) -> "Way":
        """The way that a request took."""
        host = request.headers.get(hdrs.HOST, "")
        return cls(request.scheme, host, route.session, origin, route.path.startswith("/upload/"))

    def back(self, url: str) -> str:
        """The gateway's URL for one of the upstream's. Raises ApiError (502) for a URL elsewhere."""
        origin = urlsplit(self.origin)
        place = _split(url)
        if (
            place is None
            or _address(place) != _address(origin)
            or not place.path.startswith(f"{origin.path}/")
        ):
            raise ApiError(502, "The upstream's answer leads an upload past hookgate.", "UPSTREAM_ELSEWHERE")
        if not _HOST.fullmatch(self.host):
            raise ApiError(400, "The Host header names no host: the upload's address cannot be told.")
        session = f"/s/{self.session}" if self.session else ""
        path = place.path.removeprefix(origin.path)
        query = f"?{place.query}" if place.query else ""
        return f"{self.scheme}://{self.host}{session}{path}{query}"


def led_back(headers: Mapping[str, str], way: Way) -> dict[str, str]:
    """The headers of an answer that tell where an upload goes, leading through the gateway."""
    names = (*_UPLOAD_URLS, hdrs.LOCATION) if way.uploads else _UPLOAD_URLS
    return {name: way.back(headers[name]) for name in names if name in headers}


def _split(url: str) -> SplitResult | None:
    """The parts of a URL; None for what is none."""
    try:
        place = urlsplit(url)
        return place if place.port != 0 and re.fullmatch(r"[!-~]*", url) else None
    except ValueError:
        return None


def _address(url: SplitResult) -> tuple[str, str | None, int | None, bool]:
    """Scheme, host, port, and whether there is anything beside them."""
    return url.scheme, url.hostname, url.port or _PORTS.get(url.scheme), "@" in url.netloc
