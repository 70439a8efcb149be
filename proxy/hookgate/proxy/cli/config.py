"""`hookgate config ...`: checks and shows the configuration, and prints its schema."""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hookgate.hooks import Configuration, SettingsError
from hookgate.hooks.errors import Problem
from hookgate.hooks.settings import CommandConfig
from hookgate.hooks.settings.commands import command_problem
from hookgate.proxy import policy
from hookgate.proxy.admin.access import admin_token_source, client_secret_source
from hookgate.proxy.alerts.receivers import read_receivers
from hookgate.proxy.alerts.rules import read_alert_rules
from hookgate.proxy.approvals.links import read_links
from hookgate.proxy.cli.terminal import table_lines
from hookgate.proxy.config.catalogue import config_schema
from hookgate.proxy.config.models import Config
from hookgate.proxy.config.reading import (
    EffectiveConfig,
    conflicts,
    find_sources,
    read_config,
    settings_warnings,
    shown_settings,
)
from hookgate.proxy.config.sources import ConfigError
from hookgate.proxy.exports.receivers import ExportsError, read_access
from hookgate.proxy.keys.callers import KeyOwner, KeysError, load_named_keys
from hookgate.proxy.observe.usage import SHIPPED_PRICES, Prices, read_prices
from hookgate.proxy.policy import describe_hooks, hook_warnings
from hookgate.proxy.policy.unmet_conditions import questions_to_nobody, unmet_conditions
from hookgate.proxy.server.tls import Certificate
from hookgate.proxy.store import Store, StoreError
from hookgate.proxy.upstream.access_tokens import PolicyTokens
from hookgate.proxy.upstream.client import Upstreams
from hookgate.proxy.upstream.credentials import CredentialsError, GatewayCredentials


async def check_configuration(effective: EffectiveConfig) -> list[str]:
    """Load all files that the configuration names. Returns a description of the hooks, then every warning.

    Raises ConfigError with every problem.
    """
    problems = [f"{effective.places[name]}: {wrong}" for name, wrong in _unusable(effective.config)]
    problems += _alert_problems(effective)
    prices, problems_of_prices = usable_prices(effective)
    problems += problems_of_prices
    try:
        findings = await _hooks(effective, prices)
    except (SettingsError, StoreError, ConfigError) as error:
        problems += str(error).splitlines()
    except NotADirectoryError as error:
        # The default of the state folder has no source.
        place = effective.places.get(str(error).partition(":")[0])
        problems.append(f"{place}: {error}" if place else str(error))
    if problems:
        raise ConfigError(problems)
    return findings


def _alert_problems(effective: EffectiveConfig) -> Iterator[str]:
    """Yield each problem of alerts, receivers and links of approvals, with its place."""
    config = effective.config
    for read in (
        lambda: read_alert_rules(config.alerts),
        lambda: read_receivers(config.alerts),
        lambda: read_links(config.approvals, config.approvals_url),
    ):
        try:
            read()
        except ConfigError as error:
            yield from (f"{effective.place_of(problem)}: {problem}" for problem in error.problems)


def usable_prices(effective: EffectiveConfig) -> tuple[Prices, list[str]]:
    """Return the price table in use, and its problems; with problems, an empty table.

    With the empty table, hooks that need prices can be checked nonetheless.
    """
    try:
        return read_prices(effective.config.prices.file), []
    except ConfigError as error:
        place = effective.places["prices.file"]
        # Problems within the table name their line in it.
        return Prices("", {}), [
            f"{place}: {problem}" if problem.startswith("prices.file: ") else problem
            for problem in error.problems
        ]


async def every_problem(found: ValueError, effective: EffectiveConfig) -> ConfigError:
    """Return the problems that were found, followed by all others of the configuration."""
    others: list[str] = []
    try:
        await check_configuration(effective)
    except ConfigError as error:
        others += error.problems
    # The check may name the place of a problem that was found without it.
    only_found = [line for line in str(found).splitlines() if not any(each.endswith(line) for each in others)]
    return ConfigError([*only_found, *others])


