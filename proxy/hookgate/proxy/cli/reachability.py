"""The part of `hookgate doctor` about others' programs: identity providers, receivers of alerts and exports.

Nothing is sent to receivers: a connection, with TLS if the receiver wants it, is made and closed.
"""

import asyncio
import contextlib
import json
import ssl
from collections.abc import Awaitable, Iterator

from hookgate.proxy.alerts.receivers import read_receivers
from hookgate.proxy.cli.trials import Diagnosis
from hookgate.proxy.config import Config
from hookgate.proxy.errors import describe_os_error
from hookgate.proxy.exports.receivers import ReceiverAccess, read_access

_SECONDS = 3.0
"""Seconds that a connection may take."""

_TLS_PORT, _PLAIN_PORT = 443, 80


async def check_others(config: Config) -> list[Diagnosis]:
    """Check whether everything that the gateway sends to, apart from upstreams, can be reached."""
    return await asyncio.gather(*_providers(config), *_alert_receivers(config), *_export_receivers(config))


def _providers(config: Config) -> Iterator[Awaitable[Diagnosis]]:
    tokens = config.tokens
    if config.sign_in.issuer is not None:
        yield _check_provider("sign_in.issuer", config.sign_in.issuer)
    if tokens.issuer is not None and tokens.jwks_url is not None:
        yield _check_provider("tokens.jwks_url", tokens.jwks_url, is_issuer=False)
    elif tokens.issuer is not None and tokens.jwks_file is None:
        yield _check_provider("tokens.issuer", tokens.issuer)


async def _check_provider(setting: str, url: str, *, is_issuer: bool = True) -> Diagnosis:
    """Read what a provider publishes: an issuer's configuration, or keys."""
    from hookgate.proxy.keys import openid  # noqa: PLC0415  # needs an extra, as the check of the settings says

    what = "configuration" if is_issuer else "keys"
    try:
        if is_issuer:
            await openid.discover(url)
        else:
            openid.usable_keys(json.loads(await openid.fetch(url)))
    except (*openid.UNREACHABLE, *openid.INVALID_TOKEN) as error:
        why = openid.failure_cause(error)
        return Diagnosis(f"{setting}: {url}: its {what} cannot be read: {why}; check the URL and the network")
    return Diagnosis(f"{setting}: {url} publishes its {what}", "ok")


def _alert_receivers(config: Config) -> Iterator[Awaitable[Diagnosis]]:
    try:
        receivers = read_receivers(config.alerts)
    except ValueError:
        return  # the check of the configuration has reported it
    for receiver in receivers.values():
        origin = receiver.origin
        tls = ssl.create_default_context() if origin.scheme == "https" else None
        name, test = f"alerts.receivers: {receiver.name}", f"hookgate alerts test {receiver.name}"
        yield _check_connection(name, str(origin), (origin.host or "", origin.port or 0), tls, test)


def _export_receivers(config: Config) -> Iterator[Awaitable[Diagnosis]]:
    try:
        accesses = read_access(config.exports)
    except ValueError:
        return  # the check of the configuration has reported it
    for name, access in accesses.items():
        destination = access.settings.destination
        if destination.host:  # the library of S3 finds the one of AWS
            port = destination.port or (_TLS_PORT if destination.secure else _PLAIN_PORT)
            address, test = (destination.host, port), f"hookgate exports test {name}"
            yield _check_connection(f"exports.{name}", access.settings.to, address, _tls(access), test)


def _tls(access: ReceiverAccess) -> ssl.SSLContext | None:
    if access.tls is None and access.settings.destination.secure:  # S3, whose library makes its own
        return ssl.create_default_context(cafile=access.settings.ca_bundle)
    return access.tls


async def _check_connection(
    name: str, shown: str, address: tuple[str, int], tls: ssl.SSLContext | None, test: str
) -> Diagnosis:
    """Connect to an address, with TLS if a context is given. `test` is the command that sends something."""
    try:
        async with asyncio.timeout(_SECONDS):
            _, writer = await asyncio.open_connection(*address, ssl=tls)
    except TimeoutError:
        why = f"no connection within {_SECONDS:g} seconds"
    except (OSError, ssl.SSLError) as error:
        why = describe_os_error(error)
    else:
        writer.close()
        with contextlib.suppress(OSError, ssl.SSLError):
            await writer.wait_closed()
        return Diagnosis(f"{name}: {shown} can be reached; `{test}` also sends a test", "ok")
    return Diagnosis(f"{name}: {shown} cannot be reached: {why}; check the URL and the network")
