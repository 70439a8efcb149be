"""The policy `tools`: decides which tools a model is offered and may call, by name and by arguments.

    {"type": "builtin", "builtin": "tools", "options": {
      "allow": ["read_*", "glob"],
      "deny": [{"tool": "run_shell_command", "when": {"/command": {"runs": {"program": "rm", "flags": "rf"}}},
                "reason": "nothing is removed recursively"}], "pin": "refuse"}}

As a BeforeToolSelection hook it removes tools that may never be called; as a BeforeTool hook it denies calls,
or asks about them. Tools that the API runs itself are named by their kind, `googleSearch` or `google_search`,
and judged by the hosts of their URLs; as an AfterModel hook the policy denies answers in which others were
used.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from hookgate.hooks.policies.conditions import Condition, PlaceOrAll, check_all
from hookgate.hooks.policies.hosts import hosts_in_fields, hosts_in_settings, hosts_in_texts, is_allowed
from hookgate.hooks.policies.options import (
    AnyCasePattern,
    Globs,
    Names,
    Options,
    compile_pattern,
    is_named,
    matches_name,
    read_options,
)
from hookgate.hooks.policies.pins import check_pins, tools_of
from hookgate.hooks.policy_environment import Policy, PolicyEnvironment
from hookgate.hooks.session import SessionContext
from hookgate.translator import KNOWN_KINDS, declared_names, hosted_tools, hosted_uses
from hookgate.translator.fields import JsonObject, camel, is_larger, read, read_object, snake_field

_NOT_LISTED = "The tool {name!r} is not on the list of tools that are allowed here."
_DENIED = "The tool {name!r} is not allowed here."
_DENIED_WITH_ARGUMENTS = "The tool {name!r} is not allowed here with these arguments."
_ASKED = "The tool {name!r} may be called if a person agrees."
_USED = "The answer is withheld, because the API ran the tool {name!r}, which is not allowed here."
_UNREADABLE = " (The command cannot be read in full: {why}.)"


class ToolRule(Options):
    """A rule that selects tool calls. All keys that are set must match."""

    tool: Names = ("*",)
    """Names of tools, and kinds of tools that the API runs, with wildcards. Case is ignored."""

    pattern: AnyCasePattern | None = None
    """A pattern for the whole name. Case is ignored."""

    when: Mapping[PlaceOrAll, Condition] = Field(default={}, strict=False)
    """Conditions on the arguments, by JSON Pointer, such as `/files/0/path`, compared without regard to case;
    an empty one means all arguments. Without conditions, the tool may not be called at all."""

    reason: str = ""
    """The reason that is given to the model and the user."""

    def is_about(self, name: str) -> bool:
        """Return whether the rule applies to tools of this name."""
        by_pattern = self.pattern is None or compile_pattern(self.pattern).fullmatch(name) is not None
        return by_pattern and is_named(self.tool, name)


class ToolsOptions(Options):
    """The options of the policy `tools`."""

    allow: Globs | None = None
    """Tools that may be called, and kinds of tools that the API runs, with wildcards; default: all."""

    deny: tuple[ToolRule, ...] = Field(default=(), strict=False)
    """Tools that may not be called, even if `allow` lists them. The first rule that matches applies."""

    ask: tuple[ToolRule, ...] = Field(default=(), strict=False)
    """Calls that need the agreement of the agent's user or, with approvals, of a person whom the gateway
    asks, unless they are denied. The first rule that matches applies."""

    hosted: Globs | None = None
    """Kinds of tools that the API runs and that may be used, with wildcards; default: those in `allow`."""

    hosts: Globs | None = None
    """Hosts that tools which the API runs may reach by a URL, with wildcards; default: all."""

    pin: Literal["flag", "refuse"] | None = None
    """Whether to flag or refuse tools whose declaration differs from the accepted one. Default: neither."""

    @model_validator(mode="after")
    def _check_effect(self) -> Self:
        if not (self.deny or self.ask) and (self.allow, self.hosted, self.hosts, self.pin) == (
            None,
            None,
            None,
            None,
        ):
            raise ValueError("has no effect; set allow, deny, ask, hosted, hosts or pin")
        return self


_LONGEST_NAME = 64
_URL_CONTEXT = "urlContext"
_SERVERS = "mcpServers"

_LONG_ARGUMENTS = 200
"""Commands in arguments with more characters and values are read in a thread, as crafted ones take 100 ms.

