"""Detection of bypasses: tool runs whose results are in a request although no event announced them."""

import logging
from collections import Counter
from collections.abc import Sequence

from hookgate.hooks import SessionContext, Verdict
from hookgate.proxy.sessions.memory import HookEffect, Result
from hookgate.proxy.sessions.sessions import SessionState
from hookgate.translator.fields import JsonObject, read_object

log = logging.getLogger("hookgate.bypass")


class Bypasses:
    """Counts and logs bypasses."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """The counts by label. There is one label only, because tool names come from clients."""

    def note(self, tools: Sequence[str], session: SessionContext) -> None:
        """Count and log the runs of tools that were not announced."""
        if tools:
            self.counts["unannounced"] += len(tools)
            log.warning(
                "session %s ran tools that its shim did not report: %s",
                session.session_id,
                ", ".join(tools),
            )


def new_results(results: Sequence[Result], state: SessionState) -> list[Result]:
    """Return the results that no call of the session contained before."""
    effect_on = state.memory.effect_on
    return [
        result
        for result in results
        if result.trailing and not any(map(effect_on, (result.identity, _checked_identity(result))))
    ]


def unannounced_tools(results: Sequence[Result], state: SessionState, *, once: bool) -> list[str]:
    """Return the names of the tools whose results are new and were not announced by a BeforeTool event.

    If `once` is true, each result is reported once; otherwise it is reported whenever it is sent again.
    """
    names = []
    for result in new_results(results, state):
        name = str(result.response.get("name") or "")
        announced = state.use_announcement(name, ran=not _was_denied(result.response))
        if not announced:
            names.append(name)
        if announced or once:
            state.memory.remember(_checked_identity(result), HookEffect())
    return names


def _checked_identity(result: Result) -> str:
    """Return the identity of a result that was compared with the announcements.

    It differs from that under which the effects of hooks on the result are remembered.
    """
    return f"announced-{result.identity}"


def _was_denied(response: JsonObject) -> bool:
    """Return True if the result is what an agent sends for a tool call that a hook denied, and no more."""
    value = read_object(response, "response")
    return value.keys() == {"error"} and str(value["error"]).startswith("Tool execution blocked")


def bypass_denial(tools: Sequence[str]) -> Verdict:
    """Return the denial of a request with unannounced tool runs."""
    names = ", ".join(map(repr, tools))
    reason = f"The tools {names} ran without a BeforeTool event; enable the agent's hooks and try again."
    return Verdict(decision="deny", reason=reason)
