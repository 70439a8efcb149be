"""The policy `redact`: masks, hashes, pseudonymises or blocks secrets and personal data.

    {"type": "builtin", "builtin": "redact", "options": {
      "action": "mask", "actions": {"EMAIL": "pseudonymise", "PRIVATE_KEY": "block"},
      "words": {"CODENAME": ["Blue Heron"]}, "skip": ["PHONE"]}}

It supports BeforeModel (requests), AfterModel (answers), and BeforeTool and AfterTool (events from an agent's
shim). A pseudonym in an answer is seen only by later hooks: the client receives the original text.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from functools import partial
from typing import Any

from hookgate.hooks.policies.options import read_options
from hookgate.hooks.policies.redact.answers import AnswerScreen
from hookgate.hooks.policies.redact.fields import redacted_fields
from hookgate.hooks.policies.redact.options import RedactOptions
from hookgate.hooks.policies.redact.presidio import finder
from hookgate.hooks.policies.redact.redaction import Redaction, Scope, Search, is_long
from hookgate.hooks.policies.redact.replacements import Replacing, key_in, token_detector
from hookgate.hooks.policies.redact.requests import newest, redacted_request
from hookgate.hooks.policies.redact.scanner import Scanner, TakesLong
from hookgate.hooks.runners.inprocess import Policy, Surroundings
from hookgate.hooks.session import Screen, SessionContext, Withheld
from hookgate.translator.fields import JsonObject

Output = dict[str, Any]
_CreateRedaction = Callable[[Callable[[str, str], str]], Redaction]


def redact_policy(options: Mapping[str, Any], surroundings: Surroundings) -> Policy:
    """Create the policy from its options. Raises ValueError if they are invalid."""
    settings = read_options(RedactOptions, options)
    return _Redact(settings, Replacing(settings, key_in(surroundings.state)))


class _Redact:
    """The policy `redact` with its options. It also screens streamed answers."""

    def __init__(self, options: RedactOptions, replacing: Replacing) -> None:
        self._options, self._replacing = options, replacing
        self._search = Search(
            Scanner(options.detectors()),
            options.limit,
            options.cap,
            options.at_cap,
            finder(options.presidio) if options.presidio else None,
        )
        self._tokens = Search(Scanner([token_detector()]), limit=sys.maxsize)

    def __call__(
        self, event: dict[str, Any], session: SessionContext
    ) -> Output | Awaitable[Output | None] | None:
        subject = event.get("llm_request", {}).get("raw") or event
        if self._search.find is not None or is_long(subject):
            return asyncio.to_thread(self._judge, event, session, brief=False)
        try:
            return self._judge(event, session, brief=True)
        except TakesLong:
            return asyncio.to_thread(self._judge, event, session, brief=False)

    def _judge(self, event: dict[str, Any], session: SessionContext, *, brief: bool) -> Output | None:
        """Judge an event. With `brief`, raise TakesLong instead of blocking the event loop for long."""
        redaction = partial(Redaction, self._search, scopes=self._options.scopes, brief=brief)
        try:
            match event["hook_event_name"]:
                case "BeforeModel":
                    return self._request(redaction, event["llm_request"], session)
                case "AfterModel":
                    return self._answer(redaction, event["llm_response"]["raw"], session)
                case "BeforeTool":
                    return self._tool(redaction, "tool_arguments", "tool_input", event["tool_input"])
                case "AfterTool":
                    return self._tool(redaction, "tool_results", "tool_result", event["tool_response"])
        except Withheld as verdict:
            return verdict.output()
        return None

    def screen(self, session: SessionContext) -> Screen:
        """Return a screen for one streamed answer."""
        replace = self._replacing.blocking(self._pseudonyms(session))
        return AnswerScreen(Redaction(self._search, replace, self._options.scopes))

    def _request(
        self, create_redaction: _CreateRedaction, llm_request: JsonObject, session: SessionContext
    ) -> Output | None:
        """Redact a request, given in the view `body`."""
        request, beside = llm_request["raw"], llm_request.get("beside") or {}
        if self._replacing.blocks:  # older turns were allowed before, or masked then
            blocking = create_redaction(self._replacing.blocking(None))
            redacted_request(blocking, newest(request))
            redacted_fields(blocking, beside, "other", {})
        redaction = create_redaction(self._replacing.masking(self._pseudonyms(session)))
        new = {
            "raw": redacted_request(redaction, request),
            "beside": redacted_fields(redaction, beside, "other", {}),
        }
        original = {"raw": request, "beside": beside}
        return _output(redaction, "llm_request", {k: v for k, v in new.items() if v is not original[k]})

    def _answer(
        self, create_redaction: _CreateRedaction, original: JsonObject, session: SessionContext
    ) -> Output | None:
        redaction = create_redaction(self._replacing.blocking(self._pseudonyms(session)))
        [(_, new)] = AnswerScreen(redaction).judge([original], last=True)
        return _output(redaction, "llm_response", {} if new is original else {"raw": new})

    def _tool(
        self, create_redaction: _CreateRedaction, scope: Scope, field: str, original: JsonObject
    ) -> Output | None:
        """Redact arguments or a result from a shim. They are masked, as pseudonyms would not be restored."""
        if scope not in self._options.scopes:
            return None
        redaction = create_redaction(self._replacing.blocking(None))
        new = redaction.value(original)
        return _output(redaction, field, {} if new is original else new)

    def _pseudonyms(self, session: SessionContext) -> MutableMapping[str, str]:
        """Return the call's pseudonyms with their originals, which are restored for the client."""
        pseudonyms: MutableMapping[str, str] = session.call.kept.setdefault(self, {})
        if self._replacing.names:
            session.call.exits[self] = partial(self._restoring_screen, pseudonyms)
        return pseudonyms

    def _restoring_screen(self, pseudonyms: Mapping[str, str]) -> Screen:
        redaction = Redaction(self._tokens, lambda _, token: pseudonyms.get(token, token))
        return AnswerScreen(redaction, logprobs=True)


def _output(redaction: Redaction, field: str, edit: JsonObject) -> Output | None:
    counts = {kind: count for kind, count in redaction.findings.items() if count}
    if not counts and not edit:
        return None
    return {"hookSpecificOutput": {**({field: edit} if edit else {}), "findings": counts}}
