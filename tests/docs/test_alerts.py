"""The page about alerts: its rules fire for what they are about, and its code verifies what is sent."""

import asyncio
import json
import re
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
from support.gateway.audits import entries_of, record_of
from support.gateway.indexed import indexed_audit
from support.operating.export_receivers import free_port
from support.operating.receivers import SECRET
from support.pages import ALL_BLOCKS
from support.places import PROJECT

from hookgate.hooks import SessionContext
from hookgate.proxy.alerts.formats import json_request
from hookgate.proxy.alerts.measuring import Meter
from hookgate.proxy.alerts.notices import alert_notice
from hookgate.proxy.alerts.receivers import Receiver, read_receivers
from hookgate.proxy.alerts.rules import EvaluatedRule, read_alert_rules
from hookgate.proxy.alerts.showing import test_messages as messages_of_a_test
from hookgate.proxy.alerts.states import Firing, Room, advance
from hookgate.proxy.config import AlertSettings, Config, read_config
from hookgate.proxy.config.catalogue import config_schema
from hookgate.proxy.observe.hook_tally import HookTally
from hookgate.proxy.observe.usage import Usage
from hookgate.proxy.webhooks import signing_key

EXAMPLE = PROJECT / "examples" / "alerts.toml"
[TOML, JSON, PYTHON] = [
    next(block for block in ALL_BLOCKS if block.page == "docs/alerts.md" and block.kind == kind)
    for kind in ("toml", "json", "python")
]
FILES = {
    "alerts.secret": SECRET,
    "alerts-siem.secret": SECRET,
    "alerts-slack.url": "https://hooks.slack.com/services/x",
    "alerts-teams.url": "https://example.com/workflows/x",
    "alerts-pagerduty.key": "0123456789abcdef" * 2,
}


@pytest.mark.parametrize("text", [TOML.text, EXAMPLE.read_text()], ids=["page", "example"])
def test_rules_and_receivers_can_be_used(text: str, tmp_path: Path) -> None:
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    file = tmp_path / "hookgate.toml"
    file.write_text(text)
    config = read_config({"config": file}, {}).config
    assert read_alert_rules(config.alerts)
    assert read_receivers(config.alerts)


def hook(event: str, **changes: Any) -> dict[tuple[str, str], HookTally]:
    tally = HookTally(event, "redact", "builtin:redact", "enforce", 1, 9, 0.001)
    for name, value in changes.items():
        setattr(tally, name, value)
    return {(event, "redact"): tally}


CAUSES: dict[str, tuple[int, dict[str, Any]]] = {
    "denials": (21, {"outcome": "denied"}),
    "hook-fails": (6, {"hooks": hook("AfterModel", failures=1)}),
    "upstream-errors": (11, {"outcome": "failed"}),
    "budget": (9, {"cost": 50.0, "usage": Usage(1, 1, 0)}),
    "secrets": (1, {"hooks": hook("BeforeModel", findings={"GITHUB_TOKEN": 1})}),
    "new-client": (1, {"session": SessionContext("s", client="curl", key="ada", team="web")}),
}
"""By rule, how many calls of which kind it is about."""


def fired(rule: EvaluatedRule, meter: Meter, now: int) -> list[Firing]:
    room = Room({rule.name: 60})
    return advance([], [rule], {rule.name: meter.measure(rule, now)}, now, room=room).stored


@pytest.mark.parametrize("name", CAUSES)
def test_a_rule_of_the_example_fires_for_what_it_is_about_and_nothing_else_does(
    name: str, tmp_path: Path
) -> None:
    tables = tomllib.loads(EXAMPLE.read_text())["alerts"]
    rules = [{**each, "receivers": []} for each in tables["rules"]]
    known = read_alert_rules(AlertSettings.model_validate({"rules": rules}))
    assert {rule.name for rule in known if rule.query} == CAUSES.keys()
    count, changes = CAUSES[name]
    now = 1_777_975_200_000  # 2026-05-05T10:00Z

    def recorded(number: int, age: int, **changes: Any) -> list[Any]:
        session = SessionContext("s", client="gemini-cli", key="ada", team="web")
        record = record_of(number, **{"id": f"{number:032x}", "session": session, "hooks": {}, **changes})
        return [each._replace(at=now - age) for each in entries_of(record)]

    with indexed_audit(tmp_path, 0) as audit:
        audit.add(*recorded(1000, 48 * 3_600_000))
        for number in range(count):
            audit.add(*recorded(number, 10_000, **changes))
        assert audit.index.update(60)
        meter = Meter(audit.index)
        found = {rule.name: fired(rule, meter, now) for rule in known if rule.query}
    assert [rule for rule, alerts in found.items() if alerts] == [name]
    assert [each.id.level for each in found[name]] == ([80] if name == "budget" else [100])
    assert found[name][0].told is not None


def test_the_code_of_the_page_verifies_what_is_sent(tmp_path: Path) -> None:
    page: dict[str, Any] = {}
    exec(PYTHON.text, page)  # noqa: S102  # it is the page's
    [rule] = read_alert_rules(AlertSettings.model_validate({"rules": [{"name": "denials", "by": "team"}]}))
    with indexed_audit(tmp_path, 0) as audit:
        now = time.time_ns() // 1_000_000
        audit.add(*(each._replace(at=now - 1) for each in entries_of(record_of(0, id="0" * 32))))
        assert audit.index.update(60)
        [firing] = fired(rule, Meter(audit.index), now)
    assert firing.told
    body, headers = json_request(alert_notice(firing.told), "msg_1", 1, signing_key(SECRET))
    assert page["is_genuine"](SECRET, headers, body)
    assert not page["is_genuine"](SECRET, headers, body + b" ")
    shown, sent = JSON.value, json.loads(body)
    assert shown.keys() == sent.keys()
    assert shown["data"].keys() == sent["data"].keys()


def test_the_receiver_of_the_page_prints_what_the_test_of_the_page_sends(tmp_path: Path) -> None:
    port = str(free_port())
    page = (PROJECT / "docs" / "alerts.md").read_text()
    [code] = re.findall(r"python3 -c '(.*?)'", page, re.DOTALL)
    (tmp_path / "alerts.secret").write_text(SECRET)
    (tmp_path / "hookgate.toml").write_text(TOML.text.replace("9900", port))
    receiver = subprocess.Popen(
        [sys.executable, "-c", code.replace("\n    ", "\n").replace("9900", port)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        receivers = read_receivers(read_config({"config": tmp_path / "hookgate.toml"}, {}).config.alerts)
        assert asyncio.run(delivered(receivers["ops"])) == ""
        assert receiver.stdout
        assert json.loads(receiver.stdout.readline())["type"] == "alert.test"
    finally:
        receiver.kill()
        receiver.communicate()


async def delivered(receiver: Receiver) -> str:
    """Send a test, which is tried again until the receiver has started."""
    try:
        for _ in range(200):
            result = await receiver.send(alert_notice(messages_of_a_test("ops")[0]), "msg_1")
            if not result.error:
                break
            await asyncio.sleep(0.05)
        return result.error
    finally:
        await receiver.close()


def test_the_schema_knows_the_example() -> None:
    import jsonschema  # noqa: PLC0415  # only this test needs it

    validator = jsonschema.Draft202012Validator(config_schema())
    assert validator.is_valid(tomllib.loads(EXAMPLE.read_text()))
    assert not validator.is_valid({"alerts": {"rules": [{"name": "a", "qurey": "x"}]}})
    assert Config().alerts.rules == ()
