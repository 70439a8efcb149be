"""Tools that an agent ran past its shim: their results are on the wire, and no event told of them."""

import logging
from collections import Counter
from collections.abc import Sequence

from hookgate.hooks import Session, Verdict
from hookgate.proxy.sessions import SessionState
from hookgate.proxy.wire.memory import Result, Treatment
from hookgate.translator.fields import JsonObject, read_object

log = logging.getLogger("hookgate.bypass")


class Bypasses:
    """How often that has happened."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """Under one label alone: tools' names come from outside."""

    def note(self, tools: Sequence[str], session: Session) -> None:
        """Count the runs, and name them in the log."""
        if tools:
            self.counts["unannounced"] += len(tools)
            log.warning("session %s ran tools past its shim: %s", session.session_id, ", ".join(tools))


def unannounced(results: Sequence[Result], state: SessionState, *, forgives: bool) -> list[str]:
    """The tools whose results the agent sends for the first time without a BeforeTool event before.

    Each is noticed once when the gateway `forgives` it, else whenever it is sent again.
    """
    found = []
    for result in results:
        if not result.trailing or state.memory.of(result.identity) is not None:
            continue
        name = str(result.response.get("name") or "")
        told = state.takes(name, ran=not _was_denied(result.response))
        if not told:
            found.append(name)
        if told or forgives:
            state.memory.keep(result.identity, Treatment())
    return found


def _was_denied(response: JsonObject) -> bool:
    """Whether it is how an agent tells its model of a call that a hook denied."""
    return str(read_object(response, "response").get("error", "")).startswith("Tool execution blocked")


def denial_of(tools: Sequence[str]) -> Verdict:
    """What the agent is told where such runs are denied."""
    names = ", ".join(map(repr, tools))
    reason = f"hookgate was not told of a run of {names} before it; let the agent's hooks run, and try again."
    return Verdict(decision="deny", reason=reason)
