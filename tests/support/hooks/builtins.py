"""Policies created directly, as the engine creates them."""

import asyncio
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from hookgate.hooks import SessionContext
from hookgate.hooks.policies.redact.policy import redact_policy
from hookgate.hooks.policy_environment import Policy, PolicyEnvironment

Json = dict[str, Any]

SENSITIVE = {"detect": ["credentials", "personal"]}
"""Options of the policy `redact` that ask for personal data as well."""

ANNA = SessionContext("s-1", client="GeminiCLI", key="anna", team="search")


def make_policy(
    factory: Callable[[Mapping[str, Any], PolicyEnvironment], Policy],
    options: Json,
    state: Path | None = None,
    session: SessionContext = ANNA,
) -> Callable[[Json], Any]:
    """A policy with these options, asked by Anna unless someone else is named."""
    return partial(_ask, factory(options, PolicyEnvironment(Path("/"), state)), session)


def _ask(policy: Policy, session: SessionContext, event: Json) -> Any:
    return policy(event, session)


def run_policy(policy: Policy, event: Json, session: SessionContext = ANNA) -> Any:
    """The output of a policy, even if it takes a thread. There must be no event loop."""
    output = policy(event, session)
    return asyncio.run(output) if asyncio.iscoroutine(output) else output


def redacted(event: str, field: str, view: Json) -> Json:
    """The body in a view after a policy `redact`; the same object if it leaves it alone."""
    said = _redact()({"hook_event_name": event, field: view})
    body: Json = said["hookSpecificOutput"][field]["raw"] if said else view["raw"]
    return body


@cache
def _redact() -> Callable[[Json], Any]:
    """One policy for all bodies, as in a gateway: to read its options takes longer than to judge a body."""
    return make_policy(redact_policy, SENSITIVE)
