"""What is known of one call, and how a verdict on it is told to its client. Pure.

The shapes are those that real clients show and do not retry: an error status for a user's turn, a spoken
answer where an error would make the client nudge the model or try again.
"""

from dataclasses import dataclass

from hookgate.hooks import Session, Verdict
from hookgate.proxy.caller import Caller
from hookgate.proxy.envelopes import Envelope
from hookgate.proxy.errors import ApiError, policy_denied
from hookgate.proxy.routes import Route
from hookgate.translator import BodyError, synthetic_response, text_response
from hookgate.translator.fields import JsonObject, read, read_list, read_object
from hookgate.translator.strictjson import loads
from hookgate.translator.synthetic import is_whole
from hookgate.translator.texts import has_part, texts_of

DENIED = "A hook denied this call without giving a reason."
STOPPED = "A hook stopped the agent without giving a reason."
NOT_JSON = "A hook answers in the model's place, but not in the JSON that this call asked for."


@dataclass(frozen=True, slots=True)
class Call:
    """The facts of a call that outlive its body."""

    route: Route
    session: Session
    named: bool
    """Whether the client names its session; else it is one made of its conversation."""
    envelope: Envelope
    wants_json: bool
    """The client asked for JSON: prose would make it try again, so it gets an error instead."""
    tool_turn: bool
    """The last turn is a tool's result: an error would make the client nudge, so it gets prose."""


class Answered(Exception):  # noqa: N818  # it ends a call, but not as an error
    """The hooks answer in the model's place; the upstream is not, or no longer, needed."""

    def __init__(self, answer: JsonObject) -> None:
        self.answer = answer


def call_of(caller: Caller, route: Route, body: JsonObject, envelope: Envelope, named: str = "") -> Call:
    """The facts of the call that `caller` makes with `body`, in the session that it `named`, if any."""
    contents = read_list(body, "contents")
    mime_type = read(read_object(body, "generationConfig"), "responseMimeType")
    return Call(
        route=route,
        session=caller.in_session(named or caller.conversation(contents)),
        named=bool(named),
        envelope=envelope,
        wants_json=isinstance(mime_type, str) and "json" in mime_type,
        tool_turn=bool(contents) and has_part(contents[-1], "functionResponse"),
    )


def last_texts(body: JsonObject) -> list[str]:
    """The texts of a request's last turn."""
    contents = read_list(body, "contents")
    return texts_of(contents[-1]) if contents else []


def told(verdict: Verdict, event: str, call: Call) -> JsonObject | ApiError | None:
    """What the client is told instead of the model's answer; None when the call goes on."""
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


def end_with(what: JsonObject | ApiError | None) -> None:
    """End the call here with what the client is told, if there is anything. Raises Answered or ApiError."""
    if isinstance(what, ApiError):
        raise what
    if what is not None:
        raise Answered(what)


def _is_json(response: JsonObject) -> bool:
    try:
        for candidate in response["candidates"]:
            loads("".join(texts_of(candidate["content"])).encode())
    except BodyError:
        return False
    return True
