"""`hookgate doctor`: checks everything that a gateway needs, and reports all problems at once."""

import argparse
import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial

import aiohttp

from hookgate.hooks import Configuration, SettingsError
from hookgate.hooks.runners.process import MAX_DESCRIPTORS, raised_descriptor_limit
from hookgate.hooks.settings import read_sources
from hookgate.proxy.cli.config import check_configuration, describe_sources, usable_prices
from hookgate.proxy.cli.reachability import check_others
from hookgate.proxy.cli.trials import Diagnosis, diagnose_hooks, print_diagnoses, print_summary
from hookgate.proxy.config import Config, ConfigError
from hookgate.proxy.config.reading import EffectiveConfig, read_config, state_folder
from hookgate.proxy.config.values import host_and_port
from hookgate.proxy.errors import DOMAIN, ApiError, pluralize
from hookgate.proxy.policy import read_all_sources, read_configured_hooks
from hookgate.proxy.server.descriptors import Budget, DescriptorError, descriptors_for, descriptors_of_hooks
from hookgate.proxy.server.listener import CLIENTS, OPERATORS, ListenerPurpose, check_address, url_of
from hookgate.proxy.server.tls import Certificate
from hookgate.proxy.store import Store, StoreError
from hookgate.proxy.store.checking import check_database, check_state_folder
from hookgate.proxy.store.database import (
    ALERTS_FILE,
    APPROVALS_FILE,
    AUDIT_FILE,
    FILE,
    KEYS_FILE,
    PANEL_FILE,
    POLICY_FILE,
    SESSIONS_FILE,
)
from hookgate.proxy.upstream.client import NoAnswerError, Upstreams, expired_authorities

_DAY = 24 * 3600
_EXPIRY_NOTE_DAYS = 14
"""A certificate that expires in fewer days is reported."""

_SIGNED_IN_ALONE = (
    "sign_in: a person who signs in at one gateway is not signed in at others, because each creates an admin "
    "token of its own; set the same admin.token_file at all of them"
)

_PROBE_TIMEOUT = aiohttp.ClientTimeout(total=3)
"""The time limit for the answer of a program that listens on an address of the gateway."""


async def run_doctor(args: argparse.Namespace) -> int:
    """Check everything and print the findings. Returns 1 if there is a problem, else 0.

    Raises ConfigError if the settings contradict each other, so that nothing else can be checked.
    """
    if args.json:
        found = dict.fromkeys([finding async for finding in _check_all(args)])
        problems = sum(finding.level == "FAIL" for finding in found)
        checks = [{"level": finding.level, "message": finding.message} for finding in found]
        print(json.dumps({"checks": checks, "problems": problems}, ensure_ascii=False))
        return 1 if problems else 0
    findings = await print_diagnoses(_check_all(args))
    return print_summary(findings, pluralize(len(findings), "check"))


async def _check_all(args: argparse.Namespace) -> AsyncIterator[Diagnosis]:
    try:
        effective = read_config(vars(args))
    except ConfigError as error:
        if error.usable is None:
            raise
        for problem in error.problems:
            yield Diagnosis(problem)
        effective = error.usable
    config = effective.config
    async for finding in _check_settings(effective):
        yield finding
    async for finding in _check_addresses(config):
        yield finding
    for finding in await asyncio.to_thread(lambda: list(_check_state(config))):
        yield finding
    for finding in (*_check_certificate(config), *_check_authorities(config), *_check_descriptors(config)):
        yield finding
    if not args.offline:
        for finding in (*await _check_upstreams(effective), *await check_others(config)):
            yield finding


