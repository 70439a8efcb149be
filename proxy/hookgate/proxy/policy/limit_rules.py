"""The rules of the policy `limits` in a configuration, and what distinguishes their counts."""

from collections.abc import Iterable, Iterator

from hookgate.hooks.policies.counters import CountName, LimitRule, LimitsOptions, rule_id
from hookgate.hooks.policies.options import read_options
from hookgate.hooks.settings import BuiltinConfig, Hook

RuleId = tuple[str, ...]
"""What distinguishes the counts of one rule from those of others, for the same caller."""


def id_of_rule(rule: LimitRule) -> RuleId:
    """Return the ID of a rule."""
    return (rule.per, rule.window, *rule_id(rule))


def id_of_count(count: CountName) -> RuleId:
    """Return the ID of the rule to which a count belongs."""
    return (count.per, count.window, *count.rule)


def limit_rules(hooks: Iterable[Hook]) -> Iterator[tuple[str, LimitRule]]:
    """Yield the rules of hooks, each with the name of its hook."""
    for hook in hooks:
        if isinstance(hook.config, BuiltinConfig) and hook.config.builtin == "limits":
            for rule in read_options(LimitsOptions, hook.config.options).rules:
                yield hook.name, rule
