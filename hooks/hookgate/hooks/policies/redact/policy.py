"""The policy `redact`: secrets and personal data masked, hashed, exchanged for pseudonyms, or kept back.

    {"type": "builtin", "builtin": "redact", "options": {
      "action": "mask", "actions": {"EMAIL": "pseudonymise", "PRIVATE_KEY": "block"},
      "words": {"CODENAME": ["Blue Heron"]}, "skip": ["PHONE"]}}

For BeforeModel (what goes to the model), AfterModel (what comes back), BeforeTool and AfterTool (what an
agent's shim tells of). What is found in an answer and exchanged for a pseudonym is so for hooks alone.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from functools import partial
from typing import Any

from hookgate.hooks.kinds.builtin import Policy, Surroundings
from hookgate.hooks.policies.options import read_options
from hookgate.hooks.policies.redact.answers import AnswerScreen
from hookgate.hooks.policies.redact.covering import redacted_fields
from hookgate.hooks.policies.redact.options import RedactOptions
from hookgate.hooks.policies.redact.presidio import finder
from hookgate.hooks.policies.redact.redaction import Redaction, Scope, Search, is_long
from hookgate.hooks.policies.redact.replacing import Replacing, key_in
from hookgate.hooks.policies.redact.requests import newest, redacted_request
from hookgate.hooks.policies.redact.scanner import Scanner, TakesLong
from hookgate.hooks.policies.redact.tokens import token_detector
from hookgate.hooks.session import Screen, Session, Withheld
from hookgate.translator.fields import JsonObject

Output = dict[str, Any]
_Make = Callable[[Callable[[str, str], str]], Redaction]


def redact_policy(options: Mapping[str, Any], surroundings: Surroundings) -> Policy:
    """The policy for these options. Raises ValueError."""
    known = read_options(RedactOptions, options)
    return _Redact(known, Replacing(known, key_in(surroundings.state)))


class _Redact:
    """A Policy, and one that screens answers."""

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

    def __call__(self, event: dict[str, Any], session: Session) -> Output | Awaitable[Output | None] | None:
        subject = event.get("llm_request", {}).get("raw") or event
        if self._search.find is not None or is_long(subject):
            return asyncio.to_thread(self._said_of, event, session, brief=False)
        try:
            return self._said_of(event, session, brief=True)
        except TakesLong:
            return asyncio.to_thread(self._said_of, event, session, brief=False)

    def _said_of(self, event: dict[str, Any], session: Session, *, brief: bool) -> Output | None:
        """`brief`: raises TakesLong for what others should not wait for; nothing has been done then."""
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

    def screen(self, session: Session) -> Screen:
        """One streamed answer."""
        replace = self._replacing.blocking(self._names(session))
        return AnswerScreen(Redaction(self._search, replace, self._options.scopes))

    def _request(self, make: _Make, shown: JsonObject, session: Session) -> Output | None:
        """`shown` is a request in the view `body`."""
        request, beside = shown["raw"], shown.get("beside") or {}
        if self._replacing.blocks:  # what is older has passed before, or was masked then
            blocking = make(self._replacing.blocking(None))
            redacted_request(blocking, newest(request))
            redacted_fields(blocking, beside, "other", {})
        redaction = make(self._replacing.masking(self._names(session)))
        new = {
            "raw": redacted_request(redaction, request),
            "beside": redacted_fields(redaction, beside, "other", {}),
        }
        came = {"raw": request, "beside": beside}
        return _said(redaction, "llm_request", {k: v for k, v in new.items() if v is not came[k]})

    def _answer(self, make: _Make, came: JsonObject, session: Session) -> Output | None:
        redaction = make(self._replacing.blocking(self._names(session)))
        [(_, new)] = AnswerScreen(redaction).judge([came], last=True)
        return _said(redaction, "llm_response", {} if new is came else {"raw": new})

    def _tool(self, make: _Make, scope: Scope, field: str, came: JsonObject) -> Output | None:
        """Arguments or a result that a shim tells of. A pseudonym would stay there, so it is masked."""
        if scope not in self._options.scopes:
            return None
        redaction = make(self._replacing.blocking(None))
        new = redaction.value(came)
        return _said(redaction, field, {} if new is came else new)

    def _names(self, session: Session) -> MutableMapping[str, str]:
        """The call's pseudonyms and what they stand for, which its client gets back."""
        names: MutableMapping[str, str] = session.call.kept.setdefault(self, {})
        if self._replacing.names:
            session.call.exits[self] = partial(self._restoring, names)
        return names

    def _restoring(self, names: Mapping[str, str]) -> Screen:
        restoring = Redaction(self._tokens, lambda _, token: names.get(token, token))
        return AnswerScreen(restoring, logprobs=True)


def _said(redaction: Redaction, field: str, edit: JsonObject) -> Output | None:
    found = {kind: count for kind, count in redaction.findings.items() if count}
    if not found and not edit:
        return None
    return {"hookSpecificOutput": {**({field: edit} if edit else {}), "findings": found}}
