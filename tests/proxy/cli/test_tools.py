"""`hookgate tools …` at a terminal."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from hookgate.hooks.policies.pins import Declared, Pins
from hookgate.proxy.cli.main import run_command
from hookgate.proxy.config import StoreSettings
from hookgate.proxy.store import Store

Hookgate = Callable[..., tuple[int, str]]


@pytest.fixture
def hookgate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Hookgate:
    for name in ("HOOKGATE_STATE", "HOOKGATE_CONFIG", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))

    def run(*words: str) -> tuple[int, str]:
        code = run_command(["tools", *words, "--state", str(tmp_path)])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return run


def declare(state: Path, *tools: tuple[str, str]) -> bool:
    """A session's request with these tools, by name and declaration; whether all of them are accepted."""

    async def noted() -> bool:
        async with Store(StoreSettings(), state) as store:
            pins = Pins(store.pins())
            return not (await pins.note([Declared(name, text, text) for name, text in tools], "s-1")).changed

    return asyncio.run(noted())


def test_without_pins_the_list_says_where_it_looked(tmp_path: Path, hookgate: Hookgate) -> None:
    assert hookgate("list") == (0, f"No tool is pinned in {tmp_path}.\n")


def test_programs_read_the_list_as_json(tmp_path: Path, hookgate: Hookgate) -> None:
    assert json.loads(hookgate("list", "--json")[1]) == []
    declare(tmp_path, ("read", "Reads."))
    declare(tmp_path, ("read", "Reads, and tells."))
    [tool] = json.loads(hookgate("list", "--json")[1])
    assert tool["name"] == "read"
    assert [each["declaration"] for each in tool["accepted"]] == ["Reads."]
    assert [each["declaration"] for each in tool["changed"]] == ["Reads, and tells."]


def test_a_change_is_shown_and_accepted(tmp_path: Path, hookgate: Hookgate) -> None:
    declare(tmp_path, ("read", "Reads."), ("glob", "Lists."))
    assert not declare(tmp_path, ("read", "Reads, and tells."))
    code, output = hookgate("list")
    assert code == 0
    assert "'glob': unchanged" in output
    assert "'read': changed" in output
    assert "    -Reads.\n    +Reads, and tells.\n" in output
    code, output = hookgate("accept", "read")
    assert (code, "without a terminal; pass --yes" in output) == (1, True)
    assert not declare(tmp_path, ("read", "Reads, and tells."))
    code, output = hookgate("accept", "read", "glob", "--yes")
    assert (code, output.splitlines()[-1]) == (0, "Accepted: 'read'.")
    assert declare(tmp_path, ("read", "Reads, and tells."))
    assert declare(tmp_path, ("read", "Reads."))
    assert hookgate("accept", "read") == (0, "The declarations of these tools have not changed.\n")


def test_a_tool_that_is_forgotten_is_pinned_again(tmp_path: Path, hookgate: Hookgate) -> None:
    declare(tmp_path, ("read", "Reads."), ("glob", "Lists."))
    assert hookgate("forget", "read") == (0, "Not pinned any more: 'read'.\n")
    assert declare(tmp_path, ("read", "Reads, and tells."))
    assert not declare(tmp_path, ("read", "Reads."))
    assert not declare(tmp_path, ("glob", "Lists, and tells."))


@pytest.mark.parametrize("command", ["accept", "forget"])
def test_a_name_that_is_not_pinned_is_reported(command: str, hookgate: Hookgate) -> None:
    code, output = hookgate(command, "reed")
    assert code == 1
    assert "no tool 'reed' is pinned" in output


def test_text_from_a_client_cannot_control_the_terminal(tmp_path: Path, hookgate: Hookgate) -> None:
    declare(tmp_path, ("a\x1b[2J", "x"))
    declare(tmp_path, ("a\x1b[2J", "\x1b]0;owned\x07"))
    assert "\x1b" not in hookgate("list")[1]
