"""The approvals at the admin listener: requests, and decisions of people who are signed in or have a link."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from aiohttp import web

from hookgate.proxy.admin.acting import Action
from hookgate.proxy.admin.approval_pages import link_page
from hookgate.proxy.admin.roles import Person
from hookgate.proxy.approvals.links import Link, LinkError, Links
from hookgate.proxy.approvals.requests import (
    LONGEST_REASON,
    SCOPES,
    ApprovalDecision,
    ApprovalRequest,
    DecisionError,
    Scope,
    Way,
    check_person,
    decision_change,
    request_document,
    request_summary,
    shown_arguments,
)
from hookgate.proxy.approvals.table import ApprovalTable
from hookgate.proxy.config import ApprovalSettings
from hookgate.proxy.errors import ApiError
from hookgate.translator.fields import JsonObject

_LISTED = 200
CheckRequest = Callable[[ApprovalRequest], None]
"""Raises DecisionError if a request may not be decided so."""

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
        return self._action(request, decision, self._check(decision))

    def _check(self, decision: ApprovalDecision) -> CheckRequest:
        """Return what raises DecisionError if somebody approves a call of their own, and may not."""
        return partial(check_person, self._settings.own_calls, decision)

    def _action(self, request: ApprovalRequest, decision: ApprovalDecision, check: CheckRequest) -> Action:
        """Return the change that a decision makes. Raises ApiError (409) if it is not possible."""
        try:
            check(request)
            request.after(decision)
        except DecisionError as error:
            raise ApiError(409, str(error)) from None

        async def make() -> JsonObject:
            try:
                new = await asyncio.to_thread(self._table.decide, request.id, decision, check)
            except DecisionError as error:
                raise ApiError(409, str(error)) from None
            return request_document(new, _now())

        return Action(*decision_change(request, decision), make)

    # ---- pages of links

    async def page(self, token: str) -> web.Response:
        """Return the page of a link: a form, if its person can still decide. It changes nothing."""
        try:
            link, request = await self._read(token)
        except LinkError as error:
            return link_page(str(error), status=403)
        if used := _why_closed(link, request):
            return link_page(used, request)
        return link_page(f"{link.person}, do you approve this call?", request, form=True)

    async def answer(self, token: str, decided: Mapping[str, str]) -> LinkAnswer:
        """Return what the form of a link's page asks for. Raises LinkError, or ApiError."""
        link, found = await self._read(token)
        word = decided.get("decision")
        if word not in ("approve", "deny"):
            raise LinkError("The form was not sent completely. Open the link again.")
        if used := _why_closed(link, found):
            raise LinkError(used)

        def check(request: ApprovalRequest) -> None:
            if used := _why_closed(link, request):  # somebody has decided at the same moment
                raise DecisionError(used)
            self._check(decision)(request)

        body = {"reason": decided.get("reason", "").strip(), "scope": decided.get("scope", "once")}
        decision = _decision(body, link.person, "link", approves=word == "approve")
        return LinkAnswer(link.person, self._action(found, decision, check))

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
    kind = body.get("scope", "once")
    if not isinstance(reason, str) or len(reason) > LONGEST_REASON or not (reason.isprintable()):
        raise ApiError(400, f"reason: must be a text of at most {LONGEST_REASON} characters, on one line")
    if kind not in SCOPES:
        raise ApiError(400, "scope: must be once, session or tools")
    if kind != "tools":
        return ApprovalDecision(approves, by, way, _now(), reason, Scope(kind))
    if not isinstance(tools, str) or not 0 < len(tools) <= 100 or not tools.isprintable():
        raise ApiError(400, "tools: must be names of tools, with wildcards, such as send_*")
    if type(seconds) is not int:
        raise ApiError(400, "seconds: must be a whole number")
    return ApprovalDecision(approves, by, way, _now(), reason, Scope(kind, tools, seconds))


def _why_closed(link: Link, request: ApprovalRequest) -> str:
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
