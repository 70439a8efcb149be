"""`hookgate shim install | uninstall | status`: what it writes, keeps and removes."""

import json
import shlex
import socket
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgate.hooks.settings.editing import value_of, with_hooks
from hookgate.proxy.cli.main import run_command
from hookgate.shim.command.edits import AGENTS, InstallRecords, installed_hooks, without_hooks

Shim = Callable[..., tuple[int, str]]

GEMINI = """\
{
    // mine
    "model": {"name": "gemini-2.5-flash"}, /* kept */
    "hooks": {
        "BeforeTool": [
            {"matcher": "write_file", "hooks": [{"type": "command", "command": "./guard.sh"}]}
        ]
    }
}
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, and an empty project as the current folder."""
    homes = (agent.home for agent in AGENTS.values() if agent.home)
    names = ("HOOKGATE_STATE", "XDG_STATE_HOME", "HOOKGATE_URL", *homes)
    for name in names:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOOKGATE_CONFIG", "/dev/null")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "home"


@pytest.fixture
def shim(home: Path, capsys: pytest.CaptureFixture[str]) -> Shim:
    def run(*words: str) -> tuple[int, str]:
        code = run_command(["shim", *words])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return run


def written(home: Path, text: str, name: str = ".gemini/settings.json") -> Path:
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_each_event_of_the_agent_gets_one_hook_beside_what_is_there(home: Path, shim: Shim) -> None:
    path = written(home, GEMINI)
    code, reported = shim("install", "gemini-cli", "--yes")
    assert (code, "+            {" in reported) == (0, True)
    text = path.read_text()
    assert "// mine" in text
    assert "/* kept */" in text
    hooks = value_of(text)["hooks"]
    assert hooks["BeforeTool"][0]["matcher"] == "write_file"
    assert list(hooks) == [
        "BeforeTool",
        *(event for event in AGENTS["gemini-cli"].events if event != "BeforeTool"),
    ]
    for event, groups in hooks.items():
        [hook] = groups[-1]["hooks"]
        program, *words = shlex.split(hook.pop("command"))
        assert words == ["event", event]
        assert Path(program).is_absolute()
        assert Path(program).exists()
        assert hook == {"name": "hookgate", "type": "command", "timeout": 60_000}


def test_claude_code_gets_its_own_names_and_the_address(home: Path, shim: Shim) -> None:
    assert shim("install", "claude-code", "--yes", "--gateway", "https://gate.example/x/")[0] == 0
    hooks = json.loads((home / ".claude/settings.json").read_text())["hooks"]
    assert list(hooks) == list(AGENTS["claude-code"].events)
    [[hook]] = [group["hooks"] for group in hooks["PreToolUse"]]
    command = hook["command"]
    assert command.endswith(" event PreToolUse --from claude-code --gateway https://gate.example/x")
    assert hook == {"type": "command", "command": command, "timeout": 60}


@pytest.mark.parametrize("agent", sorted(AGENTS))
def test_each_agent_s_file_is_made_and_removed(home: Path, shim: Shim, agent: str) -> None:
    settings = AGENTS[agent]
    for scope, path in ((), settings.settings(None)), (("--project",), settings.settings(Path.cwd())):
        assert shim("install", agent, "--yes", "--on-unreachable", "deny", *scope)[0] == 0
        assert path.read_text().count("--on-unreachable deny") == len(settings.events)
        assert f"{agent:12} {path}: installed\n" in shim("status")[1]
        assert shim("uninstall", agent, "--yes", *scope)[0] == 0
        assert not path.exists()


