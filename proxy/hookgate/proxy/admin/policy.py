"""The panel's view of the policy, without secrets, and the switching of hooks."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from hookgate.hooks import SettingsError
from hookgate.hooks.engine_reloader import EngineReloader
from hookgate.hooks.layers_in_force import NotInForce
from hookgate.hooks.settings import EVENTS, Configuration, Hook
from hookgate.hooks.settings.configs import HttpConfig, shown_url
from hookgate.proxy.config.reading import EffectiveConfig, Sources, shown_settings
from hookgate.proxy.errors import ApiError
from hookgate.proxy.policy import PushedPolicy, switch_text
from hookgate.translator.fields import JsonObject

_SHOWN_ERROR = 500
"""Characters that are shown of the error of a hook's last run."""


ReloadSettings = Callable[[], Awaitable[Iterable[NotInForce]]]
"""Applies changed settings of hooks, and returns the layers that are not in force then."""


class HookPanel:
    """The hooks of one gateway."""

    def __init__(
        self,
        reloader: EngineReloader,
        sources: Sources,
        reload: ReloadSettings | None = None,
    ) -> None:
        """Show the hooks of `reloader`. `reload` applies changed settings, by default to `reloader` only."""
        self.reloader, self.sources = reloader, sources
        self._reload = reload or self._reload_here
        self._switching = asyncio.Lock()  # each switch reads a file and writes it again

    async def rows(self) -> JsonObject:
        """Return all hooks by event and precedence, with their state."""
        return await asyncio.to_thread(self._rows)

    def health(self) -> Any:
        """Return the state of hooks that changes while the gateway runs, as JSON, without any content."""
        records = [
            [*key, status.runs, status.failures, status.denials, bool(status.error)]
            for key, status in self.reloader.health.hooks.items()
        ]
        return {"revision": self.reloader.current.revision, "health": records}

    async def check_switch(self, name: str) -> None:
        """Check that a hook of this name can be switched. Raises ApiError (400)."""
        rows = (await self.rows())["hooks"]
        named = [row for row in rows if row["name"] == name]
        if not named:
            known = ", ".join(sorted({repr(row["name"]) for row in rows}))
            available = f"available hooks: {known}" if known else "no hooks are configured"
            raise ApiError(400, f"no hook named {name!r}; {available}")
        if not any(row["switchable"] for row in named):
            message = (
                f"{name!r} is in the policy file {named[0]['file']}, and can be switched off only there."
            )
            raise ApiError(400, message)

    async def switch(self, name: str, on: bool) -> JsonObject:
        """Switch all hooks with a name on or off, and return when that is in force.

        Raises ApiError: 400 if the settings cannot be edited, 409 if they were edited but are not in force.
        """
        await self.check_switch(name)
        try:
            async with self._switching:
                messages = await asyncio.to_thread(switch_text, self.sources, [name], on)
        except (SettingsError, ValueError) as error:
            raise ApiError(400, str(error)) from None
        if out_of_force := [layer for layer in await self._reload() if layer.binds_all]:
            reasons = "; ".join(f"{layer.reason} (since {layer.since})" for layer in out_of_force)
            raise ApiError(409, f"The settings were written, but the change is not in force: {reasons}")
        state = await self.rows()
        states = {row["state"] for row in state["hooks"] if row["name"] == name and row["switchable"]}
        if not on and states - {"off", "shadowed"}:
            messages.append(f"{name!r} still runs: see the gateway's log for the reason.")
        return {**state, "messages": messages}

    async def _reload_here(self) -> Iterable[NotInForce]:
        await self.reloader.reload()
        return self.reloader.not_in_force

    def _rows(self) -> JsonObject:
        engine = self.reloader.current
        refused = dict(engine.untrusted_hooks())
        running = engine.configuration.hooks()
        on, known = set(running), {hook.key for hook in running}
        # In the order of the files: a hook that is switched off keeps its place.
        listed = sorted(engine.configuration.declared, key=lambda hook: EVENTS.index(hook.event))
        rows = [
            self._row(hook, refused.get(hook))
            if hook in on
            else {**self._row(hook, None), "state": "shadowed" if hook.key in known else "off"}
            for hook in listed
        ]
        return {"revision": engine.revision, "hooks": rows}

    def _row(self, hook: Hook, refusal: str | None) -> JsonObject:
        status, config = self.reloader.health.status_for(hook), hook.config
        kind = config.type + (" (persistent)" if getattr(config, "persistent", False) else "")
        on = "degraded" if status.degraded else "observe" if config.mode == "observe" else "on"
        return {
            "event": hook.event,
            "name": hook.name,
            "description": config.description or "",
            "runs": hook.display_target,
            "layer": hook.layer,
            "file": str(hook.source),
            "kind": kind,
            "mode": config.mode,
            "state": "untrusted" if refusal else on,
            "refusal": refusal or "",
            "on_error": hook.on_error,
            "fails_open": hook.fails_open,
            "timeout_ms": config.timeout,
            "switchable": hook.layer != "policy",
            "count": status.runs,
            "failures": status.failures,
            "denials": status.denials,
            "last_status": "failed" if status.error else "ok" if status.runs else "never",
            "last_error": status.error[:_SHOWN_ERROR],
            "last_output": status.summary,
            "last_warning": status.warning,
            "last_ms": round(status.seconds * 1000, 3) if status.runs else None,
        }


_SECRET_FIELDS = ("env", "headers")
_SECRET = re.compile(r"secret|token|passw|api.?key|credential", re.IGNORECASE)
_MASK = "***"


def shown_policy(
    configuration: Configuration, sources: Sources, pushed: PushedPolicy | None = None
) -> JsonObject:
    """Return the hook settings in force: their revision, their sources, and each hook in order."""
    used = {hook.source for hook in configuration.hooks()}
    return {
        "revision": configuration.revision,
        "pushed": None if pushed is None else pushed.details(),
        "limits": {
            "deadline_seconds": configuration.limits.deadline,
            "concurrency": configuration.limits.concurrency,
            "programs": configuration.limits.programs,
        },
        "files": [
            {"path": str(place.path), "layer": place.layer, "there": place.path.is_file()}
            for place in sources.places()
            if place.revision is None and (place.required or place.path.is_file() or place.path in used)
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


def shown_gateway(effective: EffectiveConfig) -> list[JsonObject]:
    """Return every setting of the gateway with its source."""
    return [
        {"name": name, "value": _shortly(name, value), "source": source}
        for name, (value, source) in shown_settings(effective).items()
    ]


def _shortly(name: str, value: Any) -> Any:
    """Return the value, with the hash of a key shortened to the key's short name."""
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
    """Return the value with everything masked whose name looks like a secret's."""
    if isinstance(value, list):
        return [_masked(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: _MASK if isinstance(each, str) and _SECRET.search(name) else _masked(each)
        for name, each in value.items()
    }
