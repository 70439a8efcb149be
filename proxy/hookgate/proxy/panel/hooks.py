"""The hooks in force, and those that are off: as the panel lists them, and switches them."""

import asyncio
from typing import Any

from hookgate.hooks import SettingsError
from hookgate.hooks.health import key_of
from hookgate.hooks.live import LiveEngine
from hookgate.hooks.settings import EVENTS, Hook
from hookgate.proxy.errors import ApiError
from hookgate.proxy.managing.switching import switched
from hookgate.proxy.sources import Sources
from hookgate.translator.fields import JsonObject

_SHOWN_ERROR = 500
"""Characters of what went wrong in a hook's last run."""


class HookPanel:
    """The hooks of one gateway."""

    def __init__(self, live: LiveEngine, sources: Sources) -> None:
        self.live, self.sources = live, sources
        self._switching = asyncio.Lock()  # each switch reads a file and writes it again

    async def rows(self) -> JsonObject:
        """Every hook by event and precedence, with how it fares."""
        return await asyncio.to_thread(self._rows)

    def health(self) -> Any:
        """What changes about hooks while the gateway runs, in JSON."""
        told = [
            [*key, status.runs, status.failures, status.denials, status.error]
            for key, status in self.live.health.hooks.items()
        ]
        return {"revision": self.live.current.revision, "health": told}

    async def switch(self, name: str, on: bool) -> JsonObject:
        """Switch hooks of this name on or off. Returns once calls heed it. Raises ApiError (400)."""
        named = [row for row in (await self.rows())["hooks"] if row["name"] == name]
        if named and not any(row["switchable"] for row in named):
            message = (
                f"{name!r} stands in the policy {named[0]['file']}, which nobody can switch off but there."
            )
            raise ApiError(400, message)
        try:
            async with self._switching:
                messages = await asyncio.to_thread(switched, self.sources, [name], on)
        except (SettingsError, ValueError) as error:
            raise ApiError(400, str(error)) from None
        await self.live.reload()
        told = await self.rows()
        states = {row["state"] for row in told["hooks"] if row["name"] == name and row["switchable"]}
        if not on and states - {"off", "shadowed"}:
            messages.append(f"{name!r} still runs: the gateway's log tells why.")
        return {**told, "messages": messages}

    def _rows(self) -> JsonObject:
        engine = self.live.current
        refused = dict(engine.refused())
        running = engine.configuration.hooks()
        on, known = set(running), {key_of(hook) for hook in running}
        # In the order of the files: a hook that is switched off keeps its place.
        listed = sorted(engine.configuration.declared, key=lambda hook: EVENTS.index(hook.event))
        rows = [
            self._row(hook, refused.get(hook))
            if hook in on
            else {**self._row(hook, None), "state": "shadowed" if key_of(hook) in known else "off"}
            for hook in listed
        ]
        return {"revision": engine.revision, "hooks": rows}

    def _row(self, hook: Hook, refusal: str | None) -> JsonObject:
        status, config = self.live.health.of(hook), hook.config
        kind = config.type + (" (persistent)" if getattr(config, "persistent", False) else "")
        on = "degraded" if status.degraded else "observe" if config.mode == "observe" else "on"
        return {
            "event": hook.event,
            "name": hook.name,
            "description": config.description or "",
            "runs": hook.runs,
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
            "last_status": "failed" if status.error else "well" if status.runs else "never",
            "last_error": status.error[:_SHOWN_ERROR],
            "last_output": status.said,
            "last_ms": round(status.seconds * 1000, 3) if status.runs else None,
        }
