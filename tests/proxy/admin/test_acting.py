"""What an admin does about a call, from the panel: it takes effect, and is on record with who did it."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from support.gateway.keys import id_of, issue, key_table, revoke
from support.gateway.loopback import write_settings
from support.gateway.panel import BEARER, Paneled, panel_gateway
from support.gateway.pushed import document, hook, policy_table
from support.wire import UNARY, Answer, ask, post, prompt

from hookgate.proxy.audit.stored import walk_records
from hookgate.proxy.policy import PushedPolicy
from hookgate.proxy.policy.table import PolicyRevision
from hookgate.proxy.store.database import open_audit

CHANGES = {"X-Hookgate-Panel": "1", **BEARER}
ISSUING = {"issued_keys": True}
FOUND = "HG_EMAIL_0123456789abcdef"
POLICY = document(
    BeforeModel=hook("guard", "redact", action="mask"), AfterModel=hook("other", "redact", action="mask")
)


async def act(gateway: Paneled, route: str, **body: Any) -> Answer:
    return await post(gateway.admin, f"/api/{route}", body, CHANGES)


def changes_in(state: Path) -> list[dict[str, Any]]:
    """The changes on record, without what is the same for all."""
    database = open_audit(None, state, writes=False)
    try:
        records = [stored.record for page in walk_records(database.engine.begin) for stored in page]
    finally:
        database.close()
    return [record.body for record in records if record.body.get("event") == "change"]


async def test_the_key_of_a_call_is_revoked(tmp_path: Path) -> None:
    key_id = id_of(issue(tmp_path / "state"))
    async with panel_gateway(tmp_path, audit={}, clients=ISSUING) as gateway:
        done = await act(gateway, "keys/revoke", id=key_id)
        again = await act(gateway, "keys/revoke", id=key_id)
        unknown = await act(gateway, "keys/revoke", id="aaaaaaaaaa")
    assert (done.status, again.status, unknown.status) == (200, 409, 404)
    with key_table(tmp_path / "state") as table:
        assert [stored.revoked is not None for stored in table.all()] == [True]
    [change] = changes_in(tmp_path / "state")
    assert (change["change"], change["by"], change["key"]) == ("keys.revoke", "admin token", key_id)
    assert (change["owner"], change["team"]) == ("alice", "search")


async def test_a_gateway_without_issued_keys_says_how_a_key_is_removed(tmp_path: Path) -> None:
    async with panel_gateway(tmp_path) as gateway:
        answer = await act(gateway, "keys/revoke", id="aaaaaaaaaa")
    assert (answer.status, "from [keys] in hookgate.toml" in answer.error["message"]) == (400, True)


async def call(gateway: Paneled, text: str) -> Answer:
    headers = {"x-goog-api-key": "k", "x-hookgate-session": "s-1"}
    return await post(gateway.url, UNARY, prompt(text), headers)


async def test_the_session_of_a_call_is_stopped_also_for_its_next_turns(tmp_path: Path) -> None:
    hooks = {"BeforeModel": [hook("models", allow=["*"])]}
    async with panel_gateway(tmp_path, hooks, audit={}) as gateway:
        assert (await call(gateway, "one")).status == 200
        key = await key_of_calls(gateway)
        done = await act(gateway, "sessions/stop", session="s-1", key=key, reason="Ask Ada.")
        stopped = [await call(gateway, text) for text in ("two", "three")]
        other = await post(
            gateway.url, UNARY, prompt("hi"), {"x-goog-api-key": "k", "x-hookgate-session": "s-2"}
        )
    assert (done.status, other.status) == (200, 200)
    texts = [answer.json["candidates"][0]["content"]["parts"][0]["text"] for answer in stopped]
    assert texts == ["Ask Ada.", "Ask Ada."]  # in place of an answer of the model
    assert b"Ask Ada." not in other.body
    [change] = changes_in(tmp_path / "state")
    about = {name: change[name] for name in ("change", "by", "session", "key", "reason")}
    assert about == {
        "change": "sessions.stop",
        "by": "admin token",
        "session": "s-1",
        "key": key,
        "reason": "Ask Ada.",
    }


async def key_of_calls(gateway: Paneled) -> str:
    """The name of the key of the first call, once the panel shows it."""
    async with asyncio.timeout(30):
        while True:
            found = (await ask(gateway.admin, "GET", "/api/calls", BEARER)).json
            if found["calls"]:
                return str(found["calls"][0]["key"])
            await asyncio.sleep(0.05)


def push(state: Path, text: str) -> None:
    with policy_table(state) as table:
        newest = table.newest()
        parent = table.find(newest.number) if newest else None
        table.add(PolicyRevision.after(parent, text, "ops", ""))


def newest_policy(state: Path) -> tuple[Any, PolicyRevision]:
    with policy_table(state) as table:
        name = table.newest()
        assert name is not None
        revision = table.find(name.number)
    assert revision is not None
    return json.loads(revision.document), revision


@pytest.mark.parametrize(
    ("route", "body", "changed"),
    [
        pytest.param(
            "policy/allow",
            {"hash": FOUND, "hook": "guard"},
            {"options": {"action": "mask", "allow": [FOUND]}},
            id="a finding stays",
        ),
        pytest.param("policy/hook", {"hook": "guard", "state": "observe"}, {"mode": "observe"}, id="observe"),
    ],
)
async def test_the_pushed_policy_is_changed_for_one_hook(
    route: str, body: dict[str, Any], changed: dict[str, Any], tmp_path: Path
) -> None:
    state = tmp_path / "state"
    push(state, POLICY)
    with policy_table(state) as table:
        async with panel_gateway(tmp_path, audit={}, pushed=PushedPolicy(table)) as gateway:
            done = await act(gateway, route, **body)
            again = await act(gateway, route, **body)
    assert (done.status, again.status) == (200, 409), (done.body, again.body)
    policy, revision = newest_policy(state)
    before = json.loads(POLICY)["hooks"]
    assert policy["hooks"]["BeforeModel"][0]["hooks"] == [{**before["BeforeModel"][0]["hooks"][0], **changed}]
    assert policy["hooks"]["AfterModel"] == before["AfterModel"]
    assert (revision.number, revision.parent, revision.pushed_by) == (2, 1, "admin token")
    [change] = changes_in(state)
    assert (change["change"], change["by"], change["number"]) == ("policy.push", "admin token", 2)
    assert "guard" in change["message"]


async def test_a_hook_of_the_pushed_policy_is_switched_off_and_on(tmp_path: Path) -> None:
    state = tmp_path / "state"
    push(state, POLICY)
    with policy_table(state) as table:
        async with panel_gateway(tmp_path, pushed=PushedPolicy(table)) as gateway:
            assert (await act(gateway, "policy/hook", hook="guard", state="off")).status == 200
            assert newest_policy(state)[0]["hooksConfig"] == {"disabled": ["guard"]}
            assert (await act(gateway, "policy/hook", hook="guard", state="enforce")).status == 200
            assert newest_policy(state)[0]["hooksConfig"] == {"disabled": []}
            assert (await act(gateway, "policy/hook", hook="nobody", state="off")).status == 409


async def test_a_push_meanwhile_is_not_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = tmp_path / "state"
    push(state, POLICY)
    with policy_table(state) as table:
        pushed = PushedPolicy(table)
        read = pushed.read_newest
        monkeypatch.setattr(pushed, "read_newest", lambda: (read(), push(state, POLICY + "\n"))[0])
        async with panel_gateway(tmp_path, pushed=pushed) as gateway:
            answer = await act(gateway, "policy/hook", hook="guard", state="observe")
    assert (answer.status, "meanwhile" in answer.error["message"]) == (409, True)
    assert newest_policy(state)[1].document == POLICY + "\n"


@pytest.mark.parametrize(
    ("route", "body", "remedy"),
    [
        ("policy/allow", {"hash": FOUND, "hook": "guard"}, f"Run hookgate redact allow {FOUND} --name guard"),
        ("policy/hook", {"hook": "guard", "state": "observe"}, '"mode": "observe" in the file of'),
        ("policy/hook", {"hook": "guard", "state": "off"}, "to hooksConfig.disabled in the file of"),
    ],
)
async def test_a_policy_in_files_is_not_changed_and_the_answer_says_how(
    route: str, body: dict[str, Any], remedy: str, tmp_path: Path
) -> None:
    async with panel_gateway(tmp_path, audit={}) as gateway:
        answer = await act(gateway, route, **body)
    assert (answer.status, remedy in answer.error["message"]) == (400, True), answer.error
    assert changes_in(tmp_path / "state") == []


@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("keys/revoke", {"id": 5}),
        ("sessions/stop", {"session": "s-1"}),
        ("sessions/stop", {"session": "s-1", "key": "k", "reason": "x" * 501}),
        ("sessions/stop", {"session": "a\nb", "key": "k"}),
        ("policy/allow", {"hash": "an email", "hook": "guard"}),
        ("policy/hook", {"hook": "guard", "state": "deleted"}),
    ],
)
async def test_what_makes_no_sense_is_refused(route: str, body: dict[str, Any], tmp_path: Path) -> None:
    issue(tmp_path / "state")
    async with panel_gateway(tmp_path, clients=ISSUING) as gateway:
        assert (await act(gateway, route, **body)).status == 400


async def test_a_change_that_cannot_be_recorded_is_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = issue(tmp_path / "state")
    async with panel_gateway(tmp_path, audit={"deadline": 0.2}, clients=ISSUING) as gateway:
        monkeypatch.setattr("hookgate.proxy.audit.journal.os.fdatasync", fails)
        answer = await act(gateway, "keys/revoke", id=id_of(key))
        monkeypatch.undo()
    assert answer.status == 403
    revoke(tmp_path / "state", key)  # it was not


def fails(_: int) -> None:
    raise OSError(28, "No space left on device")


async def recorded_call(gateway: Paneled, text: str) -> str:
    answer = await call(gateway, text)
    return answer.headers["x-hookgate-receipt"]


DENIES = {"BeforeModel": [hook("guard", "models", deny=["*"], reason="No models today.")]}


@pytest.mark.parametrize("only", [{}, {"hook": "guard"}])
async def test_hooks_are_tried_on_a_recorded_call(only: dict[str, str], tmp_path: Path) -> None:
    async with panel_gateway(tmp_path, audit={"content": "full"}) as gateway:
        receipt = await recorded_call(gateway, "hi")
        write_settings(tmp_path, DENIES)
        await gateway.reloader.reload()
        tried = await act(gateway, "hooks/try", id=receipt, **only)
    assert tried.status == 200, tried.body
    assert tried.json["outcome"] == {"was": "answered", "now": "denied"}
    [decided] = tried.json["hooks"]
    assert decided == {"event": "BeforeModel", "hook": "guard", "was": None, "now": "deny"}
    assert "No models today." in json.dumps(tried.json["reasons"])
    [change] = [each for each in changes_in(tmp_path / "state") if each["change"] == "hooks.try"]
    assert (change["by"], change["receipt"], change.get("hook")) == ("admin token", receipt, only.get("hook"))


async def test_a_trial_changes_no_count_of_a_limit(tmp_path: Path) -> None:
    limited = {
        "BeforeModel": [hook("limits", "limits", rules=[{"per": "key", "window": "day", "requests": 2}])]
    }
    async with panel_gateway(tmp_path, limited, audit={"content": "full"}, store=True) as gateway:
        receipt = await recorded_call(gateway, "hi")
        for _ in range(3):
            assert (await act(gateway, "hooks/try", id=receipt)).json["outcome"]["now"] == "answered"
        assert (await call(gateway, "hi")).status == 200


@pytest.mark.parametrize(
    ("content", "body", "status", "said"),
    [
        ("off", {}, 409, "The content of this call is not stored"),
        ("full", {"hook": "nobody"}, 404, "There is no hook 'nobody' that is on."),
        ("full", {"id": "f" * 32}, 404, "There is no such call in the audit"),
        ("full", {"id": "x"}, 400, "id: must be the ID of a call's receipt"),
    ],
)
async def test_a_trial_that_is_not_possible_says_why(
    content: str, body: dict[str, str], status: int, said: str, tmp_path: Path
) -> None:
    async with panel_gateway(tmp_path, audit={"content": content}) as gateway:
        receipt = await recorded_call(gateway, "hi")
        answer = await act(gateway, "hooks/try", **{"id": receipt, **body})
    assert answer.status == status
    assert said in answer.error["message"]
