"""What the policies have in common whose decisions a service makes."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from pydantic import Field
from yarl import URL

from hookgate.hooks.errors import HookError
from hookgate.hooks.policies.options import Options
from hookgate.hooks.policies.services.texts import Text, find_texts, find_values, with_texts_at
from hookgate.hooks.policies.speakers import SCOPES, Scope
from hookgate.hooks.runners.service_client import ServiceClient, read_json_object
from hookgate.hooks.session import SessionContext
from hookgate.translator.fields import JsonObject

Kind = Literal["request", "response"]
"""Whether texts go to the model, or come from it."""

_TOO_LONG = "This call has {size} characters of text, and the policy that judges it takes at most {limit}."
_EDIT = "The policy that judges this call would change its text, which is not allowed here."
_UNCHANGEABLE = "The policy that judges this call would change a file or the name of a field."


class ServiceOptions(Options):
    """The options of a policy whose decisions a service makes."""

    scopes: tuple[Scope, ...] = Field(default=tuple(sorted(SCOPES)), strict=False)
    """The texts that are judged, as in `redact`; default: all."""

    turns: Literal["all", "newest"] = "all"
    """Whether all turns of a request are judged, or those after the model's last one."""

    limit: int = Field(default=500_000, ge=1)
    """The maximum number of characters to judge. A call with more is denied, and the service is not asked."""

    edit: bool = False
    """Whether texts that the service changes are used. If not, a call is denied that it changes."""

    reason: str = ""
    """The reason that is given if the service denies a call, in place of its own."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The decision of a service."""

    reason: str | None = None
    """The reason for which the call is denied; None if it is not."""
    findings: Mapping[str, int] = field(default_factory=dict)
    """What was found, by kind."""
    edits: Mapping[int, str] = field(default_factory=dict)
    """New texts, by the index of the text that each replaces."""


class Service(Protocol):
    """A service that judges texts."""

    async def judge(self, texts: Sequence[Text], kind: Kind, session: SessionContext) -> Judgement:
        """Return the service's decision. Raises HookError if it makes none that can be read."""

    async def close(self) -> None:
        """Close the connections to the service."""


class ServicePolicy:
    """A policy whose decisions a service makes."""

    def __init__(self, options: ServiceOptions, service: Service) -> None:
        self._options, self._service = options, service

    async def __call__(self, event: dict[str, Any], session: SessionContext) -> JsonObject | None:
        steps, options = session.call_state.steps, self._options
        kind, subject = _subject(event)
        texts = await steps.run(_find, event["hook_event_name"], subject, options)
        if not texts:
            return None
        if (size := sum(len(text.text) for text in texts)) > options.limit:
            return _denial(_TOO_LONG.format(size=size, limit=options.limit))
        judgement = await self._service.judge(texts, kind, session)
        if judgement.reason is not None:
            return _denial(options.reason or judgement.reason, judgement.findings)
        changed = {texts[at]: text for at, text in judgement.edits.items() if text != texts[at].text}
        if not changed:
            return None
        if not options.edit:
            return _denial(options.reason or _EDIT, judgement.findings)
        if not all(text.can_change for text in changed):
            return _denial(options.reason or _UNCHANGEABLE, judgement.findings)
        new = await steps.run(with_texts_at, subject, {text.place: new for text, new in changed.items()})
        edit = _edit(event["hook_event_name"], subject, new)
        return {"hookSpecificOutput": {**edit, "findings": dict(judgement.findings)}}

    async def close(self) -> None:
        """Close the connections to the service."""
        await self._service.close()


def _denial(reason: str, findings: Mapping[str, int] | None = None) -> JsonObject:
    specific = {"hookSpecificOutput": {"findings": dict(findings)}} if findings else {}
    return {"decision": "deny", "reason": reason, **specific}


def _subject(event: Mapping[str, Any]) -> tuple[Kind, JsonObject]:
    """Return where the texts of an event go, and the object that contains them."""
    match event["hook_event_name"]:
        case "BeforeModel":
            request = event["llm_request"]
            return "request", {"raw": request["raw"], "beside": request.get("beside") or {}}
        case "AfterModel":
            return "response", {"raw": event["llm_response"]["raw"]}
        case "BeforeTool":
            return "response", event["tool_input"]
        case _:
            return "request", event["tool_response"]


def _find(event: str, subject: JsonObject, options: ServiceOptions) -> list[Text]:
    match event:
        case "BeforeModel" | "AfterModel":
            found = find_texts(subject["raw"], options.scopes, newest=options.turns == "newest")
            texts = [_with_prefix("raw", text) for text in found]
            beside = find_values(subject.get("beside"), "other", options.scopes)
            return [*texts, *(_with_prefix("beside", text) for text in beside)]
        case "BeforeTool":
            return find_values(subject, "tool_arguments", options.scopes)
        case _:
            return find_values(subject, "tool_results", options.scopes)


def _with_prefix(name: str, text: Text) -> Text:
    return Text((name, *text.place), text.text, text.continues, text.can_change)


def _edit(event: str, subject: JsonObject, new: JsonObject) -> JsonObject:
    """Return the fields of an output that replace the object by a new one."""
    match event:
        case "BeforeModel":
            return {"llm_request": {name: new[name] for name in new if new[name] is not subject[name]}}
        case "AfterModel":
            return {"llm_response": {"raw": new["raw"]}}
        case "BeforeTool":
            return {"tool_input": new}
        case _:
            return {"tool_result": new}


async def post_json(
    client: ServiceClient, url: URL, body: bytes, headers: Mapping[str, str], secrets: Collection[str]
) -> JsonObject:
    """Return the JSON object that a service answers.

    Raises HookError if the answer contains one of the secrets that were sent: it may be shown to a client.
    """
    answer = await client.post(url, body, headers)
    if any(secret.encode() in answer for secret in secrets):
        raise HookError("answered with the credential that it was sent")
    return read_json_object(answer)
