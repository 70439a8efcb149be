"""`hookgate doctor`: the problems that it finds, all at once."""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.hooks.settings import command, one_group, write_file
from support.operating.receivers import receiving_alerts
from support.programs.program import Ended, run, serving
from support.upstream.openid_provider import openid_provider

from hookgate.proxy.cli.doctor import _check_state
from hookgate.proxy.cli.reachability import _check_provider
from hookgate.proxy.cli.trials import Diagnosis
from hookgate.proxy.config import Config

ANY_PORT = ("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A port on which something other than a gateway listens, and answers nothing."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        yield listener.getsockname()[1]


async def doctor(state: Path, *words: str) -> Ended:
    return await run("doctor", *words, env={"HOOKGATE_STATE": str(state)})


def levels(ended: Ended) -> list[str]:
    return [line.split()[0] for line in ended.out.splitlines()[:-1]]


async def test_a_gateway_that_can_start_has_no_problem(tmp_path: Path) -> None:
    async with serving("mock-upstream") as upstream:
        words = (*ANY_PORT, "--upstream", upstream.url)
        ended = await doctor(tmp_path / "state", *words)
    assert ended.code == 0, ended
    assert "FAIL" not in levels(ended)
    assert f"ok    upstream.gemini: {upstream.url} can be reached\n" in ended.out
    assert (
        f"ok    the state folder {tmp_path}/state does not exist yet; the gateway creates it\n" in ended.out
    )
    assert ended.out.endswith(f"{len(levels(ended))} checks, 0 problems found.\n")
    assert os.listdir(tmp_path) == []


async def test_everything_is_reported_at_once(tmp_path: Path, taken_port: int) -> None:
    guard = write_file(
        tmp_path, one_group(command("python3 gone.py"), event="BeforeTool", matcher="Bash"), "guard.json"
    )
    toml, state = tmp_path / "hookgate.toml", tmp_path / "state"
    toml.write_text("[audit]\ncontnet = 'full'\n[hooks]\npolicy = ['guard.json']\n")
    state.mkdir()
    (state / "hookgate.db").write_text("no database, but a text of some length")
    ended = await doctor(
        state,
        *("--config", str(toml), "--upstream", f"http://127.0.0.1:{_unused_port()}"),
        *("--listen", f"127.0.0.1:{taken_port}", "--admin", f"127.0.0.1:{taken_port}"),
    )
    assert ended.code == 1
    failures = [line.removeprefix("FAIL  ") for line in ended.out.splitlines() if line.startswith("FAIL")]
    assert [failure.partition(": ")[0] for failure in failures[:5]] == [
        f"{toml}:2",
        "--admin",
        f"{guard}:1",
        f"{guard}:1",
        "listen.address",
    ]
    assert failures[0].endswith("did you mean audit.content?")
    assert f"listen.address and admin.address are both 127.0.0.1:{taken_port}; " in failures[1]
    assert "gone.py, which python3 would run, does not exist in" in failures[2]
    assert failures[3].endswith("did you mean 'run_shell_command'?")
    assert failures[4].endswith(
        "Address already in use; stop the program that uses it, such as another gateway, "
        "or choose another address with --listen or listen.address"
    )
    assert failures[5].startswith(
        f"the database {state}/hookgate.db cannot be opened: file is not a database"
    )
    assert "connection refused; check the URL and the network" in failures[6]
    assert ended.out.endswith(f"{len(levels(ended))} checks, 7 problems found.\n")


def _unused_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        port: int = listener.getsockname()[1]
        return port


async def test_a_gateway_that_already_runs_is_recognized(tmp_path: Path) -> None:
    state = {"HOOKGATE_STATE": str(tmp_path), "HOOKGATE_ADMIN__ADDRESS": "127.0.0.1:0"}
    async with serving("serve", "--listen", "127.0.0.1:0", env=state) as gateway:
        while "open the panel" not in gateway.log:
            await gateway.next_line()
        admin = gateway.log.partition("open the panel: http://")[2].partition("/")[0]
        listen = gateway.url.removeprefix("http://")
        ended = await doctor(tmp_path, "--offline", "--listen", listen, "--admin", admin)
    assert ended.code == 0, ended
    assert f"ok    listen.address: a gateway already runs on {listen}\n" in ended.out
    assert f"ok    admin.address: a healthy gateway already runs on {admin}\n" in ended.out
    assert f"ok    the database {tmp_path}/audit.db can be opened and has tables of version" in ended.out
    assert "upstream.gemini" not in ended.out
    assert "/healthz" not in gateway.log  # it would count as a refused call


async def test_the_upstream_is_not_called_if_a_flag_says_so(tmp_path: Path) -> None:
    ended = await doctor(tmp_path, *ANY_PORT, "--offline", "--upstream", f"http://127.0.0.1:{_unused_port()}")
    assert (ended.code, "upstream.gemini" in ended.out) == (0, False)


async def test_too_few_descriptors_are_a_problem(tmp_path: Path) -> None:
    env = {"HOOKGATE_STATE": str(tmp_path)}
    ended = await run("doctor", "--offline", *ANY_PORT, env=env, descriptors=(300, 300))
    assert ended.code == 1
    assert "FAIL  the limit of 300 open descriptors is too small: " in ended.out


@pytest.mark.parametrize(("workers", "checked"), [("1", False), ("2", True)])
async def test_the_database_of_sessions_is_checked_for_several_workers(
    workers: str, checked: bool, tmp_path: Path
) -> None:
    upstream = f"http://127.0.0.1:{_unused_port()}"
    ended = await doctor(tmp_path, *ANY_PORT, "--upstream", upstream, "--workers", workers)
    assert (f"the database {tmp_path}/sessions.db does not exist yet" in ended.out) is checked


SIGN_IN = {
    "issuer": "https://login.example.com",
    "client_id": "panel",
    "url": "https://panel.example.com",
    "admins": ["platform"],
}


NOWHERE = "postgresql+psycopg://gate:secret@127.0.0.1:1/none"


@pytest.mark.parametrize(
    ("store", "admin", "told"),
    [
        ({}, {}, ["panel.db does not exist yet"]),
        ({"url": NOWHERE}, {}, ["set the same admin.token_file at all of them"]),
        ({"url": NOWHERE}, {"token": "a-token-of-some-length"}, []),
    ],
    ids=["one gateway", "a token of its own", "a common token"],
)
def test_sessions_of_the_panel_are_checked_if_people_sign_in(
    store: dict[str, str], admin: dict[str, str], told: list[str], tmp_path: Path
) -> None:
    sections = {"sign_in": SIGN_IN, "store": store, "admin": admin, "hooks": {"state": tmp_path}}
    messages = [found.message for found in _check_state(Config.model_validate(sections))]
    about = [message for message in messages if "panel.db" in message or "sign_in" in message]
    assert len(about) == len(told)
    assert all(text in message for text, message in zip(told, about, strict=True))


@pytest.mark.parametrize("rules", [[], [{"name": "denials"}]])
def test_the_database_of_alerts_is_checked_if_there_are_rules(rules: list[Any], tmp_path: Path) -> None:
    config = Config.model_validate({"alerts": {"rules": rules}, "hooks": {"state": tmp_path}})
    messages = [found.message for found in _check_state(config)]
    assert any("alerts.db does not exist yet" in message for message in messages) is bool(rules)


@pytest.mark.parametrize("issues", ["true", "false"])
async def test_the_database_of_keys_is_checked_if_the_gateway_issues_them(
    issues: str, tmp_path: Path
) -> None:
    env = {
        "HOOKGATE_STATE": str(tmp_path),
        "HOOKGATE_CLIENTS__ISSUED_KEYS": issues,
        "HOOKGATE_UPSTREAM__GEMINI_KEY": "a-key-of-the-gateway",
    }
    ended = await run("doctor", "--offline", *ANY_PORT, env=env)
    assert (f"the database {tmp_path}/keys.db does not exist yet" in ended.out) is (issues == "true")


RECEIVERS = """
[audit]
enabled = true
[[alerts.receivers]]
name = "ops"
url = "http://127.0.0.1:{port}/secret-path"
secret = "{secret}"
[exports.siem]
to = "syslog+tcp://127.0.0.1:{port}"
[exports.lake]
to = "http://127.0.0.1:{port}/records"
secret_variable = "LAKE_SECRET"
"""


async def checks_of_receivers(tmp_path: Path, port: int, *words: str) -> tuple[Ended, str]:
    """What `doctor` says about the receivers at a port, apart from everything else."""
    toml = tmp_path / "hookgate.toml"
    toml.write_text(RECEIVERS.format(port=port, secret="whsec_MDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDA="))  # noqa: S106  # of a test
    environment = {"HOOKGATE_STATE": str(tmp_path / "state"), "LAKE_SECRET": "another-secret"}
    flags = (*ANY_PORT, "--config", str(toml), "--upstream", "http://127.0.0.1:1")
    ended = await run("doctor", *flags, *words, env=environment)
    lines = [line for line in ended.out.splitlines() if "alerts.receivers" in line or "exports." in line]
    return ended, "\n".join(lines)


async def test_receivers_of_alerts_and_exports_are_reached_and_nothing_is_sent(tmp_path: Path) -> None:
    async with receiving_alerts() as receiver:
        port = int(receiver.url.split(":")[2].split("/")[0])
        ended, found = await checks_of_receivers(tmp_path, port)
        assert receiver.bodies == []
    assert found.splitlines() == [
        f"ok    alerts.receivers: ops: http://127.0.0.1:{port} can be reached; "
        "`hookgate alerts test ops` also sends a test",
        f"ok    exports.siem: syslog+tcp://127.0.0.1:{port} can be reached; "
        "`hookgate exports test siem` also sends a test",
        f"ok    exports.lake: http://127.0.0.1:{port}/records can be reached; "
        "`hookgate exports test lake` also sends a test",
    ]
    assert "secret" not in ended.out + ended.err


async def test_receivers_that_are_not_there_are_problems_with_a_remedy(tmp_path: Path) -> None:
    port = _unused_port()
    _, found = await checks_of_receivers(tmp_path, port)
    problem = "cannot be reached: Connection refused; check the URL and the network"
    assert found.splitlines() == [
        f"FAIL  alerts.receivers: ops: http://127.0.0.1:{port} {problem}",
        f"FAIL  exports.siem: syslog+tcp://127.0.0.1:{port} {problem}",
        f"FAIL  exports.lake: http://127.0.0.1:{port}/records {problem}",
    ]
    _, offline = await checks_of_receivers(tmp_path, port, "--offline")
    assert offline == ""


async def test_the_checks_are_json_for_programs(tmp_path: Path) -> None:
    ended, _ = await checks_of_receivers(tmp_path, _unused_port(), "--json")
    document = json.loads(ended.out)
    assert ended.code == 1
    assert {*document} == {"checks", "problems"}
    assert {*document["checks"][0]} == {"level", "message"}
    failed = [check["message"] for check in document["checks"] if check["level"] == "FAIL"]
    assert document["problems"] == len(failed) >= 3
    assert any(message.startswith("exports.siem: ") for message in failed)


async def test_what_an_identity_provider_publishes_is_read(tmp_path: Path) -> None:
    async with openid_provider() as provider:
        found = await _check_provider("sign_in.issuer", provider.issuer)
        assert found == Diagnosis(f"sign_in.issuer: {provider.issuer} publishes its configuration", "ok")
        provider.metadata = {"issuer": "https://other.example"}
        found = await _check_provider("sign_in.issuer", provider.issuer)
    assert found == Diagnosis(
        f"sign_in.issuer: {provider.issuer}: its configuration cannot be read: it is not the configuration "
        "of this issuer; check the URL and the network"
    )
    gone = await _check_provider("tokens.jwks_url", provider.issuer, is_issuer=False)
    assert gone.level == "FAIL"
    assert "its keys cannot be read: " in gone.message
