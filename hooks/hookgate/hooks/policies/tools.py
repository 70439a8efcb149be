"""The policy `tools`: decides which tools a model is offered and may call, by name and by arguments.

    {"type": "builtin", "builtin": "tools", "options": {
      "allow": ["read_*", "glob"],
      "deny": [{"tool": "run_shell_command", "when": {"/command": {"runs": {"program": "rm", "flags": "rf"}}},
                "reason": "nothing is removed recursively"}], "pin": "refuse"}}

As a BeforeToolSelection hook it removes tools that may never be called; as a BeforeTool hook it denies calls.
Tools that the API runs itself are named by their kind, `googleSearch` or `google_search`.
"""

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from hookgate.hooks.policies.conditions import Condition, PlaceOrAll, check_all
from hookgate.hooks.policies.options import (
    Globs,
    Options,
    Pattern,
    compile_pattern,
    matches_name,
    read_options,
)
from hookgate.hooks.policies.pins import check_pins, tools_of
from hookgate.hooks.runners.inprocess import Policy, PolicyEnvironment
from hookgate.hooks.session import SessionContext
from hookgate.translator import declared_names, hosted_kinds
from hookgate.translator.fields import JsonObject, is_larger, snake_field

_NOT_LISTED = "The tool {name!r} is not on the list of tools that are allowed here."
_DENIED = "The tool {name!r} is not allowed here."
_DENIED_WITH_ARGUMENTS = "The tool {name!r} is not allowed here with these arguments."
_UNREADABLE = " (The command cannot be read in full: {why}.)"


class ToolRule(Options):
    """A rule that denies tool calls. All keys that are set must match."""

    tool: Globs = ("*",)
    """Names of tools, and kinds of tools that the API runs, with wildcards."""

    pattern: Pattern | None = None
    """A pattern that must match the whole name."""

    when: Mapping[PlaceOrAll, Condition] = Field(default={}, strict=False)
    """Conditions on the arguments, by JSON Pointer; if there are none, the tool may not be called at all."""

    reason: str = ""
    """The reason that is given to the model and the user."""

    def is_about(self, name: str) -> bool:
        """Return whether the rule applies to tools of this name."""
        by_pattern = self.pattern is None or compile_pattern(self.pattern).fullmatch(name) is not None
        return by_pattern and matches_name(self.tool, name)


class ToolsOptions(Options):
    """The options of the policy `tools`."""

    allow: Globs | None = None
    """Tools that may be called, and kinds of tools that the API runs, with wildcards; default: all."""

    deny: tuple[ToolRule, ...] = Field(default=(), strict=False)
    """Tools that may not be called, even if `allow` lists them. The first rule that matches applies."""

    pin: Literal["flag", "refuse"] | None = None
    """Whether to flag or refuse tools whose declaration differs from the accepted one."""

    @model_validator(mode="after")
    def _check_effect(self) -> Self:
        if self.allow is None and not self.deny and self.pin is None:
            raise ValueError("has no effect; set allow, deny or pin")
        return self


_LONG_ARGUMENTS = 200
"""Commands in arguments with more characters and values are read in a thread, as crafted ones take 100 ms.

The parser is written in Python, so that other threads run meanwhile.
"""


def tools_policy(options: Mapping[str, Any], environment: PolicyEnvironment) -> Policy:
    """Create the policy from its options. Raises ValueError if they are invalid."""
    settings = read_options(ToolsOptions, options)
    reads_commands = any(each.runs for rule in settings.deny for each in rule.when.values())

    def judge_call(name: str, arguments: Any) -> dict[str, Any] | None:
        reason = refusal(settings, name, arguments)
        return {"decision": "deny", "reason": reason} if reason else None

    def judge(event: dict[str, Any], session: SessionContext) -> Any:
        steps = session.call_state.steps
        if event["hook_event_name"] == "BeforeToolSelection":
            body = tools_of(event)
            return steps.run(_selection, settings, body) if steps.is_large else _selection(settings, body)
        if event["hook_event_name"] == "BeforeTool":
            name, arguments = str(event.get("tool_name")), event.get("tool_input")
            if reads_commands and is_larger(arguments, _LONG_ARGUMENTS):
                return steps.run_long(judge_call, name, arguments)
            return judge_call(name, arguments)
        return None

    return judge if settings.pin is None else check_pins(judge, settings.pin, environment.pins)


def refusal(options: ToolsOptions, name: str, arguments: Any) -> str | None:
    """Return the reason why a call is denied. Returns None if it is allowed."""
    if options.allow is not None and not matches_name(options.allow, name):
        return _NOT_LISTED.format(name=name)
    for rule in options.deny:
        if not rule.is_about(name):
            continue
        finding = check_all(rule.when, arguments)
        if finding.holds:
            reason = rule.reason or (_DENIED_WITH_ARGUMENTS if rule.when else _DENIED).format(name=name)
            return reason + (_UNREADABLE.format(why=finding.unreadable) if finding.unreadable else "")
    return None


def _selection(options: ToolsOptions, body: JsonObject) -> dict[str, Any] | None:
    functions, kinds = declared_names(body), hosted_kinds(body)
    allowed = [name for name in functions if not _is_always_denied(options, name)]
    allowed += [kind for kind in kinds if not _is_always_denied(options, kind, snake_field(kind))]
    return None if allowed == functions + kinds else {"hookSpecificOutput": {"tools": allowed}}


def _is_always_denied(options: ToolsOptions, *spellings: str) -> bool:
    """Return whether every call of the tool is denied, whatever its arguments."""
    listed = options.allow is None or any(matches_name(options.allow, name) for name in spellings)
    rules = [rule for rule in options.deny if not rule.when]
    return not listed or any(rule.is_about(name) for rule in rules for name in spellings)
