"""The policy `limits`: what it counts, for whom, and which reason a caller beyond a limit receives."""

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from support.hooks.builtins import make_policy
from support.hooks.limits import FLASH, PRO, Clock, Limited, caller, denial_reason, end

from hookgate.hooks import SessionContext
from hookgate.hooks.policies.counters import MemoryCounters
from hookgate.hooks.policies.limits import limits_policy
from hookgate.hooks.policy_environment import PolicyEnvironment
from hookgate.hooks.session import ExpectedUse

Json = dict[str, Any]


async def test_a_request_beyond_the_limit_is_reported_of_which_how_much_and_until_when() -> None:
    limited = Limited([{"per": "key", "window": "minute", "requests": 2}])
    assert [await limited.begin() for _ in range(2)] == [None, None]
    reported = (
        "A limit has been reached: 2 of 2 requests of this key have been used in this minute; "
        "it resets at 2026-11-21 12:01 UTC."
    )
    assert [await limited.begin() for _ in range(2)] == [reported, reported]
    limited.clock.move(seconds=30)
    assert await limited.begin() is None


async def test_a_rule_is_reported_by_its_name_with_its_reason_behind() -> None:
    named = {"name": "trial", "reason": "Ask Ada for more.", "requests": 1}
    limited = Limited([{"per": "everyone", "window": "day", **named}])
    await limited.begin()
    message = str(await limited.begin())
    assert message.startswith(
        "The limit 'trial' has been reached: 1 of 1 requests of all callers have been used today; "
    )
    assert message.endswith("; it resets at 2026-11-22 00:00 UTC. Ask Ada for more.")


@pytest.mark.parametrize(
    ("per", "other", "shared"),
    [
        pytest.param("key", caller(session="s-2", team="x"), True, id="key, another session"),
        pytest.param("key", caller(key="ben"), False, id="key, another one"),
        pytest.param("team", caller(key="ben", session="s-2"), True, id="team, another key"),
        pytest.param("team", caller(team="ads"), False, id="team, another one"),
        pytest.param("session", caller(team="x"), True, id="session, the same"),
        pytest.param("session", caller(session="s-2"), False, id="session, another one"),
        pytest.param("session", caller(key="ben"), False, id="session, of that name with another key"),
        pytest.param("everyone", caller("ben", "ads", "s-2"), True, id="everyone"),
    ],
)
async def test_use_is_added_up_per_caller(per: str, other: SessionContext, shared: bool) -> None:
    limited = Limited([{"per": per, "window": "day", "requests": 1}])
    assert await limited.begin() is None
    assert (await limited.begin(other) is not None) is shared


@pytest.mark.parametrize("per", ["key", "team"])
async def test_callers_without_a_key_or_a_team_share_one_count(per: str) -> None:
    limited = Limited([{"per": per, "window": "day", "requests": 1}])
    assert await limited.begin(caller("", "", "s-1")) is None
    assert await limited.begin(caller("", "", "s-2")) is not None
    assert await limited.begin() is None


async def test_a_call_is_one_request_although_the_hook_runs_twice_for_it() -> None:
    limited = Limited([{"per": "key", "window": "minute", "requests": 2}])
    session = caller()
    assert [await limited.begin(session) for _ in range(5)] == [None] * 5
    limited.clock.move(minutes=1)
    assert await limited.begin(session) is None  # and in the minute that it began in
    assert [await limited.begin() is None for _ in range(3)] == [True, True, False]


async def test_a_denied_call_uses_nothing_of_other_limits() -> None:
    day = {"per": "key", "window": "day", "requests": 3}
    limited = Limited([day, {"per": "key", "window": "minute", "requests": 1}])
    for _ in range(4):
        await limited.begin()
    limited.clock.move(minutes=1)
    assert await limited.begin() is None
    limited.clock.move(minutes=1)
    assert await limited.begin() is None
    limited.clock.move(minutes=1)
    assert "3 of 3 requests of this key have been used today" in str(await limited.begin())


async def test_requests_are_counted_behind_a_limit_of_something_else() -> None:
    tokens = {"per": "key", "window": "day", "tokens": 100}
    limited = Limited([tokens, {"per": "key", "window": "day", "requests": 1}])
    assert await limited.begin() is None
    assert "1 of 1 requests of this key have been used today" in str(await limited.begin())


async def test_a_call_that_was_renamed_counts_for_the_model_it_got() -> None:
    rules = [
        {"per": "key", "window": "day", "requests": 1, "models": "*-pro"},
        {"per": "key", "window": "day", "requests": 1, "models": "*-flash"},
    ]
    limited = Limited(rules)
    session = caller()
    assert await limited.begin(session, PRO) is None
    assert await limited.begin(session, FLASH) is None  # an earlier hook's edit: the hook runs again
    assert await limited.begin(model=FLASH) is not None
    assert await limited.begin(model=PRO) is None


