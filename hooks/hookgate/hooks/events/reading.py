"""Reads events from documents, such as captured hook inputs and REST bodies, and provides sample events."""

from collections.abc import Callable, Mapping
from typing import Any

from hookgate.hooks.events.agent import AfterAgent, BeforeAgent
from hookgate.hooks.events.base import Event, SharedValue, first
from hookgate.hooks.events.model import AfterModel, BeforeModel, BeforeToolSelection
from hookgate.hooks.events.session import Notification, PreCompress, SessionEnd, SessionStart
from hookgate.hooks.events.tool import AfterTool, BeforeTool
from hookgate.translator import apply_request, show_request, synthetic_response, write_tool_config
from hookgate.translator.fields import JsonObject, read, without

_MODEL = "gemini-3.8-flash"
_BODY: JsonObject = {
    "contents": [{"role": "user", "parts": [{"text": "Hello."}]}],
    "tools": [{"functionDeclarations": [{"name": "read_file"}, {"name": "write_file"}]}],
}
_ANSWER: JsonObject = {
    "candidates": [
        {"content": {"role": "model", "parts": [{"text": "Hello."}]}, "finishReason": "STOP", "index": 0}
    ],
    "usageMetadata": {"promptTokenCount": 2, "candidatesTokenCount": 2, "totalTokenCount": 4},
}

SAMPLES: Mapping[str, Event] = {
    event.name: event
    for event in (
        SessionStart(),
        SessionEnd(),
        BeforeAgent("Hello."),
        AfterAgent("Hello.", "Hello."),
        BeforeModel(_MODEL, _BODY),
        AfterModel(SharedValue(show_request(_MODEL, _BODY)), _ANSWER, _MODEL),
        BeforeToolSelection(_MODEL, _BODY),
        BeforeTool("read_file", {"file_path": "README.md"}),
        AfterTool("read_file", {"file_path": "README.md"}, {"llmContent": "Hello.", "returnDisplay": ""}),
        PreCompress(),
        Notification("ToolPermission", "Hello."),
    )
}
"""A harmless sample of each event, by name."""


def read_event(name: str, document: JsonObject) -> Event:
    """Read an event from the input document of a hook or, for model events, from a REST body.

    Raises ValueError, which names the field, if a required field is missing, or the event if it is unknown.
    """
    if name not in _READERS:
        raise ValueError(f"there is no event {name!r}")
    try:
        return _READERS[name](document)
    except KeyError as error:
        raise ValueError(f"a {name} input needs the field {error}") from None


def _get_any(document: JsonObject, *keys: str) -> Any:
    """Return the value of the first key that is present. Raises KeyError with the canonical key."""
    for key in keys:
        if document.get(key) is not None:
            return document[key]
    raise KeyError(keys[0])


def _cause(document: JsonObject, key: str, default: str) -> Any:
    """Return what caused a session event. The documents disagree on the key, and some leave it out."""
    return next((value for each in (key, "trigger") if (value := document.get(each)) is not None), default)


def _before_model(document: JsonObject) -> BeforeModel:
    if document.get("llm_request") is None and read(document, "contents") is not None:  # a REST request
        return BeforeModel(str(first(document.get("model"), _MODEL)), document)
    model, body = _request(_get_any(document, "llm_request"), {})
    return BeforeModel(model, body, tools_known="tools" in body)


def _before_tool_selection(document: JsonObject) -> BeforeToolSelection:
    """Read the event. One of the documents shows hooks the tools and their selection, but no request."""
    tools, shown = document.get("available_tools"), document.get("llm_request")
    if shown is None and read(document, "contents") is not None:  # a REST request
        return BeforeToolSelection(str(first(document.get("model"), _MODEL)), document)
    if shown is None and tools is None:
        raise KeyError("llm_request")
    whole = isinstance(shown, dict) and shown.get("tools") is not None
    body = {} if whole or not isinstance(tools, list) else {"tools": _tools(tools)}
    model, body = _request({} if shown is None else shown, body)
    if (selection := document.get("tool_config")) is not None and "toolConfig" not in body:
        body = write_tool_config(body, selection)
    return BeforeToolSelection(model, body)


def _tools(available: list[Any]) -> list[Any]:
    """Return `available_tools` as tools. Some agents send declarations, and others the tools with these."""
    declarations = [each for each in available if isinstance(each, dict) and "name" in each]
    tools = [each for each in available if each not in declarations]
    return [*([{"functionDeclarations": declarations}] if declarations else ()), *tools]


def _request(shown: Any, body: JsonObject) -> tuple[str, JsonObject]:
    """Return the model and the body of a request in its stable form. `body` contains what the form lacks."""
    if not isinstance(shown, dict):
        raise KeyError("llm_request")
    if isinstance(tools := shown.get("tools"), list):  # of all views of tool selections
        body = {"tools": tools, **body}
    model, body = apply_request(str(first(shown.get("model"), _MODEL)), body, without(shown, "toolConfig"))
    selection = read(shown, "toolConfig")
    return model, body if selection is None else write_tool_config(body, selection)


def _after_model(document: JsonObject) -> AfterModel:
    if document.get("candidates") is not None:  # a REST response
        return AfterModel(SharedValue(show_request(_MODEL, _BODY)), document, _MODEL)
    request = _get_any(document, "llm_request")
    return AfterModel(SharedValue(request), synthetic_response(_get_any(document, "llm_response")))


_READERS: Mapping[str, Callable[[JsonObject], Event]] = {
    "SessionStart": lambda d: SessionStart(_cause(d, "source", "startup")),
    "SessionEnd": lambda d: SessionEnd(_cause(d, "reason", "other")),
    "BeforeAgent": lambda d: BeforeAgent(
        _get_any(d, "prompt", "user_message"), d.get("conversation_history")
    ),
    "AfterAgent": lambda d: AfterAgent(
        str(first(d.get("prompt"), d.get("user_message"), "")),
        _get_any(d, "prompt_response", "final_response"),
        bool(d.get("stop_hook_active")),
        d.get("conversation_history"),
    ),
    "BeforeModel": _before_model,
    "AfterModel": _after_model,
    "BeforeToolSelection": _before_tool_selection,
    "BeforeTool": lambda d: BeforeTool(
        _get_any(d, "tool_name"),
        _get_any(d, "tool_input", "tool_args"),
        d.get("tool_description"),
        d.get("mcp_context"),
        d.get("original_request_name"),
    ),
    "AfterTool": lambda d: AfterTool(
        _get_any(d, "tool_name"),
        _get_any(d, "tool_input", "tool_args"),
        _get_any(d, "tool_response", "tool_result"),
        d.get("mcp_context"),
        d.get("original_request_name"),
    ),
    "PreCompress": lambda d: PreCompress(
        _cause(d, "trigger", "auto"), d.get("context_size"), d.get("max_context_size")
    ),
    "Notification": lambda d: Notification(
        _get_any(d, "notification_type"), str(d.get("message", "")), d.get("details") or {}
    ),
}
