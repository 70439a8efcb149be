"""The command line of `hookgate`: `init`, `serve`, `config`, `doctor`, `hooks`, `run`, `event` and more.

Each command imports its modules when it runs, so that it does not load those of the others, and `--version`
loads none.
"""

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO, cast

from hookgate.proxy import __version__
from hookgate.proxy.cli.flags import CommandParser, add_gateway_flags, add_state_flags
from hookgate.proxy.errors import describe_os_error

_EXTRAS = {"google": "demo", "rich": "demo", "opentelemetry": "otel", "requests": "otel", "jwt": "tokens"}
"""The extras that install packages which the gateway itself does not need, by package."""


def run_command(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0, or 1 with the errors on stderr.

    It is 130 if the command was interrupted, and 141 if the reader of its output has gone.
    """
    arguments = _parser().parse_args(argv)
    from hookgate.proxy.observe.logs import TextLines, escape_controls  # noqa: PLC0415  # see the module's docstring

    handler = logging.StreamHandler()
    handler.setFormatter(TextLines())
    logging.basicConfig(handlers=[handler], level=arguments.log_level)
    logging.getLogger("alembic").setLevel(logging.WARNING)  # it reports its plugins when it is imported
    run: Callable[[argparse.Namespace], Coroutine[Any, Any, int]] = arguments.run
    try:
        with _escaped_output(arguments):
            code = asyncio.run(run(arguments))
        sys.stdout.flush()  # errors could not be reported any more when the interpreter exits
    except BrokenPipeError:
        return _discard_output()
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get((error.name or "").partition(".")[0], "proxy")
        print(f"hookgate: {error}; in a checkout of hookgate, run: pip install '.[{extra}]'", file=sys.stderr)
        return 1
    except ValueError as error:
        print(f"hookgate: {escape_controls(str(error))}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"hookgate: {escape_controls(_describe_error(error))}", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, asyncio.CancelledError):
        return 130  # interrupted twice
    return code


def _escaped_output(arguments: argparse.Namespace) -> "contextlib.AbstractContextManager[object]":
    """Escape the output of commands: much of it comes from clients, upstreams, projects and hooks.

    The demo prints only its own texts, in colors.
    """
    if arguments.run is _demo:
        return contextlib.nullcontext()
    from hookgate.proxy.observe.logs import EscapingStream  # noqa: PLC0415  # see the module's docstring

    return contextlib.redirect_stdout(cast("TextIO", EscapingStream(sys.stdout)))


def _discard_output() -> int:
    """Discard further output, since its reader, such as `head`, has gone. Returns the exit code for this."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 128 + signal.SIGPIPE


def _describe_error(error: OSError) -> str:
    if error.filename is None:
        return describe_os_error(error)
    return f"{error.filename}: {describe_os_error(error)}; check the path and its permissions"


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(prog="hookgate", description="A policy gateway for Gemini agents.")
    parser.add_argument("--version", action="version", version=f"hookgate {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, (fill, description) in _COMMANDS.items():
        commands.add_parser(name, help=description, fill=fill, add_help=name != "event")
    return parser


def _add_serve(parser: argparse.ArgumentParser) -> None:
    add_gateway_flags(parser)
    parser.set_defaults(run=_serve, log_level=logging.INFO)


def _add_init(parser: argparse.ArgumentParser) -> None:
    from hookgate.proxy.cli.init import add_init  # noqa: PLC0415  # see the module's docstring

    add_init(parser)
    parser.set_defaults(run=_init, log_level=logging.WARNING)


def _add_config(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_config, log_level=logging.WARNING)
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="config_command")
    check = commands.add_parser("check", help="report all errors, including those in the files that it names")
    add_gateway_flags(check)
    show = commands.add_parser("show", help="show every setting in force, and where it was set")
    add_gateway_flags(show)
    show.add_argument("--json", action="store_true", help="print JSON, for programs")
    commands.add_parser("schema", help="print the JSON Schema of hookgate.toml, for editors")


def _add_key_hash(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_key_hash, log_level=logging.WARNING)


def _add_keys(parser: argparse.ArgumentParser) -> None:
    from hookgate.proxy.cli.keys import add_keys  # noqa: PLC0415  # see the module's docstring

    add_keys(parser)
    parser.set_defaults(run=_keys, log_level=logging.WARNING)


def _add_policy(parser: argparse.ArgumentParser) -> None:
    from hookgate.proxy.cli.policy import add_policy  # noqa: PLC0415  # see the module's docstring

    add_policy(parser)
    parser.set_defaults(run=_policy, log_level=logging.WARNING)


def _add_doctor(parser: argparse.ArgumentParser) -> None:
    add_gateway_flags(parser)
    parser.add_argument(
        "--offline", action="store_true", help="do not check whether the upstream can be reached"
    )
    parser.set_defaults(run=_doctor, log_level=logging.ERROR)


def _add_agents(parser: argparse.ArgumentParser) -> None:
    from hookgate.proxy.cli.agents.command import add_agents  # noqa: PLC0415  # see the module's docstring

    add_agents(parser)
    parser.set_defaults(run=_agents, log_level=logging.WARNING)


def _add_receipt(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "receipt", metavar="ID", help="the receipt's ID, from the answer's header x-hookgate-receipt"
    )
    parser.add_argument(
        "--admin", metavar="HOST:PORT", help="the gateway's admin listener (default: the configured one)"
    )
    add_state_flags(parser)
    parser.set_defaults(run=_receipt, log_level=logging.WARNING)


def _add_audit(parser: argparse.ArgumentParser) -> None:
    from hookgate.proxy.cli.audit import add_audit  # noqa: PLC0415  # see the module's docstring

    add_audit(parser)
    parser.set_defaults(run=_audit, log_level=logging.WARNING)


def _add_hooks(parser: argparse.ArgumentParser) -> None:
    from hookgate.proxy.cli.hooks import add_commands  # noqa: PLC0415  # see the module's docstring

    parser.set_defaults(run=_hooks)
    add_commands(parser)


def _add_tools(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_tools, log_level=logging.WARNING)
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="tools_command")
    add_state_flags(
        commands.add_parser("list", help="list the tools that a policy has pinned, and their changes")
    )
    accept = commands.add_parser("accept", help="show changes to pinned declarations, and accept them")
    add_state_flags(accept)
    accept.add_argument("name", nargs="+")
    accept.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    forget = commands.add_parser("forget", help="unpin tools: their next declarations count as the first")
    add_state_flags(forget)
    forget.add_argument("name", nargs="+")


