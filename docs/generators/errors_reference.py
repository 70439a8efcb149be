"""Generate docs/errors.md from the errors in the source code, and from the causes and remedies below.

PYTHONPATH=docs python -m generators.errors_reference > docs/errors.md
"""

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from generators.errors_scan import FoundError, find_errors

_INTRODUCTION = """\
# Errors

<!-- Made by: PYTHONPATH=docs python -m generators.errors_reference > docs/errors.md -->

This page lists every error with which the gateway itself answers a call: the HTTP status, a reason for
programs, the messages, the cause and the remedy. Errors of the upstream are passed on unchanged and are not
listed here; the gateway's have the domain `hookgate`:

    {"error": {"code": 403, "message": "This path supports POST, not GET.", "status": "PERMISSION_DENIED",
     "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo",
                  "reason": "ROUTE_NOT_ALLOWED", "domain": "hookgate", "metadata": {}}]}}

The reason is also in the call's line of the [log](operating.md#logs). In the [audit](audit.md) it is under
`reasons`, with the key `gateway`; the reasons of hooks have the key of their event. Programs should test the
reason: messages may change in any version. In the messages below, `…` stands for what differs from call to
call.

Google's SDKs and Gemini CLI do not repeat calls that were answered with 400, 403, 404, 413 or 415. They
repeat calls after 429, 500, 502, 503 and 504, so no denial of a call has such a status. Where a client would
repeat even a 403, a denial is sent [as text](gateway.md#what-a-client-receives).

A denial that occurs when a stream has already begun is sent as text, too. If the upstream fails then, the
stream ends with an event that contains the error, and the connection is closed.
"""


@dataclass(frozen=True, slots=True)
class Advice:
    """The cause of an error, the remedy, and who can apply it: the caller, the operator or Google."""

    who: str
    cause: str
    remedy: str


