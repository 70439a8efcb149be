"""The JSON Schema of what a settings.json says about hooks, for editors and for checks before a start.

It is made from the very models that check a file at load. Of the rest of a settings.json it says nothing.
"""

from typing import Annotated, Any

from pydantic import Field, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from hookgate.hooks.settings.configs import AnyConfig, FileConfig, GroupConfig
from hookgate.hooks.settings.plan import EVENTS

Json = dict[str, Any]

_TOOL_MATCHER = "Matcher: a regular expression over the whole tool name."

EVENT_DESCRIPTIONS = {
    "SessionStart": "A session begins; the hook may add context. Matcher: startup, resume, clear, compress.",
    "SessionEnd": "A session ends; advisory. Matcher: exit, clear, logout, prompt_input_exit, other.",
    "BeforeAgent": "A prompt came in; the hook may deny it or add context.",
    "AfterAgent": "The final answer is there; a denial asks for another try.",
    "BeforeModel": "Before a request goes to the model; the hook may deny, edit or answer it.",
    "AfterModel": "After an answer, or each piece of a streamed one; the hook may edit or withhold it.",
    "BeforeToolSelection": "Before the model may choose tools; the hook may narrow the choice.",
    "BeforeTool": f"Before a tool runs; the hook may deny it or edit its arguments. {_TOOL_MATCHER}",
    "AfterTool": f"After a tool ran; the hook may hide its result or add to it. {_TOOL_MATCHER}",
    "PreCompress": "Before the conversation is compressed; advisory. Matcher: manual, auto.",
    "Notification": "The agent tells its user something; advisory. Matcher: ToolPermission.",
}


class _Untitled(GenerateJsonSchema):
    """Without a title for each field, which would say its name a second time."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def settings_schema() -> Json:
    """A JSON Schema, draft 2020-12, of `hooks`, `hooksConfig` and `tools.enableHooks`."""
    _, schema = models_json_schema(
        [(GroupConfig, "validation"), (FileConfig, "validation")],
        schema_generator=_Untitled,
        ref_template="#/$defs/{model}",
    )
    hook = TypeAdapter(Annotated[AnyConfig, Field(discriminator="type")]).json_schema(
        schema_generator=_Untitled, ref_template="#/$defs/{model}"
    )
    definitions = {**schema["$defs"], **hook.pop("$defs")}
    definitions["GroupConfig"]["properties"]["hooks"]["items"] = hook
    definitions["FileConfig"]["properties"] |= _switches("hooksConfig")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Hooks in settings.json",
        "description": "The hooks of Gemini CLI and hookgate; what else a settings.json holds is allowed.",
        "type": "object",
        "properties": {
            "hooks": _events(),
            "hooksConfig": {"$ref": "#/$defs/FileConfig"},
            "tools": {"properties": {"enableHooks": _switch()}},
        },
        "$defs": definitions,
    }


def _events() -> Json:
    groups = {"type": "array", "items": {"$ref": "#/$defs/GroupConfig"}}
    events = {event: {"description": EVENT_DESCRIPTIONS[event], **groups} for event in EVENTS}
    return {
        "description": "Groups of hooks, by event.",
        "type": "object",
        "properties": {**events, **_switches("hooks")},
        "additionalProperties": False,
    }


def _switches(section: str) -> Json:
    """The switches that Gemini CLI keeps in `hooksConfig`, and kept in `hooks` before."""
    older = " Gemini CLI 0.61 looks for it in `hooksConfig`." if section == "hooks" else ""
    names = {"type": "array", "items": {"type": "string"}}
    return {
        "enabled": _switch(older),
        "disabled": {"description": f"Names of hooks that are off, in all files.{older}", **names},
        "notifications": {"description": f"Whether Gemini CLI shows which hooks run.{older}"},
    }


def _switch(more: str = "") -> Json:
    return {"description": f"`false` switches all hooks of all files off.{more}", "type": "boolean"}
