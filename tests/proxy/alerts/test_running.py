"""Receivers are told once that an alert fires and once that it is over, whatever happens meanwhile."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.gateway.audits import entries_of, record_of
from support.gateway.databases import drop, postgres
from support.gateway.indexed import Indexed, indexed_audit
from support.gateway.life import until
from support.operating.receivers import (
    SECRET,
    ReceivedAlerts,
    never,
    receiving_alerts,
    status,
)

from hookgate.hooks import SessionContext
from hookgate.proxy.alerts import receivers, running, states, table
from hookgate.proxy.alerts.rules import read_alert_rules
from hookgate.proxy.alerts.running import Alerting, open_alerting
from hookgate.proxy.alerts.showing import show_alerts
from hookgate.proxy.alerts.table import AlertTable
from hookgate.proxy.config import AlertSettings
from hookgate.proxy.store.database import open_alerts

DENIALS = {"name": "denials", "query": "outcome:denied", "by": "team", "over": 2, "within": "60s"}
TROUBLE = {"name": "audit", "trouble": "audit"}
FIRES, OVER = ("firing", "denials", {"team": "web"}), ("resolved", "denials", {"team": "web"})


class Clock:
    """The clock of the gateways. Tests set it forward, so that a busy machine has all of a window's time."""

    def __init__(self) -> None:
        self._ahead = 0

    def now(self) -> int:
        return time.time_ns() // 1_000_000 + self._ahead

    def end_windows(self) -> None:
        """Have all calls so far leave the windows of rules."""
        self._ahead += 60_000


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(running, "_now", clock.now)
    return clock


@pytest.fixture(autouse=True)
def short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "_PAUSE", 0.1)
    monkeypatch.setattr(running, "_SHARE", 1)
    monkeypatch.setattr(running, "_LEASE_SECONDS", 3.0)
    monkeypatch.setattr(states, "CALM_MILLISECONDS", 200)
    monkeypatch.setattr(table, "_FIRST_PAUSE", 50)
    monkeypatch.setattr(receivers, "SEND_SECONDS", 1.0)


@dataclass(frozen=True)
class Place:
    """Where alerts are evaluated: an audit with its index, and its database."""

    audit: Indexed
    state: Path
    url: str | None

    def deny(self, calls: int, *, age: int = 0, team: str = "web", reason: str = "") -> None:
        """Record denied calls that ended some milliseconds ago, and index them."""
        for _ in range(calls):
            now = time.time_ns()
            record = record_of(0, id=f"{now:032x}", outcome="denied", session=SessionContext("s", team=team))
            record.reasons = {"BeforeModel": reason}
            self.audit.add(*(each._replace(at=running._now() - age) for each in entries_of(record)))
        assert self.audit.index.update(60)

    @contextmanager
    def table(self) -> Iterator[AlertTable]:
        opened = AlertTable(open_alerts(self.url, self.state))
        try:
            yield opened
        finally:
            opened.close()

    def list_alerts(self, settings: AlertSettings) -> list[Any]:
        with self.table() as opened:
            return list(show_alerts(read_alert_rules(settings), opened))


@contextmanager
def place_in(database: str, state: Path) -> Iterator[Place]:
    if database == "sqlite":
        with indexed_audit(state, 0) as audit:
            yield Place(audit, state, None)
        return
    with postgres() as url, indexed_audit(state, 0, url) as audit:
        yield Place(audit, state, url)


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with place_in(request.param, tmp_path) as place:
        yield place


@pytest.fixture
def in_file(tmp_path: Path) -> Iterator[Place]:
    with place_in("sqlite", tmp_path) as place:
        yield place


def settings_of(*rules: dict[str, Any], **to: ReceivedAlerts) -> AlertSettings:
    listed = [{"name": name, "url": each.url, "secret": SECRET} for name, each in to.items()]
    return AlertSettings.model_validate({"rules": rules, "receivers": listed})


@asynccontextmanager
async def alerting(
    place: Place,
    settings: AlertSettings,
    gateway: str = "g1",
    trouble: Callable[[], str | None] = lambda: None,
) -> AsyncIterator[Alerting]:
    async with open_alerting(settings, place.url, place.state, gateway, trouble) as running_alerts:
        yield running_alerts


async def test_a_rule_fires_once_and_recovers_once(place: Place, clock: Clock) -> None:
    async with receiving_alerts() as ops:
        settings = settings_of(DENIALS, ops=ops)
        async with alerting(place, settings) as alerts:
            place.deny(2)
            place.deny(9, team="search", age=60_000)
            await asyncio.sleep(0.3)
            assert ops.messages == [], "two are not more than two, and the others were too long ago"
            place.deny(1)
            await until(lambda: ops.messages)
            await until(lambda: alerts.firing == {"denials": 1})
            [shown] = place.list_alerts(settings)
            assert shown["state"] == "firing"
            assert shown["alerts"][0]["group"] == {"team": "web"}
            clock.end_windows()
            await until(lambda: len(ops.messages) == 2)
            await asyncio.sleep(0.5)
            assert ops.messages == [FIRES, OVER]
            assert alerts.firing == {"denials": 0}
            [shown] = place.list_alerts(settings)
            assert (shown["state"], shown["receivers"][0]["result"]) == ("ok", "delivered")
            assert alerts.results == {("ops", "delivered"): 2}