def _add_replay(parser: argparse.ArgumentParser) -> None:
    from hookgate.proxy.cli.replay.command import add_arguments  # noqa: PLC0415  # see the module's docstring

    add_arguments(parser)
    parser.set_defaults(run=_replay, log_level=logging.ERROR)


def _add_run(parser: argparse.ArgumentParser) -> None:
    from hookgate.shim.command.launch import add_run  # noqa: PLC0415  # see the module's docstring

    add_run(parser)
    parser.set_defaults(run=_run, log_level=logging.WARNING)


def _add_shim(parser: argparse.ArgumentParser) -> None:
    from hookgate.shim.command.install import add_shim  # noqa: PLC0415  # see the module's docstring

    add_shim(parser)
    parser.set_defaults(run=_shim, log_level=logging.WARNING)


def _add_event(parser: argparse.ArgumentParser) -> None:
    # `hookgate event` parses its own arguments, because loading argparse takes too long.
    parser.add_argument("words", nargs=argparse.REMAINDER)
    parser.set_defaults(run=_event, log_level=logging.WARNING)


def _add_upstream(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--listen",
        default="127.0.0.1:0",
        metavar="HOST:PORT",
        help="the address to listen on; port 0, the default, selects a free one, which is logged",
    )
    parser.add_argument("--script", type=Path, metavar="FILE", help="answers from a JSON file")
    parser.set_defaults(run=_embedded, log_level=logging.INFO)


def _add_demo(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_demo, log_level=logging.WARNING)


_COMMANDS: Mapping[str, tuple[Callable[[argparse.ArgumentParser], None], str]] = {
    "init": (_add_init, "write a first configuration for a chosen use, and say what to type next"),
    "serve": (_add_serve, "run the gateway between Gemini agents and the Gemini API"),
    "config": (_add_config, "check and show the gateway's configuration"),
    "doctor": (_add_doctor, "check configuration, hooks, addresses, state and upstream"),
    "key-hash": (_add_key_hash, "print the SHA-256 of the API key on stdin, for a [keys.NAME] table"),
    "keys": (_add_keys, "issue, list, rotate and revoke keys of clients, and show their usage"),
    "policy": (_add_policy, "push the policy of all gateways, show its revisions, and roll back"),
    "agents": (_add_agents, "print the settings of agents, and check that their calls arrive"),
    "receipt": (_add_receipt, "show the receipt of a call"),
    "replay": (_add_replay, "try a policy on recorded calls"),
    "audit": (_add_audit, "list, export and verify the records of calls"),
    "hooks": (_add_hooks, "list, switch, trust, test and migrate hooks"),
    "tools": (_add_tools, "list pinned tool declarations, accept changes, and unpin tools"),
    "run": (_add_run, "start an agent in its own session of the gateway"),
    "shim": (_add_shim, "make Gemini CLI or Claude Code report their events to the gateway"),
    "event": (_add_event, "report an agent's event to the gateway"),
    "upstream": (_add_upstream, "run a stand-in for the Gemini API, offline; not a model"),
    "demo": (_add_demo, "show a google-genai client using the gateway, offline"),
}
"""The commands, each with the function that adds its arguments, and its description."""


async def _init(arguments: argparse.Namespace) -> int:
    from hookgate.proxy.cli.init import run_init  # noqa: PLC0415  # see the module's docstring

    return run_init(arguments)


