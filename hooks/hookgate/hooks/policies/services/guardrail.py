"""The policy `guardrail`: a service of LiteLLM's generic guardrail API judges requests and answers.

    {"type": "builtin", "builtin": "guardrail", "options": {"url": "http://127.0.0.1:8100"}}

The service receives all texts in one request; it answers with NONE, BLOCKED, or changed texts.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from pydantic import Field
from yarl import URL

from hookgate.hooks.errors import HookError
from hookgate.hooks.policies.options import read_options
from hookgate.hooks.policies.services.policy import (
    Judgement,
    Kind,
    ServiceOptions,
    ServicePolicy,
    post_json,
)
from hookgate.hooks.policies.services.texts import Text
from hookgate.hooks.policy_environment import Policy, PolicyEnvironment
from hookgate.hooks.runners.service_client import ServiceClient, checked_url, expanded_header, parse_targets
from hookgate.hooks.session import SessionContext

PATH = "/beta/litellm_basic_guardrail_api"
"""The path of the API below the URL of a service."""

_BLOCKED = "The guardrail denied this text without giving a reason."
_LONGEST_REASON = 1000
_SHORTEST_SECRET = 8
"""Shorter values of headers are no secrets, and may be in any answer."""


class GuardrailOptions(ServiceOptions):
    """The options of the policy `guardrail`."""

    url: str = Field(min_length=1)
    """The URL of the service, to which the path of the API is added."""

    headers: Mapping[str, str] = Field(default={}, strict=False)
    """Additional headers. `$NAME` in a value is replaced with an environment variable."""

    params: Mapping[str, Any] = Field(default={}, strict=False)
    """The value of `additional_provider_specific_params`."""


def guardrail_policy(options: Mapping[str, Any], environment: PolicyEnvironment) -> Policy:
    """Create the policy from its options. Raises ValueError if they are invalid."""
    settings = read_options(GuardrailOptions, options)
    base = settings.url.removesuffix("/").removesuffix(PATH)
    try:
        url = checked_url(f"{base}{PATH}", parse_targets(environment.http_targets))
    except ValueError as error:
        raise ValueError(f"url: {error}") from None
    headers = {name: expanded_header(name, value) for name, value in settings.headers.items()}
    return ServicePolicy(settings, _Guardrail(settings, url, headers))


class _Guardrail:
    """A service of the generic guardrail API."""

    def __init__(self, options: GuardrailOptions, url: URL, headers: Mapping[str, str]) -> None:
        self._params, self._url = options.params, url
        self._secrets = [
            value.removeprefix("Bearer ") for value in headers.values() if len(value) >= _SHORTEST_SECRET
        ]
        self._client = ServiceClient({"Content-Type": "application/json", **headers})

    async def judge(self, texts: Sequence[Text], kind: Kind, session: SessionContext) -> Judgement:
        request = {
            "input_type": kind,
            "litellm_call_id": str(uuid4()),
            "litellm_trace_id": session.session_id,
            "texts": [text.text for text in texts],
            "request_data": {
                "user_api_key_alias": session.key or None,
                "user_api_key_team_alias": session.team or None,
            },
            "additional_provider_specific_params": self._params,
            "model": session.call_state.model or None,
        }
        body = await session.call_state.steps.run(_encode, request)
        return _read(await post_json(self._client, self._url, body, {}, self._secrets), len(texts))

    async def close(self) -> None:
        await self._client.close()


def _encode(request: Any) -> bytes:
    return json.dumps(request).encode()


def _read(answer: Mapping[str, Any], count: int) -> Judgement:
    """Return the service's decision about `count` texts. Raises HookError if it cannot be read."""
    action, texts = answer.get("action"), answer.get("texts")
    if action == "BLOCKED":
        reason = answer.get("blocked_reason") or _BLOCKED
        if not isinstance(reason, str):
            raise HookError("answered with a blocked_reason that is not a string")
        return Judgement(reason[:_LONGEST_REASON], {"blocked": 1})
    if action not in {"NONE", "GUARDRAIL_INTERVENED"}:
        raise HookError("answered without a known action")
    if any(answer.get(field) for field in ("images", "tools", "structured_messages")):
        raise HookError("changed images, tools or structured_messages, which it was not sent")
    if texts is None and action == "NONE":
        return Judgement()
    if not isinstance(texts, list) or len(texts) != count or not all(isinstance(each, str) for each in texts):
        raise HookError(f"answered with texts that cannot replace the {count} that it was sent")
    findings = {"intervened": 1} if action == "GUARDRAIL_INTERVENED" else {}
    return Judgement(findings=findings, edits=dict(enumerate(texts)))
