"""The policy `limits`: how many requests, tokens and how much money, per caller and calendar window."""

from hookgate.hooks.policies.limits.policy import limits_policy

__all__ = ["limits_policy"]
