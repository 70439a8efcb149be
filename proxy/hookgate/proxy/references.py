"""What a request refers to instead of carrying it: no hook has seen it. Pure."""

from collections.abc import Iterator
from typing import Any

from hookgate.proxy.config.models import Routes
from hookgate.proxy.errors import ApiError
from hookgate.translator.fields import JsonObject, read, read_list

_CACHED = (
    "no hook has seen what is cached; send the contents themselves, or set "
    'routes.unhooked = ["caches"] in hookgate.toml to let it through unjudged.'
)
_FILE = (
    "no hook has seen what is in the file; send its contents as text or inlineData, or set "
    'routes.files = "forward" in hookgate.toml to let files through unjudged.'
)
_STORE = (
    "no hook has seen what is in a file search store; leave the tool out, or set "
    'routes.files = "forward" in hookgate.toml to let files through unjudged.'
)


def check_references(body: JsonObject, routes: Routes) -> None:
    """Look for cached contents, files and file search stores in a GenerateContentRequest.

    Raises ApiError (403), with the place and the remedy, for what `routes` does not let through.
    """
    if read(body, "cachedContent") is not None and "caches" not in routes.unhooked:
        raise ApiError(403, f"cachedContent: {_CACHED}", "ROUTE_NOT_ALLOWED")
    if routes.files == "forward":
        return
    for number, tool in enumerate(read_list(body, "tools")):
        if isinstance(tool, dict) and read(tool, "fileSearch") is not None:
            raise ApiError(403, f"tools[{number}].fileSearch: {_STORE}", "ROUTE_NOT_ALLOWED")
    for path in _files(body):
        raise ApiError(403, f"{path}: {_FILE}", "ROUTE_NOT_ALLOWED")


def _files(body: JsonObject) -> Iterator[str]:
    """The places of all `fileData`, those in tools' results among them."""
    instruction = read(body, "systemInstruction")
    if isinstance(instruction, dict):
        yield from _files_in(instruction, "systemInstruction")
    for number, content in enumerate(read_list(body, "contents")):
        yield from _files_in(content, f"contents[{number}]")


def _files_in(holder: Any, path: str) -> Iterator[str]:
    parts = read_list(holder, "parts") if isinstance(holder, dict) else []
    for number, part in enumerate(parts):
        if not isinstance(part, dict):
            continue
        if read(part, "fileData") is not None:
            yield f"{path}.parts[{number}].fileData"
        for key, value in part.items():
            if type(value) is dict and "parts" in value:
                yield from _files_in(value, f"{path}.parts[{number}].{key}")