async def _hooks(effective: EffectiveConfig, prices: Prices) -> list[str]:
    config = effective.config
    # Only the URL is checked, unless a policy is in the database, because the gateway creates the database.
    state = find_sources(config.hooks).state
    url = Store(config.store, state).url()
    sources = policy.read_all_sources(config)
    reloader = policy.load_policy(sources, prices=prices, access_tokens=PolicyTokens(config.credentials))
    await reloader.close()
    configuration = reloader.current.configuration
    if problems := list(_broken_commands(configuration)):
        raise SettingsError(problems)
    return [
        describe_hooks(configuration),
        *hook_warnings(configuration),
        *unmet_conditions(configuration, config, _issued(config, url, state)),
        *questions_to_nobody(configuration, config),
        *settings_warnings(effective),
    ]


def _issued(config: Config, url: str | None, state: Path) -> list[KeyOwner] | None:
    """Return the names of issued keys and their teams, or None if they are unknown or not accepted."""
    if not config.clients.issued_keys:
        return None
    # Imported only where keys are issued: it imports the database.
    from hookgate.proxy.store.checking import issued_names  # noqa: PLC0415  # see above
    from hookgate.proxy.store.database import KEYS_FILE  # noqa: PLC0415  # see above

    names = issued_names(url, state / KEYS_FILE)
    return None if names is None else [KeyOwner(owner, team) for owner, team in sorted(names)]


def _broken_commands(configuration: Configuration) -> Iterator[Problem]:
    """Yield a problem for each hook whose program or script is missing or cannot be started.

    A gateway starts in spite of them, because the file may be there when the hook runs.
    """
    for hook in configuration.hooks():
        config = hook.config
        if not isinstance(config, CommandConfig) or hook.needs_trust:
            continue
        if problem := command_problem(config, hook.root):
            message = f"hooks.{hook.event}: the hook {hook.name!r}: {problem}"
            yield Problem(hook.source, message, hook.line)


def _unusable(config: Config) -> Iterator[tuple[str, str]]:
    """Yield the name of each setting that cannot be used, such as a file, and the reason."""
    yield from conflicts(config)
    try:
        if config.listen.certificate:
            Certificate(config.listen.certificate, config.listen.key)
    except ValueError as error:
        yield "listen.certificate", str(error)
    try:
        load_named_keys(config.keys)
    except KeysError as error:
        yield from error.problems
    try:
        admin_token_source(config.admin)
    except ConfigError as error:
        yield "admin.token_file", str(error).removeprefix("admin.token_file: ")
    try:
        client_secret_source(config.sign_in)
    except ConfigError as error:
        yield "sign_in.client_secret_file", str(error).removeprefix("sign_in.client_secret_file: ")
    try:
        read_access(config.exports)
    except ExportsError as error:
        yield from error.problems
    try:
        GatewayCredentials(config.upstream, config.credentials)
    except CredentialsError as error:
        yield from error.problems
    try:
        Upstreams(config.upstream)
    except CredentialsError:
        pass  # see above
    except (ValueError, OSError) as error:
        yield str(error).partition(":")[0], str(error)


async def run_config(args: argparse.Namespace) -> int:
    """Run one command and return its exit code. Raises ConfigError with every problem."""
    if args.config_command == "schema":
        print(json.dumps(config_schema(), indent=2))
        return 0
    try:
        effective = read_config(vars(args))
    except ConfigError as error:
        if error.usable is None or args.config_command == "show":
            raise
        raise await every_problem(error, error.usable) from None
    if args.config_command == "show":
        print(_json(effective) if args.json else _table(effective))
    elif args.config_command == "prices":
        read_prices(effective.config.prices.file)  # a table with mistakes is none to copy
        print((effective.config.prices.file or SHIPPED_PRICES).read_text(encoding="utf-8"), end="")
    else:
        hooks, *warnings = await check_configuration(effective)
        print(f"ok: {describe_sources(effective)}; {hooks}", *warnings, sep="\n")
    return 0


def _table(effective: EffectiveConfig) -> str:
    shown = shown_settings(effective).items()
    return "\n".join(table_lines([(name, _text(value), place) for name, (value, place) in shown]))


def _json(effective: EffectiveConfig) -> str:
    shown = shown_settings(effective).items()
    document = {name: {"value": value, "source": place} for name, (value, place) in shown}
    return json.dumps(document, indent=2, ensure_ascii=False)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "(none)"
    if value is None:
        return "(none)"
    return value if isinstance(value, str) else json.dumps(value)


def describe_sources(effective: EffectiveConfig) -> str:
    """Return the configuration file, and the flags and variables that are in use."""
    file = str(effective.file) if effective.file else "no file"
    others = [place for place in effective.places.values() if not place.startswith(f"{file}:")]
    return ", ".join([file, *dict.fromkeys(others)])
