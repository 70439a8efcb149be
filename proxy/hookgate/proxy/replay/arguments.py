"""The arguments of `hookgate replay`."""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument(
        "--policy",
        type=Path,
        nargs="+",
        action="extend",
        required=True,
        metavar="FILE",
        help="settings files with the hooks to try, highest precedence first",
    )
    parser.add_argument("--prices", type=Path, metavar="FILE", help="a price table, for limits on cost")
    parser.add_argument("--json", action="store_true", help="the report as JSON, for programs")
    parser.add_argument(
        "export", type=Path, nargs="*", metavar="AUDIT", help="what `hookgate audit export` wrote"
    )


def files_of(given: argparse.Namespace) -> tuple[list[Path], list[Path]]:
    """The settings files and the exports. Raises ValueError where one of the two is missing.

    A flag takes all words that follow it, those of the exports too: these are the `.jsonl`, or the last one.
    """
    files: list[Path] = given.policy
    if given.export:
        return files, given.export
    first = next((at for at, path in enumerate(files) if path.suffix == ".jsonl"), len(files) - 1)
    if first == 0:
        raise ValueError("settings or an export are missing: hookgate replay --policy FILE… AUDIT.jsonl…")
    return files[:first], files[first:]
