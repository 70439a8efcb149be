"""Tries the hooks in force on the stored content of one call, for the panel."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from hookgate.hooks import Configuration, Engine, SettingsError
from hookgate.hooks.settings.configuration import Group
from hookgate.proxy.audit.reading import CallDetail
from hookgate.proxy.errors import ApiError
from hookgate.proxy.observe.record import make_receipt
from hookgate.proxy.observe.usage import Prices
from hookgate.proxy.replay.comparing import decisions_by_rule
from hookgate.proxy.replay.recordings import CallStart, RecordedCall, read_calls, stored_document
from hookgate.proxy.replay.replaying import Replay, ReplayClock
from hookgate.translator.fields import JsonObject

_SECONDS = 60.0
"""How long the hooks of a call may take."""

_NOT_STORED = "The content of this call is not stored, so hooks cannot be run on it; set audit.content."


MakeEngine = Callable[[Configuration, ReplayClock], Engine]
"""Makes an engine that counts in memory. Raises SettingsError."""


async def compare_call(
    detail: CallDetail, configuration: Configuration, hook: str, make: MakeEngine, prices: Prices
) -> JsonObject:
    """Run the hooks of a configuration on a call, or only those with the name `hook`, unless it is empty.

    Returns the outcomes, and what each hook decided then and now. Raises ApiError if it cannot be done.
    """
    if detail.end is None:
        raise ApiError(409, "The call has not ended.")
    recorded = [*read_calls(stored_document(each) for each in (detail.start, detail.end) if each is not None)]
    if not any(each.stored if isinstance(each, CallStart) else each.request for each in recorded):
        raise ApiError(409, _NOT_STORED)
    clock = ReplayClock()
    try:
        engine = make(_only(configuration, hook) if hook else configuration, clock)
    except SettingsError as error:
        raise ApiError(409, f"The hooks cannot be run: {error}") from None
    try:
        async with asyncio.timeout(_SECONDS):
            return await _compared(Replay(engine, clock, prices), recorded, hook)
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


async def _compared(replay: Replay, recorded: list[CallStart | RecordedCall], hook: str) -> JsonObject:
    """Return what the replay of a call decides beside what was decided."""
    for each in recorded:
        if isinstance(each, CallStart):
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
