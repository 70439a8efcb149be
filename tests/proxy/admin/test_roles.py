"""The permissions of each role for every route of the admin listener, and for the content of its answers."""

import ast
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from support.gateway.approving import now
from support.gateway.loopback import runs
from support.gateway.panel import BEARER, SAME, Paneled, panel_gateway, signed_in
from support.upstream.openid_provider import CLIENT, SECRET, openid_provider
from support.wire import SSE, UNARY, Answer, ask, post, prompt

from hookgate.proxy.admin import listener
from hookgate.proxy.admin.roles import ROUTES, Person, Role, call_for, find_route
from hookgate.proxy.approvals.requests import ApprovalRequest, AskedCall, row_of
from hookgate.proxy.audit.stored import record_body
from hookgate.proxy.store.database import open_approvals, open_audit
from hookgate.proxy.store.models import approvals

COMPLETE = ("POST /api/hooks/switch", "POST /api/alerts/silence", "POST /api/hooks/compare/stop")
"""Changes for which the body of these tests says all that is needed."""
PROMPT, ANSWER, REASON, ARGUMENT, CRASH = (
    f"canary-{name}" for name in ("prompt", "answer", "reason", "argument", "crash")
)
CANARY = b"canary-"
GROUPS: dict[Role, str] = {"viewer": "look", "auditor": "content", "admin": "change"}
SETTINGS = {
    "client_id": CLIENT,
    "client_secret": SECRET,
    "viewers": ["look"],
    "auditors": ["content"],
    "admins": ["change"],
}
CALL = {"functionCall": {"name": "canary-tool", "args": {"path": ARGUMENT}}}
SCRIPT = {"rules": [{"answer": {"parts": [{"text": ANSWER}, CALL]}}]}


def denies(document: dict[str, Any]) -> dict[str, Any]:
    """A hook that quotes what it denies."""
    said = str(document["llm_request"]["messages"])
    return {"decision": "deny", "reason": f"{REASON} in {said}"} if "forbidden" in said else {}


def crashes(document: dict[str, Any]) -> dict[str, Any]:
    """A hook whose error quotes what it read."""
    raise ValueError(f"{CRASH} {document['llm_request']['messages']}")


def blocks(_: dict[str, Any]) -> dict[str, Any]:
    """A hook that blocks every tool."""
    return {"decision": "deny", "reason": REASON}


HOOKS = {
    "BeforeModel": [runs(denies, name="guard"), {**runs(crashes, name="broken"), "on_error": "allow"}],
    "AfterModel": [{**runs(crashes, name="watch"), "mode": "observe"}],
    "BeforeTool": [runs(blocks, name="block")],
}


@asynccontextmanager
async def roles(folder: Path) -> AsyncIterator[tuple[Paneled, dict[str, dict[str, str]], list[str]]]:
    """A gateway after some calls, the headers of a browser for each role, and the IDs of the calls."""
    async with (
        openid_provider() as provider,
        panel_gateway(
            folder,
            HOOKS,
            SCRIPT,
            alerts={"rules": [{"name": "denials"}]},
            approvals={"mode": "ticket", "role": "auditor"},
            audit={"content": "full"},
            sign_in={"issuer": provider.issuer, **SETTINGS},
        ) as gateway,
    ):
        browsers = {}
        for role, group in GROUPS.items():
            provider.person = {"groups": group, "sub": f"the-{role}"}
            browsers[role] = await signed_in(gateway)
        sent = {"x-goog-api-key": "k", "x-hookgate-session": "s"}
        made = [
            await post(gateway.url, path, prompt(text), sent)
            for path, text in ((UNARY, PROMPT), (SSE, PROMPT), (UNARY, f"{PROMPT} forbidden"))
        ]
        calls = [answer.headers["x-hookgate-receipt"] for answer in made]
        for call in calls:
            ask_about(folder / "state", call)
        listed: list[Any] = []
        while len(listed) < len(calls):  # the audit writes the ends of calls behind them
            listed = (await ask(gateway.admin, "GET", "/api/calls", BEARER)).json["calls"]
        yield gateway, browsers, calls


