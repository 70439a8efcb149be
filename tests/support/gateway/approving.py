"""Gateways whose tool calls people approve, and the people."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.gateway.life import until
from support.gateway.loopback import RunningGateway, gateway_before, running_upstream

from hookgate.proxy.approvals.asking import Approvals, open_approvals_of
from hookgate.proxy.approvals.requests import ONCE, ApprovalDecision, ApprovalRequest, AskedCall, Scope
from hookgate.proxy.approvals.table import ApprovalTable
from hookgate.proxy.config import Config
from hookgate.proxy.store.database import open_approvals

ASKS = {"type": "builtin", "builtin": "tools", "name": "asks", "options": {"ask": [{"tool": "send_*"}]}}
"""A hook that asks about the tools that send something."""


def now() -> int:
    return time.time_ns() // 1_000_000


def asked_call(
    tool: str = "send_mail", key: str = "alice", session: str = "s-1", **arguments: Any
) -> AskedCall:
    """A call about which a hook asks."""
    return AskedCall(
        key=key,
        session=session,
        call="c" * 32,
        team="web",
        agent="agent",
        tool=tool,
        arguments=arguments,
        hooks=("asks",),
        why="A person decides.",
    )


def decision(by: str = "ada", *, approves: bool = True, scope: Scope = ONCE, **more: Any) -> ApprovalDecision:
    return ApprovalDecision(approves, by, "command", now(), scope=scope, **more)


@dataclass
class People:
    """Those who decide, at the table of a gateway."""

    table: ApprovalTable

    def pending(self) -> list[ApprovalRequest]:
        return self.table.latest(50, ("pending",))

    async def wait(self, count: int = 1) -> ApprovalRequest:
        """The newest request, once there are so many pending ones."""
        await until(lambda: len(self.pending()) >= count)
        return self.pending()[0]

    def decide(self, request: ApprovalRequest, decided: ApprovalDecision) -> ApprovalRequest:
        return self.table.decide(request.id, decided)


@dataclass
class Approving:
    """A running gateway, what it uses to ask people, and the people."""

    gateway: RunningGateway
    approvals: Approvals
    people: People

    @property
    def url(self) -> str:
        return self.gateway.url


@asynccontextmanager
async def approving_gateway(
    state: Path,
    script: Any = None,
    hooks: dict[str, Any] | Path | None = None,
    *,
    url: str | None = None,
    upstream: str | None = None,
    sections: dict[str, Any] | None = None,
    record: Any = None,
    **settings: Any,
) -> AsyncIterator[Approving]:
    """A gateway with `[approvals]`, before an upstream with a script, or an upstream that already runs."""
    config = Config.model_validate({"approvals": {"mode": "ticket", **settings}, **(sections or {})})
    async with (
        running_upstream(script) as (own, recorded),
        open_approvals_of(config, url, state, record) as approvals,
        gateway_before(
            upstream or own, hooks or {"BeforeTool": [ASKS]}, config, approvals=approvals
        ) as gateway,
    ):
        assert approvals
        table = ApprovalTable(open_approvals(url, state))
        try:
            yield Approving(RunningGateway(gateway, upstream or own, recorded), approvals, People(table))
        finally:
            table.close()
