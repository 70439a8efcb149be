"""Runs the hooks in force on the stored content of one call, for the panel."""

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hookgate.hooks import Configuration, SettingsError
from hookgate.hooks.engine_reloader import EngineReloader
from hookgate.hooks.policy_environment import AccessTokens
from hookgate.hooks.settings.configuration import Group
from hookgate.hooks.trust import TrustStore
from hookgate.proxy.audit.reading import CallDetail
from hookgate.proxy.errors import ApiError
from hookgate.proxy.observe.receipts import make_receipt
from hookgate.proxy.observe.usage import Prices
from hookgate.proxy.replay.recordings import RecordedEnd, RecordedStart, read_calls, stored_document
from hookgate.proxy.replay.report import decisions_by_rule
from hookgate.translator.fields import JsonObject

if TYPE_CHECKING:  # it loads the libraries of all policies
    from hookgate.proxy.replay.replaying import Replay

_SECONDS = 60.0
"""How long the hooks of a call may take."""

_NOT_STORED = "The content of this call is not stored, so hooks cannot be run on it; set audit.content."


@dataclass(frozen=True, slots=True)
class HookTrials:
    """Runs hooks on recorded calls, in engines of their own: no count of a limit and no session changes."""

    reloader: EngineReloader
    state: Path
    prices: Prices
    access_tokens: AccessTokens

    async def run(self, detail: CallDetail, hook: str) -> JsonObject:
        """Run the hooks in force on a call, or only those with the name `hook`, unless it is empty.

        Returns the outcomes, and what each hook decided then and now. Raises ApiError if it cannot be done.
        """
        from hookgate.proxy.replay.replaying import (  # noqa: PLC0415  # loads the libraries of all policies
            Replay,
            ReplayClock,
            replaying_engine,
        )

        if detail.end is None:
            raise ApiError(409, "The call has not ended.")
        documents = (stored_document(each) for each in (detail.start, detail.end) if each is not None)
        recorded = [*read_calls(documents)]
        if not any(each.stored if isinstance(each, RecordedStart) else each.request for each in recorded):
            raise ApiError(409, _NOT_STORED)
        configuration, clock = self.reloader.current.configuration, ReplayClock()
        try:
            engine = replaying_engine(
                _only(configuration, hook) if hook else configuration,
                clock,
                self.prices,
                trust_check=TrustStore(self.state).refusal,
                access_tokens=self.access_tokens,
            )
        except SettingsError as error:
            raise ApiError(409, f"The hooks cannot be run: {error}") from None
        try:
            async with asyncio.timeout(_SECONDS):
                return await _compared(Replay(engine, clock, self.prices), recorded, hook)
        except TimeoutError:
            raise ApiError(504, f"The hooks have not ended within {_SECONDS:g} seconds.") from None
        finally:
            await engine.close()


def _only(configuration: Configuration, name: str) -> Configuration:
    """Return the configuration with only the hooks of a name. Raises ApiError if there are none."""
    groups = {
        event: tuple(
            Group(hooks, group.sequential, group.matcher)
            for group in found
            if (hooks := tuple(hook for hook in group.hooks if hook.name == name))
        )
        for event, found in configuration.groups.items()
    }
    if not any(groups.values()):
        raise ApiError(404, f"There is no hook {name!r} that is on.")
    return replace(configuration, groups=groups)


async def _compared(replay: "Replay", recorded: list[RecordedStart | RecordedEnd], hook: str) -> JsonObject:
    """Return what the replay of a call decides beside what was decided."""
    for each in recorded:
        if isinstance(each, RecordedStart):
            await replay.begin(each)
            continue
        now = await replay.end(each)
        if now is None:
            break
        before = {rule: said for rule, said in decisions_by_rule(each.hooks).items() if hook in ("", rule[1])}
        after = decisions_by_rule(make_receipt(now)["hooks"])
        return {
            "outcome": {"was": each.outcome, "now": str(now.outcome)},
            "hooks": [
                {"event": rule[0], "hook": rule[1], "was": before.get(rule), "now": after.get(rule)}
                for rule in dict.fromkeys([*before, *after])
            ],
            "reasons": dict(now.reasons),
            "masked": each.masked,
        }
    raise ApiError(409, _NOT_STORED)
