"""The JSON Schema of the hook settings in a settings.json, for editors and for checks before a start.

It is generated from the models that validate the settings when they are loaded. Other settings are not
restricted.
"""

from typing import Annotated, Any

from pydantic import Field, TypeAdapter
from pydantic.json_schema import models_json_schema

from hookgate.hooks.field_texts import DescribedSchema
from hookgate.hooks.settings.configs import AnyConfig, FileConfig, GroupConfig
from hookgate.hooks.settings.event_names import EVENTS

Json = dict[str, Any]

_TOOL_MATCHER = "Matcher: a regular expression for the whole tool name."

EVENT_DESCRIPTIONS = {
    "SessionStart": "A session begins; the hook may deny it or add context. "
    "Matcher: startup, resume, clear, compress.",
    "SessionEnd": "A session ends; advisory. Matcher: exit, clear, logout, prompt_input_exit, other.",
    "BeforeAgent": "After the user sent a prompt; the hook may deny it or add context.",
    "AfterAgent": "After the final answer; a denial makes the agent retry.",
    "BeforeModel": "Before a request goes to the model; the hook may deny, edit or answer it.",
    "AfterModel": "After an answer, or each piece of a streamed one; the hook may edit or withhold it.",
    "BeforeToolSelection": "Before the model may choose tools; the hook may limit the choice.",
    "BeforeTool": f"Before a tool runs; the hook may deny it or edit its arguments. {_TOOL_MATCHER}",
    "AfterTool": f"After a tool ran; the hook may hide its result or add to it. {_TOOL_MATCHER}",
    "PreCompress": "Before the conversation is compressed; advisory. Matcher: manual, auto.",
    "Notification": "The agent notifies the user; advisory. Matcher: ToolPermission.",
}


class _Untitled(DescribedSchema):
    """A generator that omits the titles of fields, which would repeat their names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def settings_schema() -> Json:
    """Return a JSON Schema, draft 2020-12, for `hooks`, `hooksConfig` and `tools.enableHooks`."""
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
        "description": "The hooks of Gemini CLI and hookgate. All other settings are allowed.",
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
    """Return the schemas of Gemini CLI's switches, in `hooksConfig` or, in older versions, in `hooks`."""
    older = " Gemini CLI 0.61 looks for it in `hooksConfig`." if section == "hooks" else ""
    names = {"type": "array", "items": {"type": "string"}}
    return {
        "enabled": _switch(older),
        "disabled": {"description": f"Names of hooks that are off, in all files.{older}", **names},
        "notifications": {"description": f"Whether Gemini CLI shows which hooks are running.{older}"},
    }


def _switch(more: str = "") -> Json:
    return {"description": f"`false` switches off all hooks of all files.{more}", "type": "boolean"}
