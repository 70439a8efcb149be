"""The policy in force and the gateway's settings, fit to be shown to anyone: without a secret."""

import re
from typing import Any

from hookgate.hooks.settings import Configuration, Hook
from hookgate.hooks.settings.configs import HttpConfig, shown_url
from hookgate.proxy.config.reading import Effective
from hookgate.proxy.config.showing import shown_settings
from hookgate.proxy.sources import Sources
from hookgate.translator.fields import JsonObject

_SECRET_FIELDS = ("env", "headers")
_SECRET = re.compile(r"secret|token|passw|api.?key|credential", re.IGNORECASE)
_MASK = "***"


def policy_of(configuration: Configuration, sources: Sources) -> JsonObject:
    """The hooks' settings in force: their revision, the files they come from, each hook in order."""
    used = {hook.source for hook in configuration.hooks()}
    return {
        "revision": configuration.revision,
        "limits": {
            "deadline_seconds": configuration.limits.deadline,
            "concurrency": configuration.limits.concurrency,
        },
        "files": [
            {"path": str(place.path), "layer": place.layer, "there": place.path.is_file()}
            for place in sources.places()
            if place.required or place.path.is_file() or place.path in used
        ],
        "events": [
            {
                "event": event,
                "groups": [
                    {
                        "matcher": group.matcher.pattern or "",
                        "sequential": group.sequential,
                        "hooks": [_hook(hook) for hook in group.hooks],
                    }
                    for group in groups
                ],
            }
            for event, groups in configuration.groups.items()
        ],
    }


def gateway_of(effective: Effective) -> list[JsonObject]:
    """Every setting of the gateway, and where it was given."""
    return [
        {"name": name, "value": _shortly(name, value), "source": source}
        for name, (value, source) in shown_settings(effective).items()
    ]


def _shortly(name: str, value: Any) -> Any:
    """The value; of a key's hash as much as the key is called by elsewhere."""
    return f"{value[:12]}…" if name.endswith(".sha256") and value else value


def _hook(hook: Hook) -> JsonObject:
    config: JsonObject = hook.config.model_dump(mode="json", exclude_unset=True)
    if isinstance(hook.config, HttpConfig):
        config["url"] = shown_url(hook.config.url)
    for name in _SECRET_FIELDS:
        if isinstance(config.get(name), dict):
            config[name] = dict.fromkeys(config[name], _MASK)
    return {"name": hook.name, "source": str(hook.source), "layer": hook.layer, "settings": _masked(config)}


def _masked(value: Any) -> Any:
    """The value, what is named like a secret masked."""
    if isinstance(value, list):
        return [_masked(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: _MASK if isinstance(each, str) and _SECRET.search(name) else _masked(each)
        for name, each in value.items()
    }
