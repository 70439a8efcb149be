"""The policies that come with hookgate: factories of hooks of the type `builtin`, by name.

Policies have the same input and output as any other hook. `hooks/settings/policies.py` lists them.
"""

from collections.abc import Mapping
from functools import partial
from pkgutil import resolve_name
from types import MappingProxyType
from typing import Any

from hookgate.hooks.policy_environment import Builtins, Policy, PolicyEnvironment
from hookgate.hooks.settings.policies import POLICIES

_NEEDS = "this policy needs {}; install hookgate with its extra proxy"  # the base has no aiohttp


def _make_policy(factory: str, options: Mapping[str, Any], environment: PolicyEnvironment) -> Policy:
    """Return a policy, and import it only now: its models and patterns take long to build."""
    try:
        make = resolve_name(f"{__name__}.{factory}")
    except ImportError as error:
        raise ValueError(_NEEDS.format(error.name)) from None
    policy: Policy = make(options, environment)
    return policy


BUILTINS: Builtins = MappingProxyType(
    {name: partial(_make_policy, policy.factory) for name, policy in POLICIES.items()}
)
"""The policies, by name."""

__all__ = ["BUILTINS"]
