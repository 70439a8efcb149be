"""The panel of `hookgate serve`, and the commands that need its token."""

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from support.gateway.loopback import running_upstream, write_settings
from support.programs import program
from support.wire import HI, UNARY, ask, post

TOKEN = "canary-token-8c1d0f"  # noqa: S105  # a canary, no secret


async def test_a_gateway_serves_its_panel_and_a_switch_lasts(tmp_path: Path) -> None:
    settings = write_settings(tmp_path, {"BeforeModel": [deny(tmp_path)]})
    env = {
        "HOOKGATE_ADMIN__ADDRESS": "127.0.0.1:0",
        "HOOKGATE_ADMIN__TOKEN": TOKEN,
        "HOOKGATE_STATE": str(tmp_path / "state"),
    }
    async with running_upstream() as (upstream, _):
        arguments = ("serve", "--listen", "127.0.0.1:0", "--upstream", upstream, "--hooks", str(settings))
        async with program.serving(*arguments, env=env) as server:
            admin = await addresses(server)
            url = server.url
            assert (await ask(admin, "GET", "/")).status == 200
            assert (await ask(admin, "GET", "/api/calls", {})).status == 401
            denied = await post(url, UNARY, HI)
            assert denied.status == 403
            bearer = {"Authorization": f"Bearer {TOKEN}", "X-Hookgate-Panel": "1"}
            change = {"name": "guard", "on": False}
            assert (await post(admin, "/api/hooks/switch", change, bearer)).status == 200
            assert (await post(url, UNARY, HI)).status == 200
            assert json.loads(settings.read_text())["hooksConfig"] == {"disabled": ["guard"]}
            receipt = denied.headers["x-hookgate-receipt"]
            address = admin.removeprefix("http://")
            shown = await program.run(
                "receipt", receipt, "--admin", address, env={"HOOKGATE_ADMIN__TOKEN": TOKEN}
            )
            assert json.loads(shown.out)["outcome"] == "denied"
            file = tmp_path / "hookgate.toml"
            file.write_text(f"[admin]\ntoken = '{TOKEN}'\n")
            by_file = await program.run("receipt", receipt, "--admin", admin, "--config", str(file))
            assert by_file.out == shown.out
            refused = await program.run("receipt", receipt, "--admin", address)
            assert (refused.code, "admin token" in refused.complaint) == (1, True)
            policy = await ask(admin, "GET", "/api/policy", bearer)
            assert TOKEN.encode() not in policy.body
            assert TOKEN not in server.log


async def test_a_switch_leaves_its_traces_in_log_and_audit(tmp_path: Path) -> None:
    settings = write_settings(tmp_path, {"BeforeModel": [deny(tmp_path)]})
    state = str(tmp_path / "state")
    env = {"HOOKGATE_ADMIN__ADDRESS": "127.0.0.1:0", "HOOKGATE_STATE": state}
    arguments = ("serve", "--listen", "127.0.0.1:0", "--hooks", str(settings))
    async with program.serving(*arguments, env=env) as server:
        admin = await addresses(server)
        token = await linked(server)
        change = {"name": "guard", "on": False}
        assert (await post(admin, "/api/hooks/switch", change, {"X-Hookgate-Panel": "1"})).status == 401
        shown = {"X-Hookgate-Panel": "1", "Authorization": f"Bearer {token}"}
        unknown = await post(admin, "/api/hooks/switch", {"name": "gaurd", "on": False}, shown)
        assert unknown.error["message"] == "no hook named 'gaurd'; available hooks: 'guard'"
        answer = await post(admin, "/api/hooks/switch", change, shown)
        while "settings reloaded" not in server.log:
            await server.next_line()
        switched = 'hooks.switch {"hook":"guard","on":false}'
        assert f"change by admin token (admin) from 127.0.0.1: {switched}" in server.log
        assert "switched off: BeforeModel guard" in server.log
        server.signal(signal.SIGTERM)
        assert await server.ended() == 0
    exported = (await program.run("audit", "export", "--state", state)).out
    [reported] = [body for body in map(body_of, exported.splitlines()) if body.get("event") == "policy"]
    [change] = [body for body in map(body_of, exported.splitlines()) if body.get("event") == "change"]
    about = {"hook": "guard", "on": False}
    assert change == {"event": "change", "change": "hooks.switch", "by": "admin token", **about}
    assert reported["switched_off"] == ["BeforeModel guard"]
    assert reported["revision"] == answer.json["revision"] != reported["before"]
    assert (await program.run("audit", "verify", "--state", state)).code == 0


