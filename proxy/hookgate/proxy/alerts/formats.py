"""The requests that receivers get: signed JSON, and the formats of Slack, Microsoft Teams and PagerDuty.

A message contains names that clients choose, such as that of an agent. So texts are in elements in which a
format knows no markup, or are escaped.
"""

import json
import socket
from collections.abc import Mapping
from typing import Any

from hookgate.hooks.timestamps import utc_text
from hookgate.proxy.alerts.states import Message
from hookgate.proxy.observe.logs import escape_controls
from hookgate.proxy.webhooks import signed_headers

_MARKS = {"info": "ℹ️", "warning": "⚠️", "error": "🔴", "critical": "🔥"}
_STYLES = {"info": "accent", "warning": "warning", "error": "attention", "critical": "attention"}
_LONGEST_SUMMARY = 1024


def json_request(message: Message, id_: str, timestamp: int, secret: bytes) -> tuple[bytes, dict[str, str]]:
    """Return the body and the headers of a signed request."""
    document = {
        "type": f"alert.{message.state}",
        "timestamp": utc_text(message.at / 1000),
        "data": _data(message),
    }
    body = _encoded(document)
    return body, signed_headers(secret, id_, timestamp, body)


def slack_body(message: Message) -> bytes:
    """Return the body for an incoming webhook of Slack. `plain_text` has neither markup nor mentions."""
    lines = "\n".join(f"{name}: {value}" for name, value in _facts(message))
    blocks = [
        {"type": "header", "text": _plain(_title(message)[:150])},
        {"type": "section", "text": _plain(f"{summarize(message)}\n{lines}"[:3000])},
    ]
    fallback = summarize(message).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _encoded({"text": fallback, "mrkdwn": False, "blocks": blocks})


def _plain(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text, "emoji": False}


def teams_body(message: Message) -> bytes:
    """Return the body for a workflow of Microsoft Teams: an Adaptive Card, whose `TextRun` has no markup."""
    style = "good" if message.state == "resolved" else _STYLES[message.severity]
    runs = [_run(_title(message), weight="Bolder"), _run(summarize(message))]
    runs += [_run(f"{name}: {value}", isSubtle=True) for name, value in _facts(message)]
    content = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [{"type": "Container", "style": style, "items": runs}],
    }
    attachment = {
        "contentType": "application/vnd.microsoft.card.adaptive",
        "contentUrl": None,
        "content": content,
    }
    return _encoded({"type": "message", "attachments": [attachment]})


def _run(text: str, **style: Any) -> dict[str, Any]:
    # Cards replace {{DATE(…)}} in every text.
    shown = text.replace("{{", "{ {")
    return {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": shown, **style}]}


def pagerduty_body(message: Message, routing_key: str) -> bytes:
    """Return the body for PagerDuty's Events API v2."""
    event: dict[str, Any] = {
        "routing_key": routing_key,
        "event_action": "resolve" if message.state == "resolved" else "trigger",
        "dedup_key": f"hookgate-{message.alert}",
    }
    if message.state != "resolved":
        event["client"] = "hookgate"
        event["payload"] = {
            "summary": summarize(message)[:_LONGEST_SUMMARY],
            "source": f"hookgate {socket.gethostname()}",
            "severity": message.severity,
            "timestamp": utc_text(message.at / 1000),
            "class": message.rule,
            "custom_details": _data(message),
        }
    return _encoded(event)


def _encoded(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document).encode()


def _data(message: Message) -> dict[str, Any]:
    return {
        "alert": message.alert,
        "state": message.state,
        "rule": message.rule,
        "severity": message.severity,
        "group": dict(message.group),
        "count": message.count,
        "value": message.value,
        "over": message.threshold,
        "percent": message.level,
        "within": message.within,
        "query": message.query,
        "since": utc_text(message.since / 1000),
        "summary": summarize(message),
    }


def _title(message: Message) -> str:
    if message.state == "resolved":
        return f"✅ {message.rule}: resolved"
    return f"{_MARKS[message.severity]} {message.rule}: {message.severity}"


def summarize(message: Message) -> str:
    """Return the message in one sentence. Names are printable, and quoted."""
    if message.state == "test":
        return "This is a test of hookgate's alerts; nothing has happened."
    group = ", ".join(_named(field, name) for field, name in message.group.items())
    if message.count == "trouble":
        state = "writes its audit again" if message.state == "resolved" else "cannot write its audit"
        return f"{message.rule}: the {group} {state}."
    about = f" of {group}" if group else ""
    span = {"day": "this day", "month": "this month"}.get(message.within, f"within {message.within}")
    amount = f"{message.rule}: {_number(message.value)} {message.count}{about} {span}"
    bound = _number(message.threshold)
    if message.level != 100:
        bound = f"{message.level} percent of the limit, {bound}"
    return f"{amount}, {'not ' if message.state == 'resolved' else ''}more than {bound}."


def _facts(message: Message) -> list[tuple[str, str]]:
    facts = [("Since", utc_text(message.since / 1000, "seconds"))]
    if message.query:
        facts.append(("Calls", f"hookgate audit list {message.query}"))
    return facts


def _named(field: str, name: str) -> str:
    return f'{field} "{escape_controls(name, keep_lines=False)}"' if name else f"no {field}"


def _number(value: float) -> str:
    return f"{value:,.2f}".rstrip("0").rstrip(".")
