"""Requests for an approval: which call one is about, what is shown of it, and how decisions change it.

Nothing here does I/O. Times are in milliseconds since 1970.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from hashlib import sha256
from typing import Any, Literal, get_args

from hookgate.hooks.policies.options import compile_pattern
from hookgate.hooks.timestamps import utc_text
from hookgate.proxy.observe.logs import escape_controls
from hookgate.translator.fields import JsonObject, is_larger
from hookgate.translator.strictjson import json_identity

MAX_ARGUMENTS = 256 * 1024
"""The largest arguments about which people are asked, in characters of JSON: they have to read them.

Larger ones are neither hashed nor serialized: a client may send many megabytes, and calls of all keys wait
for the thread that asks.
"""

SHORT_ID = 8
"""The digits of an ID that people are shown. More than these lead to a request, too, and at least 4."""

LONGEST_REASON = 300
LONGEST_GRANT = 30 * 24 * 3600
"""Seconds for which tools may be approved by their names."""

_LONGEST_NAME = 200

State = Literal["pending", "approved", "used", "denied", "expired"]
ScopeKind = Literal["once", "session", "tools"]
SCOPES: tuple[ScopeKind, ...] = get_args(ScopeKind)
Way = Literal["panel", "link", "command"]


class DecisionError(ValueError):
    """Raised for a decision that is not possible. The message says why, and what is."""


@dataclass(frozen=True, kw_only=True)
class AskedCall:
    """A tool call about which hooks ask, after all edits: as the agent would run it."""

    key: str
    session: str
    call: str
    """The ID of the call whose answer contains the tool call, or of the event that reports it."""
    team: str
    agent: str
    tool: str
    arguments: JsonObject
    hooks: tuple[str, ...]
    """The names of the hooks that ask."""
    why: str
    """Their reasons."""

    @cached_property
    def is_too_large(self) -> bool:
        """Whether people cannot be asked about it."""
        return is_larger([self.tool, self.arguments], MAX_ARGUMENTS)

    @cached_property
    def digest(self) -> bytes:
        """The SHA-256 of the tool and its arguments: the same if and only if the tool would get the same.

        As everywhere, 1 and 1.0 are one number, and the order of keys has no meaning. Empty for a call that
        is too large, about which there is no request.
        """
        if self.is_too_large:
            return b""
        return sha256(json_identity([self.tool, self.arguments])).digest()


@dataclass(frozen=True, slots=True)
class Scope:
    """What an approval applies to, besides being within its time."""

    kind: ScopeKind = "once"
    """`once`: the call, one time. `session`: the same call in the same session, as often as it is made.
    `tools`: all calls with the same key to the tools of a pattern."""
    tools: str = ""
    """The names of the tools, with wildcards."""
    seconds: int = 0
    """For how long tools are approved."""

    def __str__(self) -> str:
        if self.kind == "tools":
            return f"tools {self.tools} for {self.seconds} seconds"
        return self.kind


ONCE = Scope()


@dataclass(frozen=True, slots=True)
class ApprovalDecision:
    """What one person has decided."""

    approves: bool
    by: str
    """The name of the person."""
    way: Way
    at: int
    reason: str = ""
    scope: Scope = ONCE

    def is_by(self, name: str) -> bool:
        """Return whether the person has this name, in upper or lower case."""
        return self.by.casefold() == name.casefold()


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A request as it is stored. `arguments` is JSON in ASCII; `tool` is as people are shown it."""

    id: str
    key: str
    session: str
    call: str
    team: str
    agent: str
    tool: str
    digest: bytes
    arguments: str
    hooks: tuple[str, ...]
    why: str
    created: int
    expires: int
    persons: int
    state: State = "pending"
    decisions: tuple[ApprovalDecision, ...] = ()
    scope: ScopeKind = "once"
    tools: str = ""

    @classmethod
    def about(
        cls, asked: AskedCall, id_: str, now: int, expires: int, persons: int
    ) -> "ApprovalRequest | None":
        """Return a new request, or None if the arguments are too large to be read by people."""
        arguments = "" if asked.is_too_large else json.dumps(asked.arguments)
        if not 0 < len(arguments) <= MAX_ARGUMENTS:
            return None
        return cls(
            id_,
            asked.key,
            asked.session,
            asked.call,
            asked.team,
            shown_name(asked.agent),
            shown_name(asked.tool),
            asked.digest,
            arguments,
            asked.hooks,
            visible(asked.why[:LONGEST_REASON]),
            now,
            expires,
            persons,
        )

    @property
    def short_id(self) -> str:
        return self.id[:SHORT_ID]

    @property
    def approvals(self) -> tuple[ApprovalDecision, ...]:
        """The approvals that count: those since the last denial."""
        counted: list[ApprovalDecision] = []
        for decision in self.decisions:
            counted = [*counted, decision] if decision.approves else []
        return tuple(counted)

    @property
    def deciders(self) -> list[str]:
        """The names of those who have made the decision."""
        if self.state == "denied":
            return [self.decisions[-1].by]
        return [each.by for each in self.approvals]

    def state_at(self, now: int) -> State:
        """Return the state: one whose time is over and that nobody has denied or used has expired."""
        return "expired" if self.state in ("pending", "approved") and self.expires <= now else self.state

    def after(self, decision: ApprovalDecision) -> "ApprovalRequest":
        """Return the request after a decision. Raises DecisionError."""
        if self.state_at(decision.at) == "expired" or self.expires <= decision.at:
            raise DecisionError(f"The request {self.short_id} expired at {_time(self.expires)}.")
        if self.state == "used":
            raise DecisionError(f"The request {self.short_id} was approved, and the call has been made.")
        decisions = (*self.decisions, decision)
        if not decision.approves:
            if self.state == "denied":
                raise DecisionError(f"The request {self.short_id} was denied by {self.deciders[0]}.")
            return replace(self, state="denied", decisions=decisions)
        self._check_approval(decision)
        if len(self.approvals) + 1 < self.persons:
            return replace(self, state="pending", decisions=decisions)
        scope = decision.scope
        until = decision.at + scope.seconds * 1000 if scope.kind == "tools" else self.expires
        return replace(
            self, state="approved", decisions=decisions, scope=scope.kind, tools=scope.tools, expires=until
        )

    def _check_approval(self, decision: ApprovalDecision) -> None:
        """Raise DecisionError if a person may not approve the request so."""
        scope, earlier = decision.scope, self.approvals
        if self.state == "approved":
            raise DecisionError(f"The request {self.short_id} was approved by {', '.join(self.deciders)}.")
        if any(each.is_by(decision.by) for each in earlier):
            raise DecisionError(f"{decision.by} has approved this request; another person must, too.")
        if earlier and earlier[0].scope != scope:
            raise DecisionError(f"{earlier[0].by} has approved it for: {earlier[0].scope}. Approve the same.")
        if scope.kind != "tools":
            return
        if not self.key:
            raise DecisionError("Tools can only be approved for a key, and this call has none.")
        if not fnmatchcase(self.tool, scope.tools):
            raise DecisionError(f"The names {scope.tools} do not include the tool of this call, {self.tool}.")
        if not 0 < scope.seconds <= LONGEST_GRANT:
            raise DecisionError("Tools can be approved for at most 30 days.")


