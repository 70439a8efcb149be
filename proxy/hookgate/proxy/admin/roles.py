"""Who may use which route of the admin listener, and which facts about calls are content."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from hookgate.proxy.errors import ApiError
from hookgate.translator.fields import JsonObject

Role = Literal["viewer", "auditor", "admin"]
"""Viewers see everything but content, auditors also see it and run hooks on it, and admins make changes."""

_RANKS: dict[Role, int] = {"viewer": 1, "auditor": 2, "admin": 3}


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who is signed in. `name` is recorded with changes."""

    name: str
    role: Role
    subject: str = ""
    """The claim `sub`, which identifies the person at the provider; empty for holders of the admin token."""

    def may(self, role: Role) -> bool:
        """Return True if this role allows what `role` allows."""
        return _RANKS[self.role] >= _RANKS[role]

    @property
    def sees_content(self) -> bool:
        return self.may("auditor")


class UnknownPersonError(ApiError):
    """Raised for a person whom the identity provider knows, but who has no role."""

    def __init__(self, message: str, subject: str) -> None:
        super().__init__(403, message)
        self.subject = subject


TOKEN_HOLDER = Person("admin token", "admin")

ROUTES: Mapping[str, Role | None] = {
    "GET /healthz": None,
    "GET /readyz": None,
    "GET /metrics": None,
    "GET /": None,
    "GET /sign-in": None,
    "GET /panel/NAME": None,
    "GET /receipts/NAME": "viewer",
    "GET /api/session": None,
    "GET /api/overview": "viewer",
    "GET /api/hooks": "viewer",
    "GET /api/traffic": "viewer",
    "GET /api/policy": "viewer",
    "GET /api/calls": "viewer",
    "GET /api/report": "viewer",
    "GET /api/budgets": "viewer",
    "GET /api/words": "viewer",
    "GET /api/changes": "viewer",
    "GET /api/alerts": "viewer",
    "GET /api/approvals": "viewer",
    "GET /api/approvals/NAME": "auditor",
    "POST /api/approvals": "auditor",
    "GET /approvals/NAME": None,
    "POST /approvals/NAME": None,
    "GET /api/refused": "auditor",
    "GET /api/calls/NAME": "viewer",
    "GET /api/sessions": "viewer",
    "GET /api/live": "viewer",
    "POST /api/sign-in": None,
    "POST /api/sign-in/begin": None,
    "POST /api/sign-in/finish": None,
    "POST /api/sign-out": None,
    "POST /api/hooks/switch": "admin",
    "POST /api/alerts/silence": "admin",
    "POST /api/keys/revoke": "admin",
    "POST /api/sessions/stop": "admin",
    "POST /api/policy/allow": "admin",
    "POST /api/policy/hook": "admin",
    "POST /api/hooks/try": "auditor",
    "GET /api/hooks/compare": "auditor",
    "POST /api/hooks/compare": "auditor",
    "POST /api/hooks/compare/stop": "auditor",
}
"""All routes of the admin listener with the role that they need; those with None are open to everyone.

A route that is not listed here is not served. Routes for viewers leave content out for them.
"""

_FOLDERS = ("/panel/", "/receipts/", "/approvals/", "/api/calls/", "/api/approvals/")


def find_route(method: str, path: str) -> tuple[str | None, str]:
    """Return the route of a request, or None, and the last part of its path if the route has a NAME."""
    method = "GET" if method == "HEAD" else method
    for folder in _FOLDERS:
        if path.startswith(folder):
            path, name = f"{folder}NAME", path.removeprefix(folder)
            break
    else:
        name = ""
    route = f"{method} {path}"
    return (route if route in ROUTES else None), name


_CONTENT_OF_CALLS = frozenset({"reasons", "blocked", "refused"})
"""The fields of receipts that may quote content."""

_CONTENT_OF_ROWS = frozenset({"reason", "blocked"})
"""The fields of a call in a list that may quote content."""

_CONTENT_OF_RUNS = frozenset({"found"})
"""The fields of hooks in receipts that name parts of the content."""

_CONTENT_OF_HOOKS = frozenset({"last_error", "last_warning"})
"""The fields of hooks that may quote content, because hooks read it."""


def call_for(person: Person, facts: JsonObject) -> JsonObject:
    """Return the facts of a call or its receipt as far as a person may see them."""
    if person.sees_content:
        return facts
    shown = {name: value for name, value in facts.items() if name not in _CONTENT_OF_CALLS}
    if "hooks" in shown:
        shown["hooks"] = [
            {name: value for name, value in hook.items() if name not in _CONTENT_OF_RUNS}
            for hook in shown["hooks"]
        ]
    return shown


def row_for(person: Person, row: JsonObject) -> JsonObject:
    """Return a call of a list as far as a person may see it."""
    if person.sees_content:
        return row
    return {name: value for name, value in row.items() if name not in _CONTENT_OF_ROWS}


def document_for(person: Person, document: JsonObject) -> JsonObject:
    """Return a call with the bodies of its records, as a line of JSON, as far as a person may see it."""
    if person.sees_content:
        return document
    bodies = {name: call_for(person, document[name] or {}) for name in ("body", "start")}
    return {**row_for(person, document), **bodies}


def hooks_for(person: Person, answer: JsonObject) -> JsonObject:
    """Return an answer with `hooks`, the rows of hooks, as far as a person may see them."""
    if person.sees_content:
        return answer
    rows = [
        {name: "" if name in _CONTENT_OF_HOOKS else value for name, value in row.items()}
        for row in answer["hooks"]
    ]
    return {**answer, "hooks": rows}
