"""The gateway's hooks while it runs: loaded, trusted, watched, their health on record for others to see."""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from hookgate.hooks import Configuration, Engine, SettingsError
from hookgate.hooks.health import Health
from hookgate.hooks.kinds.builtin import Counters, PriceTable
from hookgate.hooks.kinds.making import make_runners
from hookgate.hooks.live import LiveEngine
from hookgate.hooks.managing.edits import write_atomically
from hookgate.hooks.policies import COUNTING
from hookgate.hooks.running import Refusal
from hookgate.hooks.settings import BuiltinConfig
from hookgate.hooks.trust import TrustStore
from hookgate.proxy.sources import Sources
from hookgate.proxy.store import Store, StoreError

_STATUS_FILE = "hooks-status.json"
_STATUS_SECONDS = 2.0

log = logging.getLogger("hookgate")


def load(sources: Sources, *, store: Store | None = None, prices: PriceTable | None = None) -> LiveEngine:
    """The engine for the settings that `sources` name. Raises SettingsError.

    Hooks that count do so in `store`, which is opened for the first of them; without one in memory.
    """
    refusal = TrustStore(sources.state).refusal

    def make(configuration: Configuration, health: Health) -> Engine:
        runners = make_runners(
            configuration.hooks(),
            refusal=refusal,
            http_targets=configuration.http_targets,
            state=sources.state,
            counters=_counters(configuration, refusal, store) if store else None,
            prices=prices,
        )
        return Engine(configuration, runners, refusal=refusal, health=health)

    return LiveEngine(sources.places, make)


def _counters(configuration: Configuration, refusal: Refusal, store: Store) -> Counters | None:
    """The store's counters, if any hook needs them. Raises SettingsError when they cannot be had."""
    kinds = (hook.config for hook in configuration.hooks() if refusal(hook) is None)
    if not any(isinstance(kind, BuiltinConfig) and kind.builtin in COUNTING for kind in kinds):
        return None
    try:
        return store.counters()
    except StoreError as error:
        raise SettingsError(str(error)) from None


@asynccontextmanager
async def kept(live: LiveEngine, state: Path) -> AsyncIterator[None]:
    """Keep settings up to date and health on record while the gateway runs; end what hooks keep after it."""
    tasks = [asyncio.create_task(live.watch()), asyncio.create_task(_record(live, state / _STATUS_FILE))]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await live.close()


async def _record(live: LiveEngine, path: Path) -> None:
    """Write what has changed every few seconds, and once more at the end."""
    written = None
    try:
        while True:
            try:
                written = await asyncio.to_thread(_write, path, live, written)
            except Exception:
                log.exception("the hooks' status could not be kept; please report this")
            await asyncio.sleep(_STATUS_SECONDS)
    finally:
        _write(path, live, written)


def _write(path: Path, live: LiveEngine, before: str | None) -> str | None:
    status = {
        "revision": live.current.revision,
        "hooks": [
            {"event": event, "name": name, "command": what, **vars(record)}
            for (event, name, what), record in live.health.all().items()
        ],
    }
    text = json.dumps(status, indent=2) + "\n"
    if text == before or (before is None and not live.health.all()):
        return before
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(path, text)
    except OSError as error:
        if before is None:
            log.warning("the hooks' status cannot be kept: %s; name another folder with --state", error)
    return text


def read_status(state: Path) -> dict[tuple[str, str, str], dict[str, Any]]:
    """The records that the last gateway with this state folder kept, by event, name and what runs."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        hooks = json.loads((state / _STATUS_FILE).read_text(encoding="utf-8"))["hooks"]
        return {(hook["event"], hook["name"], hook["command"]): hook for hook in hooks}
    return {}
