"""The approvals in the panel: requests, decisions of people who are signed in, and the pages of links.

What a model has written is shown as text: escaped, and with all that is invisible or changes the direction of
text made visible.
"""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from urllib.parse import parse_qsl

from aiohttp import hdrs, web

from hookgate.proxy.admin.acting import Action
from hookgate.proxy.admin.roles import Person
from hookgate.proxy.approvals.links import Link, LinkError, Links
from hookgate.proxy.approvals.requests import (
    LONGEST_REASON,
    ApprovalDecision,
    ApprovalRequest,
    DecisionError,
    Scope,
    ScopeKind,
    Way,
    check_person,
    decided_change,
    request_document,
    request_summary,
    shown_arguments,
    visible,
)
from hookgate.proxy.approvals.table import ApprovalTable
from hookgate.proxy.config import ApprovalSettings
from hookgate.proxy.errors import ApiError
from hookgate.proxy.server.bodies import read_bytes
from hookgate.translator.fields import JsonObject

_LISTED = 200
_SHOWN_AT_FIRST = 4000
"""Characters of arguments on the page of a link before the reader has all of them shown."""

_FIELDS = 10
"""The most fields of the form that a link's page sends."""

_NO_REQUEST = "There is no such request: its ID is unknown, or it was removed."


def _now() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class LinkAnswer:
    """A decision that was sent with the form of a link, and whose it is."""

    person: str
    action: Action


class ApprovalPanel:
    """The requests, and who may decide. Every coroutine may raise StoreError."""

    def __init__(self, settings: ApprovalSettings, table: ApprovalTable, links: Links | None) -> None:
        """`links` reads the links of people, if anybody gets some."""
        self._settings, self._table, self._links = settings, table, links

    # ---- what is shown

    async def pending(self) -> int:
        """Return how many requests wait for a decision."""
        return await asyncio.to_thread(self._table.pending, _now())

    async def rows(self, person: Person) -> JsonObject:
        """Return the latest requests, as far as a person may see them."""
        now = _now()
        found = await asyncio.to_thread(lambda: self._table.latest(_LISTED, with_arguments=False))
        shown = request_document if person.sees_content else request_summary
        rows = [
            {name: value for name, value in shown(each, now).items() if name != "arguments"} for each in found
        ]
        return {"requests": rows, "decides": person.may(self._settings.role)}

    async def one(self, person: Person, id_: str) -> JsonObject:
        """Return a request with its arguments. Raises ApiError (404)."""
        request = await self._find(id_)
        return {
            **request_document(request, _now()),
            "shown": shown_arguments(request),
            "decides": person.may(self._settings.role),
        }

    async def _find(self, id_: str) -> ApprovalRequest:
        request = await asyncio.to_thread(self._table.find, id_)
        if request is None:
            raise ApiError(404, _NO_REQUEST)
        return request

    # ---- decisions of people who are signed in

    async def plan(self, body: JsonObject, person: Person) -> Action:
        """Return the decision that the body of a request asks for. Raises ApiError."""
        if not person.may(self._settings.role):
            role = self._settings.role
            raise ApiError(403, f"This needs the role {role}. Your role is {person.role}.")
        id_, approves = body.get("id"), body.get("approve")
        if not isinstance(id_, str) or not isinstance(approves, bool):
            raise ApiError(400, "approvals requires `id`, and `approve`: true or false")
        request = await self._find(id_)
        decision = _decision(body, person.name, "panel", approves=approves)
        return self._action(request, decision)

    def _action(self, request: ApprovalRequest, decision: ApprovalDecision) -> Action:
        """Return the change that a decision makes. Raises ApiError (409) if it is not possible."""
        try:
            self._check(request, decision)
            request.decided(decision)
        except DecisionError as error:
            raise ApiError(409, str(error)) from None

        async def make() -> JsonObject:
            try:
                new = await asyncio.to_thread(
                    self._table.decide, request.id, decision, lambda found: self._check(found, decision)
                )
            except DecisionError as error:
                raise ApiError(409, str(error)) from None
            return request_document(new, _now())

        return Action(*decided_change(request, decision), make)

    def _check(self, request: ApprovalRequest, decision: ApprovalDecision) -> None:
        """Raise DecisionError if somebody approves a call of their own, and may not."""
        check_person(self._settings.own_calls, request, decision)

    # ---- pages of links

    async def page(self, token: str) -> web.Response:
        """Return the page of a link: a form, if its person can still decide. It changes nothing."""
        try:
            link, request = await self._read(token)
        except LinkError as error:
            return _page(str(error), status=403)
        if used := _used(link, request):
            return _page(used, request)
        return _page(f"{link.person}, do you approve this call?", request, form=True)

    async def answer(self, token: str, decided: Mapping[str, str]) -> LinkAnswer:
        """Return what the form of a link's page asks for. Raises LinkError, or ApiError."""
        link, found = await self._read(token)
        word = decided.get("decision")
        if word not in ("approve", "deny"):
            raise LinkError("The form was not sent completely. Open the link again.")
        if used := _used(link, found):
            raise LinkError(used)
        body = {"reason": decided.get("reason", "").strip(), "scope": decided.get("scope", "once")}
        decision = _decision(body, link.person, "link", approves=word == "approve")
        return LinkAnswer(link.person, self._action(found, decision))

    async def _read(self, token: str) -> tuple[Link, ApprovalRequest]:
        if self._links is None:
            raise LinkError("Nobody decides with links at this gateway.")
        link = self._links.read(token, _now())
        request = await asyncio.to_thread(self._table.find, link.request)
        if request is None:
            raise LinkError(_NO_REQUEST)
        return link, request


