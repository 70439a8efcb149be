"""Checks of what reached the upstream, for the tests of real clients."""

from typing import Any

from support.gateway.loopback import RunningGateway


def sent_parts(gateway: RunningGateway) -> list[Any]:
    """The parts of the last conversation that reached the upstream."""
    return [part for content in gateway.generated[-1].body["contents"] for part in content["parts"]]
