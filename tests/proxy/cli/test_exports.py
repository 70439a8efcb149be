"""`hookgate exports`: what it lists, and what it says of a receiver that it tries."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.gateway.audits import audited_gateway, entries_of, ledger_in, opened, record_of
from support.gateway.life import until
from support.operating.endpoint import endpoint
from support.operating.export_receivers import toml_of
from support.programs.program import Ended, run

from hookgate.proxy.config import ExportSettings
from hookgate.proxy.exports.threads import running_exports

SECRET = "a-secret-of-a-webhook"  # noqa: S105  # it opens nothing


async def exports(command: str, config: Path, *words: str) -> Ended:
    state = str(config.parent / "state")
    return await run("exports", command, *words, "--config", str(config), "--state", state)


def webhook(folder: Path, url: str) -> dict[str, Any]:
    (folder / "secret").write_text(SECRET)
    return {"to": f"{url}/records", "secret_file": str(folder / "secret"), "interval": 0.05}


def call(state: Path, **changes: Any) -> None:
    with opened(state) as database, ledger_in(database, state) as ledger:
        ledger.write(entries_of(record_of(**changes)))
        ledger.close()


def has_begun(state: Path) -> bool:
    """Whether an export has noted which records there were before it. The database may not be complete."""
    if not (state / "exports.db").exists():
        return False
    with closing(sqlite3.connect(state / "exports.db")) as database:
        try:
            return database.execute("SELECT begun FROM exports").fetchall() == [(1,)]
        except sqlite3.OperationalError:
            return False


async def test_the_list_says_how_far_an_export_is_and_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hookgate.proxy.exports.sending._SYNC_SECONDS", 0.1)

    def answer(documents: list[dict[str, Any]]) -> tuple[int, Any]:
        if any(each.get("body", {}).get("model") == "bad" for each in documents):
            return 400, {"error": "unreadable"}
        return status, {}

    state, status = tmp_path / "state", 200
    async with endpoint(answer) as receiver:
        config = toml_of(tmp_path, siem=webhook(tmp_path, receiver.url))
        call(state)
        [new] = json.loads((await exports("list", config, "--json")).out)
        assert (new["state"], new["lag_records"], new["error"]) == ("new", 0, None)
        settings = {"siem": ExportSettings.model_validate(webhook(tmp_path, receiver.url))}
        async with running_exports(settings, None, state) as [sender]:
            await until(lambda: has_begun(state))
            call(state, model="bad")
            await until(lambda: (sender.results["refused"], sender.results["delivered"]) == (2, 1))
            status = 503
            call(state)
            await until(lambda: sender.failures > 0)
        [found] = json.loads((await exports("list", config, "--json")).out)
        assert (found["name"], found["state"], found["lag_records"]) == ("siem", "idle", 3)
        assert found["lag_seconds"] > 0
        assert "status 503" in found["error"]
        assert [each["seq"] for each in found["refused"]] == [1, 2]
        assert "unreadable" in found["refused"][0]["reason"]
        text = (await exports("list", config)).out
        assert "status 503" in text
        assert found["refused"][0]["id"] in text
        assert SECRET not in text + json.dumps(found)


async def test_a_test_sends_one_record_and_says_what_came_back(tmp_path: Path) -> None:
    status = 200
    async with endpoint(lambda documents: (status, {"error": "no room"})) as receiver:
        config = toml_of(tmp_path, siem=webhook(tmp_path, receiver.url))
        ended = await exports("test", config, "siem")
        assert (ended.code, ended.err) == (0, "")
        assert f"ok: {receiver.url}/records has accepted a record in" in ended.out
        [document] = receiver.accepted
        assert document["body"] == {"event": "export_test", "export": "siem"}
        status = 507
        said = 'it answered with status 507: {"error": "no room"}'
        assert (await exports("test", config, "siem")).complaint == (
            f"hookgate: exports.siem: {receiver.url}/records: {said}"
        )
    gone = (await exports("test", config, "siem")).complaint
    assert "cannot be reached" in gone
    unknown = (await exports("test", config, "splunk")).complaint
    assert unknown == "hookgate: there is no export 'splunk'; configured are siem"


async def test_commands_without_an_export_or_an_audit_say_so(tmp_path: Path) -> None:
    (tmp_path / "none.toml").write_text("")
    ended = await exports("list", tmp_path / "none.toml")
    said = "describe one in [exports.NAME], or name another file with --config"
    assert ended.complaint == f"hookgate: there are no exports in {tmp_path / 'none.toml'}; {said}"
    config = toml_of(tmp_path, siem=webhook(tmp_path, "http://127.0.0.1:1"))
    new = await exports("list", config)
    assert (new.code, "no gateway has written records in" in new.err) == (0, True)
    assert "siem: is not sent yet; restart the gateway: it reads its exports when it starts" in new.out
    assert not (tmp_path / "state").exists()


async def test_a_secret_that_is_missing_is_found_before_the_start(tmp_path: Path) -> None:
    settings = {"to": "splunk+https://splunk.example:8088", "secret_file": "missing"}
    config = toml_of(tmp_path, siem=settings)
    for words in (("config", "check"), ("serve",)):
        ended = await run(*words, "--config", str(config))
        assert f"exports.siem.secret_file: {tmp_path / 'missing'}: does not exist" in ended.complaint


async def test_a_gateway_without_exports_has_no_database_of_them(tmp_path: Path) -> None:
    async with audited_gateway("http://127.0.0.1:1", tmp_path):
        pass
    assert not (tmp_path / "exports.db").exists()
