"""hookgate's translator: converts Gemini REST bodies to the stable hook model, and applies edits to them.

It consists of pure functions over parsed JSON. This package uses no sockets, event loop, clock or SDK; it
imports nothing else of hookgate and can be used without it.
"""

from typing import TYPE_CHECKING

from hookgate.translator.lazy_exports import lazy_exports

if TYPE_CHECKING:  # what it exports, by the modules that define it
    from hookgate.translator.batches import BatchBody as BatchBody, BatchState as BatchState
    from hookgate.translator.checks import (
        check_request as check_request,
        check_response as check_response,
        check_spellings as check_spellings,
        make_canonical as make_canonical,
    )
    from hookgate.translator.fields import (
        BodyError as BodyError,
        EditError as EditError,
        TranslatorError as TranslatorError,
    )
    from hookgate.translator.hosted_calls import KNOWN_KINDS as KNOWN_KINDS, hosted_uses as hosted_uses
    from hookgate.translator.inputs import (
        CACHES as CACHES,
        ITEM_METHODS as ITEM_METHODS,
        Inputs as Inputs,
        read_inputs as read_inputs,
    )
    from hookgate.translator.model_names import MODEL_NAME as MODEL_NAME
    from hookgate.translator.request import (
        VIEWS as VIEWS,
        ShownRequest as ShownRequest,
        apply_request as apply_request,
        apply_request_parts as apply_request_parts,
        show_request as show_request,
        show_request_parts as show_request_parts,
        show_request_raw as show_request_raw,
    )
    from hookgate.translator.response import (
        apply_response as apply_response,
        show_response as show_response,
        synthetic_response as synthetic_response,
        text_response as text_response,
    )
    from hookgate.translator.streaming.events import (
        ToolCallFilter as ToolCallFilter,
        join_events as join_events,
        split_edit as split_edit,
    )
    from hookgate.translator.streaming.framing import (
        Frame as Frame,
        Framing as Framing,
        JsonArray as JsonArray,
        ServerSentEvents as ServerSentEvents,
    )
    from hookgate.translator.tools import (
        DeclaredNames as DeclaredNames,
        apply_tool_config as apply_tool_config,
        apply_tools as apply_tools,
        callable_names as callable_names,
        declared_descriptions as declared_descriptions,
        declared_names as declared_names,
        function_declarations as function_declarations,
        hosted_kinds as hosted_kinds,
        hosted_tools as hosted_tools,
        keep_selected_tools as keep_selected_tools,
        read_tool_config as read_tool_config,
        read_tools as read_tools,
        show_tool_config as show_tool_config,
        write_tool_config as write_tool_config,
    )

__getattr__ = lazy_exports(__name__)
