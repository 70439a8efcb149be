"""The arguments of `hookgate tools ...`."""

from hookgate.proxy.cli.flags import CommandParser, add_command, add_json_flag, add_state_flags, add_yes_flag


def add_tools(parser: CommandParser) -> None:
    """Add every command to `hookgate tools`."""
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="tools_command")
    listed = add_command(
        commands,
        "list",
        "list the tools that a policy has pinned, and their changes",
        "hookgate tools list",
    )
    accept = add_command(
        commands,
        "accept",
        "show changes to pinned declarations, and accept them",
        "hookgate tools accept read_file",
    )
    forget = add_command(
        commands,
        "forget",
        "unpin tools: their next declarations count as the first",
        "hookgate tools forget read_file",
    )
    for command in (accept, forget):
        command.add_argument("name", nargs="+", metavar="NAME", help="the names of tools")
    add_yes_flag(accept)
    add_json_flag(listed)
    add_state_flags(listed, accept, forget)