async def test_a_rule_applies_only_to_its_models() -> None:
    limited = Limited([{"per": "key", "window": "day", "tokens": 5, "models": ["*-pro"]}])
    await limited.call(PRO, input_tokens=5)
    assert await limited.begin(model=FLASH) is None
    assert await limited.begin(model=PRO) is not None


async def test_policies_that_ask_for_the_same_count_count_a_call_once() -> None:
    rule = {"per": "key", "window": "day", "requests": 2, "tokens": 100}
    limited = Limited([rule])
    strict = limited.another(rule | {"requests": 1})
    session = caller()
    assert await limited.begin(session) is None
    assert await denial_reason(strict, session) is None
    end(session, input_tokens=50)
    again = caller()
    assert await limited.begin(again) is None  # 50 tokens, not 100
    assert "1 of 1 requests" in str(await denial_reason(strict, again))


@pytest.mark.parametrize(("name", "other_name"), [("", "other"), ("n" * 64, "n" * 65)])
async def test_a_rule_of_another_name_counts_on_its_own(name: str, other_name: str) -> None:
    rule = {"per": "key", "window": "day", "requests": 1, "name": name}
    limited = Limited([rule])
    other = limited.another(rule | {"name": other_name})
    assert await limited.begin() is None
    assert await denial_reason(other, caller()) is None


@pytest.mark.parametrize(
    ("rule", "used", "expected"),
    [
        pytest.param(
            {"tokens": 1000}, {"input_tokens": 990, "output_tokens": 20}, "1,010 of 1,000 tokens", id="tokens"
        ),
        pytest.param({"tokens": 1000}, {"output_tokens": 1000}, "1,000 of 1,000 tokens", id="just so"),
        pytest.param({"cost": 0.5}, {"cost": 1.25}, "1.25 of 0.50 USD", id="cost"),
        pytest.param({"cost": 0.001}, {"cost": 0.00213}, "0.0021 of 0.0010 USD", id="small cost"),
    ],
)
async def test_what_a_call_used_counts_at_its_end(rule: Json, used: Json, expected: str) -> None:
    limited = Limited([{"per": "key", "window": "month", **rule}])
    running = caller()
    assert await limited.begin(running) is None
    assert await limited.begin() is None  # nothing has ended
    end(running, **used)
    assert f"{expected} of this key have been used this month" in str(await limited.begin())


@pytest.mark.parametrize(("tokens", "denied"), [(999, False), (1000, True)], ids=["below", "at the limit"])
async def test_a_limit_is_reached_when_all_of_it_is_used(tokens: int, denied: bool) -> None:
    limited = Limited([{"per": "key", "window": "day", "tokens": 1000}])
    await limited.call(output_tokens=tokens)
    assert (await limited.begin() is not None) is denied


async def test_use_counts_in_the_window_that_the_call_ends_in() -> None:
    limited = Limited([{"per": "key", "window": "minute", "tokens": 10}])
    session = caller()
    assert await limited.begin(session) is None
    limited.clock.move(minutes=3)
    end(session, output_tokens=10)
    assert "resets at 2026-11-21 12:04 UTC" in str(await limited.begin())


async def test_use_counts_for_the_model_that_was_called() -> None:
    limited = Limited([{"per": "key", "window": "day", "tokens": 10, "models": "*-pro"}])
    session = caller()
    assert await limited.begin(session, FLASH) is None
    end(session, PRO, output_tokens=10)  # a later hook chose another
    assert await limited.begin(model=PRO) is not None


async def test_an_unknown_cost_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    limited = Limited([{"per": "key", "window": "day", "cost": 1}])
    await limited.call(cost=None)
    assert caplog.text == ""  # it used nothing
    await limited.call(cost=None, output_tokens=1)
    assert f"the cost of a call to '{FLASH}' is not counted" in caplog.text
    assert await limited.begin() is None


async def test_under_a_limit_on_cost_a_model_without_a_price_is_denied() -> None:
    limited = Limited([{"name": "budget", "per": "key", "window": "day", "cost": 1, "models": "*-p*"}])
    reported = f"The limit 'budget' limits cost, and the price table has no price for the model '{PRO}'."
    assert await limited.begin(model=PRO) == reported
    assert await limited.begin(model="free") is None


