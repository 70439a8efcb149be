"""hookgate's translator: converts Gemini REST bodies to the stable hook model, and applies edits to them.

It consists of pure functions over parsed JSON. This package uses no sockets, event loop, clock or SDK; it
imports nothing else of hookgate and can be used without it.
"""

from typing import TYPE_CHECKING

from hookgate.translator.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from hookgate.translator.batches import BatchBody, BatchState
    from hookgate.translator.checks import check_request, check_response, check_spellings, make_canonical
    from hookgate.translator.fields import BodyError, EditError, TranslatorError
    from hookgate.translator.hosted_calls import KNOWN_KINDS, hosted_uses
    from hookgate.translator.inputs import CACHES, ITEM_METHODS, Inputs, read_inputs
    from hookgate.translator.model_names import MODEL_NAME
    from hookgate.translator.request import (
        VIEWS,
        ShownRequest,
        apply_request,
        apply_request_parts,
        show_request,
        show_request_parts,
        show_request_raw,
    )
    from hookgate.translator.response import apply_response, show_response, synthetic_response, text_response
    from hookgate.translator.streaming.events import ToolCallFilter, join_events, split_edit
    from hookgate.translator.streaming.framing import Frame, Framing, JsonArray, ServerSentEvents
    from hookgate.translator.tools import (
        apply_tool_config,
        apply_tools,
        callable_names,
        declared_descriptions,
        declared_names,
        function_declarations,
        hosted_kinds,
        hosted_tools,
        keep_selected_tools,
        read_tool_config,
        read_tools,
        show_tool_config,
        write_tool_config,
    )

__all__ = [
    "CACHES",
    "ITEM_METHODS",
    "KNOWN_KINDS",
    "MODEL_NAME",
    "VIEWS",
    "BatchBody",
    "BatchState",
    "BodyError",
    "EditError",
    "Frame",
    "Framing",
    "Inputs",
    "JsonArray",
    "ServerSentEvents",
    "ShownRequest",
    "ToolCallFilter",
    "TranslatorError",
    "apply_request",
    "apply_request_parts",
    "apply_response",
    "apply_tool_config",
    "apply_tools",
    "callable_names",
    "check_request",
    "check_response",
    "check_spellings",
    "declared_descriptions",
    "declared_names",
    "function_declarations",
    "hosted_kinds",
    "hosted_tools",
    "hosted_uses",
    "join_events",
    "keep_selected_tools",
    "make_canonical",
    "read_inputs",
    "read_tool_config",
    "read_tools",
    "show_request",
    "show_request_parts",
    "show_request_raw",
    "show_response",
    "show_tool_config",
    "split_edit",
    "synthetic_response",
    "text_response",
    "write_tool_config",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "batches": (
            "BatchBody",
            "BatchState",
        ),
        "checks": (
            "check_request",
            "check_response",
            "check_spellings",
            "make_canonical",
        ),
        "fields": (
            "BodyError",
            "EditError",
            "TranslatorError",
        ),
        "hosted_calls": (
            "KNOWN_KINDS",
            "hosted_uses",
        ),
        "inputs": (
            "CACHES",
            "ITEM_METHODS",
            "Inputs",
            "read_inputs",
        ),
        "model_names": ("MODEL_NAME",),
        "request": (
            "VIEWS",
            "ShownRequest",
            "apply_request",
            "apply_request_parts",
            "show_request",
            "show_request_parts",
            "show_request_raw",
        ),
        "response": (
            "apply_response",
            "show_response",
            "synthetic_response",
            "text_response",
        ),
        "streaming.events": (
            "ToolCallFilter",
            "join_events",
            "split_edit",
        ),
        "streaming.framing": (
            "Frame",
            "Framing",
            "JsonArray",
            "ServerSentEvents",
        ),
        "tools": (
            "apply_tool_config",
            "apply_tools",
            "callable_names",
            "declared_descriptions",
            "declared_names",
            "function_declarations",
            "hosted_kinds",
            "hosted_tools",
            "keep_selected_tools",
            "read_tool_config",
            "read_tools",
            "show_tool_config",
            "write_tool_config",
        ),
    },
)
