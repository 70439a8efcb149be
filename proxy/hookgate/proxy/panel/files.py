"""The page and what belongs to it: files of this package, read once, served under a strict policy."""

from importlib.resources import files

from aiohttp import hdrs, web

_TYPES = {
    "html": "text/html",
    "css": "text/css",
    "js": "text/javascript",
    "svg": "image/svg+xml",
}

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Of every answer of the panel."""


class Pages:
    """The files, by their paths at the listener: `/` is the page, the rest is below `/panel/`."""

    def __init__(self) -> None:
        folder = files(__package__) / "pages"
        found = {each.name: each.read_bytes() for each in folder.iterdir() if each.is_file()}
        self._files = {f"/panel/{name}": data for name, data in found.items()}
        self._files["/"] = self._files.pop("/panel/index.html")

    def get(self, path: str) -> web.Response | None:
        """A file; None when there is none of this path."""
        data = self._files.get(path)
        if data is None:
            return None
        kind = _TYPES["html" if path == "/" else path.rpartition(".")[2]]
        headers = {**HEADERS, hdrs.CACHE_CONTROL: "no-cache", hdrs.CONTENT_TYPE: f"{kind}; charset=utf-8"}
        return web.Response(body=data, headers=headers)
