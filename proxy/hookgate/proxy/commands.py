"""What the commands `serve` and `upstream` do: load, listen, say so, and stop in good order."""

import logging
from collections.abc import Sequence
from pathlib import Path

from hookgate.hooks import Configuration, Engine, load_settings
from hookgate.proxy import embedded
from hookgate.proxy.server import EVENTS, Gateway, catch_interrupts, listening
from hookgate.proxy.upstream import Upstream

log = logging.getLogger("hookgate")

Address = tuple[str, int]


async def serve(listen: Address, upstream: str, files: Sequence[Path]) -> None:
    """Run the gateway until it is interrupted. Raises SettingsError, ValueError or OSError at the start."""
    interrupted = catch_interrupts()
    configuration = load_settings(files)
    engine = Engine(configuration)
    async with (
        Upstream(upstream) as origin,
        listening(Gateway(engine, origin).handle, *listen) as url,
    ):
        judges = any(engine.listens_to(event) for event in EVENTS)
        # Files that configure nothing for the gateway are more likely a mistake than a wish.
        level = logging.WARNING if files and not judges else logging.INFO
        log.log(level, "listening on %s, upstream %s, %s", url, origin.origin, _described(configuration))
        await interrupted.wait()
        log.info("stopping: finishing the calls in flight (interrupt again to drop them)")


async def serve_embedded(listen: Address, script: Path | None) -> None:
    """Run the embedded upstream until it is interrupted. Raises ScriptError or OSError at the start."""
    interrupted = catch_interrupts()
    async with embedded.running(embedded.load_script(script) if script else None, *listen) as upstream:
        log.info("embedded upstream (not a model) on %s", upstream.url)
        await interrupted.wait()


def _described(configuration: Configuration) -> str:
    """Which hooks run here, and which of the configured ones do not."""
    counts = {
        event: sum(len(group.hooks) for group in groups) for event, groups in configuration.groups.items()
    }
    here = [f"{event} {counts[event]}" for event in EVENTS if event in counts]
    elsewhere = sorted(counts.keys() - set(EVENTS))
    told = "hooks: " + ", ".join(here) if here else "no hooks: calls are copied through"
    return f"{told}; not run by the gateway: {', '.join(elsewhere)}" if elsewhere else told
