"""Policies that come with hookgate: hooks of the type `builtin`, by name, made from their options.

They see what every hook sees and answer as every hook does. Whoever writes another one adds it here.
"""

from types import MappingProxyType

from hookgate.hooks.kinds.builtin import Builtins
from hookgate.hooks.policies.cassette import cassette_policy
from hookgate.hooks.policies.limits import limits_policy
from hookgate.hooks.policies.models import models_policy
from hookgate.hooks.policies.redact.policy import redact_policy
from hookgate.hooks.policies.tools import tools_policy

BUILTINS: Builtins = MappingProxyType(
    {
        "cassette": cassette_policy,
        "limits": limits_policy,
        "models": models_policy,
        "redact": redact_policy,
        "tools": tools_policy,
    }
)
"""The policies by name."""

COUNTING = frozenset({"limits"})
"""Those that use the counters of their surroundings."""

__all__ = ["BUILTINS", "COUNTING"]