ADVICE = {
    "AUDIT_UNAVAILABLE": Advice(
        "operator",
        "The record of a call could not be written before the call was sent upstream, or a receipt could not "
        "be read.",
        "Make the database of the [audit](audit.md) available again; the message has its error.",
    ),
    "BODIES_BUSY": Advice(
        "operator",
        "Other large requests occupied `limits.memory` for `limits.body_timeout`.",
        "Send the request again later. If it happens often, raise `limits.memory`.",
    ),
    "BODY_REFUSED": Advice(
        "caller",
        "The body is not valid JSON, is not a request of this API, or could be read in two ways. Hooks might "
        "see something different from what the model receives.",
        "Correct the place that the message names. If Google's SDK has made the body, report it with the "
        "message.",
    ),
    "BODY_TOO_LARGE": Advice(
        "caller",
        "The body exceeds `limits.body`, `limits.text`, `limits.values`, `limits.items`, `limits.inputs`, "
        "or the limit of a path that is "
        "forwarded without hooks.",
        "Send less, or raise the [limit](configuration.md).",
    ),
    "CONNECTIONS_BUSY": Advice(
        "operator",
        "Other calls occupied all connections to upstreams, as many as `limits.connections`, for "
        "`upstream.connect_timeout`.",
        "Send the call again later. If it happens often, raise `limits.connections`.",
    ),
    "CREDENTIALS_DIFFER": Advice(
        "caller",
        "Limits could be counted for one credential, and the call be made with the other.",
        "Remove one, such as a variable with an API key beside a login.",
    ),
    "ENCODING_NOT_SUPPORTED": Advice(
        "caller",
        "The body is compressed in a way that the gateway cannot read.",
        "Send it as gzip, as deflate or uncompressed.",
    ),
    "EVENT_REFUSED": Advice(
        "caller",
        "A [shim](shim.md), a script or another gateway has sent an event or a check with a missing or "
        "invalid field.",
        "Compare the input of an event with the [reference](reference.md), and a check with [what LiteLLM "
        "sends](guardrails.md#litellm-asks-hookgate).",
    ),
    "INTERNAL_ERROR": Advice(
        "operator", "A defect of hookgate.", "Report it with the traceback that is in the gateway's log."
    ),
    "INTERACTIONS_UNAVAILABLE": Advice(
        "operator",
        "A call continues or reads an interaction, and the database cannot be read that knows which have "
        "passed.",
        "Make the database of the [store](configuration.md#store) available again, as the message says.",
    ),
    "FILE_NOT_ALLOWED": Advice(
        "caller",
        "`routes.files` is `judge`, and the uploaded file is neither text nor of one of `routes.file_types`, "
        "or too large.",
        "Upload text in UTF-8, or ask the operator to list the type of the file; "
        "[uploads](apis.md#uploads) describes the rules.",
    ),
    "INTERACTION_UNKNOWN": Advice(
        "caller",
        "`routes.unknown_interactions` is `refuse`, and no interaction with this ID that was created with "
        "the same key has passed the gateway.",
        "Begin a new interaction through the gateway. If the earlier one runs in the background, read its "
        "answer first.",
    ),
    "KEYS_UNAVAILABLE": Advice(
        "operator",
        "The database of [issued keys](keys.md) or of their limits cannot be read.",
        "Make it available again; the gateway's log has the error.",
    ),
    "KEY_EXPIRED": Advice(
        "caller",
        "The key or token has expired, or `hookgate keys rotate` has replaced the key.",
        "Use the new key, or sign in again.",
    ),
    "KEY_IN_PATH": Advice(
        "caller",
        "The path contains an issued key. Paths are recorded, so the key must be considered exposed.",
        "Send the key in a header, and let the operator replace it with `hookgate keys rotate`.",
    ),
    "KEY_LIMIT_REACHED": Advice(
        "operator",
        "The key's limit on requests, tokens or cost is reached, or it limits the cost of a model without a "
        "price.",
        "Wait until the time that the message names, raise the limit with `hookgate keys`, or add the model "
        "to the [price table](limits.md).",
    ),
    "KEY_NOT_ALLOWED": Advice(
        "operator",
        "The key is restricted to other models or [routes](keys.md).",
        "Use a model that is allowed, or let the operator change the key.",
    ),
    "KEY_REVOKED": Advice("operator", "The operator has revoked the key.", "Ask for another key."),
    "KEY_UNKNOWN": Advice(
        "operator",
        'With `clients.unknown_keys = "refuse"`, calls need a key that the gateway has issued or that '
        "hookgate.toml names. An issued key that is incomplete is unknown, too.",
        "Check that the agent sends the key that it was given; add the key, or issue one.",
    ),
    "NOT_ON_VERTEX": Advice(
        "caller",
        "Calls of the Gemini API are [answered by Vertex AI](credentials.md#the-gemini-api-answered-by-"
        "vertex-ai), which has no such method.",
        "Do as the message says.",
    ),
    "POLICY_DENIED": Advice(
        "caller",
        "A hook has denied the call; the message is its reason, and `metadata.event` the event. If a hook "
        "[failed](failing.md), it is `The hook 'guard' failed; see the gateway's log.` or `The hook 'guard' "
        "could not judge this call (overload).`",
        "Change what the reason names. The receipt lists the hooks that have decided.",
    ),
    "PROJECT_NOT_ALLOWED": Advice(
        "caller",
        "The call has an issued key, so it is made in the gateway's own project at Google.",
        "Omit project and location, or use those in the message.",
    ),
    "RECEIPT_UNKNOWN": Advice(
        "caller",
        "There is no [receipt](receipts.md) with this ID for this key.",
        "Use the whole ID, and the key with which the call was made; wait until the call has ended.",
    ),
    "REQUEST_REFUSED": Advice(
        "caller",
        "The request line, a header or the query is malformed or not supported on this path.",
        "Do as the message says.",
    ),
    "ROUTE_NOT_ALLOWED": Advice(
        "caller",
        "The gateway does not serve the path or method, or a field of the request refers to something that "
        "hooks cannot see. See [what no hook sees](gateway.md#what-no-hook-sees).",
        "Do as the message says. A path with two API versions or without one comes from a wrong end of the "
        "base URL. The operator can let some of these calls through unjudged.",
    ),
    "SESSIONS_UNAVAILABLE": Advice(
        "operator",
        "The database with the sessions that processes [share](operating.md#sessions-that-processes-share) "
        "cannot be used.",
        "Make it available again; the message has its error.",
    ),
    "TOKEN_UNAVAILABLE": Advice(
        "operator",
        "Google's token service gave no access token for a [credential](credentials.md#google-cloud) of the "
        "gateway's own in time.",
        "Run `hookgate doctor`; the gateway's log names the cause.",
    ),
    "TOO_MANY_EVENTS": Advice(
        "operator",
        "One caller has sent more events of a shim than `limits.events` allows.",
        "Raise `limits.events` if the agent is not at fault.",
    ),
    "UPSTREAM_BROKE": Advice(
        "Google",
        "The upstream ended its answer before it was complete, or with an error.",
        "Send the call again.",
    ),
    "UPSTREAM_ELSEWHERE": Advice(
        "operator",
        "The upstream has named an address outside of itself for an upload, past the gateway.",
        "Check `upstream.gemini`: a proxy there may rewrite addresses.",
    ),
    "UPSTREAM_KEY_MISSING": Advice(
        "operator",
        "The call has an issued key, but the gateway has no [credential](credentials.md) for this API and "
        "team.",
        "Add one to `[credentials.NAME]`.",
    ),
    "UPSTREAM_REFUSED": Advice(
        "caller",
        "The upstream answered the handshake of a WebSocket with an error, whose status is in the message.",
        "Check the key, the model and the path.",
    ),
    "UPSTREAM_TIMEOUT": Advice(
        "Google",
        "The upstream did not begin or continue its answer within the [limits](configuration.md).",
        "Send the call again, or raise `upstream.header_timeout`.",
    ),
    "UPSTREAM_UNREACHABLE": Advice(
        "operator",
        "The upstream's name cannot be resolved, or no connection can be made; the message has the cause.",
        "Run `hookgate doctor`, which tries it. Behind a company's proxy, set `upstream.proxy` and "
        "`upstream.ca_bundle`.",
    ),
    "UPSTREAM_UNREADABLE": Advice(
        "operator",
        "The upstream's answer is not valid, too large, or could be read in two ways, so hooks cannot judge "
        "it.",
        "Check that `upstream.gemini` is the Gemini API: the page of a proxy is HTML.",
    ),
}
"""The advice for each reason."""


