"""The arguments of `hookgate mock-upstream`."""

import argparse
from pathlib import Path


def add_mock_upstream(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `hookgate mock-upstream`."""
    parser.add_argument(
        "--listen",
        default="127.0.0.1:0",
        metavar="HOST:PORT",
        help="the address to listen on; port 0, the default, selects a free one, which is logged",
    )
    parser.add_argument("--script", type=Path, metavar="FILE", help="answers from a JSON file")
