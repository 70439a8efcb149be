"""The events of a tool call: BeforeTool and AfterTool."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from hookgate.hooks.events.base import (
    ContextOutput,
    Event,
    HookInput,
    HookOutput,
    Specific,
    SpecificOutput,
    Unchecked,
    first,
    object_in,
)
from hookgate.translator.fields import JsonObject, TranslatorError, same

_SHOWN_NAME = 64
"""The number of characters of an argument's name that a message repeats."""


class ToolEventInput(HookInput):
    """The input fields that both tool events share: the tool and its arguments."""

    tool_name: str
    """The tool's name, such as `write_file`."""

    tool_input: JsonObject | None = None
    """The tool's arguments."""

    tool_args: JsonObject | None = None
    """Alias of `tool_input`."""

    mcp_context: JsonObject | None = None
    """For a tool of an MCP server: the server, and the name of the tool on it, if known."""

    original_request_name: str | None = None
    """For a tail call, if known: the tool that the model requested."""

    @property
    def arguments(self) -> JsonObject:
        """The tool's arguments: `tool_input` or `tool_args`."""
        return first(self.tool_input, self.tool_args) or {}


class BeforeToolInput(ToolEventInput):
    """Fires when the model has requested a tool, before the tool runs.

    Fired by the agent shim, or derived by the gateway from a call. The matcher is a regular expression for
    the whole tool name.
    """

    hook_event_name: Literal["BeforeTool"]

    tool_description: str | None = None
    """A description of what the tool will do, if known."""


class BeforeToolSpecific(SpecificOutput):
    """The fields of hookSpecificOutput for BeforeTool."""

    spellings: ClassVar[dict[str, str]] = {"tool_args": "tool_input"}

    tool_input: JsonObject | None = None
    """An edit of the arguments: only the arguments given here change."""

    tool_args: JsonObject | None = None
    """Alias of `tool_input`. If both are given, `tool_input` takes precedence."""

    updated_input: JsonObject | None = Field(None, alias="updatedInput")
    """Claude Code's alias of `tool_input`. It must contain all arguments: Claude Code removes the others."""


class BeforeToolOutput(HookOutput):
    """The hook decides whether the tool runs, and may edit its arguments.

    - `deny`: the tool does not run, and the agent receives `reason` as its result.
    - `ask`: the user is asked whether the tool may run. If the gateway derives the event from a call, it has
      a person asked, if approvals are configured; otherwise the tool runs.
    - `continue: false`: the tool does not run, and the agent stops with `stopReason`.
    - Exit code 2: like `deny`, with stderr as the reason.

    Example: deny a command.

        {"decision": "deny", "reason": "Nothing is deleted without a backup."}
    """

    hook_specific_output: Specific[BeforeToolSpecific] = None


class AfterToolInput(ToolEventInput):
    """Fires after a tool has run, before the model sees its result.

    Fired by the agent shim, or derived by the gateway from a call. The matcher is a regular expression for
    the whole tool name.
    """

    hook_event_name: Literal["AfterTool"]

    tool_response: JsonObject | str | None = None
    """The result: `llmContent` for the model, `returnDisplay` for the user, `error` if the tool failed."""

    tool_result: JsonObject | str | None = None
    """Alias of `tool_response`."""

    @property
    def result(self) -> JsonObject:
        """The tool's result: `tool_response` or `tool_result`. A string becomes `llmContent`."""
        result = self.tool_result if self.tool_response is None else self.tool_response
        return {"llmContent": result} if isinstance(result, str) else result or {}


class TailToolCall(BaseModel):
    """A tool to run after this one. Its result replaces the result of this one."""

    model_config = ConfigDict(strict=True, extra="allow", defer_build=True)

    name: str
    """The tool's name."""

    args: dict[str, Any] = {}
    """The tool's arguments."""


class AfterToolSpecific(ContextOutput):
    """The fields of hookSpecificOutput for AfterTool."""

    tool_result: JsonObject | None = None
    """A result that replaces the whole result, `returnDisplay` and `error` included. Without `llmContent`,
    the model sees an empty result."""

    updated_tool_output: Unchecked = Field(None, alias="updatedToolOutput")
    """Claude Code's alias of `tool_result`. A value without `llmContent` becomes `llmContent`."""

    updated_mcp_tool_output: Unchecked = Field(None, alias="updatedMCPToolOutput")
    """An older alias of `updatedToolOutput`, for tools of MCP servers."""

    tail_tool_call_request: TailToolCall | None = Field(None, alias="tailToolCallRequest")
    """Another tool to run immediately. Its result replaces the result of this one."""


