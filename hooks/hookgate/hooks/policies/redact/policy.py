"""The policy `redact`: masks, hashes, pseudonymises or blocks credentials and personal data.

    {"type": "builtin", "builtin": "redact", "options": {
      "detect": ["credentials", "personal"], "skip": ["PHONE"],
      "action": "mask", "actions": {"EMAIL": "pseudonymise", "PRIVATE_KEY": "block"},
      "words": {"CODENAME": ["Blue Heron"]}}}

It supports BeforeModel (requests), AfterModel (answers), and BeforeTool and AfterTool (calls and results of
tools, from an agent's shim or derived). A pseudonym in an answer is seen only by later hooks: the client
receives the original text.
"""

import hashlib
import hmac
import logging
import re
import sys
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from functools import partial
from typing import Any

from hookgate.hooks.policies.options import read_options
from hookgate.hooks.policies.redact.answers import AnswerScreen
from hookgate.hooks.policies.redact.detectors.detector import KIND, Detector
from hookgate.hooks.policies.redact.fields import newest, redacted_fields, redacted_request
from hookgate.hooks.policies.redact.known import CleanDigests, RememberedParts
from hookgate.hooks.policies.redact.options import Action, RedactOptions
from hookgate.hooks.policies.redact.presidio import load_presidio
from hookgate.hooks.policies.redact.redaction import Redaction, Search
from hookgate.hooks.policies.redact.scanner import TakesLong, is_long, shared_scanner
from hookgate.hooks.policies.secret_key import key_in
from hookgate.hooks.policies.speakers import Scope
from hookgate.hooks.policy_environment import Policy, PolicyEnvironment
from hookgate.hooks.session import Screen, SessionContext, Withheld
from hookgate.translator.fields import JsonObject

log = logging.getLogger("hookgate.hooks")

_DIGITS = re.compile(r"[0-9a-f]{16}")


def make_pseudonym(kind: str, digits: str) -> str:
    """Return the pseudonym of a kind and 16 hexadecimal digits. Raises ValueError if either is invalid."""
    if not KIND.fullmatch(kind) or not _DIGITS.fullmatch(digits):
        raise ValueError(
            "a pseudonym needs a kind of 2 to 24 capitals and 16 hexadecimal digits in lower case"
        )
    return f"HG_{kind}_{digits}"


def pseudonym_detector() -> Detector:
    """Return a detector of pseudonyms, used to restore their originals. The text around them does not matter.

    No other built-in detector matches a pseudonym.
    """
    return Detector("PSEUDONYM", r"HG_[A-Z][A-Z0-9_]{1,23}_[0-9a-f]{16}", group="pseudonyms")


_NAMED = "The name of an argument contains something that is masked; pass it as a value."
_BLOCKED = "The text contains something that is blocked ({kind})."


