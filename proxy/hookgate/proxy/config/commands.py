"""`hookgate config …`: whether the configuration can be used, what is in force, its schema."""

import argparse
import json
from typing import Any

from hookgate.proxy.config.checking import examine
from hookgate.proxy.config.reading import Effective, read_config
from hookgate.proxy.config.schema import config_schema
from hookgate.proxy.config.showing import shown_settings


async def run(arguments: argparse.Namespace) -> int:
    """Run one command. Raises ConfigError with what is wrong."""
    if arguments.config_command == "schema":
        print(json.dumps(config_schema(), indent=2))
        return 0
    effective = read_config(vars(arguments))
    if arguments.config_command == "show":
        print(_json(effective) if arguments.json else _table(effective))
    else:
        print(f"ok: {_read(effective)}; {await examine(effective)}")
    return 0


def _table(effective: Effective) -> str:
    rows = [(name, _text(value), place) for name, (value, place) in shown_settings(effective).items()]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    return "\n".join(f"{name:{widths[0]}}  {value:{widths[1]}}  {place}" for name, value, place in rows)


def _json(effective: Effective) -> str:
    shown = shown_settings(effective).items()
    told = {name: {"value": value, "source": place} for name, (value, place) in shown}
    return json.dumps(told, indent=2, ensure_ascii=False)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "(none)"
    if value is None:
        return "(none)"
    return value if isinstance(value, str) else json.dumps(value)


def _read(effective: Effective) -> str:
    file = str(effective.file) if effective.file else "no file"
    others = [place for place in effective.places.values() if not place.startswith(f"{file}:")]
    return ", ".join([file, *dict.fromkeys(others)])
