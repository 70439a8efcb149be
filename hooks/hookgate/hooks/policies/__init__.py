"""The policies that come with hookgate: factories of hooks of the type `builtin`, by name.

Policies have the same input and output as any other hook. New policies must be added here.
"""

from collections.abc import Mapping
from functools import partial
from pkgutil import resolve_name
from types import MappingProxyType
from typing import Any

from hookgate.hooks.policy_environment import Builtins, Policy, PolicyEnvironment

_FACTORIES = {
    "cassette": "cassette:cassette_policy",
    "flows": "flows.policy:flows_policy",
    "guardrail": "services.guardrail:guardrail_policy",
    "injections": "injections.policy:injections_policy",
    "limits": "limits:limits_policy",
    "model_armor": "services.model_armor:model_armor_policy",
    "models": "models:models_policy",
    "redact": "redact.policy:redact_policy",
    "tools": "tools:tools_policy",
}
"""The factory of each policy in this package, as `module:function`."""

EVENTS_BY_POLICY: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "cassette": ("BeforeModel", "AfterModel"),
        "flows": ("BeforeAgent", "AfterTool", "BeforeTool"),
        "guardrail": ("BeforeModel", "AfterModel", "BeforeTool", "AfterTool"),
        "injections": ("AfterTool", "BeforeModel"),
        "limits": ("BeforeModel",),
        "model_armor": ("BeforeModel", "AfterModel", "BeforeTool", "AfterTool"),
        "models": ("BeforeModel", "AfterModel"),
        "redact": ("BeforeModel", "AfterModel", "BeforeTool", "AfterTool"),
        "tools": ("BeforeToolSelection", "BeforeTool", "AfterModel"),
    }
)
"""The events that each policy judges. Under any other event it would let everything pass, or always fail."""

_NEEDS = (
    "this policy needs {}; in a checkout of hookgate, run: pip install '.[proxy]'"  # the base has no aiohttp
)


def _make_policy(factory: str, options: Mapping[str, Any], environment: PolicyEnvironment) -> Policy:
    """Return a policy, and import it only now: its models and patterns take long to build."""
    try:
        make = resolve_name(f"{__name__}.{factory}")
    except ImportError as error:
        raise ValueError(_NEEDS.format(error.name)) from None
    policy: Policy = make(options, environment)
    return policy


BUILTINS: Builtins = MappingProxyType(
    {name: partial(_make_policy, factory) for name, factory in _FACTORIES.items()}
)
"""The policies, by name."""

COUNTING = frozenset({"limits"})
"""The policies that use `PolicyEnvironment.counters`."""

PINNING = frozenset({"tools"})
"""The policies that use `PolicyEnvironment.pins` if they have the option `pin`."""

__all__ = ["BUILTINS", "COUNTING", "EVENTS_BY_POLICY", "PINNING"]