async def _check_settings(effective: EffectiveConfig) -> AsyncIterator[Diagnosis]:
    """Check the configuration and the files that it names, and run every hook on a sample event."""
    prices, _ = usable_prices(effective)
    try:
        hooks, *warnings = await check_configuration(effective)
        yield Diagnosis(f"configuration: {describe_sources(effective)}; {hooks}", "ok")
        for warning in warnings:
            yield Diagnosis(warning, "note")
    except ConfigError as error:
        for problem in error.problems:
            yield Diagnosis(problem)
    try:
        configured = read_configured_hooks(read_all_sources(effective.config), partly=True)
    except (SettingsError, StoreError, OSError):
        return  # the check of the configuration has reported it
    failed = False
    async for finding in diagnose_hooks(configured, prices):
        failed |= finding.level == "FAIL"
        yield finding
    if (checked := len(configured.loaded.configuration.hooks())) and not failed:
        yield Diagnosis(f"hooks: {pluralize(checked, 'hook')} ran on a sample event", "ok")


async def _check_addresses(config: Config) -> AsyncIterator[Diagnosis]:
    """Check whether the addresses of both listeners are free, or which program listens there."""
    scheme = "https" if config.listen.certificate else "http"
    yield await _check_listener(config.listen.address, CLIENTS, scheme)
    is_shared = config.admin.address == config.listen.address and not config.listen.address.endswith(":0")
    if config.admin.address is not None and not is_shared:  # the check of the configuration has reported it
        yield await _check_listener(config.admin.address, OPERATORS, "http")


async def _check_listener(address: str, purpose: ListenerPurpose, scheme: str) -> Diagnosis:
    host, port = host_and_port(address)
    if port == 0:
        return Diagnosis(f"{purpose.setting}: {address} selects a free port", "ok")
    try:
        await check_address(host, port, purpose)
    except OSError as error:
        running = await _running_gateway(url_of(scheme, (host, port)) + _PROBED[purpose])
        if running:
            return Diagnosis(f"{purpose.setting}: {running} on {address}", "ok")
        return Diagnosis(f"{purpose.setting}: {error}")
    return Diagnosis(f"{purpose.setting}: {address} is free", "ok")


_PROBED = {OPERATORS: "/healthz", CLIENTS: f"/hookgate/v1/receipts/{'0' * 32}"}
"""The path that tells whether a gateway listens. The receipt does not exist: the error names hookgate, and
unlike a path that the gateway does not serve, it does not count as a refused call."""


async def _running_gateway(url: str) -> str:
    """Describe the gateway that answers at this URL, or return an empty string if there is none."""
    try:
        async with (
            aiohttp.ClientSession(timeout=_PROBE_TIMEOUT) as session,
            session.get(url, ssl=False, allow_redirects=False) as response,
        ):
            body = await response.json()
            if response.status == 200 and body == {"status": "ok"}:
                return "a healthy gateway already runs"
            domains = [detail.get("domain") for detail in body["error"]["details"]]
    except (aiohttp.ClientError, OSError, ValueError, KeyError, TypeError, AttributeError):
        return ""
    return "a gateway already runs" if DOMAIN in domains else ""


def _check_state(config: Config) -> Iterator[Diagnosis]:
    """Check the state folder and the databases. This may block for several seconds."""
    try:
        state = state_folder(config.hooks)
        url = Store(config.store, state).url()
    except (StoreError, OSError):
        return  # the check of the configuration has reported it
    files = [FILE]
    if url is None and config.audit.enabled:
        files.append(AUDIT_FILE)
    if url is None and config.listen.workers > 1:
        files.append(SESSIONS_FILE)
    if url is None and config.clients.issued_keys:
        files.append(KEYS_FILE)
    if url is None and config.hooks.database:
        files.append(POLICY_FILE)
    if url is None and config.sign_in.issuer:
        files.append(PANEL_FILE)
    if url is None and config.alerts.rules:
        files.append(ALERTS_FILE)
    if url is None and config.approvals.are_enabled:
        files.append(APPROVALS_FILE)
    checks = [
        partial(check_state_folder, state),
        *(partial(check_database, url, state / file) for file in files),
    ]
    for check in checks:
        try:
            yield Diagnosis(check(), "ok")
        except StoreError as error:
            yield Diagnosis(str(error))
    if url is not None and config.sign_in.issuer and not (config.admin.token or config.admin.token_file):
        yield Diagnosis(_SIGNED_IN_ALONE, "note")


