"""The arguments of `hookgate alerts ...` and `hookgate exports ...`, which tell other systems."""

from hookgate.proxy.cli.flags import CommandParser, add_by_flag, add_command, add_json_flag, add_state_flags


def add_alerts(parser: CommandParser) -> None:
    """Add every command to `hookgate alerts`."""
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="alerts_command")
    listed = add_command(
        commands,
        "list",
        "list the rules, what fires, and whether receivers were told",
        "hookgate alerts list",
    )
    silence = add_command(
        commands,
        "silence",
        "have nobody told that a rule fires, for some time",
        "hookgate alerts silence denials --for 2h",
    )
    unsilence = add_command(commands, "unsilence", "end a silence", "hookgate alerts unsilence denials")
    for command in (silence, unsilence):
        command.add_argument("rule", metavar="NAME", help="the name of the rule")
    silence.add_argument(
        "--for", dest="duration", required=True, metavar="TIME", help="for how long, such as 30m, 2h or 7d"
    )
    test = add_command(
        commands, "test", "send a test alert to all receivers, or to one", "hookgate alerts test chat"
    )
    test.add_argument("receiver", nargs="?", metavar="RECEIVER", help="the name of the receiver")
    add_command(
        commands,
        "secret",
        "print a new secret for a receiver of JSON",
        "hookgate alerts secret > alerts-secret",
    )
    add_by_flag(silence, unsilence)
    add_json_flag(listed)
    add_state_flags(listed, silence, unsilence, test)


def add_exports(parser: CommandParser) -> None:
    """Add every command to `hookgate exports`."""
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="exports_command")
    listed = add_command(
        commands,
        "list",
        "list the exports: how far they have come, and what is wrong",
        "hookgate exports list",
    )
    test = add_command(
        commands,
        "test",
        "send one record that is not of the audit, and say what came back",
        "hookgate exports test siem",
    )
    test.add_argument("name", metavar="NAME", help="the export, by its name in hookgate.toml")
    add_json_flag(listed)
    add_state_flags(listed, test)
