"""Where the gateway is, which session is meant there, and with which key; taken from the environment."""

import os

DEFAULT = "http://127.0.0.1:8787"
URL, SESSION, LAUNCHED = "HOOKGATE_URL", "HOOKGATE_SESSION", "HOOKGATE_LAUNCHED"
KEYS = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
_USUAL = {True: 443, False: 80}


class Gateway:
    """A gateway's base URL, taken apart."""

    __slots__ = ("host", "path", "port", "secure")

    def __init__(self, url: str) -> None:
        """Raises ValueError for what is no base URL, and for one that holds a key."""
        scheme, _, rest = url.partition("://")
        place, slash, path = rest.partition("/")
        if scheme not in ("http", "https") or not place or not url.isascii() or not url.isprintable():
            raise ValueError(f"the gateway {url!r} is no URL; write it as {DEFAULT}")
        if "@" in place or "?" in rest or "#" in rest or " " in url:
            raise ValueError("the gateway's URL has to be an address alone, without a key, '?' or '#'")
        self.secure = scheme == "https"
        self.host, self.port = _host_and_port(place, _USUAL[self.secure])
        self.path = (slash + path).rstrip("/")

    @property
    def authority(self) -> str:
        """Host and port, as a request names them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _USUAL[self.secure] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The base URL, without a slash at its end."""
        return f"http{'s' if self.secure else ''}://{self.authority}{self.path}"

    def session(self, name: str) -> "Gateway":
        """The base URL of a session. Raises ValueError for a name that is none."""
        marks = name.replace(".", "").replace("_", "").replace("~", "").replace("-", "")
        if not (
            name[:1].isalnum() and (not marks or marks.isalnum()) and name.isascii() and len(name) <= 128
        ):
            rule = "use a letter or digit, then up to 127 of letters, digits, . _ ~ -"
            raise ValueError(f"{name!r} is no session's name; {rule}")
        return Gateway(f"{self.url}/s/{name}")


def named(url: str | None) -> Gateway:
    """The gateway of a flag, else of HOOKGATE_URL, else the usual one. Raises ValueError."""
    return Gateway(url or os.environ.get(URL) or DEFAULT)


def key_headers(variable: str | None) -> dict[str, str]:
    """The header with the key of a variable, else of those that Gemini's clients read; without a key, none.

    Raises ValueError for a variable that was named and is not set, and for a key that no header can hold.
    """
    names = (variable,) if variable else KEYS
    found = next((name for name in names if os.environ.get(name)), None)
    if found is None:
        if variable:
            raise ValueError(f"--key-env: {variable} is not set; export it, or name another variable")
        return {}
    key = os.environ[found].strip()
    if not (key.isascii() and key.isprintable()):
        raise ValueError(f"{found} holds something that cannot be a key; set it again")
    return {"x-goog-api-key": key}


def _host_and_port(place: str, default: int) -> tuple[str, int]:
    host, colon, port = place.rpartition(":")
    if not colon or place.endswith("]"):
        host, port = place, str(default)
    host = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"the gateway {place!r} is no host and port; write it as {DEFAULT}")
    return host, int(port)
