"""The command line of `hookgate`: the table of its commands, and how one of them runs.

The table names functions by their modules, which are imported when a command is used: no command loads those
of the others, and `--version` loads none.
"""

import argparse
import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any, TextIO, cast

from hookgate.proxy import __version__
from hookgate.proxy.cli.flags import CommandParser, sentence
from hookgate.proxy.errors import describe_os_error


@dataclass(frozen=True, slots=True)
class Command:
    """A command of `hookgate`. Its functions are named as `module:function`."""

    name: str
    help: str
    run: str
    """The function that runs it, with the parsed arguments. It returns the exit code, or a coroutine."""
    add_arguments: str | None = None
    """The function that adds its arguments to a parser."""
    log_level: int = logging.WARNING
    examples: tuple[str, ...] = ()
    """Command lines, unless it has commands below it, which have their own."""

    def fill(self, parser: CommandParser) -> None:
        """Prepare the parser of this command, which was chosen on the command line."""
        parser.set_defaults(chosen=self)
        if self.add_arguments:
            _imported(self.add_arguments)(parser)

    async def start(self, args: argparse.Namespace) -> int:
        """Run the command and return its exit code."""
        code: Awaitable[int] | int = _imported(self.run)(args)
        return code if isinstance(code, int) else await code


def _imported(name: str) -> Callable[..., Any]:
    """Import a function, given as `module:function`, without garbage collections.

    Modules are not garbage. To traverse them again and again would take a tenth of the time to import them.
    """
    gc.disable()
    try:
        return cast("Callable[..., Any]", resolve_name(name))
    finally:
        gc.freeze()
        gc.enable()


COMMANDS = (
    Command(
        "init",
        "write a first configuration for a chosen use, and say what to type next",
        "hookgate.proxy.cli.init:run_init",
        "hookgate.proxy.cli.init:add_init",
        examples=("hookgate init gateway --for redact", "hookgate init gateway --from tool-allow-list"),
    ),
    Command(
        "serve",
        "run the gateway between Gemini agents and the Gemini API",
        "hookgate.proxy.cli.serve:run_serve",
        "hookgate.proxy.cli.flags:add_gateway_flags",
        log_level=logging.INFO,
        examples=("hookgate serve --hooks settings.json", "hookgate serve --config hookgate.toml"),
    ),
    Command(
        "config",
        "check and show the gateway's configuration",
        "hookgate.proxy.cli.config:run_config",
        "hookgate.proxy.cli.arguments.config:add_config",
    ),
    Command(
        "doctor",
        "check configuration, hooks, addresses, state, upstreams and receivers",
        "hookgate.proxy.cli.doctor:run_doctor",
        "hookgate.proxy.cli.arguments.config:add_doctor",
        log_level=logging.ERROR,
        examples=("hookgate doctor --config hookgate.toml",),
    ),
    Command(
        "keys",
        "issue, list, rotate and revoke keys of clients, show their usage, and hash one",
        "hookgate.proxy.cli.keys:run_keys",
        "hookgate.proxy.cli.arguments.keys:add_keys",
    ),
    Command(
        "data",
        "find, export and erase what is stored about a person",
        "hookgate.proxy.cli.data.command:run_data",
        "hookgate.proxy.cli.arguments.calls:add_data",
    ),
    Command(
        "policy",
        "push the policy of all gateways, show its revisions, and roll back",
        "hookgate.proxy.cli.policy:run_policy",
        "hookgate.proxy.cli.arguments.policy:add_policy",
    ),
    Command(
        "agents",
        "list agents, print their settings, and check that their calls arrive",
        "hookgate.proxy.cli.agents.command:run_agents",
        "hookgate.proxy.cli.arguments.agents:add_agents",
    ),
    Command(
        "receipt",
        "show the receipt of a call, as the running gateway has it; `audit show` reads the records",
        "hookgate.proxy.cli.receipts:run_receipt",
        "hookgate.proxy.cli.arguments.calls:add_receipt",
        examples=("hookgate receipt 8f0c41d2a96b4e07b1c35d80f2e6a794",),
    ),
    Command(
        "replay",
        "try a policy on recorded calls",
        "hookgate.proxy.cli.replay:run_replay",
        "hookgate.proxy.cli.arguments.calls:add_replay",
        log_level=logging.ERROR,
        examples=("hookgate replay --policy policy.json audit.jsonl",),
    ),
    Command(
        "audit",
        "list, export and verify the records of calls",
        "hookgate.proxy.cli.audit:run_audit",
        "hookgate.proxy.cli.arguments.audit:add_audit",
    ),
    Command(
        "alerts",
        "list alerts, silence rules, and test receivers",
        "hookgate.proxy.cli.alerts:run_alerts",
        "hookgate.proxy.cli.arguments.delivery:add_alerts",
    ),
    Command(
        "approvals",
        "list the tool calls that wait for a person, and decide about them",
        "hookgate.proxy.cli.approvals:run_approvals",
        "hookgate.proxy.cli.arguments.approvals:add_approvals",
    ),
    Command(
        "exports",
        "list the exports of the audit, and try one",
        "hookgate.proxy.cli.exports:run_exports",
        "hookgate.proxy.cli.arguments.delivery:add_exports",
    ),
    Command(
        "hooks",
        "list, switch, trust, test and migrate hooks",
        "hookgate.proxy.cli.hooks:run_hooks",
        "hookgate.proxy.cli.arguments.hooks:add_hooks",
    ),
    Command(
        "tools",
        "list pinned tool declarations, accept changes, and unpin tools",
        "hookgate.proxy.cli.tools:run_tools",
        "hookgate.proxy.cli.arguments.tools:add_tools",
    ),
    Command(
        "redact",
        "list what redaction finds, find it in files, and let a finding stay",
        "hookgate.proxy.cli.redact.command:run_redact",
        "hookgate.proxy.cli.arguments.redact:add_redact",
    ),
    Command(
        "run",
        "start an agent in its own session of the gateway",
        "hookgate.shim.command.launch:run_agent",
        "hookgate.proxy.cli.arguments.agents:add_run",
        examples=("hookgate run -- gemini", "hookgate run --session nightly -- python agent.py"),
    ),
    Command(
        "shim",
        "make agents such as Gemini CLI or Claude Code report their events to the gateway",
        "hookgate.proxy.cli.shim:run_shim",
        "hookgate.proxy.cli.arguments.agents:add_shim",
    ),
    Command(
        "event",
        "report an agent's event to the gateway",
        "hookgate.proxy.cli.shim:report_event",
        "hookgate.proxy.cli.arguments.agents:add_event",
        examples=("hookgate event BeforeTool < input.json",),
    ),
    Command(
        "mock-upstream",
        "run a mock of the Gemini API, offline; not a model",
        "hookgate.proxy.cli.mock_upstream:run_mock",
        "hookgate.proxy.cli.arguments.mock_upstream:add_mock_upstream",
        log_level=logging.INFO,
        examples=("hookgate mock-upstream --listen 127.0.0.1:8788",),
    ),
    Command(
        "demo",
        "show a google-genai client using the gateway, offline",
        "hookgate.proxy.cli.demo:run_demo",
        examples=("hookgate demo",),
    ),
    Command(
        "completion",
        "print the script with which a shell completes commands and flags",
        "hookgate.proxy.cli.completion:run_completion",
        "hookgate.proxy.cli.completion:add_completion",
        examples=("hookgate completion bash > ~/.local/share/bash-completion/completions/hookgate",),
    ),
)

