"""The types of settings, with validators that raise clear errors, and the files that contain secrets."""

import re
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr

from hookgate.proxy import GEMINI_API
from hookgate.proxy.errors import describe_os_error

if TYPE_CHECKING:  # a command without URLs in its configuration does not need it
    from yarl import URL


def _url(text: str) -> "URL":
    """Parse a URL. Raises ValueError."""
    # Imported only if it is needed: it takes 10 ms.
    from yarl import URL  # noqa: PLC0415  # see above

    return URL(text)


def parse_origin(text: str) -> str:
    """Check and return an upstream's base URL. Raises ValueError if it is invalid."""
    if re.search(r"[\s?#@\\]", text):
        raise ValueError(f"{text!r} contains more than a scheme, host, port and path")
    try:
        url = _url(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is not a base URL: {error}; give one like {GEMINI_API}") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError(f"{text!r} is not a base URL; give one like {GEMINI_API}")
    return text.rstrip("/")


def parse_proxy(text: str | None) -> "URL | None":
    """Parse a proxy's URL. Raises ValueError without the URL, which may contain a password."""
    if text is None:
        return None
    try:
        url = _url(text)
    except ValueError:
        url = _url("")
    if url.scheme != "http" or not url.host or url.path != "/" or url.query_string or url.fragment:
        raise ValueError("upstream.proxy is not a proxy's URL; give one like http://proxy.example:3128")
    return url


_NAME = r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,31}"
_SHA256 = r"[0-9a-fA-F]{64}"
_API_KEY = r"[!-~]{8,512}"
_STORE = r"postgresql(\+psycopg)?://([^/@?#\s]+@)?[^/@?#\s]*/[^/@?#\s]+(\?[^@#\s]*)?"
_HOST = r"[A-Za-z0-9_.-]+"
_HEADER = r"[A-Za-z][A-Za-z0-9-]{0,63}"
_PROJECT = r"[a-z0-9][a-z0-9-]{2,62}"
_LOCATION = r"[a-z][a-z0-9-]{1,62}"
_ADDRESS = r"(\[[0-9a-fA-F:.]+(?:%[A-Za-z0-9._-]+)?\]|[^:\s\[\]]+):([0-9]{1,9})"
_MAX_PORT = 65535


def host_and_port(address: str) -> tuple[str, int]:
    """Split `HOST:PORT` or `[IPV6]:PORT`. Raises ValueError for anything else."""
    match = re.fullmatch(_ADDRESS, address)
    if not match:
        raise ValueError("must be HOST:PORT, such as 127.0.0.1:8787")
    if int(match[2]) > _MAX_PORT:
        raise ValueError(f"{match[2]} is not a port: ports are at most {_MAX_PORT}; 0 selects a free one")
    return match[1].strip("[]"), int(match[2])


