"""The gateway's address, the session and the API key, from the environment; what all events share."""

import os
import time

DEFAULT = "http://127.0.0.1:8787"
URL, SESSION, LAUNCHED = "HOOKGATE_URL", "HOOKGATE_SESSION", "HOOKGATE_LAUNCHED"
KEYS = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
_DEFAULT_PORTS = {True: 443, False: 80}


class GatewayAddress:
    """A gateway's base URL, split into its parts."""

    __slots__ = ("host", "path", "port", "secure")

    def __init__(self, url: str) -> None:
        """Parse a base URL. Raises ValueError if it is not one, or if it contains a key."""
        scheme, _, rest = url.partition("://")
        netloc, slash, path = rest.partition("/")
        if scheme not in ("http", "https") or not netloc or not url.isascii() or not url.isprintable():
            raise ValueError(f"the gateway {url!r} is not a URL; write it like {DEFAULT}")
        if "@" in netloc or "?" in rest or "#" in rest or " " in url:
            raise ValueError("the gateway's URL must be an address only, without a key, '?' or '#'")
        self.secure = scheme == "https"
        self.host, self.port = _host_and_port(netloc, _DEFAULT_PORTS[self.secure])
        self.path = (slash + path).rstrip("/")

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.secure] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The base URL, without a trailing slash."""
        return f"http{'s' if self.secure else ''}://{self.authority}{self.path}"

    def session(self, name: str) -> "GatewayAddress":
        """Return the address of a session. Raises ValueError for an invalid session ID."""
        alphanumeric = name.replace(".", "").replace("_", "").replace("~", "").replace("-", "")
        if not (
            name[:1].isalnum()
            and (not alphanumeric or alphanumeric.isalnum())
            and name.isascii()
            and len(name) <= 128
        ):
            rule = "use a letter or digit, then up to 127 letters, digits or . _ ~ -"
            raise ValueError(f"{name!r} is not a valid session id; {rule}")
        return GatewayAddress(f"{self.url}/s/{name}")


def find_gateway(url: str | None) -> GatewayAddress:
    """Return the gateway at `url`, or else at HOOKGATE_URL, or else at the default. Raises ValueError."""
    return GatewayAddress(url or os.environ.get(URL) or DEFAULT)


def key_headers(variable: str | None) -> dict[str, str]:
    """Return the header with the API key, or no header if there is no key.

    The key is read from `variable`, or else from the variables that Gemini's clients read. Raises ValueError
    if `variable` is not set, or if the key cannot be sent in a header.
    """
    names = (variable,) if variable else KEYS
    variable_name = next((name for name in names if os.environ.get(name)), None)
    if variable_name is None:
        if variable:
            raise ValueError(f"--key-env: {variable} is not set; export it, or name another variable")
        return {}
    key = os.environ[variable_name].strip()
    if not (key.isascii() and key.isprintable()):
        raise ValueError(f"{variable_name} is not a valid key: it must be printable ASCII; set it again")
    return {"x-goog-api-key": key}


def event_input(event: str, session: str, cwd: str) -> dict[str, str]:
    """Return the fields that the inputs of all events have, with the current time."""
    seconds, milliseconds = divmod(time.time_ns() // 1_000_000, 1000)
    second = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return {
        "session_id": session,
        "transcript_path": "",
        "cwd": cwd,
        "hook_event_name": event,
        "timestamp": f"{second}.{milliseconds:03}Z",
    }


def _host_and_port(netloc: str, default: int) -> tuple[str, int]:
    host, colon, port = netloc.rpartition(":")
    if not colon or netloc.endswith("]"):
        host, port = netloc, str(default)
    host = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"the gateway {netloc!r} is not a host and port; write it like {DEFAULT}")
    return host, int(port)