The parser is written in Python, so that other threads run meanwhile.
"""


def tools_policy(options: Mapping[str, Any], environment: PolicyEnvironment) -> Policy:
    """Create the policy from its options. Raises ValueError if they are invalid."""
    settings = read_options(ToolsOptions, options)
    reads_commands = any(each.runs for rule in (*settings.deny, *settings.ask) for each in rule.when.values())

    def judge_call(name: str, arguments: Any) -> dict[str, Any] | None:
        if reason := refusal(settings, name, arguments):
            return {"decision": "deny", "reason": reason}
        question = _reason_of(settings.ask, name, arguments, _ASKED, _ASKED)
        return {"decision": "ask", "reason": question} if question else None

    def judge(event: dict[str, Any], session: SessionContext) -> Any:
        steps = session.call_state.steps
        if event["hook_event_name"] == "BeforeToolSelection":
            selection = partial(_selection, settings, tools_of(event), event)
            return steps.run(selection) if steps.is_large else selection()
        if event["hook_event_name"] == "BeforeTool":
            name, arguments = str(event.get("tool_name")), event.get("tool_input")
            if reads_commands and is_larger(arguments, _LONG_ARGUMENTS):
                return steps.run_long(judge_call, name, arguments)
            return judge_call(name, arguments)
        if event["hook_event_name"] == "AfterModel":
            judgement = partial(_judge_answer, settings, read_object(event.get("llm_response") or {}, "raw"))
            return steps.run(judgement) if steps.is_large else judgement()
        return None

    return judge if settings.pin is None else check_pins(judge, settings.pin, environment.pins)


def refusal(options: ToolsOptions, name: str, arguments: Any) -> str | None:
    """Return the reason why a call is denied. Returns None if it is allowed."""
    if options.allow is not None and not matches_name(options.allow, name):
        return _NOT_LISTED.format(name=name)
    return _reason_of(options.deny, name, arguments, _DENIED, _DENIED_WITH_ARGUMENTS)


def _reason_of(
    rules: Sequence[ToolRule], name: str, arguments: Any, default: str, default_with_conditions: str
) -> str | None:
    """Return the reason of the first rule that matches a call, or a default; None if no rule matches."""
    for rule in rules:
        if not rule.is_about(name):
            continue
        finding = check_all(rule.when, arguments)
        if finding.holds:
            reason = rule.reason or (default_with_conditions if rule.when else default).format(name=name)
            return reason + (_UNREADABLE.format(why=finding.unreadable) if finding.unreadable else "")
    return None


def _selection(options: ToolsOptions, body: JsonObject, event: Mapping[str, Any]) -> dict[str, Any] | None:
    functions, hosted = declared_names(body), list(hosted_tools(body))
    denied = {kind for kind, _ in hosted if _is_kind_denied(options, kind)}
    if any(kind == _URL_CONTEXT for kind, _ in hosted) and not _may_fetch(options, event):
        denied.add(_URL_CONTEXT)
    kept = [each for each in hosted if each[0] not in denied and _may_reach(options, *each)]
    allowed: list[Any] = [name for name in functions if not _is_always_denied(options, name)]
    if len(allowed) == len(functions) and len(kept) == len(hosted):
        return None
    removed = {kind for kind, settings in hosted if kind in denied or not _may_reach(options, kind, settings)}
    # A client can name a kind like a function. In a selection, such a name is that of the function.
    taken = {*removed, *map(camel, functions)}
    allowed += dict.fromkeys(kind for kind, _ in kept if kind not in taken)
    # Without settings, a tool in a selection would stand for all of its kind.
    allowed += [{kind: settings} for kind, settings in kept if kind in removed and settings]
    return {"hookSpecificOutput": {"tools": allowed}}


def _may_fetch(options: ToolsOptions, event: Mapping[str, Any]) -> bool:
    """Return whether all URLs in the texts of a request may be reached. From these, the API fetches some."""
    request = event.get("llm_request") or {}
    texts = [request.get("messages"), read(request, "contents"), read(request, "raw")]
    return options.hosts is None or _are_allowed(options.hosts, hosts_in_texts(texts))


def _may_reach(options: ToolsOptions, kind: str, settings: Any) -> bool:
    """Return whether a tool that the API runs may reach all hosts in its settings."""
    if options.hosts is None:
        return True
    hosts = list(hosts_in_settings(settings))
    is_known = bool(hosts) or kind != _SERVERS  # a server without a URL could be any
    return is_known and _are_allowed(options.hosts, hosts)


def _are_allowed(allowed: Globs, hosts: Iterable[str]) -> bool:
    return all(is_allowed(host, allowed) for host in dict.fromkeys(hosts))


def _judge_answer(options: ToolsOptions, response: JsonObject) -> dict[str, Any] | None:
    """Deny an answer that uses a tool which is not allowed, or else count the uses for the receipt."""
    found: dict[str, int] = {}
    for use in hosted_uses(response):
        names = [kind for kind in use.kinds if not _is_kind_denied(options, kind)]
        judged = options.hosts is not None and _URL_CONTEXT in use.kinds
        hosts = hosts_in_fields(use.value) if judged else ()
        if not names or not _are_allowed(options.hosts or (), hosts):
            return {"decision": "deny", "reason": _USED.format(name=use.kinds[0][:_LONGEST_NAME])}
        kind = names[0] if names[0] in KNOWN_KINDS else "other"
        found[kind] = found.get(kind, 0) + 1
    return {"hookSpecificOutput": {"findings": found}} if found else None


def _is_kind_denied(options: ToolsOptions, kind: str) -> bool:
    """Return whether tools of a kind that the API runs are denied."""
    listed = options.allow if options.hosted is None else options.hosted
    return _is_denied(options, listed, kind, snake_field(kind))


def _is_always_denied(options: ToolsOptions, name: str) -> bool:
    """Return whether every call of the function is denied, whatever its arguments."""
    return _is_denied(options, options.allow, name)


def _is_denied(options: ToolsOptions, allowed: Globs | None, *spellings: str) -> bool:
    listed = allowed is None or any(matches_name(allowed, name) for name in spellings)
    rules = [rule for rule in options.deny if not rule.when]
    return not listed or any(rule.is_about(name) for rule in rules for name in spellings)
