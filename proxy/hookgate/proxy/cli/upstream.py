"""`hookgate upstream`: runs the embedded upstream, a stand-in for the Gemini API."""

import argparse
import logging
from pathlib import Path

from hookgate.proxy.config.values import host_and_port
from hookgate.proxy.embedded import load_script, run_embedded
from hookgate.proxy.workers.interrupts import catch_interrupts


def add_upstream(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `hookgate upstream`."""
    parser.add_argument(
        "--listen",
        default="127.0.0.1:0",
        metavar="HOST:PORT",
        help="the address to listen on; port 0, the default, selects a free one, which is logged",
    )
    parser.add_argument("--script", type=Path, metavar="FILE", help="answers from a JSON file")


async def run_upstream(args: argparse.Namespace) -> int:
    """Run the embedded upstream until it is interrupted. Raises ScriptError, ValueError or OSError."""
    interrupted = catch_interrupts()
    script = load_script(args.script) if args.script else None
    async with run_embedded(script, *host_and_port(args.listen)) as upstream:
        logging.getLogger("hookgate").info("embedded upstream (not a model) on %s", upstream.url)
        await interrupted.wait()
    return 0
