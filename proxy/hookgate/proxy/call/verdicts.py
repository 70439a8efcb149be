"""The one place where a verdict of hooks becomes the answer that a client gets. Pure.

The shapes are those that real clients show and do not retry: an error status for a user's turn, a spoken
answer where an error would make the client nudge the model or try again.
"""

from dataclasses import dataclass

from hookgate.hooks import SessionContext, Verdict
from hookgate.hooks.merge import NO_VERDICT
from hookgate.proxy.errors import ApiError, policy_denied
from hookgate.proxy.identity.callers import Caller
from hookgate.proxy.routing.envelopes import Envelope
from hookgate.proxy.routing.table import Route
from hookgate.translator import BodyError, synthetic_response, text_response
from hookgate.translator.fields import JsonObject, has_part, read, read_list, read_object, texts_of
from hookgate.translator.response import is_whole
from hookgate.translator.strictjson import loads

DENIED = "A hook denied this call without giving a reason."
STOPPED = "A hook stopped the agent without giving a reason."
NOT_JSON = "A hook answers in the model's place, but not in the JSON that this call asked for."


@dataclass(frozen=True, slots=True)
class JudgedCall:
    """The facts of one model call that outlive its body. A batch holds several calls."""

    route: Route
    session: SessionContext
    named: bool
    """Whether the client names its session. If not, the session is derived from its conversation."""
    envelope: Envelope
    wants_json: bool
    """The client asked for JSON: prose would make it try again, so it gets an error instead."""
    tool_turn: bool
    """The last turn is the result of a tool: an error would make the client nudge, so it gets prose."""


class SyntheticAnswer(Exception):  # noqa: N818  # it ends a call, but not as an error
    """Hooks answer in the model's place: the upstream is not, or no longer, needed."""

    def __init__(self, answer: JsonObject) -> None:
        self.answer = answer


def describe_call(
    caller: Caller, route: Route, body: JsonObject, envelope: Envelope, session_id: str = ""
) -> JudgedCall:
    """Return the facts of the call that `caller` makes with `body`.

    `session_id` is the session that the client names, empty if it names none.
    """
    contents = read_list(body, "contents")
    mime_type = read(read_object(body, "generationConfig"), "responseMimeType")
    return JudgedCall(
        route=route,
        session=caller.in_session(session_id or caller.conversation(contents)),
        named=bool(session_id),
        envelope=envelope,
        wants_json=isinstance(mime_type, str) and "json" in mime_type,
        tool_turn=bool(contents) and has_part(contents[-1], "functionResponse"),
    )


def client_response(verdict: Verdict, event: str, call: JudgedCall) -> JsonObject | ApiError | None:
    """Return what the client gets instead of the model's answer; None if the call goes on."""
    if verdict is NO_VERDICT:
        return None
    if verdict.stop:
        reason = verdict.reason or STOPPED
        return policy_denied(reason, event) if call.wants_json else text_response(reason)
    if verdict.synthetic:
        answer = synthetic_response(verdict.llm_response)
        as_it_is = is_whole(verdict.llm_response) or not call.wants_json
        return answer if as_it_is or _is_json(answer) else policy_denied(NOT_JSON, event)
    if verdict.denied:
        reason = verdict.reason or DENIED
        spoken = call.tool_turn and not call.wants_json
        return text_response(reason) if spoken else policy_denied(reason, event)
    return None


def enforce(verdict: Verdict, event: str, call: JudgedCall) -> None:
    """End the call if the verdict says so. Raises SyntheticAnswer, or ApiError for a refusal."""
    if verdict is NO_VERDICT:
        return
    response = client_response(verdict, event, call)
    if isinstance(response, ApiError):
        raise response
    if response is not None:
        raise SyntheticAnswer(response)


def _is_json(response: JsonObject) -> bool:
    try:
        for candidate in response["candidates"]:
            loads("".join(texts_of(candidate["content"])).encode())
    except BodyError:
        return False
    return True
