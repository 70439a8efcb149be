"""The policy `model_armor`: Google's Model Armor judges requests and answers, and may de-identify texts.

    {"type": "builtin", "builtin": "model_armor", "options": {
      "template": "projects/my-project/locations/europe-west4/templates/strict", "credential": "cloud"}}

The gateway calls Model Armor with a credential of its own. Nothing passes that was not judged by all filters
of the template.
"""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field
from yarl import URL

from hookgate.hooks.errors import HookError
from hookgate.hooks.policies.armor_templates import TemplateName
from hookgate.hooks.policies.options import read_options
from hookgate.hooks.policies.services.payloads import OVERLAP, make_payloads, spread_edits
from hookgate.hooks.policies.services.policy import (
    Judgement,
    Kind,
    ServiceOptions,
    ServicePolicy,
    post_json,
)
from hookgate.hooks.policies.services.texts import Text
from hookgate.hooks.policy_environment import AccessTokens, Policy, PolicyEnvironment
from hookgate.hooks.runners.service_client import ServiceClient, checked_url, is_local, parse_targets
from hookgate.hooks.session import SessionContext
from hookgate.translator.fields import JsonObject


class ModelArmorOptions(ServiceOptions):
    """The options of the policy `model_armor`."""

    template: TemplateName
    """The template that contains the filters: projects/PROJECT/locations/LOCATION/templates/TEMPLATE."""

    credential: str = Field(min_length=1)
    """The name of the gateway's credential, [credentials.NAME], whose access tokens are sent."""

    endpoint: str | None = None
    """The URL of the service, without a path; default: that of the template's location."""

    chunk: int = Field(default=8_000, ge=2 * OVERLAP, le=1_000_000)
    """The maximum number of characters to judge at once. Longer texts are judged in parts."""


_METHODS: Mapping[Kind, tuple[str, str]] = {
    "request": ("sanitizeUserPrompt", "userPromptData"),
    "response": ("sanitizeModelResponse", "modelResponseData"),
}
_AT_ONCE = 8
"""How many parts of one body are judged at once."""

_FILTERS = frozenset({"rai", "sdp", "pi_and_jailbreak", "malicious_uris", "csam", "virus_scan"})
_STATES = frozenset({"MATCH_FOUND", "NO_MATCH_FOUND"})
_DENIED = "Model Armor denied this text ({filters})."
_NO_GATEWAY = "has no access token: the hook does not run in a gateway, which has credentials"


def model_armor_policy(options: Mapping[str, Any], environment: PolicyEnvironment) -> Policy:
    """Create the policy from its options. Raises ValueError if they are invalid."""
    settings = read_options(ModelArmorOptions, options)
    tokens = environment.access_tokens
    if tokens is not None and settings.credential not in tokens.names:
        known = ", ".join(sorted(tokens.names)) or "none"
        raise ValueError(
            f"credential: there is no credential {settings.credential!r} with access tokens; known are "
            f"{known}: add [credentials.{settings.credential}] to hookgate.toml"
        )
    location = settings.template.split("/")[3]
    endpoint = settings.endpoint or f"https://modelarmor.{location}.rep.googleapis.com"
    try:
        # The gateway's token is sent there, so even a service on this machine has to be allowed.
        url = checked_url(
            f"{endpoint.removesuffix('/')}/v1/{settings.template}",
            parse_targets(environment.http_targets),
            may_be_local=False,
        )
    except ValueError as error:
        raise ValueError(f"endpoint: {error}") from None
    if url.scheme != "https" and not is_local(url):
        raise ValueError("endpoint: must begin with https://, because an access token is sent there")
    return ServicePolicy(settings, _ModelArmor(settings, url, tokens))


@dataclass(frozen=True, slots=True)
class _Result:
    """What Model Armor found in a text: the filters that deny it, or its de-identified text."""

    denied_by: Sequence[str] = ()
    text: str | None = None


