"""The parser of command lines, and the flags that several commands share.

A flag that corresponds to a setting is stored under the setting's dotted name. No module of the gateway is
imported here, so that parsing a command line and showing its help take little time.
"""

import argparse
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

_USUAL_NAMES = {"--port": "--listen", "--host": "--listen", "--bind": "--listen", "--settings": "--hooks"}
"""Flags of other programs, with the flag that does the same here."""

_FLAGS_OF_FILES = {".json": "--hooks", ".toml": "--config"}


class CommandParser(argparse.ArgumentParser):
    """A parser whose commands report wrong words themselves, with their own usage and the likely flag."""

    def __init__(
        self,
        *args: Any,
        fill: "Callable[[CommandParser], None] | None" = None,
        examples: Sequence[str] = (),
        **kwargs: Any,
    ) -> None:
        """Create a parser.

        Args:
            args: As for argparse.
            fill: Adds the arguments when the parser's command is used, so that it may import modules.
            examples: Command lines, which end the help.
            kwargs: As for argparse.
        """
        super().__init__(*args, **kwargs)
        self.allow_abbrev = False  # so that a new flag cannot change what a script means
        self.examples = tuple(examples)
        self._fill = fill

    def format_help(self) -> str:
        """Return the help, with the examples as they can be pasted into a shell."""
        text = super().format_help()
        if not self.examples:
            return text
        title = "example" if len(self.examples) == 1 else "examples"
        return "\n".join([f"{text}\n{title}:", *(f"  {line}" for line in self.examples), ""])

    def fill_all(self) -> None:
        """Add the arguments of this command, and of all commands below it."""
        if self._fill is not None:
            fill, self._fill = self._fill, None
            fill(self)
        for action in self._actions:
            if isinstance(action, Subcommands):
                for command in action.choices.values():
                    command.fill_all()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse the words of this command, and end the program if some are not known."""
        if self._fill is not None:
            fill, self._fill = self._fill, None
            fill(self)
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}{self._suggestion(unknown[0])}")
        return parsed, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Check a value that must be one of several, and suggest the most similar one."""
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            near = get_close_matches(str(value), map(str, action.choices or ()), n=1)
            remedy = f"; did you mean {near[0]}?" if near else ""
            raise argparse.ArgumentError(action, f"{error.message}{remedy}") from None

    def _suggestion(self, word: str) -> str:
        known = self._option_string_actions
        if not word.startswith("-"):
            flag = _FLAGS_OF_FILES.get(Path(word).suffix)
            return f"; name the file with {flag}" if flag in known else ""
        name = word.partition("=")[0]
        usual = _USUAL_NAMES.get(name)
        near = [usual] if usual in known else get_close_matches(name, known, n=1)
        return f"; did you mean {near[0]}?" if near else ""


Subcommands = argparse._SubParsersAction  # it has no public name
"""What `add_subparsers` returns."""


def add_command(
    commands: "Subcommands[CommandParser]",
    name: str,
    summary: str,
    *examples: str,
    aliases: Sequence[str] = (),
) -> CommandParser:
    """Add a command with a summary for lists, which is also the first sentence of its help, and examples."""
    return commands.add_parser(
        name, aliases=aliases, help=summary, description=sentence(summary), examples=examples
    )


def sentence(summary: str) -> str:
    """Return a summary as a sentence."""
    return f"{summary[0].upper()}{summary[1:]}."


