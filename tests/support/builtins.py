"""Policies made by hand, as the engine makes them."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from hookgate.hooks import SessionContext
from hookgate.hooks.runners.inprocess import Policy, PolicyEnvironment

Json = dict[str, Any]

SENSITIVE = {"detect": ["credentials", "personal"]}
"""Options of the policy `redact` that ask for personal data as well."""

ANNA = SessionContext("s-1", client="GeminiCLI", key="anna", team="search")


def made(
    factory: Callable[[Mapping[str, Any], PolicyEnvironment], Policy],
    options: Json,
    state: Path | None = None,
    session: SessionContext = ANNA,
) -> Callable[[Json], Any]:
    """A policy with these options, asked by Anna unless someone else is named."""
    return partial(_ask, factory(options, PolicyEnvironment(Path("/"), state)), session)


def _ask(policy: Policy, session: SessionContext, event: Json) -> Any:
    return policy(event, session)
