"""The arguments of `hookgate replay`."""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument(
        "--policy",
        type=Path,
        action="append",
        required=True,
        metavar="FILE",
        help="a settings file with the hooks to try; may be given several times, highest precedence first",
    )
    parser.add_argument("--prices", type=Path, metavar="FILE", help="a price table, for limits on cost")
    parser.add_argument("--json", action="store_true", help="the report as JSON, for programs")
    parser.add_argument(
        "export", type=Path, nargs="+", metavar="AUDIT", help="what `hookgate audit export` wrote"
    )
