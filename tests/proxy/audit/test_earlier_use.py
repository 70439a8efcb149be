"""A limit that is added begins with what was used in its window before."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from support.gateway.audits import entries_of, record_of
from support.gateway.databases import postgres
from support.gateway.indexed import indexed_audit
from support.gateway.loopback import write_settings

from hookgate.hooks import BeforeModel, SessionContext
from hookgate.hooks.policies.counters import Count, LimitRule, counts_of
from hookgate.proxy.audit.earlier_use import EarlierUse
from hookgate.proxy.config.models import StoreSettings
from hookgate.proxy.config.reading import Sources
from hookgate.proxy.observe.usage import Usage, read_prices
from hookgate.proxy.policy import load_policy
from hookgate.proxy.store import Store
from hookgate.proxy.store.database import INDEX_FILE

MODEL = "gemini-2.5-flash"
WEB = SessionContext("s", key="alice", team="web")


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Path, str | None]]:
    """Calls of two teams: three that were answered, by two models, and one that was denied."""
    if request.param == "sqlite":
        with recorded(tmp_path, None):
            yield tmp_path, None
        return
    with postgres() as url, recorded(tmp_path, url):
        yield tmp_path, url


@contextmanager
def recorded(state: Path, url: str | None) -> Iterator[None]:
    used = {"usage": Usage(100, 20, 0), "cost": 0.5}
    calls: list[dict[str, Any]] = [
        {"team": "web", "model": MODEL, **used},
        {"team": "web", "model": "gemini-2.5-pro", **used},
        {"team": "web", "model": MODEL, "outcome": "denied", "usage": Usage()},
        {"team": "search", "model": MODEL, **used},
    ]
    with indexed_audit(state, 0, url) as audit:
        for number, changes in enumerate(calls):
            session = SessionContext("s", key="alice", team=changes.pop("team"))
            record = record_of(0, id=f"{number:032x}", session=session, **changes)
            now = time.time_ns() // 1_000_000
            audit.add(*(each._replace(at=now) for each in entries_of(record)))
        assert audit.index.update(60)
        yield


def store_at(url: str | None, state: Path) -> Store:
    settings = {} if url is None else {"url": url.replace("+psycopg", "")}
    return Store(StoreSettings.model_validate(settings), state)


def sources_with(state: Path, **rule: Any) -> Sources:
    options = {"rules": [{"per": "team", "window": "month", **rule}]}
    limits = {"type": "builtin", "name": "limits", "builtin": "limits", "options": options}
    return Sources(hooks=(write_settings(state, {"BeforeModel": [limits]}),), state=state)


async def decided(place: tuple[Path, str | None], **rule: Any) -> list[bool]:
    """Whether a limit that was just added denies the next calls."""
    state, url = place
    earlier = EarlierUse(url, state)
    sources, prices = sources_with(state, **rule), read_prices(None)
    async with store_at(url, state) as store:
        loaded = load_policy(sources, store=store, prices=prices, begin_counts=earlier.counters)
        denied = []
        for _ in range(3):
            event = BeforeModel(MODEL, {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]})
            outcome = await loaded.current.fire(event, SessionContext("s", key="alice", team="web"))
            denied.append(outcome.verdict.decision == "deny")
        await loaded.close()
    earlier.close()
    return denied


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({"requests": 2}, [True, True, True]),
        ({"requests": 3}, [False, True, True]),
        ({"requests": 2, "models": ["*-flash"]}, [False, True, True]),
        ({"requests": 4, "per": "everyone"}, [False, True, True]),
        ({"requests": 2, "per": "session"}, [False, False, True]),
        ({"requests": 3, "per": "key", "window": "day"}, [True, True, True]),
        ({"tokens": 240}, [True, True, True]),
        ({"tokens": 241}, [False, False, False]),
        ({"cost": 1.0}, [True, True, True]),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else "",
)
async def test_a_new_limit_begins_with_what_was_used(
    rule: dict[str, Any], expected: list[bool], place: tuple[Path, str | None]
) -> None:
    assert await decided(place, **rule) == expected


def count_of(rule: LimitRule, session: SessionContext = WEB) -> Count:
    [count] = counts_of([rule], session, datetime.now(UTC))
    return count


async def test_what_is_counted_already_is_not_counted_again(place: tuple[Path, str | None]) -> None:
    """Neither by another gateway, nor after a restart, nor for a limit that exists."""
    state, url = place
    rule = LimitRule(per="team", window="month", tokens=1000)
    count, earlier = count_of(rule), EarlierUse(url, state)
    configuration = load_policy(sources_with(state, tokens=1000)).current.configuration
    async with store_at(url, state) as store:
        first, second = (earlier.counters(store.counters(), configuration) for _ in range(2))
        assert await first.read([count.key]) == {count.key: 240}
        assert await first.add(count.key, 10, count.ends) == 250
        assert await second.read([count.key]) == {count.key: 250}
        other = count_of(rule, SessionContext("s", team="nobody"))
        assert await first.read([other.key]) == {}
        assert await first.add(other.key, 1, other.ends) == 1
        assert await second.read([other.key]) == {other.key: 1}
    earlier.close()


async def test_a_limit_counts_from_zero_if_the_index_cannot_be_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / INDEX_FILE).mkdir()
    assert await decided((tmp_path, None), requests=2) == [False, False, True]
    assert caplog.text.count("limits count without what was used before they were added") == 1
