"""People decide in the panel, and with links; both are on record before they have an effect."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from support.gateway.approving import ASKS, asked_call, now
from support.gateway.audits import reading
from support.gateway.life import until
from support.gateway.loopback import runs
from support.gateway.panel import BEARER, Paneled, panel_gateway, signed_in
from support.operating.receivers import SECRET, ReceivedAlerts, receiving_alerts, status
from support.upstream.openid_provider import CLIENT, openid_provider
from support.upstream.openid_provider import SECRET as CLIENT_SECRET
from support.wire import KEY, UNARY, post, prompt

from hookgate.proxy.approvals.links import Links
from hookgate.proxy.approvals.requests import ApprovalRequest
from hookgate.proxy.approvals.table import ApprovalTable
from hookgate.proxy.store.database import open_approvals

Json = dict[str, Any]
HOUR = 3_600_000
EVIL = "<script>alert(1)</script>\u202e\u200b\"'&"
ADA = {"name": "ada@example.com", "receiver": "ada"}
PEOPLE = {
    "people": [ADA, {"name": "bob", "receiver": "bob"}],
    "receivers": ["team"],
    "secret": SECRET,
    "url": "https://panel.example.com/tools",
}
SCRIPT = {"rules": [{"answer": {"parts": [{"functionCall": {"name": "send_mail", "args": {"to": EVIL}}}]}}]}


def receivers(*running: ReceivedAlerts) -> Json:
    """Receivers with the names of the people and of the team, at one address or at none."""
    urls = [each.url for each in running] or ["http://127.0.0.1:9/"] * 3
    names = ("ada", "bob", "team")
    return {
        "receivers": [
            {"name": name, "url": url, "secret": SECRET} for name, url in zip(names, urls * 3, strict=False)
        ]
    }


@contextmanager
def table_in(folder: Path) -> Iterator[ApprovalTable]:
    table = ApprovalTable(open_approvals(None, folder / "state"))
    try:
        yield table
    finally:
        table.close()


def request_in(folder: Path, persons: int = 1, key: str = "alice", **arguments: Any) -> ApprovalRequest:
    with table_in(folder) as table:
        made = table.ask([asked_call(key=key, **arguments)], now(), HOUR, persons)[0].request
    assert made
    return made


async def api(gateway: Paneled, path: str, body: Any = None, headers: Any = BEARER) -> tuple[int, Any]:
    method = "GET" if body is None else "POST"
    async with (
        aiohttp.ClientSession(headers={"X-Hookgate-Panel": "1", **headers}) as client,
        client.request(method, f"{gateway.admin}/api/{path}", json=body) as answer,
    ):
        return answer.status, await answer.json()


async def open_link(gateway: Paneled, token: str, form: Json | None = None) -> tuple[int, str, Any]:
    method = "GET" if form is None else "POST"
    async with (
        aiohttp.ClientSession() as client,
        client.request(method, f"{gateway.admin}/approvals/{token}", data=form) as answer,
    ):
        return answer.status, await answer.text(), answer.headers


def decisions_on_record(folder: Path) -> list[Json]:
    with reading(folder / "state") as reader:
        found = [each.body for each in reader.changes_at([*range(9)])]
    return [each for each in found if str(each.get("change")).startswith("approvals.")]


def token_of(request: ApprovalRequest, person: str = "bob", secret: str = SECRET) -> str:
    return Links(secret, (person,), "https://x").url_for(request, person).rpartition("/")[2]


# ---- the panel


async def test_a_request_is_listed_shown_and_decided_and_that_is_on_record(tmp_path: Path) -> None:
    async with panel_gateway(tmp_path, approvals={"mode": "ticket"}, audit={}) as gateway:
        request = request_in(tmp_path, to=EVIL)
        code, listed = await api(gateway, "approvals")
        assert (code, listed["decides"]) == (200, True)
        [row] = listed["requests"]
        assert (row["id"], row["tool"], row["state"]) == (request.id, "send_mail", "pending")
        assert "arguments" not in row
        assert (await api(gateway, "overview"))[1]["approvals_pending"] == 1
        _, one = await api(gateway, f"approvals/{request.short_id}")
        assert one["arguments"] == {"to": EVIL}
        assert r"\u202e" in one["shown"]
        decided = {"id": request.id, "approve": True, "reason": "fine", "scope": "session"}
        code, new = await api(gateway, "approvals", decided)
        assert (code, new["state"], new["approved_by"]) == (200, "approved", ["admin token"])
        code, answer = await api(gateway, "approvals", decided)
        assert (code, "was approved by admin token" in answer["error"]["message"]) == (409, True)
        assert (await api(gateway, "overview"))[1]["approvals_pending"] == 0
    [change] = decisions_on_record(tmp_path)
    assert (change["change"], change["by"], change["way"]) == ("approvals.approve", "admin token", "panel")
    assert (change["request"], change["scope"], change["reason"]) == (request.id, "session", "fine")
    assert change["sha256"] == request.digest.hex()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "requires `id`"),
        ({"id": "ID", "approve": "yes"}, "requires `id`"),
        ({"id": "ID", "approve": True, "scope": "ever"}, "scope: must be"),
        ({"id": "ID", "approve": True, "scope": ["once"]}, "scope: must be"),
        ({"id": ["ID"], "approve": True}, "requires `id`"),
        ({"id": "ID", "approve": True, "reason": "a\nb"}, "reason: must be"),
        ({"id": "ID", "approve": True, "reason": "x" * 301}, "reason: must be"),
        ({"id": "ID", "approve": True, "scope": "tools", "tools": "", "seconds": 60}, "tools: must be"),
        (
            {"id": "ID", "approve": True, "scope": "tools", "tools": "send_*", "seconds": "1"},
            "seconds: must be",
        ),
        ({"id": "ID", "approve": True, "scope": "tools", "tools": "read", "seconds": 60}, "do not include"),
        ({"id": "f" * 32, "approve": True}, "There is no such request"),
    ],
)
async def test_a_wrong_decision_is_refused_and_not_recorded(body: Json, message: str, tmp_path: Path) -> None:
    async with panel_gateway(tmp_path, approvals={"mode": "ticket"}, audit={}) as gateway:
        request = request_in(tmp_path)
        sent = {**body, **({"id": request.id} if body.get("id") == "ID" else {})}
        code, answer = await api(gateway, "approvals", sent)
        assert code in (400, 404, 409)
        assert message in answer["error"]["message"]
        with table_in(tmp_path) as table:
            assert table.pending(now()) == 1
    assert decisions_on_record(tmp_path) == []


async def test_nobody_decides_without_the_token_or_from_another_page(tmp_path: Path) -> None:
    async with panel_gateway(tmp_path, approvals={"mode": "ticket"}) as gateway:
        request = request_in(tmp_path)
        body = {"id": request.id, "approve": True}
        assert (await api(gateway, "approvals", body, {}))[0] == 401
        assert (await api(gateway, "approvals", body, {"Authorization": "Bearer wrong"}))[0] == 401
        foreign = {**BEARER, "Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
        assert (await api(gateway, "approvals", body, foreign))[0] == 403
        for path in ("/api/approvals", f"/approvals/{token_of(request)}"):
            assert (await post(gateway.url, path, body, BEARER)).status in (403, 404)
        with table_in(tmp_path) as table:
            assert table.pending(now()) == 1


async def test_a_holder_of_the_token_is_one_of_two_persons(tmp_path: Path) -> None:
    async with panel_gateway(tmp_path, approvals={"mode": "ticket", "persons": 2}) as gateway:
        request = request_in(tmp_path, persons=2)
        body = {"id": request.id, "approve": True}
        assert (await api(gateway, "approvals", body))[1]["state"] == "pending"
        code, answer = await api(gateway, "approvals", body)
        assert (code, "another person must" in answer["error"]["message"]) == (409, True)


@pytest.mark.parametrize(("role", "codes"), [("admin", [403, 403, 200]), ("auditor", [403, 200, 200])])
async def test_the_role_that_decides_is_configured(role: str, codes: list[int], tmp_path: Path) -> None:
    sign_in = {
        "client_id": CLIENT,
        "client_secret": CLIENT_SECRET,
        "viewers": ["look"],
        "auditors": ["content"],
        "admins": ["change"],
    }
    async with openid_provider() as provider:
        sections = {"issuer": provider.issuer, **sign_in}
        async with panel_gateway(
            tmp_path, approvals={"mode": "ticket", "role": role}, sign_in=sections
        ) as gateway:
            found = []
            for group in ("look", "content", "change"):
                request = request_in(tmp_path, to=group)
                provider.person = {"groups": group, "sub": f"the-{group}"}
                headers = await signed_in(gateway)
                code, listed = await api(gateway, "approvals", None, headers)
                assert (code, "tool" in listed["requests"][0]) == (200, group != "look")
                code, _ = await api(gateway, f"approvals/{request.id}", None, headers)
                assert code == (403 if group == "look" else 200)
                body = {"id": request.id, "approve": True}
                found.append((await api(gateway, "approvals", body, headers))[0])
    assert found == codes


async def test_a_gateway_without_approvals_has_none(tmp_path: Path) -> None:
    async with panel_gateway(tmp_path) as gateway:
        assert (await api(gateway, "approvals"))[1] == {"requests": [], "decides": False}
        assert (await api(gateway, "approvals", {"id": "x", "approve": True}))[0] == 404
        assert (await open_link(gateway, "x.y"))[0] == 404
        assert not (tmp_path / "state" / "approvals.db").exists()


# ---- links


@asynccontextmanager
async def linked(folder: Path, **settings: Any) -> AsyncIterator[Paneled]:
    approvals = {"mode": "ticket", **PEOPLE, **settings}
    async with panel_gateway(folder, approvals=approvals, alerts=receivers(), audit={}) as gateway:
        yield gateway


async def test_a_link_shows_the_call_and_only_its_form_decides(tmp_path: Path) -> None:
    async with linked(tmp_path) as gateway:
        request = request_in(tmp_path, to=EVIL)
        token = token_of(request)
        for _ in range(3):  # a preview, and the person
            code, page, headers = await open_link(gateway, token)
            assert (code, "bob, do you approve this call?" in page) == (200, True)
        with table_in(tmp_path) as table:
            assert table.pending(now()) == 1
        assert "<script>alert" not in page
        assert "&lt;script&gt;alert(1)&lt;/script&gt;\\u202e\\u200b" in page
        assert "script-src" not in headers["Content-Security-Policy"]
        assert "form-action 'self'" in headers["Content-Security-Policy"]
        assert (headers["Cache-Control"], headers["Referrer-Policy"]) == ("no-store", "no-referrer")
        code, page, _ = await open_link(gateway, token, {"decision": "approve", "reason": "fine"})
        assert (code, "was approved by bob" in page) == (200, True)
    [change] = decisions_on_record(tmp_path)
    assert (change["change"], change["by"], change["way"]) == ("approvals.approve", "bob", "link")


async def test_a_link_is_used_once(tmp_path: Path) -> None:
    async with linked(tmp_path) as gateway:
        request = request_in(tmp_path)
        token = token_of(request)
        await open_link(gateway, token, {"decision": "deny"})
        for form, expected in ((None, 200), ({"decision": "approve"}, 403), ({"decision": "deny"}, 403)):
            code, page, _ = await open_link(gateway, token, form)
            assert (code, "was denied by bob" in page, "<form" in page) == (expected, True, False)
        with table_in(tmp_path) as table:
            found = table.find(request.id)
        assert found
        assert [each.approves for each in found.decisions] == [False]


async def test_of_two_answers_of_one_link_at_the_same_moment_one_counts(tmp_path: Path) -> None:
    async with linked(tmp_path) as gateway:
        for number in range(5):
            request = request_in(tmp_path, n=number)
            token = token_of(request)
            forms = ({"decision": "deny"}, {"decision": "approve"}, {"decision": "deny"})
            await asyncio.gather(*(open_link(gateway, token, form) for form in forms))
            with table_in(tmp_path) as table:
                found = table.find(request.id)
            assert found
            assert len(found.decisions) == 1


async def test_links_of_two_persons_are_needed_if_two_must_approve(tmp_path: Path) -> None:
    async with linked(tmp_path, persons=2) as gateway:
        request = request_in(tmp_path, persons=2)
        for _ in range(2):
            code, page, _ = await open_link(gateway, token_of(request), {"decision": "approve"})
        assert (code, "Another person must" in page) == (403, True)
        assert "Another person must" in (await open_link(gateway, token_of(request)))[1]
        _, page, _ = await open_link(gateway, token_of(request, "ada@example.com"), {"decision": "approve"})
        assert "was approved by bob, ada@example.com" in page


async def test_forged_links_are_refused_with_a_page(tmp_path: Path) -> None:
    other = "whsec_" + "A" * 44
    async with linked(tmp_path) as gateway:
        request = request_in(tmp_path)
        good = token_of(request)
        said, signature = good.split(".")
        forged = [
            token_of(request, secret=other),
            token_of(request, "carol"),
            said,
            f"{said}.",
            f".{signature}",
            "x" * 5000,
        ]
        for token in forged:
            for form in (None, {"decision": "approve"}):
                code, page, headers = await open_link(gateway, token, form)
                assert code == 403, token
                assert "<h1>" in page
                assert headers["Content-Type"].startswith("text/html")
        many = {f"field-{n}": "x" for n in range(50)}
        assert (await open_link(gateway, good, many))[0] == 400
        code, page, _ = await open_link(gateway, good, {"decision": "yes"})
        assert (code, "not sent completely" in page) == (403, True)
        with table_in(tmp_path) as table:
            assert table.pending(now()) == 1


async def test_a_removed_request_and_an_expired_one_have_a_page(tmp_path: Path) -> None:
    async with linked(tmp_path) as gateway:
        with table_in(tmp_path) as table:
            made = table.ask([asked_call()], now() - 2 * HOUR, HOUR, 1)[0].request
        assert made
        code, page, _ = await open_link(gateway, token_of(made))
        assert (code, "has expired" in page) == (403, True)
        request = request_in(tmp_path, to="x")
        with table_in(tmp_path) as table:
            table.sweep(now() + 100 * 24 * HOUR, 1)
        assert "no such request" in (await open_link(gateway, token_of(request)))[1]


async def test_nobody_approves_calls_of_their_own_key_if_that_is_refused(tmp_path: Path) -> None:
    async with linked(tmp_path, own_calls="refuse") as gateway:
        request = request_in(tmp_path, key="Bob")
        code, page, _ = await open_link(gateway, token_of(request), {"decision": "approve"})
        assert (code, "may not approve calls of their own key" in page) == (409, True)
        code, _, _ = await open_link(gateway, token_of(request, "ada@example.com"), {"decision": "approve"})
        assert code == 200


async def test_long_arguments_are_visibly_cut_and_wholly_there(tmp_path: Path) -> None:
    long = "x" * 5000 + "the end"
    async with linked(tmp_path) as gateway:
        _, page, _ = await open_link(gateway, token_of(request_in(tmp_path, to=long)))
    assert "The first 4,000 of" in page
    [details] = re.findall(r"<details>.*?</details>", page, re.DOTALL)
    assert "the end" in details
    assert page.count("the end") == 1


# ---- receivers


async def test_receivers_are_told_once_with_their_links_and_without_arguments(tmp_path: Path) -> None:
    async with receiving_alerts() as ada, receiving_alerts() as bob, receiving_alerts() as team:
        bob.answer = status(404)
        approvals = {"mode": "ticket", **PEOPLE}
        async with panel_gateway(
            tmp_path,
            {"BeforeTool": [ASKS]},
            SCRIPT,
            approvals=approvals,
            alerts=receivers(ada, bob, team),
            audit={},
        ) as gateway:
            for _ in range(2):
                await post(gateway.url, UNARY, prompt("send it"), {**KEY, "x-hookgate-session": "s"})
            await until(lambda: ada.bodies and bob.bodies and team.bodies)
            [document] = ada.documents
            data = document["data"]
            assert document["type"] == "approval.requested"
            assert (data["tool"], data["session"], data["hooks"]) == ("send_mail", "s", ["asks"])
            assert "script" not in json.dumps(ada.documents + team.documents)
            link = data["link"]
            assert link.startswith("https://panel.example.com/tools/approvals/")
            assert team.documents[0]["data"]["link"] == (
                f"https://panel.example.com/tools/#/approvals/{data['request']}"
            )
            assert team.documents[0]["data"]["link"] != link != bob.documents[0]["data"]["link"]
            _, page, _ = await open_link(gateway, link.rpartition("/")[2], {"decision": "approve"})
            assert "was approved by ada@example.com" in page
        assert [len(each.bodies) for each in (ada, bob, team)] == [1, 1, 1]


async def test_a_tool_whose_name_is_markup_is_told_as_text(tmp_path: Path) -> None:
    name = "<!channel>\u202e*b*\n" + "x" * 500
    script = {"rules": [{"answer": {"parts": [{"functionCall": {"name": name, "args": {}}}]}}]}
    asks = runs(lambda _: {"decision": "ask"})
    async with receiving_alerts() as ada, receiving_alerts() as bob, receiving_alerts() as team:
        async with panel_gateway(
            tmp_path,
            {"BeforeTool": [asks]},
            script,
            approvals={"mode": "ticket", **PEOPLE},
            alerts=receivers(ada, bob, team),
        ) as gateway:
            await post(gateway.url, UNARY, prompt("go"), KEY)
            await until(lambda: team.bodies)
        told = team.documents[0]["data"]["tool"]
    assert told.isprintable()
    assert told.startswith(r"<!channel>\u202e*b*\n")
    assert len(told) == 200


async def test_a_gateway_that_stops_tries_once_more_to_tell_people(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with receiving_alerts() as ada, receiving_alerts() as bob, receiving_alerts() as team:
        team.answer = bob.answer = status(503)
        async with panel_gateway(
            tmp_path,
            {"BeforeTool": [ASKS]},
            SCRIPT,
            approvals={"mode": "ticket", **PEOPLE},
            alerts=receivers(ada, bob, team),
        ) as gateway:
            await post(gateway.url, UNARY, prompt("send it"), KEY)
            await until(lambda: bob.bodies and team.bodies)
            team.answer = None
    assert len(ada.bodies) == 1
    assert min(len(bob.bodies), len(team.bodies)) >= 2
    assert team.headers[0]["webhook-id"] == team.headers[1]["webhook-id"]
    assert "the receiver bob was not told: Approval needed" in caplog.text
    assert "the receiver team was not told" not in caplog.text
