"""What is known of one call, and how a verdict on it is told to its client. Pure.

The shapes are those that real clients show and do not retry: an error status for a user's turn, a spoken
answer where an error would make the client nudge the model or try again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from hookgate.hooks import Session, Verdict
from hookgate.proxy.envelopes import Envelope
from hookgate.proxy.errors import ApiError, policy_denied
from hookgate.proxy.headers import KEY_HEADER, SESSION_HEADER
from hookgate.proxy.routes import Route, session_name
from hookgate.translator import BodyError, synthetic_response, text_response
from hookgate.translator.fields import JsonObject, read, read_list, read_object
from hookgate.translator.strictjson import dumps, loads
from hookgate.translator.texts import has_part, texts_of

DENIED = "A hook denied this call without giving a reason."
STOPPED = "A hook stopped the agent without giving a reason."
NOT_JSON = "A hook answers in the model's place, but not in the JSON that this call asked for."


@dataclass(frozen=True, slots=True)
class Call:
    """The facts of a call that outlive its body."""

    route: Route
    session: Session
    envelope: Envelope
    wants_json: bool
    """The client asked for JSON: prose would make it try again, so it gets an error instead."""
    tool_turn: bool
    """The last turn is a tool's result: an error would make the client nudge, so it gets prose."""


class Answered(Exception):  # noqa: N818  # it ends a call, but not as an error
    """The hooks answer in the model's place; the upstream is not, or no longer, needed."""

    def __init__(self, answer: JsonObject) -> None:
        self.answer = answer


def call_of(
    route: Route, headers: Mapping[str, str], body: JsonObject, envelope: Envelope, named: str = ""
) -> Call:
    """The facts of the call that the request in `body` makes, of the session that its envelope `named`.

    Raises ApiError for a session name that is none.
    """
    contents = read_list(body, "contents")
    mime_type = read(read_object(body, "generationConfig"), "responseMimeType")
    return Call(
        route=route,
        session=_session(route, headers, contents, named),
        envelope=envelope,
        wants_json=isinstance(mime_type, str) and "json" in mime_type,
        tool_turn=bool(contents) and has_part(contents[-1], "functionResponse"),
    )


def told(verdict: Verdict, event: str, call: Call) -> JsonObject | ApiError | None:
    """What the client is told instead of the model's answer; None when the call goes on."""
    if verdict.stop:
        reason = verdict.reason or STOPPED
        return policy_denied(reason, event) if call.wants_json else text_response(reason)
    if verdict.synthetic:
        answer = synthetic_response(verdict.llm_response)
        return policy_denied(NOT_JSON, event) if call.wants_json and not _is_json(answer) else answer
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


def _session(route: Route, headers: Mapping[str, str], contents: list[Any], named: str) -> Session:
    """Who calls: what the client names itself by, and a name for its key that does not tell the key."""
    key = headers.get(KEY_HEADER) or route.key or headers.get("authorization", "")
    agent = headers.get("user-agent", "")
    return Session(
        session_id=_given_session(route, headers, named) or _fingerprint(key, agent, contents),
        client=agent.partition("/")[0].strip(),
        key=_name_of(key.removeprefix("Bearer ")),
    )


def _name_of(key: str) -> str:
    return sha256(key.encode(errors="surrogateescape")).hexdigest()[:12] if key else ""


def _given_session(route: Route, headers: Mapping[str, str], named: str) -> str:
    """The session that the client names: in the path, in a header, or in the body's envelope."""
    if route.session:
        return route.session
    if SESSION_HEADER in headers:
        return session_name(headers[SESSION_HEADER])
    return session_name(named) if named else ""


def _fingerprint(key: str, agent: str, contents: list[Any]) -> str:
    """One conversation of one client is one session: it keeps its first turn."""
    first_turn = dumps(contents[0]) if contents else b""
    who = "\0".join((key, agent)).encode(errors="surrogateescape")
    return sha256(who + b"\0" + first_turn).hexdigest()[:32]