class Replacer:
    """Replaces findings as the options say. Equal findings have equal replacements."""

    def __init__(self, options: RedactOptions, key: bytes) -> None:
        """`key` is the secret key of hashes and pseudonyms, without which they cannot be guessed."""
        self._actions_by_kind: Mapping[str, Action] = options.actions_by_kind()
        self._allowed, self._cap = frozenset(options.allow), options.cap
        self._mask, self._reason = options.mask, options.reason
        self._key = key

    @property
    def blocks(self) -> bool:
        """Whether any kind is blocked."""
        return "block" in self._actions_by_kind.values()

    @property
    def uses_pseudonyms(self) -> bool:
        """Whether any kind is pseudonymised."""
        return "pseudonymise" in self._actions_by_kind.values()

    def replacer(self, pseudonyms: MutableMapping[str, str] | None) -> Callable[[str, str], str]:
        """Return a function that replaces findings. Kinds that are blocked are masked.

        It adds new pseudonyms to `pseudonyms`, with their originals. If that is None, it uses masks instead.
        """

        def replace(kind: str, original: str) -> str:
            if self.allows(kind, original):
                return original
            act = self._actions_by_kind.get(kind, "mask")
            if act == "hash":
                return f"[{kind}:{self._digest(kind, original)[:12]}]"
            if act == "pseudonymise" and pseudonyms is not None:
                pseudonym = make_pseudonym(kind, self._digest(kind, original)[:16])
                pseudonyms[pseudonym] = original
                return pseudonym
            return self._mask.replace("{kind}", kind)

        return replace

    def replacer_or_block(self, pseudonyms: MutableMapping[str, str] | None) -> Callable[[str, str], str]:
        """Return a function that replaces findings, and raises Withheld for kinds that are blocked."""
        replace = self.replacer(pseudonyms)

        def block(kind: str, original: str) -> str:
            if self._actions_by_kind.get(kind) == "block" and not self.allows(kind, original):
                raise Withheld(self._reason or _BLOCKED.format(kind=kind), kind)
            return replace(kind, original)

        return block

    def allows(self, kind: str, original: str) -> bool:
        """Return whether the option `allow` lists a finding."""
        return bool(self._allowed) and self.hash_of(kind, original) in self._allowed

    def hash_of(self, kind: str, original: str) -> str:
        """Return the hash of a finding, by which `allow` lists it: its pseudonym.

        It is empty if the finding may be the beginning of a longer one, which the rest must not follow.
        """
        return "" if len(original) >= self._cap else f"HG_{kind}_{self._digest(kind, original)[:16]}"

    def _digest(self, kind: str, original: str) -> str:
        return hmac.new(self._key, f"{kind}\0{original}".encode(), hashlib.sha256).hexdigest()


Output = dict[str, Any]


def redact_policy(options: Mapping[str, Any], environment: PolicyEnvironment) -> Policy:
    """Create the policy from its options. Raises ValueError if they are invalid."""
    settings = read_options(RedactOptions, options, environment.root)
    for rules in settings.rules:
        if rules.unusable:
            log.warning("redact: %s", rules.describe_unusable())
    return _Redact(settings, Replacer(settings, key_in(environment.state)))


