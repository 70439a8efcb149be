"""`hookgate alerts ...`: lists alerts, silences rules, and tests receivers."""

import argparse
import base64
import contextlib
import json
import re
import secrets
import sys
import time
from difflib import get_close_matches
from pathlib import Path

from hookgate.hooks.timestamps import utc_text
from hookgate.proxy.alerts.notices import alert_notice
from hookgate.proxy.alerts.receivers import Receiver, close_receivers, read_receivers
from hookgate.proxy.alerts.rules import EvaluatedRule, read_alert_rules
from hookgate.proxy.alerts.showing import LONGEST_SILENCE, show_alerts, test_messages
from hookgate.proxy.alerts.table import AlertTable
from hookgate.proxy.audit.changes import operator_name, recording_changes
from hookgate.proxy.cli.flags import not_configured
from hookgate.proxy.cli.terminal import print_table
from hookgate.proxy.config import Config, read_config
from hookgate.proxy.config.reading import find_sources
from hookgate.proxy.config.values import WINDOW_SECONDS
from hookgate.proxy.observe.logs import escape_controls
from hookgate.proxy.store import Store
from hookgate.proxy.store.database import open_alerts
from hookgate.proxy.webhooks import SECRET_PREFIX
from hookgate.translator.fields import JsonObject

_SECRET_BYTES = 32


async def run_alerts(args: argparse.Namespace) -> int:
    """Run one command and return its exit code. Raises ValueError (such as StoreError) or OSError."""
    if args.alerts_command == "secret":
        print(SECRET_PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode())
        return 0
    effective = read_config(vars(args))
    config = effective.config
    if args.alerts_command == "test":
        if not config.alerts.receivers:
            raise ValueError(not_configured("receivers", "[[alerts.receivers]]", effective.file))
        return await _test(read_receivers(config.alerts), args.receiver)
    no_rules = not_configured("rules", "[[alerts.rules]]", effective.file)
    if args.alerts_command == "silence" and not config.alerts.rules:
        raise ValueError(no_rules)
    state = find_sources(config.hooks).state
    url = Store(config.store, state).url()
    with contextlib.closing(AlertTable(open_alerts(url, state))) as table:
        rules = read_alert_rules(config.alerts)
        if args.alerts_command == "list":
            shown = list(show_alerts(rules, table))
            if not shown:
                raise ValueError(no_rules)
            _list(shown, as_json=args.json)
            return 0
        return _change(config, url, state, rules, table, args)


def _list(shown: list[JsonObject], *, as_json: bool) -> None:
    if as_json:
        for rule in shown:
            print(json.dumps(rule))
        return
    rows = [row for rule in shown for row in _rows(rule)]
    print_table(("rule", "state", "since", "group", "value", "receivers"), rows)


def _rows(rule: JsonObject) -> list[tuple[str, ...]]:
    """Return the lines of a rule: one for each alert that fires, or else one."""
    silent = f", silent until {rule['silenced_until']}" if rule["silenced_until"] else ""
    receivers = ", ".join(_shown_receiver(each) for each in rule["receivers"]) or "none"
    if not rule["alerts"]:
        return [(rule["rule"], f"ok{silent}", "-", "-", "-", receivers)]
    return [
        (
            rule["rule"],
            f"firing{'' if alert['percent'] == 100 else ' at ' + str(alert['percent']) + ' %'}{silent}",
            alert["since"],
            escape_controls(_shown_group(alert["group"]), keep_lines=False),
            f"{alert['value']:,.6g}",
            receivers,
        )
        for alert in rule["alerts"]
    ]


def _shown_group(group: JsonObject) -> str:
    return ", ".join(f"{field}:{name}" if name else f"no {field}" for field, name in group.items()) or "-"


def _shown_receiver(receiver: JsonObject) -> str:
    if receiver["result"] is None:
        return str(receiver["name"])
    error = f": {receiver['error']}" if receiver["error"] else ""
    return f"{receiver['name']} ({receiver['result']} {receiver['last']}{error})"


def _change(  # noqa: PLR0913, PLR0917  # what a change needs
    config: Config,
    url: str | None,
    state: Path,
    rules: list[EvaluatedRule],
    table: AlertTable,
    args: argparse.Namespace,
) -> int:
    """Silence a rule or end its silence, and record that."""
    names = [rule.name for rule in rules]
    is_silence = args.alerts_command == "silence"
    seconds = _seconds(args.duration) if is_silence else 0
    if args.rule not in names and (is_silence or args.rule not in table.silences(0)):
        raise ValueError(_unknown("rule", args.rule, names))
    by = operator_name(args.by)
    with recording_changes(config.audit, url, state, by) as record:
        if not is_silence:
            had = table.unsilence(args.rule)
            record("alerts.unsilence", rule=args.rule)
            print(f"{args.rule} is not silent any more." if had else f"{args.rule} was not silent.")
            return 0
        until = int(time.time()) + seconds
        table.silence(args.rule, until * 1000, by)
        record("alerts.silence", rule=args.rule, seconds=seconds)
        print(f"{args.rule} is silent until {utc_text(until, 'seconds')}.")
    return 0


def _seconds(text: str) -> int:
    found = re.fullmatch(r"([1-9]\d{0,4})([mhd])", text)
    seconds = int(found[1]) * WINDOW_SECONDS[found[2]] if found else 0
    if not 0 < seconds <= LONGEST_SILENCE:
        raise ValueError(f"--for: {text!r} must be a time of up to 90 days, such as 30m, 2h or 7d")
    return seconds


async def _test(receivers: dict[str, Receiver], name: str | None) -> int:
    """Send a test to receivers, and print the results. Returns 1 if one has failed."""
    if name is not None and name not in receivers:
        raise ValueError(_unknown("receiver", name, list(receivers)))
    failed = False
    try:
        for receiver in receivers.values() if name is None else (receivers[name],):
            error = ""
            for message in test_messages(receiver.name):
                result = await receiver.send(alert_notice(message), f"msg_{secrets.token_hex(12)}")
                error = error or result.error
            print(f"{receiver.name}: {error or 'accepted'}", file=sys.stderr if error else sys.stdout)
            failed = failed or bool(error)
    finally:
        await close_receivers(receivers.values())
    return int(failed)


def _unknown(kind: str, name: str, known: list[str]) -> str:
    near = get_close_matches(name, known, n=1)
    remedy = (
        f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}" if known else "there are none"
    )
    return f"there is no {kind} {name!r}; {remedy}"
