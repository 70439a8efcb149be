"""The policy `tools`: which tools a model may be offered and may call, by name and by arguments.

    {"type": "builtin", "builtin": "tools", "options": {
      "allow": ["read_*", "glob"],
      "deny": [{"tool": "run_shell_command", "when": {"/command": {"runs": {"program": "rm", "flags": "rf"}}},
                "reason": "nothing is removed recursively"}], "pin": "refuse"}}

As a BeforeToolSelection hook it takes away what may never be called; as a BeforeTool hook it denies calls.
"""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from hookgate.hooks.kinds.builtin import Policy, Surroundings
from hookgate.hooks.policies.conditions import Condition, PlaceOrAll, check_all
from hookgate.hooks.policies.options import Globs, Options, Pattern, compiled, named, read_options
from hookgate.hooks.policies.pinning import pinned
from hookgate.hooks.session import Session
from hookgate.translator import declared_names

_NOT_LISTED = "The tool {name!r} is not on the list of tools that are allowed here."
_DENIED = "The tool {name!r} is not allowed here."
_DENIED_SO = "The tool {name!r} is not allowed here with these arguments."
_UNREADABLE = " (The command cannot be read in full: {why}.)"


class Rule(Options):
    """Tools that may not be called: all that the keys given hold for."""

    tool: Globs = ("*",)
    """Names, with wildcards."""

    pattern: Pattern | None = None
    """A pattern for the whole name."""

    when: Mapping[PlaceOrAll, Condition] = Field(default={}, strict=False)
    """Conditions on the arguments, by JSON Pointer; with none the tool may not be called at all."""

    reason: str = ""
    """What model and person are told."""

    def is_about(self, name: str) -> bool:
        """Whether the rule is about tools of this name."""
        by_pattern = self.pattern is None or compiled(self.pattern).fullmatch(name) is not None
        return by_pattern and named(self.tool, name)


class ToolsOptions(Options):
    """Which tools may be called."""

    allow: Globs | None = None
    """Names that may be called, with wildcards; all, if left out."""

    deny: tuple[Rule, ...] = Field(default=(), strict=False)
    """What may not, even if it is on that list. The first rule that holds counts."""

    pin: Literal["flag", "refuse"] | None = None
    """What becomes of a tool that is not declared as it was when it was first seen."""


def tools_policy(options: Mapping[str, Any], surroundings: Surroundings) -> Policy:
    """The policy for these options. Raises ValueError."""
    known = read_options(ToolsOptions, options)

    def act(event: dict[str, Any], session: Session) -> dict[str, Any] | None:
        if event["hook_event_name"] == "BeforeToolSelection":
            return _selection(known, declared_names({"tools": event.get("available_tools")}))
        if event["hook_event_name"] == "BeforeTool":
            reason = refusal(known, str(event.get("tool_name")), event.get("tool_input"))
            return {"decision": "deny", "reason": reason} if reason else None
        return None

    return act if known.pin is None else pinned(act, known.pin, surroundings.state)


def refusal(options: ToolsOptions, name: str, arguments: Any) -> str | None:
    """Why a call may not be made, or None."""
    if options.allow is not None and not named(options.allow, name):
        return _NOT_LISTED.format(name=name)
    for rule in options.deny:
        if not rule.is_about(name):
            continue
        finding = check_all(rule.when, arguments)
        if finding.holds:
            reason = rule.reason or (_DENIED_SO if rule.when else _DENIED).format(name=name)
            return reason + (_UNREADABLE.format(why=finding.unreadable) if finding.unreadable else "")
    return None


def _selection(options: ToolsOptions, declared: list[str]) -> dict[str, Any] | None:
    kept = [name for name in declared if not _never(options, name)]
    return None if kept == declared else {"hookSpecificOutput": {"tools": kept}}


def _never(options: ToolsOptions, name: str) -> bool:
    """Whether no call of the tool could be allowed, whatever its arguments."""
    unlisted = options.allow is not None and not named(options.allow, name)
    return unlisted or any(rule.is_about(name) and not rule.when for rule in options.deny)
