"""The eleven events, with the input and output documents of their hooks.

The docstrings of the input and output classes are the contract; docs/reference.md is generated from them. A
Python hook can use the classes to parse its input:

    call = BeforeToolInput.model_validate(document)
    call.arguments  # whichever spelling the document uses
"""

from collections.abc import Mapping
from types import MappingProxyType

from hookgate.hooks.events.agent import (
    AfterAgent,
    AfterAgentInput,
    AfterAgentOutput,
    BeforeAgent,
    BeforeAgentInput,
    BeforeAgentOutput,
)
from hookgate.hooks.events.base import AdvisoryOutput, Event, HookInput, HookOutput
from hookgate.hooks.events.model import (
    AfterModel,
    AfterModelInput,
    AfterModelOutput,
    BeforeModel,
    BeforeModelInput,
    BeforeModelOutput,
    BeforeToolSelection,
    BeforeToolSelectionInput,
    BeforeToolSelectionOutput,
)
from hookgate.hooks.events.session import (
    Notification,
    NotificationInput,
    NotificationOutput,
    PreCompress,
    PreCompressInput,
    PreCompressOutput,
    SessionEnd,
    SessionEndInput,
    SessionEndOutput,
    SessionStart,
    SessionStartInput,
    SessionStartOutput,
)
from hookgate.hooks.events.tool import (
    AfterTool,
    AfterToolInput,
    AfterToolOutput,
    BeforeTool,
    BeforeToolInput,
    BeforeToolOutput,
)

INPUTS: Mapping[str, type[HookInput]] = MappingProxyType(
    {
        "SessionStart": SessionStartInput,
        "BeforeAgent": BeforeAgentInput,
        "BeforeModel": BeforeModelInput,
        "BeforeToolSelection": BeforeToolSelectionInput,
        "AfterModel": AfterModelInput,
        "BeforeTool": BeforeToolInput,
        "AfterTool": AfterToolInput,
        "PreCompress": PreCompressInput,
        "Notification": NotificationInput,
        "AfterAgent": AfterAgentInput,
        "SessionEnd": SessionEndInput,
    }
)
"""The input class of each event, in the order in which events occur in a session."""

OUTPUTS: Mapping[str, type[HookOutput]] = MappingProxyType(
    {
        "SessionStart": SessionStartOutput,
        "BeforeAgent": BeforeAgentOutput,
        "BeforeModel": BeforeModelOutput,
        "BeforeToolSelection": BeforeToolSelectionOutput,
        "AfterModel": AfterModelOutput,
        "BeforeTool": BeforeToolOutput,
        "AfterTool": AfterToolOutput,
        "PreCompress": PreCompressOutput,
        "Notification": NotificationOutput,
        "AfterAgent": AfterAgentOutput,
        "SessionEnd": SessionEndOutput,
    }
)
"""The output class of each event, in the same order."""

__all__ = [
    "INPUTS",
    "OUTPUTS",
    "AdvisoryOutput",
    "AfterAgent",
    "AfterAgentInput",
    "AfterAgentOutput",
    "AfterModel",
    "AfterModelInput",
    "AfterModelOutput",
    "AfterTool",
    "AfterToolInput",
    "AfterToolOutput",
    "BeforeAgent",
    "BeforeAgentInput",
    "BeforeAgentOutput",
    "BeforeModel",
    "BeforeModelInput",
    "BeforeModelOutput",
    "BeforeTool",
    "BeforeToolInput",
    "BeforeToolOutput",
    "BeforeToolSelection",
    "BeforeToolSelectionInput",
    "BeforeToolSelectionOutput",
    "Event",
    "HookInput",
    "HookOutput",
    "Notification",
    "NotificationInput",
    "NotificationOutput",
    "PreCompress",
    "PreCompressInput",
    "PreCompressOutput",
    "SessionEnd",
    "SessionEndInput",
    "SessionEndOutput",
    "SessionStart",
    "SessionStartInput",
    "SessionStartOutput",
]
