"""Checks the hooks of the policy `flows` together, as what some note is what others judge by."""

from collections.abc import Iterable

from hookgate.hooks.errors import Problem
from hookgate.hooks.policies.flows.options import FlowsOptions
from hookgate.hooks.policies.options import read_options
from hookgate.hooks.settings import BuiltinConfig, Hook

_UNKNOWN = "a rule depends on the label {label!r}, which no AfterTool hook of flows gives; known are {known}"
_NO_USER = (
    "a rule depends on what the user says, which no BeforeAgent hook of flows notes; add one, without options"
)


def flow_problems(hooks: Iterable[Hook]) -> list[Problem]:
    """Return what keeps rules from applying, such as labels that no hook gives. The options must be valid."""
    flows = [
        (hook, read_options(FlowsOptions, hook.config.options))
        for hook in hooks
        if isinstance(hook.config, BuiltinConfig) and hook.config.builtin == "flows"
    ]
    given = {label for hook, options in flows if hook.event == "AfterTool" for label in options.sources}
    hears_user = any(hook.event == "BeforeAgent" for hook, _ in flows)
    problems = []
    for hook, options in flows:
        if hook.event != "BeforeTool":
            continue
        where = f"the BeforeTool hook {hook.name!r}: options"
        for label in dict.fromkeys(
            label for rule in options.rules for label in rule.labels if label not in given
        ):
            message = _UNKNOWN.format(label=label, known=", ".join(sorted(given)) or "none")
            problems.append(Problem(hook.source, f"{where}: {message}", hook.line))
        if not hears_user and any(rule.needs_user for rule in options.rules):
            problems.append(Problem(hook.source, f"{where}: {_NO_USER}", hook.line))
    return problems
