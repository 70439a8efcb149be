"""What receivers are told about alerts: a message as a notice, in one sentence and in facts."""

from typing import Any

from hookgate.hooks.timestamps import utc_text
from hookgate.proxy.alerts.formats import Notice
from hookgate.proxy.alerts.states import Message
from hookgate.proxy.observe.logs import escape_controls

_MARKS = {"info": "ℹ️", "warning": "⚠️", "error": "🔴", "critical": "🔥"}


def alert_notice(message: Message) -> Notice:
    """Return what receivers are told about an alert."""
    return Notice(
        type=f"alert.{message.state}",
        identity=message.alert,
        subject=message.rule,
        title=_title(message),
        summary=summarize(message),
        facts=_facts(message),
        data=_data(message),
        severity=message.severity,
        at=message.at,
        is_over=message.state == "resolved",
    )


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
