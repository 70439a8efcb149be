"""The requests that receivers get: signed JSON, and the formats of Slack, Microsoft Teams and PagerDuty.

A message contains names that clients choose, such as that of an agent. So texts are in elements in which a
format knows no markup, or are escaped.
"""

import json
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hookgate.hooks.timestamps import utc_text
from hookgate.proxy.webhooks import signed_headers

_STYLES = {"info": "accent", "warning": "warning", "error": "attention", "critical": "attention"}
_LONGEST_SUMMARY = 1024
_BEFORE_BRACE = re.compile(r"\{(?=\{)")


@dataclass(frozen=True, slots=True)
class Notice:
    """What a receiver is told, in the parts that formats arrange. It has no markup."""

    type: str
    """What kind of message it is, such as `alert.firing`."""
    identity: str
    """The ID of what it is about, which is the same when that begins and when it is over."""
    subject: str
    """The name of what it is about, such as that of a rule."""
    title: str
    summary: str
    """A sentence on one line."""
    facts: Sequence[tuple[str, str]]
    """Further names and values."""
    data: Mapping[str, Any]
    """All that is known, for programs."""
    severity: str
    at: int
    """In milliseconds since 1970."""
    is_over: bool = False
    link: str = ""
    """The URL of a page about it, made by the gateway; empty if there is none."""


def json_request(notice: Notice, id_: str, timestamp: int, secret: bytes) -> tuple[bytes, dict[str, str]]:
    """Return the body and the headers of a signed request."""
    document = {"type": notice.type, "timestamp": utc_text(notice.at / 1000), "data": notice.data}
    body = _encoded(document)
    return body, signed_headers(secret, id_, timestamp, body)


def slack_body(notice: Notice) -> bytes:
    """Return the body for an incoming webhook of Slack. `plain_text` has neither markup nor mentions."""
    lines = "\n".join(f"{name}: {value}" for name, value in notice.facts)
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": _plain(notice.title[:150])},
        {"type": "section", "text": _plain(f"{notice.summary}\n{lines}"[:3000])},
    ]
    if notice.link:
        blocks.append({"type": "section", "text": {"type": "mrkdwn", "text": f"<{notice.link}|Open>"}})
    fallback = notice.summary.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _encoded({"text": fallback, "mrkdwn": False, "blocks": blocks})


def _plain(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text, "emoji": False}


def teams_body(notice: Notice) -> bytes:
    """Return the body for a workflow of Microsoft Teams: an Adaptive Card, whose `TextRun` has no markup."""
    style = "good" if notice.is_over else _STYLES[notice.severity]
    runs = [_run(notice.title, weight="Bolder"), _run(notice.summary)]
    runs += [_run(f"{name}: {value}", isSubtle=True) for name, value in notice.facts]
    content: dict[str, Any] = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [{"type": "Container", "style": style, "items": runs}],
    }
    if notice.link:
        content["actions"] = [{"type": "Action.OpenUrl", "title": "Open", "url": notice.link}]
    attachment = {
        "contentType": "application/vnd.microsoft.card.adaptive",
        "contentUrl": None,
        "content": content,
    }
    return _encoded({"type": "message", "attachments": [attachment]})


def _run(text: str, **style: Any) -> dict[str, Any]:
    # Cards replace {{DATE(…)}} in every text.
    shown = _BEFORE_BRACE.sub("{ ", text)
    return {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": shown, **style}]}


def pagerduty_body(notice: Notice, routing_key: str) -> bytes:
    """Return the body for PagerDuty's Events API v2."""
    event: dict[str, Any] = {
        "routing_key": routing_key,
        "event_action": "resolve" if notice.is_over else "trigger",
        "dedup_key": f"hookgate-{notice.identity}",
    }
    if not notice.is_over:
        event["client"] = "hookgate"
        event["payload"] = {
            "summary": notice.summary[:_LONGEST_SUMMARY],
            "source": f"hookgate {socket.gethostname()}",
            "severity": notice.severity,
            "timestamp": utc_text(notice.at / 1000),
            "class": notice.subject,
            "custom_details": notice.data,
        }
        if notice.link:
            event["links"] = [{"href": notice.link, "text": "Open"}]
    return _encoded(event)


def _encoded(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document).encode()
