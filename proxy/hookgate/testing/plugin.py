"""The plugin that pytest loads where hookgate is installed. It gives tests the fixture `hookgate_gateway`."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any, Protocol

import pytest

from hookgate.testing.gateway import Document, GatewayUnderTest, run_gateway


class StartGateway(Protocol):
    """The type of the fixture `hookgate_gateway`. Its arguments and errors are those of `run_gateway`."""

    def __call__(
        self,
        hooks: Document | None = None,
        *,
        script: Document | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> GatewayUnderTest:
        """Start a gateway, which runs until the end of the test."""


@pytest.fixture
def hookgate_gateway(request: pytest.FixtureRequest) -> Iterator[StartGateway]:
    """Start gateways that run until the end of the test. Relative paths are relative to the test's file."""
    with ExitStack() as stack:

        def start(
            hooks: Document | None = None,
            *,
            script: Document | None = None,
            config: Mapping[str, Any] | None = None,
        ) -> GatewayUnderTest:
            __tracebackhide__ = True
            folder = request.path.parent
            return stack.enter_context(run_gateway(hooks, script=script, config=config, folder=folder))

        yield start
