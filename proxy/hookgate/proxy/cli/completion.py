"""`hookgate completion`: the script with which a shell completes commands, flags and files."""

import argparse

import shtab

from hookgate.proxy.cli.main import command_parser

_SHELLS = ("bash", "zsh", "fish", "powershell")
_COMPLETED = {"FILE": shtab.FILE, "FOLDER": shtab.DIR}
"""How values are completed, by their names in the usage."""


def add_completion(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `hookgate completion`."""
    parser.add_argument("shell", choices=_SHELLS, help="the shell that reads the script")


def run_completion(given: argparse.Namespace) -> int:
    """Print the script for a shell."""
    parser = command_parser()
    parser.fill_all()
    _complete_files(parser)
    print(shtab.complete(parser, given.shell))
    return 0


def _complete_files(parser: argparse.ArgumentParser) -> None:
    for action in parser._actions:  # as shtab itself does: argparse has no public list
        if isinstance(action, argparse._SubParsersAction):  # it has no public name
            for command in action.choices.values():
                _complete_files(command)
        elif isinstance(action.metavar, str) and action.metavar in _COMPLETED:
            action.complete = _COMPLETED[action.metavar]  # type: ignore[attr-defined]  # read by shtab