def _check_certificate(config: Config) -> Iterator[Diagnosis]:
    """Check whether the gateway's certificate has expired, or expires soon."""
    if config.listen.certificate is None:
        return
    try:
        certificate = Certificate(config.listen.certificate, config.listen.key)
    except ValueError:
        return  # the check of the configuration has reported it
    try:
        expires = certificate.expires()
    except ValueError as error:
        yield Diagnosis(str(error))
        return
    days = int((expires - time.time()) / _DAY)
    message = f"listen.certificate: {config.listen.certificate} expires in {pluralize(days, 'day')}"
    is_soon = days < _EXPIRY_NOTE_DAYS
    yield Diagnosis(f"{message}; renew it", "note") if is_soon else Diagnosis(message, "ok")


def _check_authorities(config: Config) -> Iterator[Diagnosis]:
    """Check whether the certificates of `upstream.ca_bundle` have expired."""
    bundle = config.upstream.ca_bundle
    if bundle is None:
        return
    try:
        expired, count = expired_authorities(bundle)
    except (ValueError, OSError):
        return  # the check of the configuration has reported it
    if expired:
        problem = f"{expired} of {pluralize(count, 'certificate')} expired; renew the bundle"
        yield Diagnosis(f"upstream.ca_bundle: {bundle}: {problem}", "FAIL" if expired == count else "note")
    else:
        yield Diagnosis(f"upstream.ca_bundle: {bundle} has {pluralize(count, 'valid certificate')}", "ok")


def _check_descriptors(config: Config) -> Iterator[Diagnosis]:
    """Check whether the limit of open descriptors allows the configured connections."""
    try:
        hooks = read_sources(read_all_sources(config).places()).configuration
    except (StoreError, OSError):
        hooks = Configuration()
    for_hooks = descriptors_of_hooks(hooks)
    with raised_descriptor_limit(max(MAX_DESCRIPTORS, descriptors_for(config.limits, for_hooks))) as limit:
        budget = Budget(limit, for_hooks)
    try:
        connections = budget.bounded(config.limits).connections
    except DescriptorError as error:
        yield Diagnosis(str(error))
        return
    if shortage := budget.describe_shortage(config.limits):
        yield Diagnosis(shortage, "note")
    else:
        yield Diagnosis(f"the limit of {limit} open descriptors allows {connections} connections", "ok")


async def _check_upstreams(effective: EffectiveConfig) -> list[Diagnosis]:
    """Check whether each upstream can be reached, and whether Google issues access tokens."""
    config = effective.config
    try:
        upstreams = Upstreams(config.upstream, credentials=config.credentials)
    except (ValueError, OSError):
        return []  # the check of the configuration has reported it
    async with upstreams:
        return await asyncio.gather(
            *(_check_upstream(upstreams, api, effective) for api in upstreams.origins),
            *(_check_token(token.name, token.get, effective) for token in upstreams.credentials.tokens),
        )


async def _check_upstream(upstreams: Upstreams, api: str, effective: EffectiveConfig) -> Diagnosis:
    name = f"upstream.{api}"
    place, origin = effective.places.get(name, name), upstreams.origins[api]
    try:
        await upstreams.check(api)
    except NoAnswerError as error:
        proxy = " through upstream.proxy" if effective.config.upstream.proxy else ""
        message = f"{place}: {origin} cannot be reached{proxy}: {error.why}; check the URL and the network"
        needed = api == "gemini" or name in effective.places  # the others may be blocked on purpose
        return Diagnosis(message, "FAIL" if needed else "note")
    return Diagnosis(f"{name}: {origin} can be reached", "ok")


async def _check_token(name: str, get: Callable[[], Awaitable[str]], effective: EffectiveConfig) -> Diagnosis:
    setting = f"credentials.{name}"
    try:
        await get()
    except ApiError:
        problem = "Google issues no access token for it; the log names the cause"
        return Diagnosis(f"{effective.places.get(setting, setting)}: {setting}: {problem}")
    return Diagnosis(f"{setting}: Google issues access tokens for it", "ok")
