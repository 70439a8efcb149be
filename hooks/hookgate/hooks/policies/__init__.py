"""Policies that come with hookgate: hooks of the type `builtin`, by name, made from their options. Pure.

They see what every hook sees and answer as every hook does. Whoever writes another one adds it here.
"""

from types import MappingProxyType

from hookgate.hooks.kinds.builtin import Builtins
from hookgate.hooks.policies.models import models_policy
from hookgate.hooks.policies.tools import tools_policy

BUILTINS: Builtins = MappingProxyType({"models": models_policy, "tools": tools_policy})
"""The policies by name."""

__all__ = ["BUILTINS"]
