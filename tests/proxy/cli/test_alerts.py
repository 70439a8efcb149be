"""`hookgate alerts`: lists rules, silences them, and tests receivers."""

import base64
import json
from pathlib import Path

import pytest
from support.operating.receivers import SECRET, receiving_alerts, status
from support.programs.program import Ended, run

from hookgate.proxy.alerts.states import AlertChanges, AlertId, Firing
from hookgate.proxy.alerts.table import AlertTable
from hookgate.proxy.store.database import open_alerts


def configured(folder: Path, **receivers: str) -> Path:
    file = folder / "hookgate.toml"
    rules = '[[alerts.rules]]\nname = "denials"\nquery = "outcome:denied"\nby = "agent"\n'
    tables = (
        f'[[alerts.receivers]]\nname = "{name}"\nurl = "{url}"\nsecret = "{SECRET}"\n'
        for name, url in receivers.items()
    )
    file.write_text(rules + "".join(tables))
    return file


async def alerts(folder: Path, *words: str) -> Ended:
    return await run("alerts", *words, "--config", str(folder / "hookgate.toml"), "--state", str(folder))


async def test_a_test_reaches_receivers_and_says_which_have_accepted_it(tmp_path: Path) -> None:
    async with receiving_alerts() as good, receiving_alerts() as bad:
        bad.answer = status(404)
        configured(tmp_path, good=good.url, bad=bad.url)
        ended = await alerts(tmp_path, "test")
        assert (ended.code, ended.out) == (1, "good: accepted\n")
        assert ended.err == "bad: answered with the status 404\n"
        assert [each["type"] for each in good.documents] == ["alert.test", "alert.resolved"]
        assert len({each["data"]["alert"] for each in good.documents}) == 1
        ended = await alerts(tmp_path, "test", "good")
        assert (ended.code, ended.err, len(good.bodies), len(bad.bodies)) == (0, "", 4, 2)


async def test_a_silence_is_set_shown_ended_and_on_record(tmp_path: Path) -> None:
    configured(tmp_path, ops="https://ops.example/")
    ended = await alerts(tmp_path, "silence", "denials", "--for", "2h", "--by", "ada")
    assert (ended.code, ended.out.startswith("denials is silent until 20")) == (0, True), ended.err
    [rule] = [json.loads(line) for line in (await alerts(tmp_path, "list", "--json")).out.splitlines()]
    assert (rule["state"], rule["silenced_by"]) == ("ok", "ada")
    assert "ok, silent until" in (await alerts(tmp_path, "list")).out
    ended = await alerts(tmp_path, "unsilence", "denials", "--by", "ada")
    assert ended.out == "denials is not silent any more.\n"
    assert (await alerts(tmp_path, "unsilence", "denials")).out == "denials was not silent.\n"
    config = str(tmp_path / "hookgate.toml")
    changes = await run("audit", "changes", "--json", "--config", config, "--state", str(tmp_path))
    made = [json.loads(line) for line in changes.out.splitlines()]
    assert [(each["change"], each["rule"]) for each in reversed(made)][:2] == [
        ("alerts.silence", "denials"),
        ("alerts.unsilence", "denials"),
    ]
    assert made[-1]["seconds"] == 7200


async def test_the_list_shows_what_fires_with_printable_names(tmp_path: Path) -> None:
    configured(tmp_path, ops="https://ops.example/")
    table = AlertTable(open_alerts(None, tmp_path), "g")
    assert table.take_lease(1)
    firing = Firing(AlertId("denials", ("curl\x1b[2J",), 100), 1_777_672_800_000, 1234.0)
    gone = Firing(AlertId("removed", (), 80), 1_777_672_800_000, 1.0)
    assert table.apply({}, 0, lambda *_: AlertChanges([firing, gone], [], []))
    table.close()
    lines = (await alerts(tmp_path, "list")).out.splitlines()
    assert lines[1].split() == [
        "denials",
        "firing",
        "2026-05-01T22:00:00Z",
        "agent:curl\\u001b[2J",
        "1,234",
        "ops",
    ]
    assert lines[2].split() == [
        "removed",
        "firing",
        "at",
        "80",
        "%",
        "2026-05-01T22:00:00Z",
        "-",
        "1",
        "none",
    ]


async def test_a_new_secret_is_one_that_receivers_take(tmp_path: Path) -> None:
    first, second = (await run("alerts", "secret")).out.strip(), (await run("alerts", "secret")).out.strip()
    assert first != second
    assert first.startswith("whsec_")
    assert len(base64.b64decode(first.removeprefix("whsec_"))) == 32


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("silence", "denial", "--for", "2h"), "there is no rule 'denial'; did you mean denials?"),
        (("silence", "x", "--for", "2h"), "there is no rule 'x'; known are denials"),
        (("silence", "denials", "--for", "2y"), "--for: '2y' must be a time of up to 90 days, such as 30m"),
        (("silence", "denials", "--for", "91d"), "--for: '91d' must be a time of up to 90 days"),
        (("unsilence", "x"), "there is no rule 'x'; known are denials"),
        (("test", "opps"), "there is no receiver 'opps'; did you mean ops?"),
    ],
)
async def test_wrong_words_are_reported_with_the_remedy(
    words: tuple[str, ...], complaint: str, tmp_path: Path
) -> None:
    configured(tmp_path, ops="https://ops.example/")
    ended = await alerts(tmp_path, *words)
    assert ended.code == 1
    assert complaint in ended.complaint


async def test_without_receivers_there_is_nothing_to_test(tmp_path: Path) -> None:
    configured(tmp_path)
    file = tmp_path / "hookgate.toml"
    said = "describe one in [[alerts.receivers]], or name another file with --config"
    assert (await alerts(tmp_path, "test")).complaint == f"hookgate: there are no receivers in {file}; {said}"


async def test_without_a_configuration_commands_say_that_none_was_found(tmp_path: Path) -> None:
    """Those who start their gateway with --config forget it here."""
    env = {"HOOKGATE_CONFIG": "", "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    for words in (("alerts", "list"), ("alerts", "test"), ("alerts", "silence", "x", "--for", "1h")):
        ended = await run(*words, "--state", str(tmp_path), env=env)
        assert ended.complaint.endswith(": no hookgate.toml was found; name yours with --config")
    ended = await run("exports", "list", "--state", str(tmp_path), env=env)
    assert (
        ended.complaint
        == "hookgate: there are no exports: no hookgate.toml was found; name yours with --config"
    )


async def test_a_secret_that_is_missing_is_one_problem(tmp_path: Path) -> None:
    file = configured(tmp_path, ops="https://ops.example/")
    file.write_text(file.read_text().replace(f'secret = "{SECRET}"', 'secret_file = "none"'))
    complaint = (await alerts(tmp_path, "test")).complaint
    assert complaint.count("alerts.receivers") == 1
    assert f"{tmp_path / 'none'}: does not exist; write the secret into it" in complaint