class AfterToolOutput(HookOutput):
    """The hook may hide or edit the result that the model sees, or add context to it.

    - `deny`: the result is replaced with `reason`.
    - `continue: false`: the agent stops with `stopReason`.
    - Exit code 2: like `deny`, with stderr as the reason.

    Example: add context to the result.

        {"hookSpecificOutput": {"additionalContext": "This file is generated: change its template."}}
    """

    hook_specific_output: Specific[AfterToolSpecific] = None


@dataclass(frozen=True)
class BeforeTool(Event):
    """A tool is about to run with these arguments."""

    name: ClassVar[str] = "BeforeTool"
    tool_name: str
    tool_input: JsonObject
    tool_description: str | None = None
    mcp_context: Any = None
    original_request_name: str | None = None

    def fields(self, view: str) -> JsonObject:
        return {
            "tool_name": self.tool_name,
            "tool_input": self.tool_input,
            "tool_args": self.tool_input,
            **_without_none(
                tool_description=self.tool_description,
                mcp_context=self.mcp_context,
                original_request_name=self.original_request_name,
            ),
        }

    def subject_property(self, name: str) -> str | tuple[str, ...]:
        return (self.tool_name,) if name == "tools" else ""

    def extract_edit(self, specific: JsonObject, view: str) -> JsonObject:
        """Return the arguments that change. All spellings are read; `tool_input` takes precedence."""
        updated = object_in(specific, "updatedInput")
        if specific.get("updatedInput") is not None and not self.tool_input.keys() <= updated.keys():
            missing = min(self.tool_input.keys() - updated.keys())[:_SHOWN_NAME]
            raise TranslatorError(
                "updatedInput",
                f"lacks the argument {missing!r}, which Claude Code would remove; return all arguments, "
                "or only the changed ones as tool_input",
            )
        arguments = {**object_in(specific, "tool_args"), **updated, **object_in(specific, "tool_input")}
        return {
            key: value
            for key, value in arguments.items()
            if key not in self.tool_input or not same(value, self.tool_input[key])
        }

    def edited(self, edit: JsonObject, view: str) -> Self:
        return replace(self, tool_input={**self.tool_input, **edit})


@dataclass(frozen=True)
class AfterTool(Event):
    """A tool has run. `tool_response` is `{llmContent, returnDisplay, error?}`, or any other value."""

    name: ClassVar[str] = "AfterTool"
    tool_name: str
    tool_input: JsonObject
    tool_response: Any
    mcp_context: Any = None
    original_request_name: str | None = None

    def fields(self, view: str) -> JsonObject:
        response = result_of(self.tool_response)
        return {
            "tool_name": self.tool_name,
            "tool_input": self.tool_input,
            "tool_args": self.tool_input,
            "tool_response": response,
            "tool_result": response,
            **_without_none(mcp_context=self.mcp_context, original_request_name=self.original_request_name),
        }

    def subject_property(self, name: str) -> str | tuple[str, ...]:
        return (self.tool_name,) if name == "tools" else ""

    def extract_edit(self, specific: JsonObject, view: str) -> JsonObject:
        """Return the whole new result if it differs from the one that the hook was shown."""
        result = specific.get("tool_result")
        if result is None:
            new = _updated_result(specific)
        else:
            new = {"llmContent": result} if isinstance(result, str) else object_in(specific, "tool_result")
        shown = result_of(self.tool_response)
        if not new or same(new, shown):
            return {}
        # A reader that finds no llmContent would use the tool's own, which the hook has replaced.
        return {"llmContent": "", **new} if "llmContent" in shown else new

    def edited(self, edit: JsonObject, view: str) -> Self:
        return replace(self, tool_response=edit)


def _updated_result(specific: JsonObject) -> JsonObject:
    """Return the result in a key of Claude Code, or an empty object if there is none."""
    result = first(specific.get("updatedToolOutput"), specific.get("updatedMCPToolOutput"))
    if result is None or (isinstance(result, dict) and "llmContent" in result):
        return result or {}
    return {"llmContent": result}


def result_of(response: Any) -> JsonObject:
    """Return a tool's response as an object: a response of another type becomes `llmContent`."""
    return response if isinstance(response, dict) else {"llmContent": response}


def _without_none(**fields: Any) -> JsonObject:
    return {key: value for key, value in fields.items() if value is not None}