def check_person(
    own_calls: Literal["allow", "refuse"], decision: ApprovalDecision, request: ApprovalRequest
) -> None:
    """Raise DecisionError if somebody approves a call of their own, and may not."""
    if decision.approves and own_calls == "refuse" and decision.is_by(request.key):
        raise DecisionError(f"{decision.by} may not approve calls of their own key.")


def decision_change(request: ApprovalRequest, decision: ApprovalDecision) -> tuple[str, JsonObject]:
    """Return the name of a decision in the audit, and what it is about."""
    about: JsonObject = {
        "request": request.id,
        "call": request.call,
        "key": request.key,
        "sha256": request.digest.hex(),
        "way": decision.way,
        **({"reason": decision.reason} if decision.reason else {}),
    }
    if not decision.approves:
        return "approvals.deny", about
    return "approvals.approve", {**about, "scope": str(decision.scope)}


def _time(at: int) -> str:
    return utc_text(at / 1000, "seconds")


# ---- what people are shown

_BLANK = re.compile(
    "[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Characters that are invisible although they count as printable."""

_STACKED = r"[\p{Mn}\p{Me}]{5,}"
"""Marks that would cover the lines above or below. No letter of any script has so many."""


def shown_name(text: str) -> str:
    """Return a name on one line as people are shown it, cut if it is long."""
    shown = one_line(text[: _LONGEST_NAME + 1])
    return shown if len(shown) <= _LONGEST_NAME else f"{shown[: _LONGEST_NAME - 1]}…"


def one_line(text: str) -> str:
    """Return a text as people are shown it, with line ends escaped, too."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def visible(text: str) -> str:
    """Return a text in which all that is invisible, or changes other text, is escaped as in JSON."""
    shown = _BLANK.sub(_escaped, text)
    if not shown.isascii():
        shown = compile_pattern(_STACKED).sub(_escaped, shown)
    return escape_controls(shown)


def _escaped(found: re.Match[str]) -> str:
    return json.dumps(found[0])[1:-1]


def shown_arguments(request: ApprovalRequest) -> str:
    """Return the arguments as people are shown them: in JSON, one value a line, all of them visible."""
    return visible(json.dumps(json.loads(request.arguments), indent=2, ensure_ascii=False))


def request_summary(request: ApprovalRequest, now: int) -> JsonObject:
    """Return what everybody may see who may see calls: nothing of the content."""
    state = request.state_at(now)
    return {
        "id": request.id,
        "state": state,
        "key": request.key,
        "team": request.team,
        "session": request.session,
        "agent": request.agent,
        "call": request.call,
        "hooks": list(request.hooks),
        "created": _time(request.created),
        "expires": _time(request.expires),
        "persons": request.persons,
        "approved_by": [each.by for each in request.approvals],
        "scope": request.scope if state in ("approved", "used") else None,
        "tools": request.tools or None,
    }


def request_document(request: ApprovalRequest, now: int) -> JsonObject:
    """Return all that those see who may see the content of calls."""
    return {
        **request_summary(request, now),
        "tool": request.tool,
        "arguments": json.loads(request.arguments),
        "sha256": request.digest.hex(),
        "why": request.why,
        "decisions": [
            {**asdict(each), "at": _time(each.at), "scope": str(each.scope)} for each in request.decisions
        ],
    }


# ---- as rows


def row_of(request: ApprovalRequest) -> dict[str, Any]:
    """Return the columns of a request."""
    row = {name: getattr(request, name) for name in ApprovalRequest.__slots__}
    return {
        **row,
        "hooks": json.dumps(request.hooks),
        "decisions": json.dumps([asdict(each) for each in request.decisions]),
        "pending": _identity(request) if request.state == "pending" else None,
    }


def _identity(request: ApprovalRequest) -> bytes:
    """Return the hash of what identifies the call of a request, by which a second request is prevented."""
    return sha256(json_identity([request.key, request.session, request.digest.hex()])).digest()


def read_row(row: Mapping[str, Any]) -> ApprovalRequest:
    """Return the request in a row."""
    fields = {name: row[name] for name in ApprovalRequest.__slots__}
    return ApprovalRequest(
        **{
            **fields,
            "hooks": tuple(json.loads(row["hooks"])),
            "decisions": _read_decisions(json.loads(row["decisions"])),
        }
    )


def _read_decisions(stored: Sequence[Mapping[str, Any]]) -> tuple[ApprovalDecision, ...]:
    return tuple(ApprovalDecision(**{**each, "scope": Scope(**each["scope"])}) for each in stored)