def ask_about(state: Path, id_: str) -> None:
    """Store a request for an approval with this ID, and with content."""
    call = AskedCall(
        key="k",
        session=id_,
        call=id_,
        team="web",
        agent="agent",
        tool="canary-tool",
        arguments={"path": ARGUMENT},
        hooks=("block",),
        why=REASON,
    )
    request = ApprovalRequest.about(call, id_, now(), now() + 3_600_000, 1)
    assert request
    with closing(open_approvals(None, state)) as database, database.engine.begin() as connection:
        connection.execute(approvals.insert().values(row_of(request)))


async def live(gateway: Paneled, headers: Mapping[str, str]) -> bytes:
    """The first live event after another call, whatever it tells."""
    url = f"{gateway.admin}/api/live"
    kept = {name: headers[name] for name in headers if name != "Content-Type"}
    async with aiohttp.ClientSession() as client, client.get(url, headers=kept) as answer:
        if answer.status != 200:
            return await answer.read()
        await post(gateway.url, UNARY, prompt(f"{PROMPT} forbidden"), {"x-goog-api-key": "k"})
        data = b""
        while data.count(b"event: ") < 2 or not data.endswith(b"\n\n"):
            data += await answer.content.readany()
        return data


async def tried(gateway: Paneled, route: str, call: str, headers: Mapping[str, str]) -> Answer:
    """The answer to a request for a route."""
    method, path = route.split(" ")
    path = path.replace("/panel/NAME", "/panel/main.js").replace("NAME", call)
    if method == "POST":
        body = {"name": "guard", "on": True, "rule": "denials", "seconds": 0}
        return await post(gateway.admin, path, body, dict(headers))
    return await ask(gateway.admin, method, path, dict(headers))


@pytest.mark.parametrize(("role", "seen"), [("viewer", False), ("auditor", True), ("admin", True)])
def test_viewers_do_not_see_where_something_was_found(role: Role, seen: bool) -> None:
    hook = {
        "event": "BeforeModel",
        "findings": {"EMAIL": 1},
        "found": [{"kind": "EMAIL", "hash": "HG_EMAIL_0"}],
    }
    [shown] = call_for(Person("anna", role), {"outcome": "answered", "hooks": [hook]})["hooks"]
    assert shown["findings"] == {"EMAIL": 1}
    assert ("found" in shown) is seen
    assert call_for(Person("anna", role), {"outcome": None}) == {"outcome": None}


async def test_every_route_is_for_its_role_and_those_above(tmp_path: Path) -> None:
    async with roles(tmp_path) as (gateway, browsers, calls):
        ranks = [None, *GROUPS]
        for route, needed in ROUTES.items():
            for at, role in enumerate(ranks):
                if route == "GET /api/live" or needed is None:
                    continue
                answer = await tried(gateway, route, calls[0], browsers[role] if role else SAME)
                allowed = at >= ranks.index(needed)
                refusal = 401 if role is None else 403
                done = 200 if route.startswith("GET") or route in COMPLETE else 400
                assert answer.status == (done if allowed else refusal), (route, role, answer.body)
        assert b"sign in" in await live(gateway, SAME)
        assert "POST /api/hooks/switch" in ROUTES
        refused = await tried(gateway, "POST /api/hooks/switch", "", browsers["auditor"])
        message = "This needs the role admin. Your role is auditor."
        assert refused.error["message"] == message


def test_every_route_that_is_served_has_a_role() -> None:
    """A route that is in no table is not served; those of the listener are texts in its code."""
    tree = ast.parse(Path(listener.__file__).read_text())
    paths = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("/")
    }
    assert {find_route("GET", path)[0] for path in paths} == {
        "GET /healthz",
        "GET /readyz",
        "GET /metrics",
        "GET /receipts/NAME",
    }


async def test_the_panel_has_a_handler_for_each_route_and_no_other(tmp_path: Path) -> None:
    async with panel_gateway(tmp_path) as gateway:
        routes = set(gateway.panel.handlers)
    assert routes == set(ROUTES) - {"GET /healthz", "GET /readyz", "GET /metrics", "GET /receipts/NAME"}
    assert {route for route, role in ROUTES.items() if role is None and route.startswith("POST")} == {
        "POST /api/sign-in",
        "POST /api/sign-in/begin",
        "POST /api/sign-in/finish",
        "POST /api/sign-out",
        "POST /approvals/NAME",
    }
    changes = {route for route in ROUTES if route.startswith("POST") and ROUTES[route] is not None}
    others = {"POST /api/hooks/try", "POST /api/hooks/compare", "POST /api/hooks/compare/stop"}
    others |= {"POST /api/approvals"}  # `approvals.role` may ask for more
    assert {route: ROUTES[route] for route in changes if ROUTES[route] != "admin"} == dict.fromkeys(
        others, "auditor"
    )


