"""A gateway that other machines can reach starts only if its operator says who may use it."""

import signal
from pathlib import Path

import pytest
from support.programs.program import environment, run, start

from hookgate.proxy.config import Config
from hookgate.proxy.config.reading import conflicts

MESSAGE = (
    "hookgate: --listen: listen.address: other machines can reach 0.0.0.0:0, and calls are accepted without "
    'a key that the gateway knows; set clients.unknown_keys = "refuse", or clients.open = true (--open) if '
    "everybody who can connect may make calls"
)


def config(address: str, **clients: object) -> Config:
    return Config.model_validate({"listen": {"address": address}, "clients": clients})


@pytest.mark.parametrize(
    "address",
    ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "gateway.example:1", "127.1:1", "0:1", "localhost.example:1"],
)
def test_an_address_beyond_loopback_needs_keys_or_a_word_of_consent(address: str) -> None:
    [(setting, problem)] = conflicts(config(address))
    assert setting == "listen.address"
    assert f"other machines can reach {address}, and" in problem
    assert "listen.address" in dict(conflicts(config(address, issued_keys=True)))
    assert not [*conflicts(config(address, open=True))]
    assert not [*conflicts(config(address, unknown_keys="refuse"))]


@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "localhost:1", "LOCALHOST.:1"])
def test_loopback_needs_none(address: str) -> None:
    assert not [*conflicts(config(address))]


@pytest.mark.parametrize(
    ("listen", "admin", "setting"),
    [
        ("127.0.0.1:5", "127.0.0.1:5", "admin.address"),
        ("127.0.0.1:9787", None, "listen.address"),
        ("127.0.0.1:5", "127.0.0.1:6", None),
        ("127.0.0.1:0", "127.0.0.1:0", None),
        ("127.0.0.1:5", "off", None),
    ],
)
def test_both_listeners_need_addresses_of_their_own(
    listen: str, admin: str | None, setting: str | None
) -> None:
    sections = {"listen": {"address": listen}, "admin": {} if admin is None else {"address": admin}}
    found = [*conflicts(Config.model_validate(sections))]
    message = f"listen.address and admin.address are both {listen}; choose another with --admin"
    assert found == ([] if setting is None else [(setting, message)])


@pytest.mark.parametrize("upstream", ["gemini_key", "gemini_key_file", "vertex_key", "vertex_key_file"])
def test_issued_keys_need_a_key_of_the_gateways_own(upstream: str) -> None:
    issuing = {"clients": {"issued_keys": True}}
    assert [name for name, _ in conflicts(Config.model_validate(issuing))] == ["clients.issued_keys"]
    own = {"upstream": {upstream: "a-key-of-the-gateway"}}
    assert not [*conflicts(Config.model_validate({**issuing, **own}))]


def test_credentials_are_for_issued_keys() -> None:
    held = {"credentials": {"main": {"api": "gemini", "key": "a-key-of-the-gateway"}}}
    assert not [*conflicts(Config.model_validate({**held, "clients": {"issued_keys": True}}))]
    [(setting, problem)] = conflicts(Config.model_validate(held))
    assert setting == "credentials.main"
    assert "only used for calls with issued keys; set clients.issued_keys to true" in problem


@pytest.mark.parametrize("command", [["serve"], ["serve", "--workers", "2"], ["config", "check"]])
async def test_a_gateway_that_would_be_open_does_not_start(command: list[str], tmp_path: Path) -> None:
    ended = await run(*command, "--listen", "0.0.0.0:0", "--state", str(tmp_path))
    assert (ended.code, ended.complaint) == (1, MESSAGE)


async def test_other_commands_work_where_a_gateway_would_not_start(tmp_path: Path) -> None:
    environ = {"HOOKGATE_LISTEN": "0.0.0.0:0", "HOOKGATE_STATE": str(tmp_path)}
    assert (await run("hooks", "list", env=environ)).code == 0
    assert (await run("config", "show", env=environ)).code == 0


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_it_starts_with_consent(workers: str, tmp_path: Path) -> None:
    words = ("serve", "--open", "--listen", "0.0.0.0:0", "--workers", workers, "--state", str(tmp_path))
    process = await start(*words, env=environment({"HOOKGATE_ADMIN__ADDRESS": "off"}))
    assert process.stderr is not None
    log = ""
    while "listening on http://" not in log:
        line = await process.stderr.readline()
        assert line, log
        log += line.decode()
    process.send_signal(signal.SIGTERM)
    await process.communicate()