class _Redact:
    """The policy `redact` with its options. It also screens streamed answers."""

    def __init__(self, options: RedactOptions, replacer: Replacer) -> None:
        self._options, self._replacer = options, replacer
        self._search = Search(
            shared_scanner(options.detectors()),
            options.limit,
            options.cap,
            options.at_cap,
            load_presidio(options.presidio) if options.presidio else None,
            replacer.hash_of,
        )
        self._clean = CleanDigests()
        self._pseudonym_search = Search(shared_scanner([pseudonym_detector()]), limit=sys.maxsize)

    def __call__(
        self, event: dict[str, Any], session: SessionContext
    ) -> Output | Awaitable[Output | None] | None:
        run_long, judge = session.call_state.steps.run_long, partial(self._judge, event, session, brief=False)
        if self._search.find is not None or is_long(_subject(event, session)):
            return run_long(judge)
        try:
            return self._judge(event, session, brief=True)
        except TakesLong:
            return run_long(judge)

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
        except Withheld as withheld:
            return self._denial(redaction, event, withheld)
        return None

    def _denial(
        self, create_redaction: partial[Redaction], event: dict[str, Any], withheld: Withheld
    ) -> Output:
        """Return the denial of an event, with the places of what is blocked, which are searched again."""
        output = withheld.output()
        if not withheld.kind:
            return output

        def replace(kind: str, original: str) -> str:
            return original if kind != withheld.kind or self._replacer.allows(kind, original) else ""

        redaction = create_redaction(replace)
        try:
            match event["hook_event_name"]:
                case "BeforeModel":
                    redacted_request(redaction, event["llm_request"]["raw"])
                    redacted_fields(redaction, event["llm_request"].get("beside") or {}, "other", {})
                case "AfterModel":
                    AnswerScreen(redaction).feed([event["llm_response"]["raw"]], last=True)
                case "BeforeTool":
                    redaction.value(event["tool_input"])
                case "AfterTool":
                    redaction.value(event["tool_response"])
        except Withheld:  # there is too much to check
            return output
        output["hookSpecificOutput"] |= redaction.report.output()
        return output

    def screen(self, session: SessionContext) -> Screen:
        """Return a screen for one streamed answer."""
        replace = self._replacer.replacer_or_block(self._restored_pseudonyms(session))
        redaction = Redaction(self._search, replace, self._options.scopes)
        return _answer_screen(redaction, session)

    def _request(
        self, create_redaction: partial[Redaction], llm_request: JsonObject, session: SessionContext
    ) -> Output | None:
        """Redact a request, given in the view `body`."""
        turns, brief = session.call_state.turns, bool(create_redaction.keywords["brief"])
        known = RememberedParts(self._clean, session.key, turns, brief=brief)
        create_redaction = partial(create_redaction, known=known)
        request, beside = llm_request["raw"], llm_request.get("beside") or {}
        if self._replacer.blocks:  # older turns were allowed before, or masked then
            blocking = create_redaction(self._replacer.replacer_or_block(None))
            redacted_request(blocking, newest(request))
            redacted_fields(blocking, beside, "other", {})
        redaction = create_redaction(self._replacer.replacer(self._restored_pseudonyms(session)))
        new = {
            "raw": redacted_request(redaction, request),
            "beside": redacted_fields(redaction, beside, "other", {}),
        }
        original = {"raw": request, "beside": beside}
        return _output(redaction, "llm_request", {k: v for k, v in new.items() if v is not original[k]})

    def _answer(
        self, create_redaction: partial[Redaction], original: JsonObject, session: SessionContext
    ) -> Output | None:
        redaction = create_redaction(self._replacer.replacer_or_block(self._restored_pseudonyms(session)))
        screen = _answer_screen(redaction, session)
        [(_, new)] = screen.feed([original], last=True, cut_off=session.call_state.cut_off)
        return _output(redaction, "llm_response", {} if new is original else {"raw": new})

    def _tool(
        self, create_redaction: partial[Redaction], scope: Scope, field: str, original: JsonObject
    ) -> Output | None:
        """Redact arguments or a result of a tool. They are masked, as pseudonyms would not be restored."""
        if scope not in self._options.scopes:
            return None
        redaction = create_redaction(self._replacer.replacer_or_block(None))
        new = redaction.value(original)
        if field == "tool_input" and new.keys() != original.keys():  # an edit cannot remove an argument
            return {"decision": "deny", "reason": _NAMED, "hookSpecificOutput": redaction.findings_output()}
        return _output(redaction, field, {} if new is original else new)

    def _restored_pseudonyms(self, session: SessionContext) -> MutableMapping[str, str]:
        """Return the call's pseudonyms with their originals, which are restored for the client then."""
        pseudonyms: MutableMapping[str, str] = session.call_state.values.setdefault(self, {})
        if self._replacer.uses_pseudonyms:
            session.call_state.client_filters[self] = partial(
                self._restoring_screen, pseudonyms, is_json=session.call_state.requires_json
            )
        return pseudonyms

    def _restoring_screen(self, pseudonyms: Mapping[str, str], *, is_json: bool) -> Screen:
        redaction = Redaction(self._pseudonym_search, lambda _, name: pseudonyms.get(name, name))
        return AnswerScreen(redaction, logprobs=True, is_json=is_json)


def _answer_screen(redaction: Redaction, session: SessionContext) -> AnswerScreen:
    state = session.call_state
    return AnswerScreen(
        redaction, is_json=state.requires_json, continues=state.prefilled, thoughts=state.earlier_thoughts
    )


def _subject(event: dict[str, Any], session: SessionContext) -> Any:
    """Return what the policy judges in an event, without a request of which most may be known."""
    match event["hook_event_name"]:
        case "BeforeModel":
            request, is_large = event["llm_request"], session.call_state.steps.is_large
            return [request["raw"] if is_large else None, request.get("beside")]
        case "AfterModel":
            return event["llm_response"]["raw"]
        case _:
            return event


def _output(redaction: Redaction, field: str, edit: JsonObject) -> Output | None:
    if not edit:
        return None
    return {"hookSpecificOutput": {field: edit, **redaction.findings_output()}}
