"""The flags that stand for settings. Each is stored under the setting's dotted name.

Apart from the configuration's own modules, so that a command line is parsed without loading these.
"""

import argparse


def add_config_flag(parser: argparse.ArgumentParser) -> None:
    """The flag of every command that reads the configuration."""
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="the hookgate.toml to read (HOOKGATE_CONFIG, ~/.config/hookgate, /etc/hookgate)",
    )


def add_state_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of a command that looks at what the gateway remembers."""
    add_config_flag(parser)
    parser.add_argument(
        "--state",
        dest="hooks.state",
        metavar="FOLDER",
        help="what hookgate remembers, such as trusted hooks (HOOKGATE_STATE, ~/.local/state/hookgate)",
    )


def add_hook_flags(parser: argparse.ArgumentParser) -> None:
    """The flags that every command with hooks takes."""
    add_state_flags(parser)
    _files(
        parser,
        "--policy",
        "hooks.policy",
        "settings files whose hooks run first and cannot be switched off elsewhere (HOOKGATE_POLICY)",
    )
    _files(
        parser,
        "--hooks",
        "hooks.files",
        "settings files with hooks, highest precedence first (HOOKGATE_HOOKS, separated by ':')",
    )
    parser.add_argument(
        "--project",
        dest="hooks.project",
        metavar="FOLDER",
        help="read the settings that Gemini CLI reads there: the project's, yours, the system's, extensions'",
    )


def add_gateway_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of the gateway itself."""
    parser.add_argument(
        "--listen",
        dest="listen.address",
        metavar="HOST:PORT",
        help="where clients connect; port 0 takes a free one (HOOKGATE_LISTEN, 127.0.0.1:8787)",
    )
    parser.add_argument(
        "--upstream",
        dest="upstream.gemini",
        metavar="URL",
        help="where calls of the Gemini API go (HOOKGATE_UPSTREAM)",
    )
    add_hook_flags(parser)
    parser.add_argument(
        "--trust-project",
        dest="hooks.trust_project",
        action=argparse.BooleanOptionalAction,
        help="run the project's hooks without having them trusted",
    )


def _files(parser: argparse.ArgumentParser, flag: str, name: str, told: str) -> None:
    parser.add_argument(flag, dest=name, nargs="+", action="extend", metavar="FILE", help=told)
