"""`hookgate serve`: runs the gateway, or reports everything that prevents its start."""

import argparse
from collections.abc import Iterable

from hookgate.proxy.app import serve
from hookgate.proxy.cli.config import every_problem
from hookgate.proxy.config import Config, read_config
from hookgate.proxy.config.sources import ConfigError
from hookgate.proxy.config.values import host_and_port
from hookgate.proxy.server.listener import CLIENTS, OPERATORS, check_address


async def run_serve(args: argparse.Namespace) -> int:
    """Run the gateway until it is interrupted.

    Raises ConfigError with every problem of the configuration and every address that cannot be used.
    """
    effective = None
    try:
        effective = read_config(vars(args))
        await serve(effective)
    except ValueError as error:
        usable = effective or getattr(error, "usable", None)
        if usable is None:
            raise
        problems = (await every_problem(error, usable)).problems
        raise ConfigError([*problems, *await _unusable_addresses(usable.config, problems)]) from None
    except OSError as error:
        taken = await _unusable_addresses(effective.config) if effective else []
        if str(error) not in taken:
            raise
        raise ConfigError(taken) from None
    return 0


async def _unusable_addresses(config: Config, problems: Iterable[str] = ()) -> list[str]:
    """Describe each address of a listener on which this machine cannot listen.

    An address that one of the `problems` is about is not checked: the configuration has the default then.
    """
    found = "\n".join(problems)
    addresses = {"listen.address": (config.listen.address, CLIENTS)}
    if config.admin.address:
        addresses["admin.address"] = config.admin.address, OPERATORS
    taken = []
    for setting, (address, purpose) in addresses.items():
        if f"{setting}:" in found:
            continue
        try:
            await check_address(*host_and_port(address), purpose)
        except OSError as error:
            taken.append(str(error))
    return taken