async def test_an_upload_runs_no_model_and_needs_no_price() -> None:
    limited = Limited([{"per": "key", "window": "day", "cost": 1, "requests": 1}])
    session = caller()
    session.call_state.operation = "uploadFile"
    assert await limited.begin(session, model="") is None
    assert await limited.begin(model="") is not None


async def test_another_event_s_hook_fails() -> None:
    limited = Limited([{"per": "key", "window": "day", "requests": 1}])
    with pytest.raises(ValueError, match="supports only BeforeModel"):
        await limited.policy({"hook_event_name": "AfterModel"}, caller())


RULE = {"per": "key", "window": "day"}


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        pytest.param([], r"^rules: ", id="no rules"),
        pytest.param([RULE], r"^rules\.0: .*has no limit; set requests, tokens or cost", id="no limit"),
        pytest.param([RULE | {"requests": 0}], r"^rules\.0\.requests: .*greater than 0", id="none allowed"),
        pytest.param([RULE | {"tokens": "5"}], r"^rules\.0\.tokens: ", id="text"),
        pytest.param([RULE | {"requests": 1, "per": "user"}], r"^rules\.0\.per: ", id="per whom"),
        pytest.param([RULE | {"requests": 1, "window": "hour"}], r"^rules\.0\.window: ", id="window"),
        pytest.param([RULE | {"request": 1}], r"^rules\.0\.request: ", id="misspelt"),
        pytest.param(
            [RULE | {"requests": 1}, RULE | {"cost": 1}],
            r"^rules\.1\.cost: needs a price table: name its file in hookgate\.toml",
            id="cost without prices",
        ),
    ],
)
def test_wrong_options_are_reported_with_their_place(rules: list[Json], expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        make_policy(limits_policy, {"rules": rules})


async def test_without_counters_a_policy_counts_in_its_own_memory() -> None:
    options = {"rules": [{"per": "everyone", "window": "month", "requests": 1}]}
    policy, other = (limits_policy(options, PolicyEnvironment(Path("/"))) for _ in range(2))
    assert await denial_reason(policy, caller()) is None
    assert await denial_reason(policy, caller()) is not None
    assert await denial_reason(other, caller()) is None


async def test_a_long_session_counts_its_tokens_in_the_window_in_which_it_uses_them() -> None:
    """A Live session asks again with each message, and has used some of its tokens by then."""
    limited = Limited([{"per": "key", "window": "minute", "tokens": 100, "requests": 1}])
    session = caller()
    assert await limited.begin(session) is None
    end(session, output_tokens=70)
    limited.clock.move(minutes=1)
    assert await limited.begin(session) is None
    end(session, output_tokens=70)
    assert await limited.begin(session) is None  # 70 in each of two minutes, and one request in all
    end(session, output_tokens=70)
    reported = await limited.begin(session)
    assert "140 of 100 tokens" in str(reported)
    limited.clock.move(minutes=1)
    assert await limited.begin(session) is None


async def test_what_a_later_turn_may_use_is_held_as_well() -> None:
    limited = Limited([{"per": "key", "window": "day", "tokens": 100}])
    session, other = caller(), caller()
    for size, reported in ((10, None), (90, None), (20, None), (100, "of which 100 are held")):
        session.call_state.expected = ExpectedUse(size)
        assert await limited.begin(session) is None
        message = await limited.begin(other)
        end(other)
        assert message is None if reported is None else reported in str(message)
    end(session)
    assert await limited.begin(other) is None


class Noting(MemoryCounters):
    """Counters that note what is added."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.added: list[float] = []

    async def add(self, key: str, amount: float, expires: datetime) -> float:
        self.added.append(amount)
        return await super().add(key, amount, expires)


def with_requests(number: int) -> SessionContext:
    """A call whose body contains so many requests."""
    session = caller()
    session.call_state.requests = number
    return session


async def test_all_requests_of_a_body_are_counted_at_once() -> None:
    counters = Noting(clock := Clock())
    limited = Limited([{"per": "key", "window": "day", "requests": 100}], counters, clock)
    body = with_requests(60)
    assert [await limited.begin(body) for _ in range(60)] == [None] * 60
    assert counters.added == [60]
    assert "60 of 100 requests" in str(await limited.begin(with_requests(60)))
    assert counters.added == [60, 60, -60]  # what was denied does not count
    assert await limited.begin(with_requests(40)) is None


async def test_the_tokens_of_a_body_with_several_requests_are_counted_once() -> None:
    limited = Limited([{"per": "key", "window": "day", "tokens": 100}])
    body = with_requests(3)
    assert [await limited.begin(body) for _ in range(3)] == [None] * 3
    end(body, input_tokens=60)
    assert await limited.begin(with_requests(3)) is None