async def test_viewers_see_no_content_anywhere(tmp_path: Path) -> None:
    async with roles(tmp_path) as (gateway, browsers, calls):
        seen: dict[str, bytes] = {}
        for role, browser in browsers.items():
            answers = [
                await tried(gateway, route, call, browser)
                for route in ROUTES
                for call in calls
                if route.startswith("GET") and route != "GET /api/live"
            ]
            for kind in ("csv", "jsonl"):
                answers.append(await ask(gateway.admin, "GET", f"/api/calls?format={kind}", browser))
                assert answers[-1].status == 200
            found = b"".join(answer.body for answer in answers)
            seen[role] = found + await live(gateway, browser)
        assert CANARY not in seen["viewer"]
        for role in ("auditor", "admin"):
            for text in (PROMPT, ANSWER, ARGUMENT, REASON, CRASH, "canary-tool"):
                assert text.encode() in seen[role], (role, text)
        call = (await ask(gateway.admin, "GET", f"/api/calls/{calls[2]}", browsers["viewer"])).json
        assert (call["facts"]["outcome"], call["content"]) == ("denied", None)
        assert [hook["decisions"] for hook in call["facts"]["hooks"]] == [{"deny": 1}, {"allow": 1}]


async def test_a_change_is_on_record_with_who_made_it(tmp_path: Path) -> None:
    async with roles(tmp_path) as (gateway, browsers, _):
        switch = {"name": "guard", "on": False}
        assert (await post(gateway.admin, "/api/hooks/switch", switch, browsers["viewer"])).status == 403
        assert (await post(gateway.admin, "/api/hooks/switch", switch, browsers["admin"])).status == 200
    database = open_audit(None, tmp_path / "state", writes=False)
    with database.engine.begin() as connection:
        rows = connection.exec_driver_sql("SELECT body FROM audit_records WHERE type = 'event'").all()
    database.close()
    changes = [body for body in (record_body(row[0]) for row in rows) if body["event"] == "change"]
    about = {"hook": "guard", "on": False, "subject": "the-admin"}
    assert changes == [{"event": "change", "change": "hooks.switch", "by": "the-admin", **about}]


async def test_a_change_that_cannot_be_recorded_is_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with panel_gateway(tmp_path, HOOKS, audit={"deadline": 0.2}) as gateway:
        before = gateway.settings.read_text()
        monkeypatch.setattr("hookgate.proxy.audit.ledger.Ledger.write", _fails)
        answer = await post(
            gateway.admin, "/api/hooks/switch", {"name": "guard", "on": False}, {**SAME, **BEARER}
        )
        assert (answer.status, answer.error["details"][0]["reason"]) == (403, "AUDIT_UNAVAILABLE")
        assert gateway.settings.read_text() == before
        monkeypatch.undo()


def _fails(*_: Any) -> Any:
    raise OSError("the disk is full")


@pytest.mark.parametrize(("own", "may"), [("viewer", 1), ("auditor", 2), ("admin", 3)])
def test_a_role_includes_those_below(own: Role, may: int) -> None:
    assert [role for role in GROUPS if Person("x", own).may(role)] == list(GROUPS)[:may]


@pytest.mark.parametrize(
    ("method", "path", "route"),
    [
        ("HEAD", "/api/hooks", "GET /api/hooks"),
        ("GET", "/api/calls/x", "GET /api/calls/NAME"),
        ("GET", "/api/calls", "GET /api/calls"),
        ("GET", "/api/hooks/", None),
        ("GET", "//api/hooks", None),
        ("GET", "/api/HOOKS", None),
        ("GET", "/api/hooks/switch", None),
        ("POST", "/api/hooks", None),
        ("DELETE", "/api/hooks", None),
        ("GET", "/api/policy%2f..", None),
    ],
)
def test_which_requests_are_for_which_route(method: str, path: str, route: str | None) -> None:
    assert find_route(method, path)[0] == route
