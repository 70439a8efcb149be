"""Events of one tool's run."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from hookgate.hooks.events.base import Event, object_in
from hookgate.hooks.settings.matching import Subject
from hookgate.translator.fields import JsonObject, same


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
            **_known(
                tool_description=self.tool_description,
                mcp_context=self.mcp_context,
                original_request_name=self.original_request_name,
            ),
        }

    def subject(self) -> Subject:
        return Subject(tools=(self.tool_name,))

    def changed(self, specific: JsonObject, view: str) -> JsonObject:
        """New arguments lie over those that stand; both spellings of the documents count."""
        given = {**object_in(specific, "tool_args"), **object_in(specific, "tool_input")}
        return {
            key: value
            for key, value in given.items()
            if key not in self.tool_input or not same(value, self.tool_input[key])
        }

    def edited(self, edit: JsonObject, view: str) -> Self:
        return replace(self, tool_input={**self.tool_input, **edit})


@dataclass(frozen=True)
class AfterTool(Event):
    """A tool has run; `tool_response` is `{llmContent, returnDisplay, error?}`, or whatever the tool gave."""

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
            **_known(mcp_context=self.mcp_context, original_request_name=self.original_request_name),
        }

    def subject(self) -> Subject:
        return Subject(tools=(self.tool_name,))

    def changed(self, specific: JsonObject, view: str) -> JsonObject:
        """A result replaces the one that stands, key by key."""
        result = specific.get("tool_result")
        given = {"llmContent": result} if isinstance(result, str) else object_in(specific, "tool_result")
        shown = result_of(self.tool_response)
        return {key: value for key, value in given.items() if not same(value, shown.get(key))}

    def edited(self, edit: JsonObject, view: str) -> Self:
        return replace(self, tool_response={**result_of(self.tool_response), **edit})


def result_of(response: Any) -> JsonObject:
    """A tool's response as the contract shows it: an object, whatever the tool gave."""
    return response if isinstance(response, dict) else {"llmContent": response}


def _known(**fields: Any) -> JsonObject:
    return {key: value for key, value in fields.items() if value is not None}
