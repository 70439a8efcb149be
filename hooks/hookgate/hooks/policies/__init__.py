"""The policies that come with hookgate: factories of hooks of the type `builtin`, by name.

Policies have the same input and output as any other hook. New policies must be added here.
"""

from collections.abc import Mapping
from types import MappingProxyType

from hookgate.hooks.policies.cassette import cassette_policy
from hookgate.hooks.policies.limits import limits_policy
from hookgate.hooks.policies.models import models_policy
from hookgate.hooks.policies.redact.policy import redact_policy
from hookgate.hooks.policies.tools import tools_policy
from hookgate.hooks.runners.inprocess import Builtins

BUILTINS: Builtins = MappingProxyType(
    {
        "cassette": cassette_policy,
        "limits": limits_policy,
        "models": models_policy,
        "redact": redact_policy,
        "tools": tools_policy,
    }
)
"""The policies, by name."""

EVENTS_BY_POLICY: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "cassette": ("BeforeModel", "AfterModel"),
        "limits": ("BeforeModel",),
        "models": ("BeforeModel",),
        "redact": ("BeforeModel", "AfterModel", "BeforeTool", "AfterTool"),
        "tools": ("BeforeToolSelection", "BeforeTool"),
    }
)
"""The events that each policy judges. Under any other event it would let everything pass, or always fail."""

COUNTING = frozenset({"limits"})
"""The policies that use `PolicyEnvironment.counters`."""

__all__ = ["BUILTINS", "COUNTING", "EVENTS_BY_POLICY"]
