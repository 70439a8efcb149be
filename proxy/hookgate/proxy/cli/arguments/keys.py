"""The arguments of `hookgate keys ...`."""

from hookgate.proxy.cli.flags import CommandParser, add_by_flag, add_command, add_json_flag, add_state_flags
from hookgate.proxy.route_groups import DEFAULT_GROUPS, ROUTE_GROUPS


def add_keys(parser: CommandParser) -> None:
    """Add every command to `hookgate keys`."""
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="keys_command")
    create = add_command(
        commands,
        "create",
        "issue a key, and print it; it is not shown again",
        "hookgate keys create alice --team web",
        "hookgate keys create ci --expires 90d --models 'gemini-*-flash' --limit cost=20/month",
    )
    create.add_argument("owner", metavar="OWNER", help="the name of its owner, for hooks, logs and the audit")
    create.add_argument("--team", default="", metavar="NAME", help="the owner's team, for hooks and metrics")
    create.add_argument("--note", default="", metavar="TEXT", help="what it is for, shown by `keys list`")
    create.add_argument("--expires", metavar="TIME", help="when it expires: 90d, 12h, or 2027-01-31")
    create.add_argument(
        "--models", nargs="+", default=["*"], metavar="MODEL", help="models that it may call, with wildcards"
    )
    create.add_argument(
        "--routes",
        nargs="+",
        default=list(DEFAULT_GROUPS),
        choices=ROUTE_GROUPS,
        metavar="ROUTES",
        help=f"routes that it may call: {', '.join(ROUTE_GROUPS)} (default: {' '.join(DEFAULT_GROUPS)})",
    )
    create.add_argument(
        "--limit",
        action="append",
        default=[],
        metavar="LIMIT",
        help="how much it may use: requests=60/minute, tokens=1000000/day, cost=20/month; repeatable",
    )
    listed = add_command(commands, "list", "list issued keys", "hookgate keys list --all")
    listed.add_argument("--all", action="store_true", help="also list keys that are revoked or have expired")
    rotate = add_command(
        commands,
        "rotate",
        "replace a key with a new one, and print that",
        "hookgate keys rotate alice --overlap 24h",
    )
    rotate.add_argument(
        "--overlap",
        default="0",
        metavar="TIME",
        help="how long the old key stays valid, such as 24h (default: 0)",
    )
    revoke = add_command(
        commands,
        "revoke",
        "revoke a key; gateways refuse it within seconds",
        "hookgate keys revoke alice",
        "hookgate keys revoke - < leaked-key",
    )
    usage = add_command(
        commands, "usage", "show what was used with each key", "hookgate keys usage --since 30d"
    )
    usage.add_argument(
        "--since", metavar="TIME", help="only from this day on (UTC), such as 7d or 2027-01-31"
    )
    for command in (rotate, revoke):
        command.add_argument(
            "key",
            metavar="ID",
            help="the ID of the key, the whole key, or its owner if it is the only one; - reads stdin",
        )
    usage.add_argument("key", nargs="?", metavar="ID", help="only the key with this ID, or of this owner")
    add_by_flag(create, rotate, revoke)
    add_json_flag(create, listed, rotate, usage)
    add_state_flags(create, listed, rotate, revoke, usage)
    add_command(
        commands,
        "hash",
        "print the SHA-256 of the API key on stdin, for a [keys.NAME] table of hookgate.toml",
        "hookgate keys hash < key",
    )
