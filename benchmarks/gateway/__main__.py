"""Compares the gateway with other proxies: `python -m benchmarks.gateway --help`."""

import argparse
from collections.abc import Collection, Sequence
from pathlib import Path

from benchmarks.gateway.configurations import CONFIGURATIONS
from benchmarks.gateway.loads import LOADS
from benchmarks.gateway.measuring import Plan, measure
from benchmarks.gateway.pages.figures import Figures, write
from benchmarks.gateway.pages.tables import circumstances, terminal


def main(argv: Sequence[str] | None = None) -> None:
    """Measure the loads and configurations that `argv`, or else the command line, selects."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gateway",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_names(),
    )
    parser.add_argument("--only", default="", metavar="LOAD,…", help="loads; default: all")
    parser.add_argument(
        "--configurations", default="", metavar="NAME,…", help="configurations; default: those of each load"
    )
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds (default: %(default)s)")
    parser.add_argument(
        "--beside",
        type=Path,
        metavar="FOLDER",
        help="another checkout, with a .venv, to measure in the same rounds",
    )
    parser.add_argument("--json", type=Path, help="also write the raw figures to this file")
    arguments = parser.parse_args(argv)
    loads = _chosen(parser, arguments.only, LOADS) or list(LOADS)
    only = _chosen(parser, arguments.configurations, CONFIGURATIONS)

    def done(figures: Figures, load: str) -> None:
        print(terminal(figures, load), flush=True)
        if load == loads[-1]:
            print(circumstances(figures))
        if arguments.json:
            write(figures, arguments.json)

    measure(Plan(loads, only, arguments.rounds, arguments.beside), done)


def _chosen(parser: argparse.ArgumentParser, text: str, known: Collection[str]) -> list[str]:
    names = [name for name in text.split(",") if name]
    for name in names:
        if name not in known:
            parser.error(f"unknown name {name!r}; choose from {', '.join(known)}")
    return names


def _names() -> str:
    loads = "\n".join(f"  {name:12} {load.description}" for name, load in LOADS.items())
    configurations = "\n".join(f"  {name:12} {each.title}" for name, each in CONFIGURATIONS.items())
    return f"loads:\n{loads}\n\nconfigurations:\n{configurations}"


if __name__ == "__main__":
    main()
