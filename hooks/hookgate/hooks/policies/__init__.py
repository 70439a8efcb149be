"""The policies that come with hookgate: factories of hooks of the type `builtin`, by name.

Policies have the same input and output as any other hook. New policies must be added here. A factory imports
its policy, because most gateways use few of them, and their models and patterns take long to build.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from hookgate.hooks.policy_environment import Builtins, Policy, PolicyEnvironment

_NEEDS = (
    "this policy needs {}; in a checkout of hookgate, run: pip install '.[proxy]'"  # the base has no aiohttp
)


def _cassette(options: Mapping[str, Any], environment: PolicyEnvironment) -> Policy:
    from hookgate.hooks.policies.cassette import cassette_policy  # noqa: PLC0415  # see the module's docstring

    return cassette_policy(options, environment)


def _flows(options: Mapping[str, Any], environment: PolicyEnvironment) -> Policy:
    from hookgate.hooks.policies.flows.policy import flows_policy  # noqa: PLC0415  # see the module's docstring

    return flows_policy(options, environment)


def _guardrail(options: Mapping[str, Any], environment: PolicyEnvironment) -> Policy:
    try:
        from hookgate.hooks.policies.services.guardrail import guardrail_policy  # noqa: PLC0415  # see above
    except ImportError as error:
        raise ValueError(_NEEDS.format(error.name)) from None
    return guardrail_policy(options, environment)


def _limits(options: Mapping[str, Any], environment: PolicyEnvironment) -> Policy:
    from hookgate.hooks.policies.limits import limits_policy  # noqa: PLC0415  # see the module's docstring

    return limits_policy(options, environment)


def _model_armor(options: Mapping[str, Any], environment: PolicyEnvironment) -> Policy:
    try:
        from hookgate.hooks.policies.services.model_armor import model_armor_policy  # noqa: PLC0415  # see above
    except ImportError as error:
        raise ValueError(_NEEDS.format(error.name)) from None
    return model_armor_policy(options, environment)


def _models(options: Mapping[str, Any], environment: PolicyEnvironment) -> Policy:
    from hookgate.hooks.policies.models import models_policy  # noqa: PLC0415  # see the module's docstring

    return models_policy(options, environment)


def _redact(options: Mapping[str, Any], environment: PolicyEnvironment) -> Policy:
    from hookgate.hooks.policies.redact.policy import redact_policy  # noqa: PLC0415  # see the module's docstring

    return redact_policy(options, environment)


def _tools(options: Mapping[str, Any], environment: PolicyEnvironment) -> Policy:
    from hookgate.hooks.policies.tools import tools_policy  # noqa: PLC0415  # see the module's docstring

    return tools_policy(options, environment)


BUILTINS: Builtins = MappingProxyType(
    {
        "cassette": _cassette,
        "flows": _flows,
        "guardrail": _guardrail,
        "limits": _limits,
        "model_armor": _model_armor,
        "models": _models,
        "redact": _redact,
        "tools": _tools,
    }
)
"""The policies, by name."""

EVENTS_BY_POLICY: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "cassette": ("BeforeModel", "AfterModel"),
        "flows": ("BeforeAgent", "AfterTool", "BeforeTool"),
        "guardrail": ("BeforeModel", "AfterModel", "BeforeTool", "AfterTool"),
        "limits": ("BeforeModel",),
        "model_armor": ("BeforeModel", "AfterModel", "BeforeTool", "AfterTool"),
        "models": ("BeforeModel", "AfterModel"),
        "redact": ("BeforeModel", "AfterModel", "BeforeTool", "AfterTool"),
        "tools": ("BeforeToolSelection", "BeforeTool", "AfterModel"),
    }
)
"""The events that each policy judges. Under any other event it would let everything pass, or always fail."""

COUNTING = frozenset({"limits"})
"""The policies that use `PolicyEnvironment.counters`."""

PINNING = frozenset({"tools"})
"""The policies that use `PolicyEnvironment.pins` if they have the option `pin`."""

__all__ = ["BUILTINS", "COUNTING", "EVENTS_BY_POLICY", "PINNING"]
