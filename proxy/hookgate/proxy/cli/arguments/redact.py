"""The arguments of `hookgate redact ...`."""

from hookgate.proxy.cli.flags import CommandParser, add_command, add_hook_flags, add_json_flag


def add_redact(parser: CommandParser) -> None:
    """Add every command to `hookgate redact`."""
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="redact_command")
    rules = add_command(
        commands,
        "rules",
        "list what is found, from where it comes, and rules that are not used",
        "hookgate redact rules --policy policy.json",
    )
    scan = add_command(
        commands,
        "scan",
        "find what would be replaced in files; exit code 1 if there is something, 2 for trouble",
        "hookgate redact scan .",
        "hookgate redact scan . --rules gitleaks.toml --sarif > findings.sarif",
    )
    scan.add_argument("path", nargs="+", metavar="PATH", help="files and folders; '-' is stdin")
    form = scan.add_mutually_exclusive_group()
    add_json_flag(rules)
    form.add_argument("--json", action="store_true", help="print JSON, for programs")
    form.add_argument("--sarif", action="store_true", help="print SARIF, for code scanning")
    allowed = add_command(
        commands,
        "allow",
        "let a finding stay that is no secret, in the settings",
        "hookgate redact allow HG_EMAIL_9c1f04d2ab7e5a10 --policy policy.json",
    )
    allowed.add_argument(
        "hash", metavar="HASH", help="the finding's hash, as a receipt shows it: HG_EMAIL_9c1f04d2ab7e5a10"
    )
    allowed.add_argument("--name", metavar="NAME", help="only for the hooks with this name")
    add_hook_flags(allowed)
    for command in (rules, scan):
        add_hook_flags(command)
        command.add_argument(
            "--rules",
            dest="rule_files",
            action="append",
            default=[],
            metavar="FILE",
            help="a file with further rules, in the format of gitleaks; may be repeated",
        )
