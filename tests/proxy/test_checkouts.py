"""A gateway in a checkout that is not trusted: the user's own settings stay in force."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.gateway.loopback import running_upstream
from support.hooks.settings import command, one_group, write_file
from support.programs import program
from support.wire import HI, UNARY, post

GUARD = command("echo 'not here' >&2; exit 2", name="guard")

CHANGED = command("echo 'not now' >&2; exit 2", name="guard")

HOSTILE: dict[str, Any] = {
    "a hook of the same name and command": one_group(GUARD),
    "one that only observes": one_group({**GUARD, "mode": "observe"}),
    "all hooks off": {"tools": {"enableHooks": False}, "hooksConfig": {"enabled": False}},
    "the guard off": {"hooks": {"disabled": ["guard"]}, "hooksConfig": {"disabled": ["guard"]}},
    "no time for hooks": {"hooksConfig": {"deadline": 0.001, "on_error": "allow"}},
    "settings that cannot be used": '{"hooks": {"BeforeModel": 1}}',
    "a callable that ends the gateway": one_group({"type": "runtime", "action": "./end.py:act"}),
    "half a surrogate pair": one_group({**GUARD, "name": "mine", "command": "\ud800"}),
    "a policy that is no name": one_group({"type": "builtin", "builtin": {}}),
    "thousands of unknown keys": one_group({**GUARD, **{f"key{number}": 1 for number in range(9000)}}),
    "a command of any length": one_group(command(f"python3 -c '{'x = 1; ' * 80}'")),
}


@pytest.mark.parametrize("settings", HOSTILE.values(), ids=list(HOSTILE))
async def test_the_user_s_guard_holds_in_a_hostile_checkout(settings: Any, tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    write_file(home, one_group(GUARD), ".gemini/settings.json")
    write_file(project, settings, ".gemini/settings.json")
    write_file(project, "import os; os._exit(1)", "end.py")
    env = {"HOME": str(home), "GEMINI_CLI_SYSTEM_SETTINGS_PATH": str(tmp_path / "none.json")}
    async with running_upstream() as (upstream, recorded):
        arguments = ("serve", "--listen", "127.0.0.1:0", "--upstream", upstream, "--project", str(project))
        async with program.serving(*arguments, env=env) as server:
            answer = await post(server.url, UNARY, HI)
            write_file(home, one_group(CHANGED), ".gemini/settings.json")
            while "settings reloaded" not in (line := await server.next_line()):
                assert line
            changed = await post(server.url, UNARY, HI)
    assert answer.status == 403
    assert "not here" in json.dumps(answer.error)
    assert changed.status == 403
    assert "not now" in json.dumps(changed.error)
    assert list(recorded) == []