class _ModelArmor:
    """Model Armor, which judges with one template."""

    def __init__(self, options: ModelArmorOptions, url: URL, tokens: AccessTokens | None) -> None:
        self._options, self._url, self._tokens = options, url, tokens
        self._client = ServiceClient({"Content-Type": "application/json"})

    async def judge(self, texts: Sequence[Text], kind: Kind, session: SessionContext) -> Judgement:
        if self._tokens is None:
            raise HookError(_NO_GATEWAY)
        payloads = make_payloads(texts, self._options.chunk)
        results: list[_Result] = []
        for first in range(0, len(payloads), _AT_ONCE):
            group = payloads[first : first + _AT_ONCE]
            ask = (self._sanitize(payload.text, kind) for payload in group)
            answers = await asyncio.gather(*ask, return_exceptions=True)
            filters = {name for each in answers if isinstance(each, _Result) for name in each.denied_by}
            if filters:
                named = ", ".join(sorted(filters))
                return Judgement(_DENIED.format(filters=named), dict.fromkeys(sorted(filters), 1))
            for each in answers:
                if isinstance(each, BaseException):
                    raise each
                results.append(each)
        edited = [result.text for result in results]
        if any(text == payload.text for text, payload in zip(edited, payloads, strict=True)):
            return Judgement(_DENIED.format(filters="sdp"), {"sdp": 1})  # it matched, and nothing was changed
        count = sum(text is not None for text in edited)
        edits = await session.call_state.steps.run_long(spread_edits, payloads, edited) if count else {}
        return Judgement(findings={"sdp": count} if count else {}, edits=edits)

    async def close(self) -> None:
        await self._client.close()

    async def _sanitize(self, text: str, kind: Kind) -> _Result:
        assert self._tokens is not None  # noqa: S101  # for the type checker
        method, field = _METHODS[kind]
        token = await self._tokens.get(self._options.credential)
        headers = {"Authorization": f"Bearer {token}"}
        body = json.dumps({field: {"text": text}}).encode()
        url = self._url.with_path(f"{self._url.path}:{method}")
        return _read(await post_json(self._client, url, body, headers, [token]))


def _read(answer: JsonObject) -> _Result:
    """Return what Model Armor found. Raises HookError if it did not run all filters, or cannot be read."""
    result = answer.get("sanitizationResult")
    if not isinstance(result, dict):
        raise HookError("answered without a sanitizationResult")
    state, filters = result.get("filterMatchState"), result.get("filterResults", {})
    if result.get("invocationResult") != "SUCCESS":
        raise HookError("did not run all filters of the template")
    if state not in _STATES or not isinstance(filters, dict):
        raise HookError("answered with a sanitizationResult that cannot be read")
    values = list(_values_of(filters, "executionState"))
    if any(value != "EXECUTION_SUCCESS" for value in values):
        raise HookError("did not run all filters of the template")
    states = {name: list(_values_of(found, "matchState")) for name, found in filters.items()}
    if any(not isinstance(each, str) or each not in _STATES for some in states.values() for each in some):
        raise HookError("answered with a matchState that cannot be read")
    matching = [name for name, some in states.items() if "MATCH_FOUND" in some]
    if not matching and state == "NO_MATCH_FOUND":
        return _Result()
    if matching == ["sdp"] and (text := _deidentified_text(filters["sdp"])) is not None:
        return _Result(text=text)
    return _Result(sorted({name if name in _FILTERS else "other" for name in matching}) or ["other"])


def _deidentified_text(found: Any) -> str | None:
    """Return the de-identified text in the result of Sensitive Data Protection; None if it has none."""
    for name in ("sdpFilterResult", "deidentifyResult", "data", "text"):
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, str) else None


def _values_of(value: Any, name: str) -> Iterator[Any]:
    """Yield the values of all fields with a name, at any depth. Answers nest little."""
    pending = [value]
    while pending:
        current = pending.pop()
        if isinstance(current, dict):
            if name in current:
                yield current[name]
            pending.extend(current.values())
        elif isinstance(current, list):
            pending.extend(current)
