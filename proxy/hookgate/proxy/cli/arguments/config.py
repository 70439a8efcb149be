"""The arguments of `hookgate config ...` and `hookgate doctor`."""

import argparse

from hookgate.proxy.cli.flags import CommandParser, add_command, add_gateway_flags, add_json_flag


def add_config(parser: CommandParser) -> None:
    """Add every command to `hookgate config`."""
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="config_command")
    check = add_command(
        commands,
        "check",
        "report all errors, including those in the files that it names",
        "hookgate config check --config hookgate.toml",
    )
    show = add_command(
        commands, "show", "show every setting in force, and where it was set", "hookgate config show"
    )
    prices = add_command(
        commands,
        "prices",
        "print the price table in use, to copy and edit",
        "hookgate config prices > prices.json",
    )
    for command in (check, show, prices):
        add_gateway_flags(command)
    add_json_flag(show)
    add_command(
        commands,
        "schema",
        "print the JSON Schema of hookgate.toml, for editors",
        "hookgate config schema > hookgate.schema.json",
    )


def add_doctor(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `hookgate doctor`."""
    add_gateway_flags(parser)
    parser.add_argument(
        "--offline", action="store_true", help="do not check whether upstreams and receivers can be reached"
    )
    add_json_flag(parser)
