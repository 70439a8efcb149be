"""What an answer shows of tools that the API has run: their calls and results, and where texts come from.

The kind of a tool is that of `hosted_kinds`, such as `googleSearch`. Some traces fit several kinds: web pages
may come from any of the searches.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hookgate.translator.fields import EARLIER, JsonObject, camel, parts_of, read, read_list

_WEB = ("googleSearch", "enterpriseWebSearch", "exaAiSearch", "googleSearchRetrieval", "parallelAiSearch")
_STORES = ("retrieval", "fileSearch")
_MAPS = ("googleMaps",)

_PARTS: dict[str, tuple[str, ...]] = {
    "executableCode": ("codeExecution",),
    "codeExecutionResult": ("codeExecution",),
}
_SOURCES: dict[str, tuple[str, ...]] = {
    "web": _WEB,
    "image": _WEB,
    "webSearchQueries": _WEB,
    "imageSearchQueries": _WEB,
    "searchEntryPoint": _WEB,
    "retrievedContext": _STORES,
    "retrievalQueries": _STORES,
    "maps": _MAPS,
    "googleMapsWidgetContextToken": _MAPS,
}
"""The kinds of tools that leave these fields in the grounding of an answer, or in one of its chunks."""

_TYPES: dict[str, tuple[str, ...]] = {
    "codeInterpreter": ("codeExecution",),
    "googleSearch": _WEB,
    "googleSearchWeb": _WEB,
    "googleSearchImage": _WEB,
    "mcp": ("mcpServers",),
    "mcpApproval": ("mcpServers",),
    "mcpListTools": ("mcpServers",),
    "mcpServerTool": ("mcpServers",),
    "webSearch": _WEB,
}
"""The kinds of tools whose calls have these types, if they are not the kind themselves."""

KNOWN_KINDS = frozenset(
    {*_WEB, *_STORES, *_MAPS, "codeExecution", "computerUse", "mcpServers", "toolSearch", "urlContext"}
)
"""All kinds that are known. Names of others come from the answer itself."""

_ABOUT_SERVERS = ("mcp_approval_request", "mcp_list_tools")
"""Items about servers of tools that are no calls: a question whether one may be called, and their tools."""

_BEGUN = "response.output_item.added"
"""The event with which an item of a streamed response begins. Each item has one."""

_NO_TOOLS = frozenset({"mediaProcessing", "processing"})
"""Types of calls with which a model reads the media of the request. No tool is needed for them."""


@dataclass(frozen=True, slots=True)
class HostedUse:
    """A trace of a tool that the API has run."""

    kinds: tuple[str, ...]
    """The kinds of tools that it may be of, the likeliest first."""
    value: Any
    """The call, result or source itself."""


def hosted_uses(response: JsonObject) -> Iterator[HostedUse]:
    """Yield what a GenerateContentResponse shows of tools that the API has run."""
    for candidate in read_list(response, "candidates"):
        for part in parts_of(candidate):
            if isinstance(part, dict):
                yield from _uses_in_part(part)
        for context in read_list(candidate, "urlContextMetadata"):
            if not isinstance(context, dict) or any(context.values()):
                yield HostedUse(("urlContext",), context)
        for grounding in read_list(candidate, "groundingMetadata"):
            yield from _uses_in_grounding(grounding)
    for event in (response, *read_list(response, "events")):
        if isinstance(event, dict) and event.get("type") == _BEGUN and isinstance(event.get("item"), dict):
            yield from _uses_in_item(event["item"])
    for event in read_list(response, EARLIER):
        if isinstance(event, dict):
            yield from hosted_uses(event)


def _uses_in_part(part: JsonObject) -> Iterator[HostedUse]:
    for name, kinds in _PARTS.items():
        if (value := read(part, name)) is not None:
            yield HostedUse(kinds, value)
    for name in ("toolCall", "toolResponse"):
        if (call := read(part, name)) is not None and (kinds := _kinds_of_call(call)):
            yield HostedUse(kinds, call)
    if read(part, "functionCall") is None:
        yield from _uses_in_item(part)


def _uses_in_item(item: JsonObject) -> Iterator[HostedUse]:
    """Yield the use that an item of a dialect is in which uses are no parts."""
    kind = str(item.get("type"))
    is_use = kind.endswith(("_call", "_result")) or kind in _ABOUT_SERVERS
    if is_use and kind != "function_call" and (kinds := _kinds_of_call(item)):
        yield HostedUse(kinds, item)


def _kinds_of_call(call: Any) -> tuple[str, ...]:
    """Return the kinds of tools that a call or result may be of; none if no tool is needed for it."""
    named = (read(call, "toolType") or call.get("type")) if isinstance(call, dict) else None
    if not isinstance(named, str):
        return ("",)
    kind = camel(named.lower().removesuffix("_call").removesuffix("_result").removesuffix("_request"))
    return () if kind in _NO_TOOLS else _TYPES.get(kind, (kind,))


def _uses_in_grounding(grounding: Any) -> Iterator[HostedUse]:
    if not isinstance(grounding, dict):
        yield HostedUse((*_WEB, *_STORES, *_MAPS), grounding)
        return
    chunks = [each for each in read_list(grounding, "groundingChunks") if isinstance(each, dict)]
    found = [kinds for each in (grounding, *chunks) for name, kinds in _SOURCES.items() if read(each, name)]
    if any(grounding.values()) and not found:  # Vertex AI sends empty lists and objects without any tool
        found = [(*_WEB, *_STORES, *_MAPS)]
    for kinds in dict.fromkeys(found):
        yield HostedUse(kinds, grounding)
