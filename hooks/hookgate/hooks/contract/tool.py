"""The events of a tool's run: before it, with its arguments, and after it, with its result."""

from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from hookgate.hooks.contract.base import (
    ContextOutput,
    HookInput,
    HookOutput,
    JsonObject,
    Specific,
    SpecificOutput,
    first,
)


class ToolEventInput(HookInput):
    """What both events of a tool's run show: the tool and its arguments."""

    tool_name: str
    """The tool's name, such as `write_file`."""

    tool_input: JsonObject | None = None
    """The tool's arguments."""

    tool_args: JsonObject | None = None
    """Another spelling of `tool_input`."""

    mcp_context: JsonObject | None = None
    """For a tool of an MCP server, when known: the server and the tool's name there."""

    original_request_name: str | None = None
    """For a tail call, when known: the tool that the model had asked for."""

    @property
    def arguments(self) -> JsonObject:
        """The tool's arguments: `tool_input` or `tool_args`."""
        return first(self.tool_input, self.tool_args) or {}


class BeforeToolInput(ToolEventInput):
    """Fires when the model has asked for a tool, before it runs.

    Fired by the agent shim. The matcher is a regular expression for the whole tool name.
    """

    hook_event_name: Literal["BeforeTool"]

    tool_description: str | None = None
    """What the tool will do, in words, when known."""


class BeforeToolSpecific(SpecificOutput):
    """What a hook may change about a tool's run."""

    spellings: ClassVar[dict[str, str]] = {"tool_args": "tool_input"}

    tool_input: JsonObject | None = None
    """Merged over the arguments: only what it names changes."""

    tool_args: JsonObject | None = None
    """Another spelling of `tool_input`, which counts when both are given."""


class BeforeToolOutput(HookOutput):
    """Decides whether the tool runs, and may change its arguments.

    - `deny`: the tool does not run, and the agent reads `reason` as its result.
    - `ask`: the user is asked whether the tool may run.
    - `continue: false`: the tool does not run, and the agent stops with `stopReason`.
    - Exit code 2: as `deny`, with stderr as the reason.

    Example: a command that must not run.

        {"decision": "deny", "reason": "Nothing is deleted without a backup."}
    """

    hook_specific_output: Specific[BeforeToolSpecific] = None


class AfterToolInput(ToolEventInput):
    """Fires when a tool has run, before the model sees its result.

    Fired by the agent shim. The matcher is a regular expression for the whole tool name.
    """

    hook_event_name: Literal["AfterTool"]

    tool_response: JsonObject | str | None = None
    """The result: `llmContent` for the model, `returnDisplay` for the user, `error` when the tool failed."""

    tool_result: JsonObject | str | None = None
    """Another spelling of `tool_response`."""

    @property
    def result(self) -> JsonObject:
        """The tool's result: `tool_response` or `tool_result`; a bare text stands under `llmContent`."""
        result = self.tool_result if self.tool_response is None else self.tool_response
        return {"llmContent": result} if isinstance(result, str) else result or {}


class TailToolCall(BaseModel):
    """A tool to run after this one; its result takes the place of this one's."""

    model_config = ConfigDict(strict=True, extra="allow", defer_build=True)

    name: str
    """The tool."""

    args: dict[str, Any] = {}
    """Its arguments."""


class AfterToolSpecific(ContextOutput):
    """What a hook may change about a tool's result."""

    tool_result: JsonObject | None = None
    """Takes the place of the result."""

    tail_tool_call_request: TailToolCall | None = Field(None, alias="tailToolCallRequest")
    """Another tool to run at once, whose result takes the place of this one's."""


class AfterToolOutput(HookOutput):
    """May hide, change or add to what the model sees of the result.

    - `deny`: the result is hidden, and `reason` takes its place.
    - `continue: false`: the agent stops with `stopReason`.
    - Exit code 2: as `deny`, with stderr as the reason.

    Example: what the model should know beside the result.

        {"hookSpecificOutput": {"additionalContext": "This file is generated: change its template."}}
    """

    hook_specific_output: Specific[AfterToolSpecific] = None