_EXTRAS = {
    "google": "demo",
    "rich": "demo",
    "opentelemetry": "otel",
    "requests": "otel",
    "jwt": "tokens",
    "botocore": "s3",
}
"""The extras that install packages which the gateway itself does not need, by package."""


def run_command(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0, or 1 with the errors on stderr.

    It is 130 if the command was interrupted, and 141 if the reader of its output has gone.
    """
    args = command_parser().parse_args(argv)
    command: Command = args.chosen
    from hookgate.proxy.observe import logs  # noqa: PLC0415  # see the module's docstring

    handler = logging.StreamHandler()
    handler.setFormatter(logs.TextLines())
    logging.basicConfig(handlers=[handler], level=command.log_level)
    logging.getLogger("alembic").setLevel(logging.WARNING)  # it reports its plugins when it is imported
    try:
        # Much of the output comes from clients, upstreams, projects and hooks.
        with contextlib.redirect_stdout(cast("TextIO", logs.EscapingStream(sys.stdout))):
            code = asyncio.run(command.start(args))
        sys.stdout.flush()  # errors could not be reported any more when the interpreter exits
    except BrokenPipeError:
        return _discard_output()
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get((error.name or "").partition(".")[0], "proxy")
        print(f"hookgate: {error}; install hookgate with its extra {extra}", file=sys.stderr)
        return 1
    except ValueError as error:
        print(f"hookgate: {logs.escape_controls(str(error))}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"hookgate: {logs.escape_controls(_describe_error(error))}", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, asyncio.CancelledError):
        return 130  # interrupted twice
    return code


def _discard_output() -> int:
    """Discard further output, since its reader, such as `head`, has gone. Returns the exit code for this."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 128 + signal.SIGPIPE


def _describe_error(error: OSError) -> str:
    if error.filename is None:
        return describe_os_error(error)
    return f"{error.filename}: {describe_os_error(error)}; check the path and its permissions"


def command_parser() -> CommandParser:
    """Return the parser of all commands."""
    parser = CommandParser(prog="hookgate", description="A policy gateway for Gemini agents.")
    parser.add_argument("--version", action="version", version=f"hookgate {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in COMMANDS:
        has_help = command.name != "event"  # which prints its own
        commands.add_parser(
            command.name,
            help=command.help,
            description=sentence(command.help),
            fill=command.fill,
            examples=command.examples,
            add_help=has_help,
        )
    return parser
