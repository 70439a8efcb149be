"""Where the upstreams are, and the proxy on the way there: the URLs of it, checked. Pure."""

import re

from yarl import URL

from hookgate.proxy import GEMINI_API


def parse_origin(text: str) -> str:
    """An upstream's base URL, checked. Raises ValueError naming what is wrong with it."""
    if re.search(r"[\s?#@\\]", text):
        raise ValueError(f"{text!r} holds more than scheme, host, port and path")
    try:
        url = URL(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is not a base URL: {error}; give one like {GEMINI_API}") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError(f"{text!r} is not a base URL; give one like {GEMINI_API}")
    return text.rstrip("/")


def parse_proxy(text: str | None) -> URL | None:
    """A proxy's URL, checked. Raises ValueError, which does not show it: it may hold a password."""
    if text is None:
        return None
    try:
        url = URL(text)
    except ValueError:
        url = URL()
    if url.scheme != "http" or not url.host or url.path != "/" or url.query_string or url.fragment:
        raise ValueError("upstream.proxy is not a proxy's URL; give one like http://proxy.example:3128")
    return url
