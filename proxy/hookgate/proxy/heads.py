"""What a request's head may not hold although the parser takes it: another server could read it otherwise."""

import re
from collections.abc import Iterable

from aiohttp import HttpVersion10, hdrs

from hookgate.proxy.errors import ApiError
from hookgate.proxy.headers import KEY_HEADER, SESSION_HEADER
from hookgate.proxy.protocol import Request

_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~-]+)(?::[0-9]{1,5})?")
_ONCE = (hdrs.AUTHORIZATION, hdrs.EXPECT, hdrs.UPGRADE, KEY_HEADER, SESSION_HEADER)
_WITHOUT_BODY = (hdrs.METH_GET, hdrs.METH_HEAD, hdrs.METH_DELETE)


def check_head(request: Request) -> None:
    """Raises ApiError (400) for a request that is not one thing only, and ends its connection after that."""
    for wrong in _wrong(request):
        request.protocol.close()
        raise ApiError(400, f"This is not a valid HTTP request ({wrong}).")


def _wrong(request: Request) -> Iterable[str]:
    headers = request.headers
    if not request.is_http1:
        yield "its version is neither HTTP/1.0 nor HTTP/1.1"
    coding = headers.get(hdrs.TRANSFER_ENCODING)
    if coding is not None and (coding.lower() != "chunked" or request.version == HttpVersion10):
        yield "its Transfer-Encoding is not chunked, or its version does not know that"
    if not _HOST.fullmatch(headers.get(hdrs.HOST, "-")):
        yield "its Host is not a host"
    if request.body_exists and request.method in _WITHOUT_BODY:
        yield f"{request.method} takes no body"
    if hdrs.UPGRADE in headers and request.body_exists:
        yield "a body and an Upgrade"
    for name in _ONCE:
        if len(headers.getall(name, ())) > 1:
            yield f"{name} is given twice"
