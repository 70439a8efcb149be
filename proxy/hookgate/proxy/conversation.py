"""A call's place in its session: what hooks of the session's events make of it, and what is kept of it."""

from collections.abc import Collection, Sequence

from hookgate.hooks import BeforeModel, Verdict
from hookgate.proxy.bypass import denial_of, unannounced
from hookgate.proxy.call import Call, end_with, told
from hookgate.proxy.context import with_context
from hookgate.proxy.house import House
from hookgate.proxy.records import Firing
from hookgate.proxy.sessions import SessionState
from hookgate.proxy.transcripts import new_contents
from hookgate.proxy.wire import WireRequests
from hookgate.proxy.wire.memory import Result, results_of, turn_of
from hookgate.translator.fields import JsonObject, read_list


class Conversation:
    """The session of one call."""

    def __init__(self, firing: Firing, house: House, call: Call, believed: Collection[str]) -> None:
        """`believed` is what a shim tells of, so that it need not be derived from the call."""
        self._firing, self._house, self._call = firing, house, call
        self._believed = believed
        self._state = house.sessions.of(call.session)

    async def joined(self, body: JsonObject) -> JsonObject:
        """The request as the hooks of its session's events have it. Raises Answered and ApiError."""
        call, state = self._call, self._state
        take = call.session.call.take
        if not ("turns" in self._believed or call.tool_turn or call.wants_json):
            state.take_turn((await take(turn_of, read_list(body, "contents")))[0])
        if state.stopped is not None:
            self._end(Verdict(stop=True, reason=state.stopped))
        if "tools" in self._believed:
            self._check_bypass(await take(results_of, read_list(body, "contents")))
        if any(map(self._firing.listens_to, WireRequests.EVENTS)):
            body = await WireRequests(self._firing, call, state.memory, self._believed).judged(body)
        context = "" if call.wants_json else state.take_context()  # JSON is for an agent's own questions
        return with_context(body, context) if context else body

    def _check_bypass(self, results: Sequence[Result]) -> None:
        """Notice tools that ran past the shim. Raises Answered or ApiError where that is denied."""
        denies = self._house.config.tools.bypass == "deny"
        passed_by = unannounced(results, self._state, forgives=not denies)
        self._house.bypasses.note(passed_by, self._call.session)
        self._firing.record.bypasses += len(passed_by)
        if passed_by and denies:
            self._end(denial_of(passed_by))

    def _end(self, verdict: Verdict) -> None:
        self._firing.record.note_verdict(BeforeModel.name, verdict)
        end_with(told(verdict, BeforeModel.name, self._call))

    async def keep(self, model: str, body: JsonObject) -> None:
        """Put what is new in the conversation into its transcript."""
        if self._house.transcripts.kept:
            contents = read_list(body, "contents")
            new = new_contents(contents, self._state.recorded)
            self._state.recorded = len(contents)
            await self._house.transcripts.append(
                self._call.session, type="request", model=model, contents=new
            )


def believed(house: House, state: SessionState, claimed: str) -> Collection[str]:
    """What a shim tells of, by its events so far and by what it `claimed` with the call."""
    return state.believed(claimed) if house.config.shims.believed else ()
