"""The kinds of values that settings have, each with what is wrong with one told in words.

No text quotes the value: a URL may hold a password.
"""

import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from hookgate.proxy import GEMINI_API
from hookgate.proxy.origins import parse_origin, parse_proxy

_NAME = r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,31}"
_SHA256 = r"[0-9a-fA-F]{64}"
_STORE = r"postgresql(\+psycopg)?://([^/@?#\s]+@)?[^/@?#\s]*/[^/@?#\s]+(\?[^@#\s]*)?"
_HOST = r"[A-Za-z0-9_.-]+"
_ADDRESS = r"(\[[0-9a-fA-F:.]+\]|[^:\s\[\]]+):([0-9]{1,5})"


def host_and_port(address: str) -> tuple[str, int]:
    """`HOST:PORT` or `[IPV6]:PORT`, taken apart. Raises ValueError for anything else."""
    found = re.fullmatch(_ADDRESS, address)
    if not found or int(found[2]) > 65535:
        raise ValueError("has to be HOST:PORT, such as 127.0.0.1:8787")
    return found[1].strip("[]"), int(found[2])


def masked(url: str) -> str:
    """The URL without its user and password."""
    return re.sub(r"//[^/]*@", "//***@", url)


def _address(text: str) -> str:
    host_and_port(text)
    return text


def _host(text: str) -> str:
    if not re.fullmatch(_HOST, text):
        raise ValueError("has to be a name without scheme and port, such as metrics.example.com")
    return text


def _off(value: Any) -> Any:
    return None if value == "off" else value


def _origin(text: str) -> str:
    try:
        return parse_origin(text)
    except ValueError:
        raise ValueError(f"has to be scheme, host, port and path alone, such as {GEMINI_API}") from None


def _proxy(text: str) -> str:
    try:
        parse_proxy(text)
    except ValueError:
        raise ValueError("has to be the http:// URL of a proxy, such as http://proxy.example:3128") from None
    return text


def key_name(text: str) -> str:
    """The name of a key or a team. Raises ValueError for what is none.

    Transcripts of a key are in a folder of its name, beside those of keys without one: these are called by
    twelve hex digits. A name is shown, so it is too short for the API keys that there are.
    """
    if not re.fullmatch(_NAME, text):
        raise ValueError("a name is a letter or digit, then up to 31 of letters, digits, . _ @ + -")
    if text == "no-key" or re.fullmatch(r"[0-9a-f]{12}", text):
        raise ValueError("this name is what a key without a name is called; choose another")
    return text


def _sha256(text: str) -> str:
    if not re.fullmatch(_SHA256, text):
        raise ValueError("has to be the 64 hex digits that `hookgate key-hash` prints for the key")
    return text.lower()


def store_url(text: str) -> str:
    """The URL of a PostgreSQL database. Raises ValueError for anything else.

    A password is in one place alone, where it can be masked: behind the user.
    """
    if not re.fullmatch(_STORE, text) or "password=" in text.lower():
        raise ValueError(
            "has to be postgresql+psycopg://USER:PASSWORD@HOST/DATABASE, with signs such as / and @ "
            "in a password as %2F and %40; for a file of this machine's leave it out"
        )
    return text


def admin_token(text: str) -> str:
    """The token that operators show. Raises ValueError for one that could be guessed."""
    if not re.fullmatch(r"[!-~]{16,256}", text):
        raise ValueError(
            "has to be 16 to 256 letters, digits and signs, no blanks; make one with: openssl rand -hex 24"
        )
    return text


def _secret(value: SecretStr) -> SecretStr:
    admin_token(value.get_secret_value())
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
ModelPattern = Annotated[str, Field(min_length=1, max_length=128)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(gt=0)]
