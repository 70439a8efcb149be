"""Finds what hooks rely on and this gateway does not have: callers of their conditions, and people to ask."""

import logging
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from hookgate.hooks import Configuration
from hookgate.hooks.errors import Problem
from hookgate.hooks.settings import BuiltinConfig, Hook
from hookgate.hooks.settings.files import closest_name
from hookgate.proxy.config import Config
from hookgate.proxy.keys.callers import KeyOwner, KeysError, load_named_keys, short_key_name

log = logging.getLogger("hookgate")

_DIGITS = len(short_key_name("0" * 64))


def unmet_conditions(
    configuration: Configuration, config: Config, issued: Collection[KeyOwner] | None = None
) -> list[str]:
    """Return a warning for each name of a key or team, in a hook that is on, that no caller can have.

    The `[keys]` are not in the hooks' own files, and a key may have been removed there for good reasons, so
    these are never errors. The names of issued keys are in a database and change at any time. `issued` are
    those of now; if they are not known, or if tokens contain names, there are no warnings.
    """
    if config.clients.issued_keys and (issued is None or config.tokens.issuer):
        return []
    where = "in [keys] of hookgate.toml" if issued is None else "in [keys] of hookgate.toml, or issued,"
    keys = config.keys
    try:
        named = {short_key_name(digest): owner.name for digest, owner in load_named_keys(keys).items()}
    except KeysError:
        return []  # the check of the keys reports this
    owners = {each.name for each in issued or ()}
    all_teams = {*(key.team for key in keys.values()), *(each.team for each in issued or ())}
    teams = sorted(team for team in all_teams if team)
    found = []
    for hook in configuration.hooks():
        for place, condition in _conditions(hook):
            mistakes = [
                *(
                    (f"{place}.keys", _key_mistake(name, named, owners, where))
                    for name in _names(condition, "keys")
                ),
                *(
                    (f"{place}.teams", _name_mistake(name, teams, f"team {where}"))
                    for name in _names(condition, "teams")
                ),
            ]
            about = f"hooks.{hook.event}: the hook {hook.name!r}"
            found += [
                str(Problem(hook.source, f"{about}: {where}: {mistake}", hook.line))
                for where, mistake in mistakes
                if mistake
            ]
    return list(dict.fromkeys(found))


def questions_to_nobody(configuration: Configuration, config: Config) -> list[str]:
    """Return a warning for each policy that asks about tool calls if this gateway asks nobody."""
    if config.approvals.are_enabled:
        return []
    hooks = [hook for hook in configuration.hooks() if hook.event == "BeforeTool" and _asks(hook)]
    return [str(Problem(hook.source, _NOBODY.format(hook.name), hook.line)) for hook in hooks]


_NOBODY = (
    "hooks.BeforeTool: the hook {!r} asks about tool calls, and approvals.mode is off: calls pass; "
    'set mode = "ticket" under [approvals] in hookgate.toml to have people asked'
)


def _asks(hook: Hook) -> bool:
    if not isinstance(hook.config, BuiltinConfig) or hook.config.mode == "observe":
        return False
    rules = hook.config.options.get("rules")
    then = [rule.get("then") for rule in rules if isinstance(rule, dict)] if isinstance(rules, list) else []
    return bool(hook.config.options.get("ask")) or "ask" in then


def warn_of_unmet_conditions(configuration: Configuration, config: Config) -> None:
    """Log the warnings of both."""
    for warning in (*unmet_conditions(configuration, config), *questions_to_nobody(configuration, config)):
        log.warning("%s", warning)


def _conditions(hook: Hook) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the hook's `when`, and those of a policy's routes, each with its place."""
    yield "when", hook.config.when.model_dump()
    if isinstance(hook.config, BuiltinConfig):
        routes = hook.config.options.get("route")
        for number, rule in enumerate(routes if isinstance(routes, list) else []):
            condition = rule.get("when") if isinstance(rule, dict) else None
            if isinstance(condition, dict):
                yield f"options.route.{number}.when", condition


def _names(condition: Mapping[str, Any], kind: str) -> Iterable[str]:
    names = condition.get(kind)
    return [names] if isinstance(names, str) else names if isinstance(names, list | tuple) else []


def _key_mistake(name: str, named: Mapping[str, str], owners: Collection[str], where: str) -> str | None:
    """Return why no key has a name that matches, with a remedy, or None.

    `named` are names by digits, and `owners` are those of issued keys.
    """
    if owner := named.get(name):
        return f"{name!r} never matches, because [keys] names this key; use {owner!r}"
    if re.fullmatch(rf"[0-9a-f]{{{_DIGITS + 1},64}}", name):
        digits = short_key_name(name)
        return f"{name!r} never matches, because a key's name has {_DIGITS} digits; use {digits!r}"
    return None if _may_be_digits(name) else _name_mistake(name, {*named.values(), *owners}, f"key {where}")


def _name_mistake(name: str, known: Collection[str], what: str) -> str | None:
    """Return why a name matches none of the known ones, with a remedy, or None."""
    if any(fnmatchcase(each, name) for each in known):
        return None
    listed = ", ".join(sorted(map(repr, known)))
    near = closest_name(name, known)
    remedy = f"did you mean {near!r}?" if near else f"known are {listed}" if listed else "add one"
    return f"{name!r} never matches: no {what} has this name; {remedy}"


def _may_be_digits(name: str) -> bool:
    """Return whether a key without a name may match: its name is the beginning of its hash."""
    if re.fullmatch(rf"[0-9a-f]{{{_DIGITS}}}", name):
        return True
    return bool(re.search(r"[*?[]", name)) and re.fullmatch(r"[0-9a-f*?\[\]!-]+", name) is not None
