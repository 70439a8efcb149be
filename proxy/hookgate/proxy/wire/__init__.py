"""Events that an agent's calls give away: for sessions whose agent has no shim to tell of them."""

from hookgate.proxy.wire.answers import WireAnswers, WireCalls
from hookgate.proxy.wire.memory import Memory
from hookgate.proxy.wire.requests import WireRequests

__all__ = ["Memory", "WireAnswers", "WireCalls", "WireRequests"]
