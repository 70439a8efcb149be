"""What the commands `serve` and `upstream` do: load, listen, say so, and stop in good order."""

import asyncio
import logging
from pathlib import Path

from hookgate.hooks import Configuration, Engine
from hookgate.hooks.kinds.orphans import adopting_orphans
from hookgate.hooks.live import LiveEngine
from hookgate.proxy import embedded, policy
from hookgate.proxy.server import EVENTS, Gateway, catch_interrupts, listening
from hookgate.proxy.sources import Sources
from hookgate.proxy.upstream import Upstream

log = logging.getLogger("hookgate")

Address = tuple[str, int]


async def serve(listen: Address, upstream: str, sources: Sources, trust_project: bool) -> None:
    """Run the gateway until it is interrupted. Raises SettingsError, ValueError or OSError at the start."""
    interrupted = catch_interrupts()
    live = policy.load(sources, trust_project)
    with adopting_orphans():  # what hooks leave behind becomes this process's to end
        await _serve(listen, upstream, sources, live, interrupted)


async def _serve(
    listen: Address, upstream: str, sources: Sources, live: LiveEngine, interrupted: asyncio.Event
) -> None:
    async with (
        Upstream(upstream) as origin,
        policy.kept(live, sources.state),
        listening(Gateway(live, origin).handle, *listen) as url,
    ):
        engine = live.current
        judges = any(engine.listens_to(event) for event in EVENTS)
        # Files that configure nothing for the gateway are more likely a mistake than a wish.
        level = logging.WARNING if sources.places() and not judges else logging.INFO
        described = _described(engine.configuration)
        log.log(level, "listening on %s, upstream %s, %s", url, origin.origin, described)
        _name_untrusted(engine)
        await interrupted.wait()
        log.info("stopping: finishing the calls in flight (interrupt again to drop them)")


async def serve_embedded(listen: Address, script: Path | None) -> None:
    """Run the embedded upstream until it is interrupted. Raises ScriptError or OSError at the start."""
    interrupted = catch_interrupts()
    async with embedded.running(embedded.load_script(script) if script else None, *listen) as upstream:
        log.info("embedded upstream (not a model) on %s", upstream.url)
        await interrupted.wait()


def _name_untrusted(engine: Engine) -> None:
    for hook, reason in engine.refused():
        log.warning("%s hook %r %s", hook.event, hook.name, reason)


def _described(configuration: Configuration) -> str:
    """Which hooks run here, and which of the configured ones do not."""
    counts = {
        event: sum(len(group.hooks) for group in groups) for event, groups in configuration.groups.items()
    }
    here = [f"{event} {counts[event]}" for event in EVENTS if event in counts]
    elsewhere = sorted(counts.keys() - set(EVENTS))
    told = "hooks: " + ", ".join(here) if here else "no hooks: calls are copied through"
    told = f"{told}; not run by the gateway: {', '.join(elsewhere)}" if elsewhere else told
    return f"{told}; revision {configuration.revision}"