def is_loopback(host: str) -> bool:
    """Return True if the host is `localhost` or a loopback address."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def masked(url: str) -> str:
    """Return the URL with its user and password masked."""
    return re.sub(r"//[^/]*@", "//***@", url)


def _address(text: str) -> str:
    host_and_port(text)
    return text


def _host(text: str) -> str:
    if not re.fullmatch(_HOST, text):
        raise ValueError("must be a host name without a scheme or port, such as metrics.example.com")
    return text


def _project(text: str) -> str:
    if not re.fullmatch(_PROJECT, text):
        raise ValueError("must be the ID or the number of a Google Cloud project, such as my-project-123")
    return text


def _location(text: str) -> str:
    if not re.fullmatch(_LOCATION, text):
        raise ValueError("must be a location of Vertex AI, such as global or europe-west4")
    return text


def _off(value: Any) -> Any:
    return None if value == "off" else value


def _origin(text: str) -> str:
    try:
        return parse_origin(text)
    except ValueError:
        if "://" not in text:
            raise ValueError(f"must begin with https:// or http://, such as {GEMINI_API}") from None
        raise ValueError(f"must consist only of scheme, host, port and path, such as {GEMINI_API}") from None


def _api_origin(text: str) -> str:
    """Check and return the base URL of an API, to which the path of each call is appended."""
    origin = _origin(text)
    if found := re.search(r"/v1(alpha|beta1?|internal)?$", origin):
        raise ValueError(
            f"must not end with {found[0]}: the path of each call begins with the version; "
            f"write {origin.removesuffix(found[0])}"
        )
    return origin


def https_url(text: str) -> str:
    """Check and return a URL whose answers are trusted. Over plain HTTP, others could replace them."""
    url = _url(_origin(text))
    if url.scheme != "https" and not is_loopback(url.host or ""):
        raise ValueError("must be an https:// URL, such as https://login.example.com")
    return text


# What the paths of routes begin with, after `/`: as a prefix, it could not be told from a part of a path.
_BEGINS_ROUTE = (
    r"v1(alpha|beta1?|internal)?(:.*)?|chat|embeddings|hookgate|interactions|models|openai|projects"
    r"|publishers|responses|s|tunedModels|upload|ws"
)
_SEGMENT = r"[A-Za-z0-9][A-Za-z0-9._~-]*"


def _public_url(text: str) -> str:
    """Check and return the URL at which clients reach the gateway."""
    origin = _origin(text)
    path = re.fullmatch(r"https?://[^/]*(.*)", origin, re.IGNORECASE)
    if path is None or not re.fullmatch(rf"(/{_SEGMENT})*", path[1]):
        raise ValueError("must have a path of letters, digits, . _ ~ and -, such as https://host/gemini")
    first = path[1].split("/")[1] if path[1] else ""
    if re.fullmatch(_BEGINS_ROUTE, first):
        raise ValueError(
            f"must not have a path that begins with /{first}, as paths of calls do; "
            "write the URL without it, or let the ingress use another prefix, such as /gemini"
        )
    return origin


# Headers that a setting must not pass on, by their lower-case names.
_HOP_BY_HOP = r"connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|http2-settings|via"
_ABOUT_CONTENT = r"accept.*|content-.*|expect|range|if-.*|date|date-.*|digest|want-.*"
_CREDENTIALS = r".*(authorization|cookie|credential|password|secret|token|api-?key).*"
_ABOUT_ROUTE = (
    r"host|origin|forwarded|x-forwarded-.*|x-hookgate-.*|sec-.*|max-forwards|alt-used"
    r"|x-(http-)?method(-override)?|x-original-.*|x-rewrite-.*"
)
_PASSED_ANYWAY = (
    r"referer|user-agent|traceparent|tracestate|api-revision|x-request-id|x-server-timeout"
    r"|x-(goog|gemini|vertex-ai|android|ios)-.*"
)
_NEVER_NAMED = {
    "describes the connection": _HOP_BY_HOP,
    "describes the body or the answer": _ABOUT_CONTENT,
    "may be a credential": _CREDENTIALS,
    "says where a request comes from or goes to": _ABOUT_ROUTE,
    "needs no setting: such headers are passed on if they may be": _PASSED_ANYWAY,
}


def _header_name(text: str) -> str:
    """Check and return the name of a request header that may be passed on to the upstream."""
    if not re.fullmatch(_HEADER, text):
        raise ValueError("must be the name of a header, such as X-Tenant")
    for reason, names in _NEVER_NAMED.items():
        if re.fullmatch(names, text.lower()):
            raise ValueError(f"{text} must not be named here: it {reason}; remove it")
    return text


def _proxy(text: str) -> str:
    try:
        parse_proxy(text)
    except ValueError:
        raise ValueError("must be the http:// URL of a proxy, such as http://proxy.example:3128") from None
    return text


def key_name(text: str) -> str:
    """Check and return the name of a key or a team. Raises ValueError if it is invalid.

    Transcripts are in a folder with the key's name; keys without a name are called by 24 hex digits
    there. Names are shown, so the maximum length excludes API keys that were entered by mistake.
    """
    if not re.fullmatch(_NAME, text):
        raise ValueError("a name is a letter or digit, then up to 31 letters, digits or . _ @ + -")
    if text == "no-key" or re.fullmatch(r"[0-9a-f]{24}", text):
        raise ValueError("this name is reserved for keys without a name; choose another")
    return text


def _sha256(text: str) -> str:
    if not re.fullmatch(_SHA256, text):
        raise ValueError("must be the 64 hex digits that `hookgate keys hash` prints for the key")
    return text.lower()


def store_url(text: str) -> str:
    """Check and return the URL of a PostgreSQL database. Raises ValueError for anything else.

    A password is accepted only after the user name, where it can be masked.
    """
    if not re.fullmatch(_STORE, text) or "password=" in text.lower():
        raise ValueError(
            "must be postgresql+psycopg://USER:PASSWORD@HOST/DATABASE, with characters such as / and @ "
            "in a password written as %2F and %40; to use a file on this machine, leave it out"
        )
    return text


def admin_token(text: str) -> str:
    """Check and return an admin token. Raises ValueError if it could be guessed."""
    if not re.fullmatch(r"[!-~]{16,256}", text):
        raise ValueError(
            "must be 16 to 256 letters, digits and symbols, without spaces; create one with: "
            "openssl rand -hex 24"
        )
    return text


def client_secret(text: str) -> str:
    """Check and return the secret of a client of an OpenID provider. Raises ValueError, without the text."""
    if not re.fullmatch(r"[!-~]{1,512}", text):
        raise ValueError("must contain the secret, and nothing else")
    return text


def _secret(value: SecretStr) -> SecretStr:
    admin_token(value.get_secret_value())
    return value


def api_key(text: str) -> str:
    """Check and return an API key. Raises ValueError, without the key, if it cannot be one."""
    if not re.fullmatch(_API_KEY, text):
        raise ValueError("must be an API key: 8 to 512 letters, digits and symbols, without spaces")
    return text


def _secret_api_key(value: SecretStr) -> SecretStr:
    api_key(value.get_secret_value())
    return value


WINDOW_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 24 * 3600}
_WINDOW = r"[1-9][0-9]{0,4}[smhd]|day|month"
_LONGEST_WINDOW = 31 * 24 * 3600
_GROUPS = ("key", "owner", "team", "session", "model", "asked", "agent", "outcome")


def window_seconds(window: str) -> int:
    """Return the seconds of a window such as `5m`; of a day or a month, the longest that it can be."""
    if window in ("day", "month"):
        return WINDOW_SECONDS["d"] * (1 if window == "day" else 31)
    return int(window[:-1]) * WINDOW_SECONDS[window[-1]]


def _window(text: str) -> str:
    if not re.fullmatch(_WINDOW, text) or not 5 <= window_seconds(text) <= _LONGEST_WINDOW:
        raise ValueError(
            "must be 5s to 31d, such as 5m, or day or month, which begin at midnight and on the first, in UTC"
        )
    return text


def _groups(text: str) -> str:
    names = text.split(",")
    if not set(names) <= {*_GROUPS} or len(set(names)) < len(names):
        raise ValueError(f"must be one or several of {', '.join(_GROUPS)}, separated by commas")
    return text


def webhook_url(text: str) -> str:
    """Check and return the URL of a receiver of alerts. Raises ValueError, without the URL."""
    try:
        url = _url(text)
    except ValueError:
        url = _url("")
    if url.scheme not in ("http", "https") or not url.host or "@" in url.raw_authority or url.fragment:
        raise ValueError("must be a URL such as https://alerts.example.com/hook, without a user and a #")
    return text


def _secret_url(value: SecretStr) -> SecretStr:
    webhook_url(value.get_secret_value())
    return value


def _path(value: Any) -> Any:
    if value == "":
        raise ValueError("is empty; name a path, or leave the setting out")
    return value


Address = Annotated[
    str,
    AfterValidator(_address),
    Field(json_schema_extra={"pattern": f"^{_ADDRESS}$", "format": "HOST:PORT"}),
]
AddressOrOff = Annotated[
    Annotated[str, AfterValidator(_address)] | None,
    BeforeValidator(_off),
    Field(json_schema_extra={"pattern": f"^({_ADDRESS}|off)$", "format": "HOST:PORT"}),
]
HostName = Annotated[
    str,
    AfterValidator(_host),
    Field(json_schema_extra={"pattern": f"^{_HOST}$", "format": "hostname"}),
]
Origin = Annotated[str, AfterValidator(_origin), Field(json_schema_extra={"format": "uri"})]
ApiOrigin = Annotated[str, AfterValidator(_api_origin), Field(json_schema_extra={"format": "uri"})]
PublicUrl = Annotated[str, AfterValidator(_public_url), Field(json_schema_extra={"format": "uri"})]
HeaderName = Annotated[
    str,
    AfterValidator(_header_name),
    Field(json_schema_extra={"pattern": f"^{_HEADER}$", "format": "header"}),
]
HttpsUrl = Annotated[str, AfterValidator(https_url), Field(json_schema_extra={"format": "https"})]
WebOrigin = Annotated[
    str, Field(pattern=r"^https?://[A-Za-z0-9.:\[\]-]{1,253}$", json_schema_extra={"format": "origin"})
]
ProxyUrl = Annotated[str, AfterValidator(_proxy), Field(json_schema_extra={"format": "uri"})]
StoreUrl = Annotated[
    str,
    AfterValidator(store_url),
    Field(json_schema_extra={"pattern": f"^{_STORE}$", "format": "PostgreSQL"}),
]
File = Annotated[Path, BeforeValidator(_path)]
KeyName = Annotated[str, AfterValidator(key_name), Field(json_schema_extra={"pattern": f"^{_NAME}$"})]
Sha256 = Annotated[str, AfterValidator(_sha256), Field(json_schema_extra={"pattern": f"^{_SHA256}$"})]
Token = Annotated[
    SecretStr,
    AfterValidator(_secret),
    Field(json_schema_extra={"pattern": "^[!-~]{16,256}$"}),
]
ApiKey = Annotated[
    SecretStr,
    AfterValidator(_secret_api_key),
    Field(json_schema_extra={"pattern": f"^{_API_KEY}$"}),
]
SecretUrl = Annotated[SecretStr, AfterValidator(_secret_url)]
Window = Annotated[
    str, AfterValidator(_window), Field(json_schema_extra={"pattern": f"^({_WINDOW})$", "format": "window"})
]
Groups = Annotated[str, AfterValidator(_groups), Field(json_schema_extra={"format": "groups"})]
Project = Annotated[str, AfterValidator(_project), Field(json_schema_extra={"pattern": f"^{_PROJECT}$"})]
Location = Annotated[str, AfterValidator(_location), Field(json_schema_extra={"pattern": f"^{_LOCATION}$"})]
ModelPattern = Annotated[str, Field(min_length=1, max_length=128)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Delay = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(gt=0)]


class Section(BaseModel):
    """A table of hookgate.toml. Unknown names are errors: a misspelt limit would otherwise have no effect."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        defer_build=True,  # most sections are only used as parts of the whole configuration
        hide_input_in_errors=True,  # an invalid value may contain a password or a key
    )

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Yield the values for `repr` and `str`, with passwords masked."""
        for name, value in super().__repr_args__():
            yield name, masked(value) if isinstance(value, str) else value


T = TypeVar("T")


def read_secret(file: Path, check: Callable[[str], T]) -> T:
    """Return what `check` makes of the only text in a file, a secret, without white space around it.

    `check` raises ValueError, without the text, if it cannot be the secret. Raises ValueError with the file,
    what is wrong, and the remedy.
    """
    try:
        return check(file.read_text(encoding="utf-8").strip())
    except FileNotFoundError:
        problem = "does not exist; write the secret into it, or check the path"
    except OSError as error:
        problem = f"cannot be read: {describe_os_error(error)}; check the path"
    except UnicodeDecodeError:  # its message quotes the secret
        problem = "is not text in UTF-8; it must contain the secret, and nothing else"
    except ValueError as error:
        problem = str(error)
    raise ValueError(f"{file}: {problem}")
