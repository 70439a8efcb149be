"""`hookgate shim` and `hookgate event`, which are the shim's own commands, with what the gateway knows."""

import argparse

from hookgate.proxy.config import read_config
from hookgate.proxy.config.reading import find_sources
from hookgate.shim.command.event import run_event
from hookgate.shim.command.install import run_install


def run_shim(args: argparse.Namespace) -> int:
    """Run one command on the hooks of an agent, with the state folder of the gateway on this machine."""
    return run_install(args, find_sources(read_config({}).config.hooks).state)


def report_event(args: argparse.Namespace) -> int:
    """Report an event of an agent to the gateway."""
    return run_event(args.words)
