"""A policy that filters answers piece by piece: enforced, observed and failing."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from support.hooks.settings import runtime

from hookgate.hooks import Withheld
from hookgate.hooks.screening import HookScreen

EVENTS: list[Any] = [{"a": 1}, {"b": 2}]


class Dropping:
    """Releases the last event of each batch alone, or does what it was told."""

    slow = False

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure, self.asked = failure, 0

    def takes_long(self, values: Sequence[Any]) -> bool:
        return False

    def add(self, events: Sequence[Any]) -> None:
        self.feed(events, last=False)

    def feed(self, events: Sequence[Any], *, last: bool, cut_off: bool = False) -> list[tuple[int, Any]]:
        self.asked += 1
        if self.failure is not None:
            raise self.failure
        return [(len(events) - 1, "judged")]

    def redact(self, value: Any) -> Any:
        if self.failure is not None:
            raise self.failure
        return "redacted"

    def findings_output(self) -> dict[str, Any]:
        return {"hookSpecificOutput": {"findings": {"KEY": 1}}}


def screened(policy: Dropping, mode: str = "enforce") -> HookScreen:
    hook = runtime(lambda _: None)
    return HookScreen(replace(hook, config=hook.config.model_copy(update={"mode": mode})), policy)


def test_text_that_a_policy_releases_is_sent() -> None:
    screen = screened(Dropping())
    assert screen.feed(EVENTS, last=False) == [(1, "judged")]
    assert screen.redact("value") == "redacted"
    run = screen.as_run()
    assert (run.failure, run.output) == (None, {"hookSpecificOutput": {"findings": {"KEY": 1}}})


@pytest.mark.parametrize("failure", [ValueError("no"), Withheld("not this", "KEY")])
def test_an_observed_policy_holds_nothing_back_and_is_not_called_again_after_a_refusal(
    failure: Exception,
) -> None:
    policy = Dropping(failure)
    screen = screened(policy, "observe")
    assert screen.feed(EVENTS, last=False) == [(0, EVENTS[0]), (1, EVENTS[1])]
    assert screen.feed(EVENTS, last=True) == [(2, EVENTS[0]), (3, EVENTS[1])]
    assert screen.redact("value") == "value"
    assert policy.asked == 1


def test_an_observed_policy_that_would_change_something_does_not() -> None:
    screen = screened(Dropping(), "observe")
    assert screen.feed(EVENTS, last=True) == [(0, EVENTS[0]), (1, EVENTS[1])]
    assert screen.redact("value") == "value"


@pytest.mark.parametrize("failure", [ValueError("no"), Withheld("not this", "KEY")])
def test_an_answer_is_withheld_if_its_policy_refuses_or_fails(failure: Exception) -> None:
    screen = screened(Dropping(failure))
    for act in (lambda: screen.feed(EVENTS, last=False), lambda: screen.redact("value")):
        with pytest.raises(Withheld):
            act()
    run = screen.as_run()
    if isinstance(failure, Withheld):
        assert run.failure is None
        assert run.output is not None
        assert (run.output["decision"], run.output["reason"]) == ("deny", "not this")
        assert run.output["hookSpecificOutput"]["findings"] == {"KEY": 2}
    else:
        assert "raised ValueError" in str(run.failure)
