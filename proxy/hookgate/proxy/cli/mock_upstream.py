"""`hookgate mock-upstream`: runs the mock upstream, a mock of the Gemini API."""

import argparse
import logging

from hookgate.proxy.config.values import host_and_port
from hookgate.proxy.mock_upstream import load_script, run_mock_upstream
from hookgate.proxy.workers.interrupts import catch_interrupts


async def run_mock(args: argparse.Namespace) -> int:
    """Run the mock upstream until it is interrupted. Raises ScriptError, ValueError or OSError."""
    interrupted = catch_interrupts()
    script = load_script(args.script) if args.script else None
    try:
        host, port = host_and_port(args.listen)
    except ValueError as error:
        raise ValueError(f"--listen: {error}") from None
    async with run_mock_upstream(script, host, port) as upstream:
        logging.getLogger("hookgate").info("mock upstream (not a model) on %s", upstream.url)
        await interrupted.wait()
    return 0
