"""The hook contract as typed documents: an input and an output class for each of the eleven events.

The docstrings of these classes are the contract; docs/reference.md is made of them. A Python hook that wants
names rather than keys reads its input with them:

    call = BeforeToolInput.model_validate(document)
    call.arguments  # whichever way the document spells them
"""

from collections.abc import Mapping
from types import MappingProxyType

from hookgate.hooks.contract.agent import (
    AfterAgentInput,
    AfterAgentOutput,
    BeforeAgentInput,
    BeforeAgentOutput,
)
from hookgate.hooks.contract.base import AdvisoryOutput, HookInput, HookOutput
from hookgate.hooks.contract.model import (
    AfterModelInput,
    AfterModelOutput,
    BeforeModelInput,
    BeforeModelOutput,
    BeforeToolSelectionInput,
    BeforeToolSelectionOutput,
)
from hookgate.hooks.contract.session import (
    NotificationInput,
    NotificationOutput,
    PreCompressInput,
    PreCompressOutput,
    SessionEndInput,
    SessionEndOutput,
    SessionStartInput,
    SessionStartOutput,
)
from hookgate.hooks.contract.tool import AfterToolInput, AfterToolOutput, BeforeToolInput, BeforeToolOutput

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
"""The input class of each event, in the order in which a session meets them."""

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
    "AfterAgentInput",
    "AfterAgentOutput",
    "AfterModelInput",
    "AfterModelOutput",
    "AfterToolInput",
    "AfterToolOutput",
    "BeforeAgentInput",
    "BeforeAgentOutput",
    "BeforeModelInput",
    "BeforeModelOutput",
    "BeforeToolInput",
    "BeforeToolOutput",
    "BeforeToolSelectionInput",
    "BeforeToolSelectionOutput",
    "HookInput",
    "HookOutput",
    "NotificationInput",
    "NotificationOutput",
    "PreCompressInput",
    "PreCompressOutput",
    "SessionEndInput",
    "SessionEndOutput",
    "SessionStartInput",
    "SessionStartOutput",
]
