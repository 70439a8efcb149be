"""The panel shows the rules of alerts with what fires, and silences them; both are on record."""

from pathlib import Path
from typing import Any

import aiohttp
from support.gateway.audits import reading
from support.gateway.panel import BEARER, Paneled, panel_gateway
from support.operating.receivers import SECRET

from hookgate.proxy.alerts.states import AlertChanges, AlertId, Firing
from hookgate.proxy.alerts.table import AlertTable
from hookgate.proxy.store.database import open_alerts

ALERTS = {
    "rules": [{"name": "denials", "query": "outcome:denied", "by": "team", "over": 2}],
    "receivers": [{"name": "ops", "url": "http://127.0.0.1:9/", "secret": SECRET}],
}


async def ask(gateway: Paneled, path: str, body: Any = None) -> tuple[int, Any]:
    headers = {**BEARER, "X-Hookgate-Panel": "1"}
    method = "GET" if body is None else "POST"
    async with (
        aiohttp.ClientSession(headers=headers) as client,
        client.request(method, f"{gateway.admin}/api/{path}", json=body) as answer,
    ):
        return answer.status, await answer.json()


def fire(state: Path) -> None:
    """Store an alert that fires, as the gateway that evaluates the rules does."""
    table = AlertTable(open_alerts(None, state), "g")
    assert table.take_lease(1)
    firing = Firing(AlertId("denials", ("web",), 100), 1_777_672_800_000, 7.0)
    assert table.apply({}, 0, lambda *_: AlertChanges([firing], [], []))
    table.close()


async def test_the_api_lists_rules_and_silences_them(tmp_path: Path) -> None:
    async with panel_gateway(tmp_path, alerts=ALERTS, audit={}) as gateway:
        fire(tmp_path / "state")
        status, answer = await ask(gateway, "alerts")
        assert status == 200
        [rule] = answer["rules"]
        assert (rule["rule"], rule["state"], rule["since"]) == ("denials", "firing", "2026-05-01T22:00:00Z")
        [alert] = rule["alerts"]
        assert (alert["group"], alert["value"], alert["told"]) == ({"team": "web"}, 7.0, False)
        assert rule["receivers"] == [{"name": "ops", "last": None, "result": None, "error": ""}]
        status, answer = await ask(gateway, "alerts/silence", {"rule": "denials", "seconds": 7200})
        assert status == 200
        assert answer["rules"][0]["silenced_by"] == "admin token"
        status, answer = await ask(gateway, "alerts/silence", {"rule": "denials", "seconds": 0})
        assert (status, answer["rules"][0]["silenced_until"]) == (200, None)
    with reading(tmp_path / "state") as reader:
        changes = [each.body for each in reader.changes_at([1, 2])]
    assert [(each["change"], each["by"], each.get("seconds")) for each in changes] == [
        ("alerts.silence", "admin token", 7200),
        ("alerts.unsilence", "admin token", None),
    ]


async def test_a_wrong_silence_is_refused_and_not_recorded(tmp_path: Path) -> None:
    wrong = [
        ({"rule": "denial", "seconds": 1}, "rule: must be one of denials"),
        ({"rule": ["denials"], "seconds": 1}, "rule: must be one of denials"),
        ({"rule": "denials"}, "seconds: must be a whole number from 0 to 7776000"),
        ({"rule": "denials", "seconds": True}, "seconds: must be"),
        ({"rule": "denials", "seconds": 10**9}, "seconds: must be"),
    ]
    async with panel_gateway(tmp_path, alerts=ALERTS, audit={}) as gateway:
        for body, message in wrong:
            status, answer = await ask(gateway, "alerts/silence", body)
            assert (status, message in answer["error"]["message"]) == (400, True), answer
        assert (await ask(gateway, "alerts"))[1]["rules"][0]["silenced_until"] is None
    with reading(tmp_path / "state") as reader:
        assert "alerts" not in str(reader.changes_at([*range(5)]))


async def test_without_rules_there_is_nothing_to_show_or_to_silence(tmp_path: Path) -> None:
    async with panel_gateway(tmp_path) as gateway:
        assert await ask(gateway, "alerts") == (200, {"rules": []})
        status, _ = await ask(gateway, "alerts/silence", {"rule": "denials", "seconds": 1})
        assert status == 404
    assert not (tmp_path / "state" / "alerts.db").exists()
