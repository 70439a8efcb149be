"""The kinds of values that settings have, each with what is wrong with one told in words.

No text quotes the value: a URL may hold a password.
"""

import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from hookgate.proxy import GEMINI_API
from hookgate.proxy.origins import parse_origin, parse_proxy

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
Origin = Annotated[str, AfterValidator(_origin), Field(json_schema_extra={"format": "uri"})]
ProxyUrl = Annotated[str, AfterValidator(_proxy), Field(json_schema_extra={"format": "uri"})]
File = Annotated[Path, BeforeValidator(_path)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(gt=0)]
