"""Events out of documents: a hook's input as someone captured it, or a REST body; and harmless samples."""

from collections.abc import Callable, Mapping
from typing import Any

from hookgate.hooks.document import Encoded
from hookgate.hooks.events.agent import AfterAgent, BeforeAgent
from hookgate.hooks.events.base import Event
from hookgate.hooks.events.model import AfterModel, BeforeModel, BeforeToolSelection
from hookgate.hooks.events.session import Notification, PreCompress, SessionEnd, SessionStart
from hookgate.hooks.events.tool import AfterTool, BeforeTool
from hookgate.translator import apply_request, show_request, synthetic_response
from hookgate.translator.fields import JsonObject, read

_MODEL = "gemini-2.5-flash"
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
        AfterModel(Encoded(show_request(_MODEL, _BODY)), _ANSWER, _MODEL),
        BeforeToolSelection(_MODEL, _BODY),
        BeforeTool("read_file", {"file_path": "README.md"}),
        AfterTool("read_file", {"file_path": "README.md"}, {"llmContent": "Hello.", "returnDisplay": ""}),
        PreCompress(),
        Notification("ToolPermission", "Hello."),
    )
}
"""One harmless event of each kind."""


def event_of(name: str, document: JsonObject) -> Event:
    """The event that a hook input document tells of; model events are also read from a REST body.

    Raises ValueError, naming the field, for a document that lacks something.
    """
    try:
        return _READERS[name](document)
    except KeyError as error:
        raise ValueError(f"a {name} input needs the field {error}") from None


def _first_of(document: JsonObject, *keys: str) -> Any:
    """The first spelling that is there; KeyError names the usual one."""
    for key in keys:
        if document.get(key) is not None:
            return document[key]
    raise KeyError(keys[0])


def _request(document: JsonObject) -> tuple[str, JsonObject]:
    shown = document.get("llm_request")
    if shown is None and read(document, "contents") is not None:
        return str(document.get("model", _MODEL)), document
    if not isinstance(shown, dict):
        raise KeyError("llm_request")
    tools = document.get("available_tools")
    model, body = apply_request(str(shown.get("model", _MODEL)), {"tools": tools} if tools else {}, shown)
    return model, body


def _after_model(document: JsonObject) -> AfterModel:
    if document.get("candidates") is not None:  # a REST response
        return AfterModel(Encoded(show_request(_MODEL, _BODY)), document, _MODEL)
    request = _first_of(document, "llm_request")
    return AfterModel(Encoded(request), synthetic_response(_first_of(document, "llm_response")))


_READERS: Mapping[str, Callable[[JsonObject], Event]] = {
    "SessionStart": lambda d: SessionStart(_first_of(d, "source", "trigger")),
    "SessionEnd": lambda d: SessionEnd(_first_of(d, "reason", "trigger")),
    "BeforeAgent": lambda d: BeforeAgent(
        _first_of(d, "prompt", "user_message"), d.get("conversation_history")
    ),
    "AfterAgent": lambda d: AfterAgent(
        str(d.get("prompt", d.get("user_message", ""))),
        _first_of(d, "prompt_response", "final_response"),
        bool(d.get("stop_hook_active")),
        d.get("conversation_history"),
    ),
    "BeforeModel": lambda d: BeforeModel(*_request(d)),
    "AfterModel": _after_model,
    "BeforeToolSelection": lambda d: BeforeToolSelection(*_request(d)),
    "BeforeTool": lambda d: BeforeTool(
        _first_of(d, "tool_name"),
        _first_of(d, "tool_input", "tool_args"),
        d.get("tool_description"),
        d.get("mcp_context"),
        d.get("original_request_name"),
    ),
    "AfterTool": lambda d: AfterTool(
        _first_of(d, "tool_name"),
        _first_of(d, "tool_input", "tool_args"),
        _first_of(d, "tool_response", "tool_result"),
        d.get("mcp_context"),
        d.get("original_request_name"),
    ),
    "PreCompress": lambda d: PreCompress(
        _first_of(d, "trigger"), d.get("context_size"), d.get("max_context_size")
    ),
    "Notification": lambda d: Notification(
        _first_of(d, "notification_type"), str(d.get("message", "")), d.get("details") or {}
    ),
}
