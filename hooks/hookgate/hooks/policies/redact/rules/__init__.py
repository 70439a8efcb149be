"""Rules of others, such as those of gitleaks, and rules in settings, which become detectors."""

from hookgate.hooks.policies.redact.rules.files import RuleSet, read_rules
from hookgate.hooks.policies.redact.rules.rule import GROUP, Rule, UnusableRule

__all__ = ["GROUP", "Rule", "RuleSet", "UnusableRule", "read_rules"]
