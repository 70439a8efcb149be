"""For tests of your own hooks: a gateway in front of a scripted upstream. docs/testing.md describes it."""

from hookgate.testing.calls import Answer
from hookgate.testing.gateway import GatewayUnderTest, run_gateway

__all__ = ["Answer", "GatewayUnderTest", "run_gateway"]
