"""Hooks that a program registers: functions of its own, in the layer above most settings files."""

import hashlib
import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from hookgate.hooks.errors import SettingsError, first_mistake
from hookgate.hooks.settings.configs import RuntimeConfig
from hookgate.hooks.settings.configuration import Configuration, Group, Hook, Matcher
from hookgate.hooks.settings.event_names import EVENTS
from hookgate.hooks.settings.files import closest_name
from hookgate.hooks.settings.sources import LAYERS, Layer

_LAYER: Layer = "runtime"
_OPTIONS = frozenset(RuntimeConfig.model_fields) - {"type", "action", "name"}


def register_hook(
    configuration: Configuration,
    event: str,
    function: Callable[[dict[str, Any]], Any],
    *,
    name: str | None = None,
    matcher: str | None = None,
    **options: Any,
) -> Configuration:
    """Return the configuration with a function of this program as a hook of an event.

    `function` takes the input of the event and returns an output or None. An async function runs in the event
    loop, and is cancelled when its time is up or its caller is cancelled. Any other function runs in a
    thread, which cannot be cancelled. The hook comes before those of all settings files except policy files,
    and after the hooks that were registered before it. It is off if the settings disable its name.

    `name` is the hook's name, by default that of the function; `matcher` selects tools or triggers. `options`
    are the other keys of a runtime hook in settings files, such as `timeout` in milliseconds, `view`,
    `stream`, `mode` and `when`; `on_error` is "deny" by default.

    Raises SettingsError if the event, the matcher or an option is not valid, or if the event has a registered
    hook with this name.
    """
    name = name or _name_of(function)
    about = f"the hook {name!r} for {event}"
    if event not in EVENTS:
        raise SettingsError(f"{about}: there is no such event; {_suggestion(event, EVENTS)}")
    config = _config(about, function, {"on_error": "deny", **options})
    on_error = config.on_error or "deny"
    hook = Hook(
        name,
        config,
        Path.cwd(),
        _source_of(function),
        event,
        layer=_LAYER,
        on_error=on_error,
        on_exit_code=on_error,
        function=function,
    )
    if any(other.key[:2] == hook.key[:2] for other in configuration.declared if other.function is not None):
        raise SettingsError(f"{about} is registered already; pass another `name`")
    return _with_hook(configuration, hook, _matcher(about, event, matcher))


def _config(about: str, function: Callable[..., Any], options: dict[str, Any]) -> RuntimeConfig:
    for key in options.keys() - _OPTIONS:
        raise SettingsError(f"{about}: there is no option {key!r}; {_suggestion(key, _OPTIONS)}")
    module = getattr(function, "__module__", None) or type(function).__module__
    action = f"{module}:{re.sub(r'[^A-Za-z0-9_]', '_', _name_of(function))}"
    try:
        return RuntimeConfig.model_validate({**options, "type": "runtime", "action": action})
    except ValidationError as error:
        raise SettingsError(f"{about}: {first_mistake(error, 'the options')}") from None


def _matcher(about: str, event: str, pattern: str | None) -> Matcher:
    try:
        return Matcher(event, pattern)
    except re.error as error:
        message = f"{about}: matcher: {pattern!r} is not a regular expression: {error}"
        raise SettingsError(f"{message}; to match it literally, use {re.escape(str(pattern))!r}") from None


def _with_hook(configuration: Configuration, hook: Hook, matcher: Matcher) -> Configuration:
    about = f"{configuration.revision}:{hook.key}:{matcher.pattern}:{hook.config.model_dump_json()}"
    configuration = replace(
        configuration,
        declared=(*configuration.declared, hook),
        revision=hashlib.sha256(about.encode()).hexdigest()[:12],
    )
    if not configuration.is_on(hook):
        return configuration
    groups = configuration.for_event(hook.event)
    above = LAYERS.index(_LAYER)
    index = sum(LAYERS.index(group.hooks[0].layer) <= above for group in groups)
    new = (*groups[:index], Group((hook,), matcher=matcher), *groups[index:])
    return replace(configuration, groups={**configuration.groups, hook.event: new})


def _name_of(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", None) or type(function).__name__)


def _source_of(function: Callable[..., Any]) -> Path:
    """Return the file that defines the function, as far as it is known."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return Path("program" if code is None else code.co_filename)


def _suggestion(name: str, known: Iterable[str]) -> str:
    near = closest_name(name, sorted(known))
    return f"did you mean {near!r}?" if near else f"use one of {', '.join(sorted(known))}"
