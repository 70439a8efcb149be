"""What receivers get: signatures that others verify, and texts that no format interprets."""

import json
from dataclasses import replace
from typing import Any

import pytest
from support.operating.receivers import SECRET

from hookgate.proxy.alerts.formats import (
    json_request,
    pagerduty_body,
    slack_body,
    teams_body,
)
from hookgate.proxy.alerts.notices import alert_notice, summarize
from hookgate.proxy.alerts.states import Message
from hookgate.proxy.webhooks import signed_headers, signing_key

AT = 1_777_672_800_000
EVIL = '<!channel> & *b* [x](https://evil.example) {{{DATE(2026-01-01T00:00:00Z)}}}\n\u202e"\x1b'
FIRES = Message(
    "a1b2",
    "firing",
    "denials",
    "critical",
    {"team": "web", "agent": EVIL},
    "calls",
    23.0,
    20.0,
    100,
    "1m",
    "outcome:denied",
    AT,
    AT + 5000,
    ("ops",),
)
OVER = FIRES.resolved(3.0, AT + 90_000)


def test_the_signature_is_that_of_the_specification() -> None:
    """The example of https://github.com/standard-webhooks/standard-webhooks, and its library's own check."""
    key = signing_key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    body = b'{"test": 2432232314}'
    expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    headers = signed_headers(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    assert headers["webhook-signature"] == expected


@pytest.mark.parametrize("message", [FIRES, OVER], ids=["firing", "resolved"])
def test_a_library_verifies_signed_json(message: Message, monkeypatch: pytest.MonkeyPatch) -> None:
    webhooks = pytest.importorskip("standardwebhooks.webhooks")
    import time  # noqa: PLC0415  # the library checks the age

    body, headers = json_request(alert_notice(message), "msg_1", int(time.time()), signing_key(SECRET))
    assert webhooks.Webhook(SECRET).verify(body, headers)["type"] == f"alert.{message.state}"
    with pytest.raises(webhooks.WebhookVerificationError):
        webhooks.Webhook(SECRET).verify(body.replace(b"23", b"24").replace(b"3.0", b"4.0"), headers)
    with pytest.raises(webhooks.WebhookVerificationError):
        webhooks.Webhook(SECRET).verify(body, {**headers, "webhook-id": "msg_2"})


def test_signed_json_has_all_that_is_known() -> None:
    document = json.loads(json_request(alert_notice(FIRES), "msg_1", 1, signing_key(SECRET))[0])
    assert document["type"] == "alert.firing"
    assert document["timestamp"] == "2026-05-01T22:00:05.000Z"
    assert document["data"] == {
        "alert": "a1b2",
        "state": "firing",
        "rule": "denials",
        "severity": "critical",
        "group": {"team": "web", "agent": EVIL},
        "count": "calls",
        "value": 23.0,
        "over": 20.0,
        "percent": 100,
        "within": "1m",
        "query": "outcome:denied",
        "since": "2026-05-01T22:00:00.000Z",
        "summary": summarize(FIRES),
    }


def texts_in(value: Any) -> list[str]:
    """The texts in a document that are shown."""
    if isinstance(value, dict):
        return [text for each in value.values() for text in texts_in(each)]
    if isinstance(value, list):
        return [text for each in value for text in texts_in(each)]
    return [value] if isinstance(value, str) else []


def test_slack_shows_names_as_plain_text() -> None:
    document = json.loads(slack_body(alert_notice(FIRES)))
    assert {block["text"]["type"] for block in document["blocks"]} == {"plain_text"}
    assert "<!channel>" in document["blocks"][1]["text"]["text"], "plain text has no mentions"
    assert document["mrkdwn"] is False
    assert "<" not in document["text"]
    assert "&lt;!channel&gt; &amp;" in document["text"]
    assert "23 calls of team" in document["text"]


def test_teams_shows_names_without_markup_and_functions() -> None:
    document = json.loads(teams_body(alert_notice(FIRES)))
    [attachment] = document["attachments"]
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    card = attachment["content"]
    assert (card["type"], card["version"]) == ("AdaptiveCard", "1.4")
    [container] = card["body"]
    assert {item["type"] for item in container["items"]} == {"RichTextBlock"}, "a TextBlock has markup"
    assert not any("{{" in text for text in texts_in(document))
    assert (
        json.loads(teams_body(alert_notice(OVER)))["attachments"][0]["content"]["body"][0]["style"] == "good"
    )


def test_pagerduty_opens_one_incident_and_resolves_it() -> None:
    fires, over = (
        json.loads(pagerduty_body(alert_notice(FIRES), "key")),
        json.loads(pagerduty_body(alert_notice(OVER), "key")),
    )
    assert (fires["event_action"], over["event_action"]) == ("trigger", "resolve")
    assert fires["dedup_key"] == over["dedup_key"] == "hookgate-a1b2"
    assert fires["routing_key"] == over["routing_key"] == "key"
    assert fires["payload"]["severity"] == "critical"
    assert fires["payload"]["summary"] == summarize(FIRES)
    assert fires["payload"]["source"].startswith("hookgate ")
    assert "payload" not in over


def test_a_summary_is_one_line_with_printable_names() -> None:
    text = summarize(FIRES)
    assert text.isprintable()
    assert text.startswith('denials: 23 calls of team "web", agent "')
    assert text.endswith(" within 1m, more than 20.")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"group": {}}, "denials: 23 calls within 1m, more than 20."),
        (
            {"group": {"team": ""}, "count": "cost", "value": 1234.567, "level": 80, "within": "month"},
            "denials: 1,234.57 cost of no team this month, more than 80 percent of the limit, 20.",
        ),
        (
            {"group": {"gateway": "g1"}, "count": "trouble", "within": "", "query": ""},
            'denials: the gateway "g1" cannot write its audit.',
        ),
        ({"state": "test"}, "This is a test of hookgate's alerts; nothing has happened."),
        (
            {"state": "resolved", "group": {}, "value": 1e9},
            "denials: 1,000,000,000 calls within 1m, not more",
        ),
    ],
)
def test_summaries(changes: dict[str, Any], expected: str) -> None:
    assert summarize(replace(FIRES, **changes)).startswith(expected)


@pytest.mark.parametrize("message", [FIRES, OVER], ids=["firing", "resolved"])
@pytest.mark.parametrize("body", [slack_body, teams_body, lambda each: pagerduty_body(each, "k")])
def test_long_names_and_odd_characters_fit(message: Message, body: Any) -> None:
    group = dict.fromkeys(("key", "owner", "team", "session", "model", "agent"), "�x" * 50)
    document = json.loads(body(alert_notice(replace(message, group=group))))
    assert all(len(text) <= 3000 for text in texts_in(document))