async def test_a_restart_repeats_nothing_and_forgets_nothing(place: Place, clock: Clock) -> None:
    async with receiving_alerts() as ops:
        settings = settings_of(DENIALS, ops=ops)
        async with alerting(place, settings):
            place.deny(3)
            await until(lambda: ops.messages)
        async with alerting(place, settings):
            await asyncio.sleep(0.5)
            assert ops.messages == [FIRES]
        clock.end_windows()  # it recovers while no gateway runs
        async with alerting(place, settings):
            await until(lambda: len(ops.messages) == 2)
            await asyncio.sleep(0.3)
        assert ops.messages == [FIRES, OVER]


async def test_what_a_gateway_could_not_deliver_the_next_one_does(place: Place) -> None:
    async with receiving_alerts() as ops:
        settings = settings_of(DENIALS, ops=ops)
        ops.answer = status(503)
        async with alerting(place, settings):
            place.deny(3)
            await until(lambda: ops.messages)
        failed = len(ops.messages)
        ops.answer = None
        async with alerting(place, settings):
            await until(lambda: len(ops.messages) > failed)
        assert {headers["webhook-id"] for headers in ops.headers[: failed + 1]} == {
            ops.headers[0]["webhook-id"]
        }


@pytest.mark.e2e
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
async def test_no_rule_fires_twice_for_three_gateways(database: str, tmp_path: Path, clock: Clock) -> None:
    with place_in(database, tmp_path) as place:
        async with receiving_alerts() as ops, AsyncExitStack() as stack:
            settings = settings_of(DENIALS, ops=ops)
            gateways = [alerting(place, settings, f"g{number}") for number in range(3)]
            running_alerts = [await stack.enter_async_context(each) for each in gateways]
            for round_ in range(3):
                place.deny(3)
                place.deny(3, team="search")
                await until(lambda: len(ops.messages) == 4 * round_ + 2)  # noqa: B023  # it is awaited here
                assert sum(bool(each.firing) for each in running_alerts) == 1
                clock.end_windows()
                await until(lambda: len(ops.messages) == 4 * round_ + 4)  # noqa: B023  # see above
            await asyncio.sleep(0.5)
            for team in ("web", "search"):
                states_of_team = [state for state, _, group in ops.messages if group == {"team": team}]
                assert states_of_team == ["firing", "resolved"] * 3
            assert len({headers["webhook-id"] for headers in ops.headers}) == 12


async def test_another_gateway_takes_over(place: Place, clock: Clock) -> None:
    async with receiving_alerts() as ops, AsyncExitStack() as stack:
        settings = settings_of(DENIALS, ops=ops)
        first = AsyncExitStack()
        await first.enter_async_context(alerting(place, settings, "g1"))
        second = await stack.enter_async_context(alerting(place, settings, "g2"))
        place.deny(3)
        await until(lambda: ops.messages)
        assert second.firing == {}
        await first.aclose()
        clock.end_windows()
        await until(lambda: len(ops.messages) == 2)
        assert ops.messages == [FIRES, OVER]
        assert second.firing == {"denials": 0}


@pytest.mark.parametrize("answer", [status(500), never], ids=["500", "silent"])
async def test_a_bad_receiver_delays_no_other_and_is_tried_again(
    answer: Any, in_file: Place, clock: Clock
) -> None:
    async with receiving_alerts() as bad, receiving_alerts() as good:
        settings = settings_of(DENIALS, bad=bad, good=good)
        bad.answer = answer
        async with alerting(in_file, settings) as alerts:
            in_file.deny(3)
            await until(lambda: good.messages)
            clock.end_windows()
            await until(lambda: len(good.messages) == 2)
            assert good.messages == [FIRES, OVER]
            await until(lambda: alerts.results.get(("bad", "failed"), 0) >= 2)
            [shown] = in_file.list_alerts(settings)
            [of_bad] = [each for each in shown["receivers"] if each["name"] == "bad"]
            assert of_bad["result"] == "waiting"
            bad.answer = None
            await until(lambda: alerts.results.get(("bad", "delivered")) == 2)
        assert {told[0] for told in bad.messages[:-1]} == {"firing"}, "what comes later waits"
        assert bad.messages[-1] == OVER
        assert alerts.results["good", "delivered"] == 2


@pytest.mark.parametrize("code", [302, 307, 400, 410])
async def test_what_a_receiver_refuses_is_not_repeated_and_nothing_follows_a_redirect(
    code: int, in_file: Place, clock: Clock
) -> None:
    async with receiving_alerts() as ops, receiving_alerts() as elsewhere:
        settings = settings_of(DENIALS, ops=ops)
        ops.answer = status(code, Location=elsewhere.url)
        async with alerting(in_file, settings):
            in_file.deny(3)
            await until(lambda: ops.messages)
            clock.end_windows()
            await until(lambda: len(ops.messages) == 2)
            await asyncio.sleep(0.3)
        assert ops.messages == [FIRES, OVER]
        assert elsewhere.bodies == []
        [shown] = in_file.list_alerts(settings)
        [told] = shown["receivers"]
        assert (told["result"], told["error"]) == ("failed", f"answered with the status {code}")


