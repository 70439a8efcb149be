"""The policy `limits` created directly: a fake clock, and calls that begin and end."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from hookgate.hooks import CallEnd, SessionContext
from hookgate.hooks.policies.counters import MemoryCounters
from hookgate.hooks.policies.limits import limits_policy
from hookgate.hooks.policy_environment import Counters, Policy, PolicyEnvironment

FLASH, PRO = "gemini-2.5-flash", "gemini-2.5-pro"


@dataclass
class Clock:
    """Stands still until it is moved."""

    now: datetime = datetime(2026, 11, 21, 12, 0, 30, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def move(self, **by: float) -> None:
        self.now += timedelta(**by)


@dataclass
class Prices:
    """Knows the prices of some models."""

    models: tuple[str, ...] = (FLASH,)
    currency: str = "USD"

    def knows(self, model: str) -> bool:
        return model in self.models

    def cost(
        self, model: str, input_tokens: int, output_tokens: int, cached: int = 0, *, priority: bool = False
    ) -> float | None:
        return (input_tokens + output_tokens) * (1 + priority) / 1_000_000 if self.knows(model) else None


@dataclass
class Limited:
    """Rules in force. Whoever calls is Anna in one session, unless a test says otherwise."""

    rules: list[dict[str, Any]]
    counters: Counters | None = None
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.counters = self.counters or MemoryCounters(self.clock)
        self.policy = self.another(*self.rules)

    def another(self, *rules: dict[str, Any]) -> Policy:
        """A further policy with the same counters."""
        environment = PolicyEnvironment(Path("/"), counters=self.counters, prices=Prices())
        return limits_policy({"rules": list(rules)}, environment, self.clock)

    async def begin(self, session: SessionContext | None = None, model: str = FLASH) -> str | None:
        """Why a call is denied, or None when it may go on."""
        return await denial_reason(self.policy, session or caller(), model)

    async def call(self, model: str = FLASH, **used: Any) -> str | None:
        """A whole call of Anna's that uses so much."""
        session = caller()
        reported = await self.begin(session, model)
        if reported is None:
            end(session, model, **used)
        return reported


def caller(key: str = "anna", team: str = "search", session: str = "s-1") -> SessionContext:
    """Who makes one call; each has a state of its own."""
    return SessionContext(session, key=key, team=team)


async def denial_reason(policy: Policy, session: SessionContext, model: str = FLASH) -> str | None:
    """Why a policy denies the call, or None."""
    event = {"hook_event_name": "BeforeModel", "llm_request": {"model": model, "messages": []}}
    said = await policy(event, session)
    if said is None:
        return None
    assert said["decision"] == "deny"
    return str(said["reason"])


def end(session: SessionContext, model: str = FLASH, **used: Any) -> None:
    """End a call as the gateway does."""
    for tell in session.call_state.at_use:
        tell(CallEnd(model, **used))
