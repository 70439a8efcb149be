"""The policy `cassette`: real answers, recorded and given again to the same request. For tests."""

from hookgate.hooks.policies.cassette.policy import cassette_policy

__all__ = ["cassette_policy"]
