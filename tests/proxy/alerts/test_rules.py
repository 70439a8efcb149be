"""Rules and receivers in the settings: what is accepted, and the place and the remedy of what is not."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.operating.receivers import SECRET
from support.programs.program import run

from hookgate.proxy.alerts.receivers import PAGERDUTY, read_receivers
from hookgate.proxy.alerts.rules import read_alert_rules, window_start
from hookgate.proxy.audit.index.query import NAMES
from hookgate.proxy.audit.index.reporting import GROUP_FIELDS
from hookgate.proxy.config import AlertSettings, Config, ConfigError, read_config
from hookgate.proxy.config.values import _GROUPS

OPS = f'[[alerts.receivers]]\nname = "ops"\nurl = "https://x/"\nsecret = "{SECRET}"\n'
RULE = '[[alerts.rules]]\nname = "a"\n'


def problems(text: str, folder: Path) -> list[str]:
    """What `config check` would report, with F in place of the file."""
    file = folder / "hookgate.toml"
    file.write_text(text)
    try:
        effective = read_config({"config": str(file)}, {})
    except ConfigError as error:
        return [each.replace(str(file), "F") for each in error.problems]
    found = []
    for read in (read_alert_rules, read_receivers):
        try:
            read(effective.config.alerts)
        except ConfigError as error:
            found += [
                f"{effective.place_of(each)}: {each}".replace(str(file), "F") for each in error.problems
            ]
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[alerts]\nrule = 1", "F:2: alerts.rule: is not known; did you mean alerts.rules?"),
        (
            "[alerts.rules]\nname = 'a'",
            "F:1: alerts.rules: must be a list of tables; write [[alerts.rules]] and its keys below",
        ),
        (
            f"{RULE}[[alerts.rules]]\nname = 'b'\nqurey = 'x'",
            "F:5: alerts.rules[1].qurey: is not known; did you mean alerts.rules.query?",
        ),
        ("[[alerts.rules]]\nquery = 'team:a'", "F:1: alerts.rules[0].name: is missing"),
        (f"{RULE}over = -1", "F:3: alerts.rules[0].over: must be at least 0"),
        (f"{RULE}over = '1'", "F:3: alerts.rules[0].over: must be a number"),
        (
            f"{RULE}within = '1y'",
            "F:3: alerts.rules[0].within: must be 5s to 31d, such as 5m, or day or month, which begin at "
            "midnight and on the first, in UTC",
        ),
        (
            f"{RULE}by = 'hook'",
            "F:3: alerts.rules[0].by: must be one or several of key, owner, team, session, model, asked, "
            "agent, outcome, separated by commas",
        ),
        (
            f"{RULE}new = true",
            'F:1: alerts.rules[0]: new needs by, what may be new; write by = "key,agent"',
        ),
        (
            f"{RULE}at = [100, 80]\nover = 1",
            "F:1: alerts.rules[0]: at must name at least one percentage, in increasing order",
        ),
        (f"{RULE}at = [80]", "F:1: alerts.rules[0]: at needs over, of which these are percentages"),
        (
            f"{RULE}trouble = 'audit'\nquery = 'team:a'",
            "F:1: alerts.rules[0]: trouble is not about calls, so it has no query; remove one of them",
        ),
        (
            f"{RULE}receivers = ['nobody']",
            "alerts.rules: a: there is no receiver nobody; describe it in [[alerts.receivers]]",
        ),
        (f"{RULE}{RULE}", "alerts.rules: two are named a; rename one"),
        (
            f"{RULE}query = 'tean:web'",
            "F:1: alerts.rules[0].query: 'tean:web': there is no word 'tean'; did you mean team?",
        ),
        (
            f"{RULE}query = 'since:1h'",
            "F:1: alerts.rules[0].query: a rule has no times but those of `within`; remove since, until, "
            "during and zone",
        ),
        (f"{RULE}query = 'sort:cost'", "F:1: alerts.rules[0].query: a rule has no order; remove sort"),
        (
            f"{RULE}query = 'found:EMAIL cost:>1'\nwithin = 'month'",
            "F:1: alerts.rules[0].query: found, cost: would read all calls of month; shorten `within` to 1d, "
            "or remove it",
        ),
        (
            f"{RULE}new = true\nby = 'key,agent'\nwithin = '7d'",
            "F:1: alerts.rules[0].query: new: what is new is looked for within at most 1d; shorten `within`",
        ),
        ("[[alerts.receivers]]\nname = 'a'", "F:1: alerts.receivers[0]: needs url or url_file"),
        (
            "[[alerts.receivers]]\nname = 'a'\nurl = 'https://x/'",
            "F:1: alerts.receivers[0]: needs secret_file or secret, as `hookgate alerts secret` prints it",
        ),
        (
            "[[alerts.receivers]]\nname = 'a'\ntype = 'slack'\nurl = 'https://x/'\nsecret = 'canary'",
            "F:1: alerts.receivers[0]: slack has no secret but its URL; remove it",
        ),
        (
            "[[alerts.receivers]]\nname = 'a'\nurl = 'canary'\nsecret = 'x'",
            "F:3: alerts.receivers[0].url: must be a URL such as https://alerts.example.com/hook, without a "
            "user and a #",
        ),
        (
            "[[alerts.receivers]]\nname = 'a'\nurl = 'https://x/'\nsecret = 'canary'",
            "F:1: alerts.receivers[0]: must be whsec_ and 24 to 64 bytes in base64; print one with: hookgate "
            "alerts secret",
        ),
        (
            "[[alerts.receivers]]\nname = 'a'\ntype = 'pagerduty'\nsecret = 'canary'",
            "F:1: alerts.receivers[0]: must be an integration key of PagerDuty: 32 letters and digits",
        ),
        (
            "[[alerts.receivers]]\nname = 'a'\ntype = 'teams'\nurl = 'http://canary.example/'",
            "F:1: alerts.receivers[0]: url: must be an https:// URL, because a message to teams contains a "
            "secret",
        ),
        (
            "[[alerts.receivers]]\nname = 'a'\ntype = 'teams'\nurl_file = 'none'",
            "does not exist; write the secret into it, or check the path",
        ),
    ],
)
def test_a_mistake_is_reported_with_its_place_and_remedy(text: str, expected: str, tmp_path: Path) -> None:
    found = problems(text, tmp_path)
    assert len(found) >= 1
    assert expected in found[0]
    assert "canary" not in "".join(found), "a URL or a secret was quoted"


def test_secrets_come_from_files_and_are_masked(tmp_path: Path) -> None:
    (tmp_path / "url").write_text("https://hooks.slack.com/services/canary\n")
    (tmp_path / "key").write_text(SECRET)
    file = tmp_path / "hookgate.toml"
    file.write_text(
        f"{OPS}[[alerts.receivers]]\nname = 'chat'\ntype = 'slack'\nurl_file = 'url'\n"
        "[[alerts.receivers]]\nname = 'other'\nurl = 'http://10.0.0.7/hook'\nsecret_file = 'key'\n"
    )
    config = read_config({"config": str(file)}, {}).config
    assert list(read_receivers(config.alerts)) == ["ops", "chat", "other"]
    assert "canary" not in repr(config)
    assert SECRET not in repr(config)


def test_receivers_may_be_in_a_variable(tmp_path: Path) -> None:
    (tmp_path / "receivers").write_text(f'[{{"name": "ops", "url": "https://x/", "secret": "{SECRET}"}}]')
    environ = {
        "HOOKGATE_CONFIG": "/dev/null",
        "HOOKGATE_ALERTS__RECEIVERS_FILE": str(tmp_path / "receivers"),
        "HOOKGATE_ALERTS__RULES": '[{"name": "a", "qurey": ""}]',
    }
    with pytest.raises(
        ConfigError, match=r"RULES: alerts.rules\[0\].qurey: is not known; did you mean"
    ) as error:
        read_config({}, environ)
    assert len(error.value.problems) == 1
    del environ["HOOKGATE_ALERTS__RULES"]
    assert [each.name for each in read_config({}, environ).config.alerts.receivers] == ["ops"]


async def test_config_show_lists_each_table_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "hookgate.toml"
    file.write_text(f"{RULE}{OPS}")
    shown = await run("config", "show", "--config", str(file))
    lines = {line.split()[0]: line for line in shown.out.splitlines()}
    assert lines["alerts.rules[0].name"].endswith(f"{file}:1")
    assert lines["alerts.receivers[0].secret"].split()[1] == "**********"
    assert SECRET not in shown.out


async def test_config_check_reports_every_problem(tmp_path: Path) -> None:
    file = tmp_path / "hookgate.toml"
    file.write_text(f"{RULE}query = 'sort:cost'\n{OPS.replace(SECRET, 'x')}")
    env = {"HOOKGATE_STATE": str(tmp_path)}
    checked = await run("config", "check", "--config", str(file), env=env)
    served = await run("serve", "--config", str(file), "--listen", "127.0.0.1:0", env=env)
    assert (checked.code, served.code) == (1, 1)
    for ended in (checked, served):
        assert f"{file}:1: alerts.rules[0].query: a rule has no order; remove sort" in ended.err
        assert f"{file}:4: alerts.receivers[0]: must be whsec_" in ended.err
        assert "Traceback" not in ended.err


async def test_rules_without_receivers_or_audit_are_a_warning(tmp_path: Path) -> None:
    file = tmp_path / "hookgate.toml"
    file.write_text(f"[audit]\nenabled = false\n{RULE}")
    checked = await run("config", "check", "--config", str(file), env={"HOOKGATE_STATE": str(tmp_path)})
    assert checked.code == 0
    assert (
        f"{file}:3: alerts.rules: nobody is told: describe receivers in [[alerts.receivers]]" in checked.out
    )
    assert f"{file}:3: alerts.rules: have no effect, because audit.enabled is false" in checked.out


def test_groups_are_those_of_reports_and_queries() -> None:
    assert {*_GROUPS} <= {*GROUP_FIELDS}
    assert {*_GROUPS} <= NAMES.keys()


def test_pagerduty_has_a_url_of_its_own() -> None:
    settings = {
        "receivers": [{"name": "p", "type": "pagerduty", "secret": "0123456789abcdef0123456789abcdef"}]
    }
    read_receivers(AlertSettings.model_validate(settings))
    assert PAGERDUTY.startswith("https://")


@pytest.mark.parametrize(
    ("within", "expected"),
    [
        ("30s", "2026-05-04T10:19:30"),
        ("2h", "2026-05-04T08:20:00"),
        ("7d", "2026-04-27T10:20:00"),
        ("day", "2026-05-04T00:00:00"),
        ("month", "2026-05-01T00:00:00"),
    ],
)
def test_a_window_ends_now(within: str, expected: str) -> None:
    now = datetime(2026, 5, 4, 10, 20, tzinfo=UTC)
    begins = window_start(within, int(now.timestamp() * 1000))
    assert datetime.fromtimestamp(begins / 1000, UTC).isoformat() == f"{expected}+00:00"


def test_a_configuration_without_alerts_has_none() -> None:
    assert Config().alerts == AlertSettings()