def _decision(body: JsonObject, by: str, way: Way, *, approves: bool) -> ApprovalDecision:
    """Return the decision in a body. Raises ApiError (400)."""
    reason, tools, seconds = body.get("reason", ""), body.get("tools", ""), body.get("seconds", 0)
    kinds: dict[object, ScopeKind] = {"once": "once", "session": "session", "tools": "tools"}
    kind = kinds.get(body.get("scope", "once"))
    if not isinstance(reason, str) or len(reason) > LONGEST_REASON or not (reason.isprintable()):
        raise ApiError(400, f"reason: must be a text of at most {LONGEST_REASON} characters, on one line")
    if kind is None:
        raise ApiError(400, "scope: must be once, session or tools")
    if kind != "tools":
        return ApprovalDecision(approves, by, way, _now(), reason, Scope(kind))
    if not isinstance(tools, str) or not 0 < len(tools) <= 100 or not tools.isprintable():
        raise ApiError(400, "tools: must be names of tools, with wildcards, such as send_*")
    if type(seconds) is not int:
        raise ApiError(400, "seconds: must be a whole number")
    return ApprovalDecision(approves, by, way, _now(), reason, Scope(kind, tools, seconds))


def _used(link: Link, request: ApprovalRequest) -> str:
    """Return why the person of a link does not decide any more, or an empty string."""
    match request.state_at(_now()):
        case "pending":
            has_approved = any(each.is_by(link.person) for each in request.approvals)
            return "You have approved this call. Another person must, too." if has_approved else ""
        case "denied":
            return f"This call was denied by {request.deciders[0]}."
        case "expired":
            return "This request has expired. If the call is made again, people are asked again."
        case state:
            made = ", and has been made" if state == "used" else ""
            return f"This call was approved by {', '.join(request.deciders)}{made}."


# ---- HTML

_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    hdrs.CACHE_CONTROL: "no-store",
    hdrs.CONTENT_TYPE: "text/html; charset=utf-8",
}

_FORM = """<form method="post">
<p><label>For <select name="scope">
<option value="once">this call, once</option>
<option value="session">the same call in this session</option>
</select></label></p>
<p><label>Reason <input name="reason" maxlength="300"></label></p>
<p><button name="decision" value="approve">Approve</button>
<button name="decision" value="deny">Deny</button></p>
</form>"""


def link_page(message: str, *, status: int = 200) -> web.Response:
    """Return a page that only says something."""
    return _page(message, status=status)


def _page(
    message: str, request: ApprovalRequest | None = None, *, form: bool = False, status: int = 200
) -> web.Response:
    """Return a page. Everything in it that is not of this module is escaped."""
    about = "" if request is None else _about(request)
    body = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="robots" content="noindex"><title>Approval · hookgate</title>'
        '<link rel="stylesheet" href="../panel/base.css"><link rel="stylesheet" href="../panel/parts.css">'
        f"</head><body><main><h1>{escape(visible(message))}</h1>{about}"
        f"{_FORM if form else ''}</main></body></html>"
    )
    return web.Response(status=status, body=body.encode(errors="replace"), headers=_HEADERS)


def _about(request: ApprovalRequest) -> str:
    facts = {
        "Tool": request.tool,
        "Key": request.key or "none",
        "Team": request.team,
        "Agent": request.agent,
        "Session": request.session,
        "Hooks that ask": ", ".join(request.hooks),
        "Their reason": request.why,
        "Request": request.id,
    }
    rows = "".join(
        f"<div><dt>{name}</dt><dd>{escape(visible(value))}</dd></div>"
        for name, value in facts.items()
        if value
    )
    return f'<dl class="facts">{rows}</dl><h2>Arguments</h2>{_arguments(shown_arguments(request))}'


def _arguments(shown: str) -> str:
    if len(shown) <= _SHOWN_AT_FIRST:
        return _text(shown)
    return (
        f"<p><strong>The first {_SHOWN_AT_FIRST:,} of {len(shown):,} characters. Read all before you decide."
        f"</strong></p>{_text(shown[:_SHOWN_AT_FIRST] + '…')}"
        f"<details><summary>Show all {len(shown):,} characters</summary>{_text(shown)}</details>"
    )


def _text(shown: str) -> str:
    return f'<pre class="wrapped">{escape(shown)}</pre>'


async def read_form(request: web.BaseRequest) -> dict[str, str]:
    """Return the fields of a form. Raises ApiError."""
    data = await read_bytes(request)
    try:
        return dict(parse_qsl(data.decode(errors="replace"), max_num_fields=_FIELDS))
    except ValueError:
        raise ApiError(400, "The form has too many fields. Open the link again.") from None
