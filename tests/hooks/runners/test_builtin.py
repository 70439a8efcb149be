"""Builtin hooks: policies by name from a registry, with their options."""

import asyncio
import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from support.hooks.kinds import ask, hook_of, running

from hookgate.hooks import HookError, SessionContext, SettingsError
from hookgate.hooks.policy_environment import Builtins, PolicyEnvironment
from hookgate.hooks.runner_factory import make_runners
from hookgate.hooks.settings import BuiltinConfig, Hook

Json = dict[str, Any]


def limit(
    options: Mapping[str, Any], environment: PolicyEnvironment
) -> Callable[[Json, SessionContext], Json | None]:
    """Denies what exceeds `most`."""
    most = options.get("most")
    if not isinstance(most, int):
        raise ValueError("most: must be a number")
    return lambda call, session: {"decision": "block", "reason": "too much"} if call["n"] > most else None


def acting(action: Callable[[Json], Any]) -> Builtins:
    return {"act": lambda options, environment: lambda call, session: action(call)}


def builtin(name: str = "act", **more: Any) -> Hook:
    return hook_of(BuiltinConfig(type="builtin", builtin=name, **more))


async def test_a_policy_is_made_with_its_options_and_gives_an_output_or_nothing() -> None:
    async with running(builtin("limit", options={"most": 5}), builtins={"limit": limit}) as runner:
        assert await ask(runner, n=5) is None
        assert await ask(runner, n=6) == {"decision": "deny", "reason": "too much"}


async def test_each_hook_has_a_policy_of_its_own() -> None:
    hooks = [builtin("limit", options={"most": most}) for most in (1, 3)]
    runners = make_runners(hooks, builtins={"limit": limit})
    assert [bool(await ask(runners[hook], n=2)) for hook in hooks] == [True, False]


async def test_a_plain_function_runs_in_the_loop_s_own_thread() -> None:
    async with running(
        builtin(), builtins=acting(lambda _: {"reason": threading.current_thread().name})
    ) as runner:
        assert await ask(runner) == {"reason": threading.main_thread().name}


async def test_a_coroutine_function_may_wait() -> None:
    async def act(call: Json) -> Json:
        await asyncio.sleep(0)
        return {"reason": call["text"]}

    async with running(builtin(), builtins=acting(act)) as runner:
        assert await ask(runner, text="hi") == {"reason": "hi"}


async def test_a_policy_that_takes_too_long_is_cancelled() -> None:
    cancelled = asyncio.Event()

    async def act(_: Json) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async with running(builtin(timeout=20), builtins=acting(act)) as runner:
        with pytest.raises(HookError, match=r"^timed out after 20 ms$"):
            await ask(runner)
    assert cancelled.is_set()


@pytest.mark.parametrize(
    ("action", "error"),
    [
        pytest.param(
            lambda _: 1 / 0,
            r"^raised ZeroDivisionError\('division by zero'\) in .*test_builtin\.py:\d+$",
            id="raises",
        ),
        pytest.param(lambda _: [], r"^returned list; return an object or nothing$", id="a list"),
        pytest.param(lambda _: {"reason": 5}, r"^output\.reason: ", id="wrong type"),
    ],
)
async def test_a_policy_that_misbehaves_has_failed(action: Callable[[Json], Any], error: str) -> None:
    async with running(builtin(), builtins=acting(action)) as runner:
        with pytest.raises(HookError, match=error):
            await ask(runner)


@pytest.mark.parametrize(
    ("builtins", "known"),
    [
        pytest.param({"limit": limit, "deny": limit}, r"deny, limit; did you mean limit\?", id="some"),
        pytest.param({}, "none", id="none"),
    ],
)
def test_an_unknown_policy_is_reported_with_those_that_exist(builtins: Builtins, known: str) -> None:
    reported = (
        rf"^/settings\.json: the builtin hook 'guard': there is no policy 'limits'; known policies: {known}$"
    )
    with pytest.raises(SettingsError, match=reported):
        make_runners([builtin("limits")], builtins=builtins)


def test_bad_options_are_reported_in_the_policy_s_words() -> None:
    reported = r"^/settings\.json: the builtin hook 'guard': options: most: must be a number$"
    with pytest.raises(SettingsError, match=reported):
        make_runners([builtin("limit", options={"most": "5"})], builtins={"limit": limit})