async def test_nothing_of_the_content_of_calls_is_told(in_file: Place) -> None:
    async with receiving_alerts() as ops:
        rule = {**DENIALS, "query": "outcome:denied reason:canary"}
        async with alerting(in_file, settings_of(rule, ops=ops)):
            in_file.deny(3, reason="the canary-0815 is secret")
            await until(lambda: ops.messages)
        assert b"canary-0815" not in b"".join(ops.bodies)


async def test_nobody_is_told_during_a_silence(in_file: Place) -> None:
    def silence(milliseconds: int) -> None:
        with in_file.table() as alerts:
            alerts.silence("denials", time.time_ns() // 1_000_000 + milliseconds, "ada")

    async with receiving_alerts() as ops:
        settings = settings_of(DENIALS, ops=ops)
        silence(600_000)
        async with alerting(in_file, settings):
            in_file.deny(3)
            await until(lambda: in_file.list_alerts(settings)[0]["state"] == "firing")
            await asyncio.sleep(0.3)
            [shown] = in_file.list_alerts(settings)
            assert (shown["silenced_by"], ops.messages) == ("ada", [])
            silence(100)
            await until(lambda: ops.messages)  # it ends by itself
        assert ops.messages == [FIRES]


async def test_no_rule_is_evaluated_as_long_as_calls_are_not_indexed(
    in_file: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with receiving_alerts() as ops:
        settings = settings_of(DENIALS, ops=ops)
        async with alerting(in_file, settings):
            in_file.deny(3)
            await until(lambda: ops.messages)
            monkeypatch.setattr(running, "_BEHIND", 2)
            in_file.audit.index.clear()
            await asyncio.sleep(0.6)
            assert ops.messages == [FIRES], "an empty index is no recovery"
        assert "alerts: the rules cannot be evaluated, so alerts stay as they are: " in caplog.text


async def test_trouble_of_the_audit_is_told_once_by_each_gateway_that_has_it(place: Place) -> None:
    trouble: list[str | None] = [None]
    async with receiving_alerts() as ops, AsyncExitStack() as stack:
        settings = settings_of(TROUBLE, ops=ops)
        await stack.enter_async_context(alerting(place, settings, "g1", lambda: trouble[0]))
        await stack.enter_async_context(alerting(place, settings, "g2"))
        await asyncio.sleep(0.2)
        trouble[0] = "no space"
        await until(lambda: ops.messages)
        await asyncio.sleep(0.3)
        trouble[0] = None
        await until(lambda: len(ops.messages) == 2)
        await asyncio.sleep(0.2)
        assert ops.messages == [
            ("firing", "audit", {"gateway": "g1"}),
            ("resolved", "audit", {"gateway": "g1"}),
        ]
        assert b"no space" not in b"".join(ops.bodies)


async def test_a_gateway_that_lost_its_database_says_so_without_it(tmp_path: Path) -> None:
    trouble: list[str | None] = [None]
    with place_in("postgresql", tmp_path) as place:
        assert place.url is not None
        async with receiving_alerts() as ops:
            settings = settings_of(TROUBLE, DENIALS, ops=ops)
            async with alerting(place, settings, "g1", lambda: trouble[0]):
                await asyncio.sleep(0.3)
                drop(place.url.rpartition("/")[2])
                trouble[0] = "the database is gone"
                await until(lambda: ops.messages)
                await asyncio.sleep(0.3)
                trouble[0] = None
                await until(lambda: len(ops.messages) == 2)
        assert ops.messages == [
            ("firing", "audit", {"gateway": "g1"}),
            ("resolved", "audit", {"gateway": "g1"}),
        ]
        first, second = (document["data"]["alert"] for document in ops.documents)
        assert first == second


async def test_without_the_database_a_recovery_does_not_overtake_the_alert(tmp_path: Path) -> None:
    trouble: list[str | None] = [None]
    with place_in("postgresql", tmp_path) as place:
        assert place.url is not None
        async with receiving_alerts() as ops:
            ops.answer = status(503)
            async with alerting(place, settings_of(TROUBLE, ops=ops), "g1", lambda: trouble[0]) as alerts:
                await asyncio.sleep(0.3)
                drop(place.url.rpartition("/")[2])
                trouble[0] = "the database is gone"
                await until(lambda: ops.messages)
                trouble[0] = None
                await until(lambda: alerts.results.get(("ops", "failed"), 0) > 2)
                ops.answer = None
                await until(lambda: alerts.results.get(("ops", "delivered")) == 2)
        told = [state for state, _, _ in ops.messages]
        assert told == ["firing"] * (len(told) - 1) + ["resolved"]