def whole_number(text: str) -> int:
    """Return the number in an argument. Raises ArgumentTypeError unless it is a whole number above 0."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"must be a whole number above 0, not {text!r}")
    return int(text)


def add_config_flag(parser: argparse.ArgumentParser) -> None:
    """Add the flag of every command that reads the configuration."""
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="the hookgate.toml to read (default: HOOKGATE_CONFIG, ~/.config/hookgate, /etc/hookgate)",
    )


def add_json_flag(*parsers: argparse.ArgumentParser) -> None:
    """Add the flag of lists and reports."""
    for parser in parsers:
        parser.add_argument("--json", action="store_true", help="print JSON, for programs")


def add_quiet_flag(*parsers: argparse.ArgumentParser) -> None:
    """Add the flag of commands that show their progress."""
    for parser in parsers:
        parser.add_argument("--quiet", action="store_true", help="do not show progress on the terminal")


def add_yes_flag(*parsers: argparse.ArgumentParser) -> None:
    """Add the flag of commands that ask for confirmation."""
    for parser in parsers:
        parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")


def add_by_flag(*parsers: argparse.ArgumentParser) -> None:
    """Add the flag of commands whose change the audit records."""
    for parser in parsers:
        parser.add_argument(
            "--by",
            metavar="NAME",
            help="who makes the change, as recorded in the audit (default: USER@HOST)",
        )


def add_admin_flag(*parsers: argparse.ArgumentParser) -> None:
    """Add the flag of commands that ask a running gateway."""
    for parser in parsers:
        parser.add_argument(
            "--admin", metavar="HOST:PORT", help="the gateway's admin listener (default: the configured one)"
        )


def not_configured(what: str, table: str, file: Path | None) -> str:
    """Return the message that the configuration has none of something, and which file was read."""
    if file is None:
        return f"there are no {what}: no hookgate.toml was found; name yours with --config"
    return f"there are no {what} in {file}; describe one in {table}, or name another file with --config"


def add_state_flags(*parsers: argparse.ArgumentParser) -> None:
    """Add the flags of commands that read the gateway's state folder."""
    for parser in parsers:
        add_config_flag(parser)
        parser.add_argument(
            "--state",
            dest="hooks.state",
            metavar="FOLDER",
            help="the folder for hookgate's own files (default: HOOKGATE_STATE, ~/.local/state/hookgate)",
        )


def add_hook_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of every command that loads hooks."""
    add_state_flags(parser)
    _files(
        parser,
        "--policy",
        "hooks.policy",
        "settings files whose hooks run first; nothing else can switch them off (default: HOOKGATE_POLICY)",
    )
    _files(
        parser,
        "--hooks",
        "hooks.files",
        "settings files with hooks, highest precedence first (default: HOOKGATE_HOOKS, separated by ':')",
    )
    parser.add_argument(
        "--project",
        dest="hooks.project",
        metavar="FOLDER",
        help="read Gemini CLI's settings for this folder: of the project, user, system and extensions",
    )


def add_gateway_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the gateway itself."""
    parser.add_argument(
        "--listen",
        dest="listen.address",
        metavar="HOST:PORT",
        help="where clients connect; port 0 selects a free one (default: HOOKGATE_LISTEN, 127.0.0.1:8787)",
    )
    parser.add_argument(
        "--workers",
        dest="listen.workers",
        metavar="NUMBER",
        help="the number of processes that serve clients (default: 1)",
    )
    parser.add_argument(
        "--upstream",
        dest="upstream.gemini",
        metavar="URL",
        help="the base URL of the Gemini API (default: HOOKGATE_UPSTREAM)",
    )
    parser.add_argument(
        "--admin",
        dest="admin.address",
        metavar="HOST:PORT",
        help="where operators connect: panel, metrics, health; 'off' for none (default: 127.0.0.1:9787)",
    )
    parser.add_argument(
        "--open",
        dest="clients.open",
        action=argparse.BooleanOptionalAction,
        help="allow calls without a known key although other machines can reach the address",
    )
    add_hook_flags(parser)
    parser.add_argument(
        "--trust-project",
        dest="hooks.trust_project",
        action=argparse.BooleanOptionalAction,
        help="run the project's hooks even if they are not trusted",
    )


def _files(parser: argparse.ArgumentParser, flag: str, name: str, help_text: str) -> None:
    parser.add_argument(flag, dest=name, nargs="+", action="extend", metavar="FILE", help=help_text)
