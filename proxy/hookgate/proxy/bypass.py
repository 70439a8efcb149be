"""Tools that an agent ran past its shim: their results are on the wire, and no event told of them."""

import logging
from collections import Counter
from collections.abc import Sequence

from hookgate.hooks import Session, Verdict
from hookgate.proxy.sessions import SessionState
from hookgate.translator.fields import JsonObject, read, read_list

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


def unannounced(body: JsonObject, state: SessionState) -> list[str]:
    """The tools whose results the last turn shows for the first time without a BeforeTool event before."""
    contents = read_list(body, "contents")
    place, found = len(contents) - 1, []
    for part in read_list(contents[-1], "parts"):
        response = read(part, "functionResponse")
        if not isinstance(response, dict) or state.memory.knows(place, part):
            continue
        state.memory.keep(place, part)
        name = str(response.get("name", ""))
        if state.announced[name] > 0:
            state.announced[name] -= 1
        elif "Tool execution blocked" not in str(response.get("response")):  # it was told of, and did not run
            found.append(name)
    return found


def denial_of(tools: Sequence[str]) -> Verdict:
    """What the agent is told where such runs are denied."""
    names = ", ".join(map(repr, tools))
    reason = f"hookgate was not told of a run of {names} before it; let the agent's hooks run, and try again."
    return Verdict(decision="deny", reason=reason)