async def test_a_command_finds_the_token_that_the_gateway_has_made(tmp_path: Path) -> None:
    settings = write_settings(tmp_path, {"BeforeModel": [deny(tmp_path)]})
    state = str(tmp_path / "state")
    env = {"HOOKGATE_ADMIN__ADDRESS": "127.0.0.1:0", "HOOKGATE_STATE": state}
    arguments = ("serve", "--listen", "127.0.0.1:0", "--hooks", str(settings))
    async with program.serving(*arguments, env=env) as server:
        admin = await addresses(server)
        await linked(server)
        receipt = (await post(server.url, UNARY, HI)).headers["x-hookgate-receipt"]
        shown = await program.run("receipt", receipt, "--admin", admin, "--state", state)
        assert json.loads(shown.out)["outcome"] == "denied"
        elsewhere = str(tmp_path / "elsewhere")
        refused = await program.run("receipt", receipt, "--admin", admin, "--state", elsewhere)
        assert (refused.code, "admin token" in refused.complaint) == (1, True)


async def linked(server: program.Server) -> str:
    """The token of the link that the gateway has told."""
    while not (found := re.search(r"open the panel: http://127\.0\.0\.1:\d+/#token=([\w-]+)", server.log)):
        assert await server.next_line(), server.log
    return found[1]


def body_of(line: str) -> Any:
    """The body of an exported record; of a registration there is none."""
    return json.loads(line).get("body") or {}


def deny(folder: Path) -> dict[str, str]:
    """A hook that denies everything."""
    script = folder / "guard.sh"
    script.write_text("cat >/dev/null; echo 'not here' >&2; exit 2\n")
    return {"type": "command", "name": "guard", "command": f"sh {script}"}


async def addresses(server: program.Server) -> str:
    """The admin listener's URL; `server.url` becomes that of the gateway."""
    found = re.search(r"admin listener on (\S+)", server.log)
    assert found, server.log
    while "listening on" not in server.log:
        await server.next_line()
    listening = re.search(r"listening on (http://[^,\s]+)", server.log)
    assert listening
    server.url = listening[1]
    return found[1]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param("short", "16 to 256", id="too short"),
        pytest.param("with a blank in the middle", "16 to 256", id="with blanks"),
        pytest.param(None, "does not exist; write the secret into it", id="no file"),
    ],
)
async def test_a_token_that_cannot_be_used_is_reported_at_the_start(
    content: str | None, expected: str, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_text(content)
    env = {"HOOKGATE_ADMIN__TOKEN_FILE": str(file), "HOOKGATE_STATE": str(tmp_path / "state")}
    for command in (("config", "check"), ("serve", "--listen", "127.0.0.1:0")):
        given = {**env, "HOOKGATE_ADMIN__ADDRESS": "127.0.0.1:0"}
        ended = await program.run(*command, env=given)
        assert ended.code == 1
        assert expected in ended.err
        assert content is None or content not in ended.err


async def test_config_show_shows_no_token() -> None:
    ended = await program.run("config", "show", env={"HOOKGATE_ADMIN__TOKEN": TOKEN})
    assert "HOOKGATE_ADMIN__TOKEN" in ended.out
    assert TOKEN not in ended.out + ended.err
    ended = await program.run("config", "show", env={"HOOKGATE_ADMIN__TOKEN": "canary"})
    assert (ended.code, "canary" in ended.err) == (1, False)
