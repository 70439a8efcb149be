"""Which function answers which command of `hookgate hooks`."""

import argparse
import json
from pathlib import Path

from hookgate.hooks.managing.schema import settings_schema
from hookgate.proxy.config import read_config
from hookgate.proxy.managing.doctor import examine
from hookgate.proxy.managing.listing import list_hooks, show_hook
from hookgate.proxy.managing.migrating import migrate_from_claude
from hookgate.proxy.managing.switching import switch, switch_all
from hookgate.proxy.managing.trusting import trust
from hookgate.proxy.managing.trying import try_hooks
from hookgate.proxy.prices import read_prices
from hookgate.proxy.sources import sources_of


async def run(arguments: argparse.Namespace) -> int:  # noqa: PLR0911  # one line for each command reads best
    """Run one command. Raises ValueError (SettingsError among them) or OSError with what is wrong."""
    config = read_config(vars(arguments)).config
    sources = sources_of(config.hooks, default_project=Path.cwd())
    match arguments.hooks_command:
        case "list":
            return list_hooks(sources, arguments.json)
        case "show":
            return show_hook(sources, arguments.name)
        case "enable" | "disable" as wish:
            return switch(sources, arguments.name, on=wish == "enable")
        case "enable-all" | "disable-all" as wish:
            return switch_all(sources, on=wish == "enable-all")
        case "trust":
            return trust(sources, arguments.name, arguments.yes)
        case "test":
            return await try_hooks(
                sources, arguments.event, arguments.name, arguments.input, read_prices(config.prices.file)
            )
        case "migrate":
            return migrate_from_claude(sources, arguments.dry_run)
        case "schema":
            print(json.dumps(settings_schema(), indent=2))
            return 0
        case _:
            return await examine(sources, read_prices(config.prices.file))
