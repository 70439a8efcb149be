"""What a start would find besides: certificates, certificate authorities, hooks."""

from collections.abc import Iterator

from hookgate.hooks import SettingsError
from hookgate.proxy import policy
from hookgate.proxy.commands import described, fail_open_warnings
from hookgate.proxy.config.given import ConfigError
from hookgate.proxy.config.models import Config
from hookgate.proxy.config.reading import Effective
from hookgate.proxy.keys import KeysError, named_keys
from hookgate.proxy.panel.tokens import token_of
from hookgate.proxy.prices import read_prices
from hookgate.proxy.sources import sources_of
from hookgate.proxy.store import Store, StoreError
from hookgate.proxy.tls import Certificate
from hookgate.proxy.upstream import Upstreams


async def examine(effective: Effective) -> str:
    """Load what the configuration names, and say which hooks run. Raises ConfigError with every problem."""
    problems = [f"{effective.places[name]}: {wrong}" for name, wrong in _unusable(effective.config)]
    try:
        told = await _hooks(effective.config)
    except (SettingsError, StoreError, ConfigError) as error:
        problems += str(error).splitlines()
    except NotADirectoryError as error:
        place = effective.places.get(str(error).partition(":")[0])  # the state folder has a default
        problems.append(f"{place}: {error}" if place else str(error))
    if problems:
        raise ConfigError(problems)
    return told


async def _hooks(config: Config) -> str:
    sources = sources_of(config.hooks)
    Store(config.store, sources.state).url()  # the database itself is the gateway's to make
    prices = read_prices(config.prices.file)
    live = policy.load(sources, prices=prices)
    await live.close()
    configuration = live.current.configuration
    return "\n".join([described(configuration), *fail_open_warnings(configuration)])


def _unusable(config: Config) -> Iterator[tuple[str, str]]:
    """The name of each setting whose file cannot be used, and why."""
    try:
        if config.listen.certificate:
            Certificate(config.listen.certificate, config.listen.key)
    except ValueError as error:
        yield "listen.certificate", str(error)
    try:
        named_keys(config.keys)
    except KeysError as error:
        yield from error.problems
    try:
        token_of(config.admin)
    except ConfigError as error:
        yield "admin.token_file", str(error).removeprefix("admin.token_file: ")
    try:
        Upstreams(config.upstream)
    except (ValueError, OSError) as error:
        yield "upstream.ca_bundle", str(error)