def test_a_project_s_settings_name_the_program_plainly_where_it_is_on_the_path(
    home: Path, shim: Shim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "hookgate"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    assert shim("install", "gemini-cli", "--project", "--yes")[0] == 0
    hooks = json.loads(Path(".gemini/settings.json").read_text())["hooks"]
    assert hooks["AfterTool"][0]["hooks"][0]["command"] == "hookgate event AfterTool"
    assert not (home / ".gemini").exists()


def test_nothing_is_written_without_a_yes(home: Path, shim: Shim) -> None:
    path = written(home, GEMINI)
    code, reported = shim("install", "gemini-cli")
    assert (code, "Cannot ask" in reported, path.read_text()) == (1, True, GEMINI)
    code, reported = shim("install", "gemini-cli", "--dry-run")
    assert (code, "+++ changed" in reported, path.read_text()) == (0, True, GEMINI)


def test_installing_again_changes_nothing_and_another_address_replaces_the_first(
    home: Path, shim: Shim
) -> None:
    path = written(home, GEMINI)
    shim("install", "gemini-cli", "--yes")
    once = path.read_bytes()
    code, reported = shim("install", "gemini-cli", "--yes")
    assert (code, "already installed" in reported, path.read_bytes()) == (0, True, once)
    shim("install", "gemini-cli", "--yes", "--gateway", "http://127.0.0.1:1")
    assert path.read_text().count("--gateway http://127.0.0.1:1") == 8
    assert path.read_text().count("event BeforeTool") == 1
    assert shim("uninstall", "gemini-cli", "--yes")[0] == 0
    assert path.read_text() == GEMINI


def test_a_file_that_was_made_is_removed_and_an_empty_one_stays(home: Path, shim: Shim) -> None:
    shim("install", "gemini-cli", "--yes")
    shim("uninstall", "gemini-cli", "--yes")
    assert not (home / ".gemini/settings.json").exists()
    path = written(home, "")
    shim("install", "gemini-cli", "--yes")
    shim("uninstall", "gemini-cli", "--yes")
    assert path.read_text() == ""


def test_what_was_changed_since_stays_when_the_hooks_go(home: Path, shim: Shim) -> None:
    path = written(home, GEMINI)
    shim("install", "gemini-cli", "--yes")
    path.write_text(path.read_text().replace("// mine", "// ours"))
    code, reported = shim("uninstall", "gemini-cli", "--yes")
    assert (code, "no longer reported" in reported) == (0, True)
    assert path.read_text() == GEMINI.replace("// mine", "// ours")
    code, reported = shim("uninstall", "gemini-cli")
    assert (code, "no hooks of hookgate" in reported) == (0, True)


def test_the_status_tells_of_agents_and_the_gateway(
    home: Path, shim: Shim, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOKGATE_URL", "http://127.0.0.1:9")
    written(home, "{", ".claude/settings.json")
    shim("install", "gemini-cli", "--yes")
    path = home / ".gemini/settings.json"
    path.write_text(path.read_text().replace(" event AfterTool", " event Lunch"))
    code, reported = shim("status")
    assert code == 0
    assert f"gemini-cli   {path}: installed, except for AfterTool; install it again" in reported
    assert f"{Path.cwd() / '.gemini/settings.json'}: not installed" in reported
    assert f"{home / '.claude/settings.json'}:1:2: is not valid JSON" in reported
    assert "gateway      http://127.0.0.1:9: Connection refused" in reported
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        monkeypatch.setenv("HOOKGATE_URL", url)
        assert f"gateway      {url}: listening" in shim("status")[1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param('{"hooks": []}', "hooks: must be an object", id="hooks"),
        pytest.param('{"hooks": {"SessionStart": 7}}', "hooks.SessionStart: must be a list", id="an event"),
        pytest.param("{", "is not valid JSON", id="not JSON"),
    ],
)
def test_settings_that_cannot_be_used_are_named_and_left_alone(
    home: Path, shim: Shim, text: str, expected: str
) -> None:
    path = written(home, text)
    code, said = shim("install", "gemini-cli", "--yes")
    assert (code, str(path) in said, expected in said, path.read_text()) == (1, True, True, text)


@pytest.mark.parametrize("url", ["http://key@gate", "http://gate/?key=1", "gate"])
def test_an_address_with_a_key_is_not_written(home: Path, shim: Shim, url: str) -> None:
    assert shim("install", "gemini-cli", "--yes", "--gateway", url)[0] == 1
    assert not (home / ".gemini").exists()


words = st.text(string.ascii_letters + 'é"\\ /*{}[],:', max_size=6)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
groups = st.lists(
    st.fixed_dictionaries({"hooks": st.lists(st.fixed_dictionaries({"command": words}), max_size=2)}),
    max_size=2,
)
events = st.dictionaries(st.sampled_from(["BeforeTool", "PreToolUse", "SessionStart", "Other"]), groups)


@st.composite
def settings_texts(draw: st.DrawFn) -> str:
    """Settings as people and programs lay them out, comments included."""
    value: dict[str, Any] = draw(
        st.dictionaries(words.filter(lambda key: key != "hooks"), values, max_size=3)
    )
    if draw(st.booleans()):
        value["hooks"] = draw(events)
    layout = draw(st.sampled_from([None, 0, 2, "\t"]))
    text = json.dumps(value, indent=layout, ensure_ascii=draw(st.booleans()))
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    before, after = (draw(st.sampled_from(["", "// é\n", "/* { */ ", "\n\n", " "])) for _ in range(2))
    return draw(st.sampled_from([f"{before}{text}{after}", before]))


@given(text=settings_texts(), agent=st.sampled_from(sorted(AGENTS)))
def test_what_is_installed_and_uninstalled_leaves_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory, text: str, agent: str
) -> None:
    records, path = InstallRecords(tmp_path_factory.getbasetemp()), Path("/settings.json")
    hooks = AGENTS[agent].groups("/opt/my bin/hookgate", "http://127.0.0.1:1")
    after = with_hooks(text, hooks)
    assert set(installed_hooks(after)) == set(hooks)
    records.keep(path, text, after, made=False)
    record = records.read(path)
    assert record
    assert record.original(after) == text
    assert record.original(after + " ") is None
    # And without the record at least everything that was said before.
    kept = value_of(without_hooks(after))
    emptied = {event: groups for event, groups in value_of(text).get("hooks", {}).items() if groups}
    assert {**kept, "hooks": {e: g for e, g in kept.get("hooks", {}).items() if g}} == {
        **value_of(text),
        "hooks": emptied,
    }