def errors_reference() -> str:
    """Return the page as Markdown. Raises KeyError for a reason without advice."""
    by_reason = {
        reason: list(errors)
        for reason, errors in itertools.groupby(find_errors(), lambda error: error.reason)
        if reason
    }
    rows = [_row(reason, errors) for reason, errors in by_reason.items()]
    sections = (line for reason, errors in by_reason.items() for line in _section(reason, errors))
    return "\n".join(
        [
            _INTRODUCTION,
            "| reason | status | who can help |",
            "|---|---|---|",
            *rows,
            "",
            *sections,
        ]
    )


def _row(reason: str, errors: list[FoundError]) -> str:
    return f"| [`{reason}`](#{reason.lower()}) | {_statuses(errors)} | {ADVICE[reason].who} |"


def _section(reason: str, errors: list[FoundError]) -> Iterator[str]:
    advice = ADVICE[reason]
    yield f"## {reason}\n"
    yield f"Status {_statuses(errors)}. {advice.cause} **Remedy:** {advice.remedy}\n"
    messages = sorted({error.message for error in errors if re.search(r"\w", error.message)})
    yield from (f"- `{message}`" for message in messages)
    if messages:
        yield ""


def _statuses(errors: list[FoundError]) -> str:
    return " or ".join(str(status) for status in sorted({error.status for error in errors}))


if __name__ == "__main__":
    print(errors_reference(), end="")
