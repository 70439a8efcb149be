"""The policy `models`: which models may be called, under which name, and with which settings.

    {"type": "builtin", "builtin": "models", "options": {
      "route": [{"to": "gemini-2.5-flash-lite", "when": {"characters_below": 2000, "tools": false}}],
      "rename": {"gemini-2.5-pro": "gemini-2.5-flash"}, "allow": ["gemini-*-flash*"],
      "cap": {"maxOutputTokens": 4096}, "set": {"temperature": 0}, "instruct": "Answer in English."}}

For BeforeModel hooks. A call is routed first, then its model is renamed; what comes of it has to be allowed.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from hookgate.hooks.kinds.builtin import Policy, Surroundings
from hookgate.hooks.policies.options import Globs, Options, named, read_options
from hookgate.hooks.policies.routing import Route, routed
from hookgate.hooks.session import Session
from hookgate.translator.fields import camel

_NOT_ALLOWED = "The model {model!r} is not allowed here{instead}."


class ModelsOptions(Options):
    """Which models may be called, and how."""

    route: tuple[Route, ...] = Field(default=(), strict=False)
    """Which model a call goes to. The first rule that holds counts; without one the model stays."""

    allow: Globs | None = None
    """Models that may be called, with wildcards; all, if left out."""

    deny: Globs = ()
    """Models that may not, even if they are on that list."""

    rename: Mapping[str, str] = Field(default={}, strict=False)
    """Models to call instead of others, also of those that a rule routes to. What a model is renamed to needs
    to be allowed, not what it was."""

    reason: str = ""
    """What the person is told of a model that is not allowed."""

    set: Mapping[str, Any] = Field(default={}, strict=False)
    """Settings of generationConfig that every call gets; null removes one."""

    cap: Mapping[str, float] = Field(default={}, strict=False)
    """The largest value of a number in generationConfig; a call without one gets it."""

    instruct: str = ""
    """What is added to the system instruction of every call."""


def models_policy(options: Mapping[str, Any], surroundings: Surroundings) -> Policy:
    """The policy for these options. Raises ValueError."""
    known = read_options(ModelsOptions, options)

    def act(event: dict[str, Any], session: Session) -> dict[str, Any] | None:
        request = event["llm_request"]
        model = routed(known.route, request, session)
        model = known.rename.get(model, model)
        if not _allowed(known, model):
            instead = f"; allowed are {', '.join(known.allow)}" if known.allow else ""
            reason = known.reason or _NOT_ALLOWED.format(model=model, instead=instead)
            return {"decision": "deny", "reason": reason}
        edit = _edit(known, request, model)
        return {"hookSpecificOutput": {"llm_request": edit}} if edit else None

    return act


def _allowed(options: ModelsOptions, model: str) -> bool:
    return (options.allow is None or named(options.allow, model)) and not named(options.deny, model)


def _edit(options: ModelsOptions, request: dict[str, Any], model: str) -> dict[str, Any]:
    """What changes: the model, the settings, the system instruction."""
    edit: dict[str, Any] = {"model": model} if model != request["model"] else {}
    forced = {camel(name): value for name, value in options.set.items()}
    config = {**forced, **_capped(options.cap, {**request.get("config", {}), **forced})}
    if config:
        edit["config"] = config
    if options.instruct:
        edit["messages"] = _instructed(request["messages"], options.instruct)
    return edit


def _capped(caps: Mapping[str, float], config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that are too large or missing, at their largest value."""
    found = {}
    for name, most in ((camel(name), most) for name, most in caps.items()):
        value = config.get(name)
        if not isinstance(value, int | float) or isinstance(value, bool) or value > most:
            found[name] = int(most) if most.is_integer() else most
    return found


def _instructed(messages: list[dict[str, Any]], text: str) -> list[dict[str, Any]]:
    """The messages with the text at the end of the system instruction, once."""
    if messages and messages[0].get("role") == "system":
        first, *rest = messages
        said = str(first.get("content", ""))
        added = said if said.endswith(text) else f"{said}\n\n{text}"
        return [{**first, "content": added}, *rest]
    return [{"role": "system", "content": text}, *messages]