async def _serve(arguments: argparse.Namespace) -> int:
    from hookgate.proxy.app import serve  # noqa: PLC0415  # see the module's docstring
    from hookgate.proxy.cli.config import every_problem, unusable_addresses  # noqa: PLC0415  # see the module's docstring
    from hookgate.proxy.config import read_config  # noqa: PLC0415  # see the module's docstring
    from hookgate.proxy.config.sources import ConfigError  # noqa: PLC0415  # see the module's docstring

    effective = None
    try:
        effective = read_config(vars(arguments))
        await serve(effective)
    except ValueError as error:
        usable = effective or getattr(error, "usable", None)
        if usable is None:
            raise
        problems = (await every_problem(error, usable)).problems
        raise ConfigError([*problems, *await unusable_addresses(usable.config, problems)]) from None
    except OSError as error:
        taken = await unusable_addresses(effective.config) if effective else []
        if str(error) not in taken:
            raise
        raise ConfigError(taken) from None
    return 0


async def _config(arguments: argparse.Namespace) -> int:
    from hookgate.proxy.cli.config import run_config  # noqa: PLC0415  # see the module's docstring

    return await run_config(arguments)


async def _doctor(arguments: argparse.Namespace) -> int:
    from hookgate.proxy.cli.doctor import run_doctor  # noqa: PLC0415  # see the module's docstring

    return await run_doctor(arguments)


async def _key_hash(_: argparse.Namespace) -> int:
    from hookgate.proxy.cli.keys import print_hash  # noqa: PLC0415  # see the module's docstring

    return await print_hash()


async def _keys(given: argparse.Namespace) -> int:
    from hookgate.proxy.cli.keys import run_keys  # noqa: PLC0415  # see the module's docstring

    return await run_keys(given)


async def _policy(given: argparse.Namespace) -> int:
    from hookgate.proxy.cli.policy import run_policy  # noqa: PLC0415  # see the module's docstring

    return await run_policy(given)


async def _agents(given: argparse.Namespace) -> int:
    from hookgate.proxy.cli.agents.command import run_agents  # noqa: PLC0415  # see the module's docstring

    return await run_agents(given)


async def _receipt(given: argparse.Namespace) -> int:
    from hookgate.proxy.cli.receipts import show_receipt  # noqa: PLC0415  # see the module's docstring
    from hookgate.proxy.config import read_config  # noqa: PLC0415  # see the module's docstring
    from hookgate.proxy.config.reading import state_folder  # noqa: PLC0415  # see the module's docstring

    config = read_config(vars(given)).config
    return await show_receipt(given.receipt, given.admin, config.admin, state_folder(config.hooks))


async def _replay(given: argparse.Namespace) -> int:
    from hookgate.proxy.cli.replay.command import run_replay  # noqa: PLC0415  # see the module's docstring

    return await run_replay(given)


async def _audit(given: argparse.Namespace) -> int:
    from hookgate.proxy.cli.audit import run_audit  # noqa: PLC0415  # see the module's docstring

    return await run_audit(given)


async def _hooks(given: argparse.Namespace) -> int:
    from hookgate.proxy.cli.hooks import run_hooks  # noqa: PLC0415  # see the module's docstring

    return await run_hooks(given)


async def _tools(given: argparse.Namespace) -> int:
    from hookgate.proxy.cli.tools import run_tools  # noqa: PLC0415  # see the module's docstring

    return await run_tools(given)


async def _run(given: argparse.Namespace) -> int:
    from hookgate.shim.command.launch import run_agent  # noqa: PLC0415  # see the module's docstring

    return run_agent(given)


async def _shim(given: argparse.Namespace) -> int:
    from hookgate.proxy.config import read_config  # noqa: PLC0415  # see the module's docstring
    from hookgate.proxy.config.reading import find_sources  # noqa: PLC0415  # see the module's docstring
    from hookgate.shim.command.install import run_install  # noqa: PLC0415  # see the module's docstring

    return run_install(given, find_sources(read_config({}).config.hooks).state)


async def _event(given: argparse.Namespace) -> int:
    from hookgate.shim.command.event import run_event as event  # noqa: PLC0415  # see the module's docstring

    return event(given.words)


async def _embedded(arguments: argparse.Namespace) -> int:
    """Run the embedded upstream until it is interrupted. Raises ScriptError, ValueError or OSError."""
    from hookgate.proxy.config.values import host_and_port  # noqa: PLC0415  # see the module's docstring
    from hookgate.proxy.embedded import load_script, run_embedded  # noqa: PLC0415  # see the module's docstring
    from hookgate.proxy.workers.interrupts import catch_interrupts  # noqa: PLC0415  # see the module's docstring

    interrupted = catch_interrupts()
    script = load_script(arguments.script) if arguments.script else None
    async with run_embedded(script, *host_and_port(arguments.listen)) as upstream:
        logging.getLogger("hookgate").info("embedded upstream (not a model) on %s", upstream.url)
        await interrupted.wait()
    return 0


async def _demo(_: argparse.Namespace) -> int:
    from hookgate.proxy.cli.demo import run_demo  # noqa: PLC0415  # see the module's docstring

    return await run_demo()
