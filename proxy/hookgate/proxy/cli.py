"""The command line: `hookgate serve`, `hookgate upstream`, `hookgate demo`.

Each command imports what it needs when it runs, so that none pays for the others.
"""

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from hookgate.proxy import GEMINI_API, __version__
from hookgate.proxy.managing.arguments import add_commands
from hookgate.proxy.sources import add_source_arguments, sources_of

_LISTEN = "127.0.0.1:8787"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is 0, or 1 with one line on stderr that says what is wrong."""
    arguments = _parser().parse_args(argv)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=arguments.log_level)
    run: Callable[[argparse.Namespace], Coroutine[Any, Any, int]] = arguments.run
    try:
        return asyncio.run(run(arguments))
    except ModuleNotFoundError as error:
        extra = "demo" if error.name in ("google", "rich") else "proxy"
        print(f"hookgate: {error}; install it with: pip install 'hookgate[{extra}]'", file=sys.stderr)
        return 1
    except (ValueError, OSError) as error:
        print(f"hookgate: {error}", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, asyncio.CancelledError):
        return 130  # interrupted twice


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hookgate", description="A policy gateway for Gemini agents.")
    parser.add_argument("--version", action="version", version=f"hookgate {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_serve(commands.add_parser("serve", help="stand between Gemini agents and the Gemini API"))
    _add_upstream(commands.add_parser("upstream", help="stand in for the Gemini API, offline; not a model"))
    hooks = commands.add_parser("hooks", help="see, switch, trust, try and move the configured hooks")
    hooks.set_defaults(run=_hooks)
    add_commands(hooks)
    demo = commands.add_parser("demo", help="watch a google-genai client go through the gateway, offline")
    demo.set_defaults(run=_demo, log_level=logging.WARNING)
    return parser


def _add_serve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--listen",
        type=_address,
        default=os.environ.get("HOOKGATE_LISTEN", _LISTEN),
        metavar="HOST:PORT",
        help=f"where clients connect; port 0 takes a free one (HOOKGATE_LISTEN, {_LISTEN})",
    )
    parser.add_argument(
        "--upstream",
        default=os.environ.get("HOOKGATE_UPSTREAM", GEMINI_API),
        metavar="URL",
        help=f"where calls go (HOOKGATE_UPSTREAM, {GEMINI_API})",
    )
    add_source_arguments(parser)
    parser.add_argument(
        "--trust-project", action="store_true", help="run the project's hooks without having them trusted"
    )
    parser.set_defaults(run=_serve, log_level=logging.INFO)


def _add_upstream(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--listen",
        type=_address,
        default="127.0.0.1:0",
        metavar="HOST:PORT",
        help="where it listens; port 0, the default, takes a free one, which the log names",
    )
    parser.add_argument("--script", type=Path, metavar="FILE", help="answers from a JSON file")
    parser.set_defaults(run=_embedded, log_level=logging.INFO)


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not (host and colon) or not port.isdigit() or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT, such as {_LISTEN}")
    return host.strip("[]"), int(port)


async def _serve(arguments: argparse.Namespace) -> int:
    from hookgate.proxy.commands import serve  # noqa: PLC0415  # see the module's docstring

    await serve(arguments.listen, arguments.upstream, sources_of(arguments), arguments.trust_project)
    return 0


async def _hooks(given: argparse.Namespace) -> int:
    from hookgate.proxy.managing.commands import run  # noqa: PLC0415  # see the module's docstring

    return await run(given)


async def _embedded(arguments: argparse.Namespace) -> int:
    from hookgate.proxy.commands import serve_embedded  # noqa: PLC0415  # see the module's docstring

    await serve_embedded(arguments.listen, arguments.script)
    return 0


async def _demo(_: argparse.Namespace) -> int:
    from hookgate.proxy.demo import run_demo  # noqa: PLC0415  # see the module's docstring

    return await run_demo()
