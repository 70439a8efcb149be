"""`hookgate hooks …` at a terminal: its output, the files that it writes, and its exit codes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.hooks.settings import command, one_group, write_file

from hookgate.hooks.settings import EVENTS
from hookgate.proxy.cli.main import run_command

Hookgate = Callable[..., tuple[int, str]]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project as the current folder, with an empty home."""
    for name in ("HOOKGATE_POLICY", "HOOKGATE_HOOKS", "HOOKGATE_STATE", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GEMINI_CLI_SYSTEM_SETTINGS_PATH", str(tmp_path / "none.json"))
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def hookgate(project: Path, capsys: pytest.CaptureFixture[str]) -> Hookgate:
    def run(*words: str) -> tuple[int, str]:
        code = run_command(["hooks", *words])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return run


def configure(
    project: Path, *configs: Any, event: str = "BeforeModel", name: str = ".gemini/settings.json"
) -> Path:
    return write_file(project, one_group(*configs, event=event), name)


DENY = command("echo 'not here' >&2; exit 2", name="deny")


def test_without_hooks_the_list_tells_where_they_were_looked_for(project: Path, hookgate: Hookgate) -> None:
    code, output = hookgate("list")
    assert code == 0
    assert str(project / ".gemini/settings.json") in output


def test_the_list_is_also_called_panel(project: Path, hookgate: Hookgate) -> None:
    configure(project, DENY)
    code, output = hookgate("panel")
    assert (code, output) == hookgate("list")
    assert (code, "deny" in output, "BeforeModel" in output) == (0, True, True)


def test_the_list_shows_descriptions_if_there_are_any(project: Path, hookgate: Hookgate) -> None:
    configure(project, DENY)
    assert "description" not in hookgate("list")[1]
    configure(project, {**DENY, "description": "Denies everything."})
    header, row = hookgate("panel")[1].splitlines()
    assert header.endswith("  description")
    assert row.endswith("  Denies everything.")
    assert json.loads(hookgate("list", "--json")[1])[0]["description"] == "Denies everything."


def test_a_project_s_hook_runs_once_it_is_trusted(project: Path, hookgate: Hookgate) -> None:
    configure(project, DENY)
    assert "untrusted" in hookgate("list")[1]
    assert hookgate("trust")[0] == 1  # nobody to ask
    code, output = hookgate("test", "BeforeModel")
    assert (code, "is not trusted" in output) == (1, True)
    assert "echo 'not here'" in hookgate("trust", "--yes")[1]
    code, output = hookgate("test", "BeforeModel")
    assert (code, "deny, reason: not here" in output) == (0, True)


def test_switching_a_hook_off_and_on_is_kept_in_the_user_s_settings(
    project: Path, hookgate: Hookgate
) -> None:
    configure(project, DENY)
    user = write_file(
        project.parent / "home", '{\n  // mine\n  "theme": "Dark"\n}\n', ".gemini/settings.json"
    )
    assert hookgate("disable", "deny")[0] == 0
    assert json.loads(hookgate("list", "--json")[1])[0]["state"] == "off"
    assert "// mine" in user.read_text()
    assert hookgate("enable", "deny")[0] == 0
    assert json.loads(hookgate("list", "--json")[1])[0]["state"] == "untrusted"
    hookgate("disable-all")
    assert json.loads(hookgate("list", "--json")[1])[0]["state"] == "off"
    hookgate("enable-all")
    assert json.loads(hookgate("list", "--json")[1])[0]["state"] == "untrusted"


def test_a_hook_of_a_named_file_is_switched_in_that_file(project: Path, hookgate: Hookgate) -> None:
    named = str(configure(project, DENY, name="hooks.json"))
    for word, state in (("disable", "off"), ("enable", "on"), ("disable-all", "off"), ("enable-all", "on")):
        names = [] if word.endswith("all") else ["deny"]
        code, output = hookgate(word, *names, "--hooks", named)
        assert (code, named in output) == (0, True)
        assert json.loads(hookgate("list", "--json", "--hooks", named)[1])[0]["state"] == state
    assert not (project.parent / "home" / ".gemini").exists()


def test_a_policy_s_hook_says_that_it_stays_on(project: Path, hookgate: Hookgate) -> None:
    policy = str(configure(project, DENY, name="policy.json"))
    hooks = configure(project, command("true", name="other"), name="hooks.json")
    before = hooks.read_text()
    given = ("--policy", policy, "--hooks", str(hooks))
    assert hookgate("disable", "deny", *given) == (
        1,
        f"hookgate: 'deny' stays on: it is in the policy file {policy}, "
        "and only that file can switch it off\n",
    )
    assert hooks.read_text() == before
    assert json.loads(hookgate("list", "--json", *given)[1])[0]["state"] == "on"


def test_a_hook_that_a_policy_has_as_well_is_off_but_there(project: Path, hookgate: Hookgate) -> None:
    policy = str(configure(project, DENY, name="policy.json"))
    hooks = str(configure(project, command("true", name="deny"), name="hooks.json"))
    given = ("--policy", policy, "--hooks", hooks)
    code, output = hookgate("disable", "deny", *given)
    assert (code, output.count("\n")) == (0, 1)
    kept = f"'deny' stays on: it is in the policy file {policy}, "
    assert output.startswith(f"'deny' is off: {hooks}; but {kept}")
    states = [hook["state"] for hook in json.loads(hookgate("list", "--json", *given)[1])]
    assert sorted(states) == ["off", "on"]


def test_switching_all_hooks_off_says_what_a_policy_keeps_on(project: Path, hookgate: Hookgate) -> None:
    policy = str(configure(project, DENY, name="policy.json"))
    hooks = configure(project, command("true", name="other"), name="hooks.json")
    before = hooks.read_text()
    code, output = hookgate("disable-all", "--policy", policy)
    assert (code, output) == (
        1,
        f"hookgate: all these hooks are in the policy file {policy}, "
        "and only that file can switch them off\n",
    )
    given = ("--policy", policy, "--hooks", str(hooks))
    assert hookgate("disable-all", *given) == (
        0,
        f"Hooks are off: {hooks}. Still on, because they are in policy files: 'deny'\n",
    )
    states = {hook["name"]: hook["state"] for hook in json.loads(hookgate("list", "--json", *given)[1])}
    assert states == {"deny": "on", "other": "off"}
    assert hooks.read_text() != before


@pytest.mark.parametrize("word", ["list", "show inline", "trust --yes", "doctor"])
def test_a_command_of_any_length_is_no_trouble(word: str, project: Path, hookgate: Hookgate) -> None:
    configure(project, command(f"python3 -c '{'x = 1; ' * 80}'", name="inline"))
    code, output = hookgate(*word.split())
    assert "inline" in output
    assert "File name too long" not in output
    assert code == (1 if word == "doctor" else 0)  # which says that it is not trusted


def test_trust_shows_all_that_it_is_in_and_no_terminal_hides_it(project: Path, hookgate: Hookgate) -> None:
    hidden = command("evil # \x1b[2K\rtrue", name="\u202egood", env={"BASH_ENV": "./more.sh"})
    configure(project, hidden)
    _, output = hookgate("trust")
    assert "runs     evil # \\u001b[2K\\u000dtrue" in output
    assert "with     BASH_ENV=./more.sh" in output
    assert not {"\x1b", "\r", "\u202e"} & set(output)


def test_what_changes_before_the_confirmation_is_not_trusted(
    project: Path, hookgate: Hookgate, monkeypatch: pytest.MonkeyPatch
) -> None:
    def confirm(question: str, *, yes: bool) -> bool:
        (project / "guard.sh").write_text("exit 2")
        return True

    write_file(project, "exit 0", "guard.sh")
    configure(project, command("sh ./guard.sh", name="guard"))
    monkeypatch.setattr("hookgate.proxy.cli.hooks.confirm", confirm)
    assert "Nothing was trusted: guard changed meanwhile" in hookgate("trust")[1]
    assert '"untrusted"' in hookgate("list", "--json")[1]


def test_a_script_that_others_can_write_to_is_not_trusted(project: Path, hookgate: Hookgate) -> None:
    write_file(project, "exit 0", "guard.sh").chmod(0o777)
    configure(project, command("sh ./guard.sh", name="guard"))
    code, output = hookgate("trust", "--yes")
    assert (code, "The hook 'guard' cannot be trusted: another user can write to" in output) == (1, True)


def test_a_denied_event_is_not_reported_as_continuing(project: Path, hookgate: Hookgate) -> None:
    path = str(configure(project, DENY, name="hooks.json"))
    output = hookgate("test", "BeforeModel", "--hooks", path)[1]
    assert output.endswith("=== verdict: deny, reason: not here\n")
    path = str(configure(project, command("true"), name="hooks.json"))
    assert hookgate("test", "BeforeModel", "--hooks", path)[1].endswith("The event is unchanged.\n")


def test_an_unknown_name_is_reported_with_those_that_exist(project: Path, hookgate: Hookgate) -> None:
    configure(project, DENY)
    for words in (["show", "x"], ["disable", "x"], ["trust", "x"], ["test", "BeforeModel", "--name", "x"]):
        assert hookgate(*words) == (1, "hookgate: no hook named 'x'; available hooks: 'deny'\n")


def test_a_hook_of_another_event_is_named_if_it_does_not_run(project: Path, hookgate: Hookgate) -> None:
    configure(project, DENY)
    code, output = hookgate("test", "BeforeTool", "--name", "deny")
    assert (code, output.partition(";")[0]) == (1, "No BeforeTool hook named 'deny' runs for this event")


def test_show_tells_file_and_what_runs(project: Path, hookgate: Hookgate) -> None:
    path = configure(project, DENY)
    output = hookgate("show", "deny")[1]
    assert str(path) in output
    assert "exit 2" in output


def test_show_tells_every_setting_of_a_hook(project: Path, hookgate: Hookgate) -> None:
    options = {"actions": {"EMAIL": "mask"}}
    policy = {"type": "builtin", "builtin": "redact", "name": "guard", "options": options, "timeout": 1234}
    path = configure(project, policy | {"when": {"models": ["*-pro"]}}, name="hooks.json")
    rows = (row.partition(": ") for row in hookgate("show", "guard", "--hooks", str(path))[1].splitlines())
    shown = {name: value.strip() for name, _, value in rows}
    assert json.loads(shown["options"]) == options
    assert json.loads(shown["when"]) == {"models": ["*-pro"]}
    assert (shown["runs"], shown["timeout"], shown["on_error"]) == ("redact", "1234 ms", "deny")
    [row] = json.loads(hookgate("show", "guard", "--hooks", str(path), "--json")[1])
    assert (row["options"], row["when"], row["file"]) == (options, {"models": ["*-pro"]}, str(path))


def test_trying_several_hooks_shows_an_input_once_and_names_those_that_do_not_run(
    project: Path, hookgate: Hookgate
) -> None:
    hooks = [{"type": "command", "command": f"exit 0 #{name}", "name": name} for name in "ab"]
    hooks.append({**hooks[0], "name": "c", "when": {"models": ["*-pro"]}})
    (project / "three.json").write_text(json.dumps({"hooks": {"BeforeModel": [{"hooks": hooks}]}}))
    output = hookgate("test", "BeforeModel", "--hooks", str(project / "three.json"))[1]
    assert output.count('"hook_event_name"') == 1
    assert "=== c does not run on this event: its `matcher` or `when` does not match" in output
    shown = hookgate("show", "c", "--hooks", str(project / "three.json"))[1]
    assert '{"models": ["*-pro"]}' in shown


def test_trying_logs_what_a_hook_writes_to_stderr(
    project: Path, hookgate: Hookgate, caplog: pytest.LogCaptureFixture
) -> None:
    settings = str(configure(project, command("echo looking >&2; exit 0", name="a"), name="hooks.json"))
    assert hookgate("test", "BeforeModel", "--hooks", settings)[0] == 0
    assert caplog.messages == ["BeforeModel hook 'a' exited with code 0; stderr: looking"]


@pytest.mark.parametrize(("event", "warned"), [("BeforeModel", True), ("BeforeTool", False)])
def test_the_decision_ask_is_a_warning_where_no_user_is_asked(
    event: str, warned: bool, project: Path, hookgate: Hookgate
) -> None:
    ask = command("""echo '{"decision": "ask"}'""")
    settings = str(configure(project, ask, event=event, name="hooks.json"))
    output = hookgate("test", event, "--hooks", settings)[1]
    assert ("decides 'ask', which lets this event pass" in output) is warned
    assert (
        "decides 'ask', which lets this event pass" in hookgate("doctor", "--hooks", settings)[1]
    ) is warned


@pytest.mark.parametrize("event", EVENTS)
def test_every_event_can_be_tried_on_a_harmless_input(event: str, project: Path, hookgate: Hookgate) -> None:
    settings = str(configure(project, command("cat >/dev/null; echo '{}'"), event=event, name="hooks.json"))
    code, output = hookgate("test", event, "--hooks", settings)
    assert code == 0, output
    assert f'"hook_event_name": "{event}"' in output


def test_trying_shows_the_change_as_a_difference(project: Path, hookgate: Hookgate) -> None:
    said = {"hookSpecificOutput": {"tool_input": {"file_path": "b"}}}
    settings = configure(
        project, command(f"echo '{json.dumps(said)}'"), event="BeforeTool", name="hooks.json"
    )
    given = write_file(project, {"tool_name": "read_file", "tool_input": {"file_path": "a"}}, "input.json")
    output = hookgate("test", "BeforeTool", "--hooks", str(settings), "--input", str(given))[1]
    assert '-    "file_path": "a"' in output
    assert '+    "file_path": "b"' in output


ADDRESS = "ann@example.org"
REDACT = {"type": "builtin", "builtin": "redact", "name": "redact", "options": {"detect": ["personal"]}}


def inputs_in(output: str) -> list[str]:
    """The inputs that a trial shows, one for each hook."""
    return [part.partition("\n--- output")[0] for part in output.split("--- input\n")[1:]]


@pytest.mark.parametrize("sequential", [False, True])
def test_trying_shows_each_hook_s_own_input(sequential: bool, project: Path, hookgate: Hookgate) -> None:
    echo = project / "echo.py"
    echo.write_text(
        "def apply(event):\n"
        "    return {'systemMessage': 'saw ' + event['llm_request']['messages'][0]['content']}\n"
    )
    runtime = {"type": "runtime", "action": "./echo.py:apply", "name": "echo"}
    hooks = write_file(project, one_group(REDACT, runtime, sequential=sequential), "hooks.json")
    body = {"contents": [{"role": "user", "parts": [{"text": f"Mail {ADDRESS}"}]}]}
    given = write_file(project, body, "input.json")
    code, output = hookgate("test", "BeforeModel", "--input", str(given), "--hooks", str(hooks))
    assert code == 0, output
    assert "saw Mail [EMAIL]" in output
    before, after = inputs_in(output)
    assert ADDRESS in before
    assert "Mail [EMAIL]" in after
    assert ADDRESS not in after


def test_trying_shows_a_hook_that_runs_again_with_its_last_input(project: Path, hookgate: Hookgate) -> None:
    edit = {"hookSpecificOutput": {"tool_input": {"file_path": "edited"}}}
    first = command(f"cat >/dev/null; echo '{json.dumps(edit)}'", name="first")
    second = command("cat >/dev/null", name="second")
    hooks = configure(project, first, second, event="BeforeTool", name="hooks.json")
    before, after = inputs_in(hookgate("test", "BeforeTool", "--hooks", str(hooks))[1])
    assert ("README.md" in before, "edited" in before) == (True, False)
    assert ("README.md" in after, "edited" in after) == (False, True)


@pytest.mark.parametrize(
    ("hook", "selection", "removed"),
    [
        pytest.param(
            {"type": "builtin", "builtin": "tools", "options": {"allow": ["read_*"]}},
            "mode AUTO, tools offered: read_file",
            '-          "name": "write_file"',
            id="tools",
        ),
        pytest.param(command("echo write_file"), "mode ANY, tools offered: write_file", "", id="toolConfig"),
        pytest.param(
            command("""echo '{"hookSpecificOutput": {"toolConfig": {"mode": "NONE"}}}'"""),
            "mode NONE, tools offered: none",
            "",
            id="none",
        ),
    ],
)
def test_trying_a_tool_selection_shows_what_it_leaves(
    hook: Any, selection: str, removed: str, project: Path, hookgate: Hookgate
) -> None:
    hooks = configure(project, hook, event="BeforeToolSelection", name="hooks.json")
    code, output = hookgate("test", "BeforeToolSelection", "--hooks", str(hooks))
    assert (code, f"=== selection: {selection}\n" in output) == (0, True), output
    assert "The event is unchanged." not in output
    assert removed in output


@pytest.mark.parametrize("action", ["pseudonymise", "mask"])
def test_trying_an_answer_says_whether_the_client_gets_pseudonyms(
    action: str, project: Path, hookgate: Hookgate
) -> None:
    redact = {**REDACT, "options": {"detect": ["personal"], "action": action}}
    hooks = configure(project, redact, event="AfterModel", name="hooks.json")
    answer = {"candidates": [{"content": {"role": "model", "parts": [{"text": f"Mail {ADDRESS}"}]}}]}
    given = write_file(project, answer, "input.json")
    output = hookgate("test", "AfterModel", "--input", str(given), "--hooks", str(hooks))[1]
    assert f'-            "text": "Mail {ADDRESS}"' in output
    assert ("the gateway restores pseudonyms" in output) == (action == "pseudonymise")


MASK = """import json, re, sys
shown = json.load(sys.stdin)["llm_response"]
text = re.sub(r"KD-[0-9]{6}", "[NUMBER]", shown.get("text", ""))
print(json.dumps({"hookSpecificOutput": {"llm_response": {"text": text}}}))
"""
DENIAL = """import json, sys
if "KD-654" in json.load(sys.stdin)["llm_response"].get("text", ""):
    sys.exit(2)
"""


@pytest.mark.parametrize(
    ("program", "stream", "expected"),
    [
        (MASK, {}, "The client receives the same text."),
        (MASK, {"stream": "event"}, "The client receives another text: 'Call KD-654321.'"),
        (DENIAL, {}, "A hook ends the stream. Before, the client has received ''."),
        (DENIAL, {"stream": "event"}, "The stream is not ended by a hook."),
    ],
)
def test_trying_an_answer_judges_it_as_a_stream_too(
    program: str, stream: dict[str, str], expected: str, project: Path, hookgate: Hookgate
) -> None:
    (project / "judge.py").write_text(program)
    hook = command("python3 judge.py", name="judge", **stream)
    hooks = configure(project, hook, event="AfterModel", name="hooks.json")
    answer = {"candidates": [{"content": {"role": "model", "parts": [{"text": "Call KD-654321."}]}}]}
    given = write_file(project, answer, "input.json")
    output = hookgate("test", "AfterModel", "--input", str(given), "--hooks", str(hooks))[1]
    _, found, streamed = output.partition("=== the same answer as a stream of ")
    assert found
    assert expected in streamed
    assert ("'judge' judges each event alone" in streamed) == bool(stream)


CANNED = '{"hookSpecificOutput": {"llm_response": {"text": "I am here."}}}'


def test_trying_a_hook_that_answers_shows_its_answer(project: Path, hookgate: Hookgate) -> None:
    hooks = configure(project, command(f"echo '{CANNED}'"), name="hooks.json")
    code, output = hookgate("test", "BeforeModel", "--hooks", str(hooks))
    verdict = output.partition("=== verdict: ")[2]
    assert code == 0
    assert verdict.startswith("answered by a hook, so the model is not called\n")
    assert '"text": "I am here."' in verdict


def test_trying_a_hook_that_fails_says_how(project: Path, hookgate: Hookgate) -> None:
    hooks = configure(project, command("exit 3", name="guard", on_error="deny"), name="hooks.json")
    code, output = hookgate("test", "BeforeModel", "--hooks", str(hooks))
    assert code == 1
    assert "--- failed: exited with code 3; the call is denied" in output
    assert "=== verdict: deny, reason: 'guard' failed (see above)" in output
    assert "gateway's log" not in output


@pytest.mark.parametrize(
    ("content", "expected"),
    [("{", "is not valid JSON"), ("[]", "must contain an object"), ("{}", "needs the field 'tool_name'")],
)
def test_an_invalid_input_is_reported(content: str, expected: str, project: Path, hookgate: Hookgate) -> None:
    path = write_file(project, content, "input.json")
    code, printed = hookgate("test", "BeforeTool", "--input", str(path))
    assert (code, expected in printed) == (1, True)


def test_trying_tells_of_a_matcher_that_is_only_a_part_of_names(project: Path, hookgate: Hookgate) -> None:
    path = write_file(
        project, {"hooks": {"BeforeTool": [{"matcher": "write_", "hooks": [DENY]}]}}, "hooks.json"
    )
    code, output = hookgate("test", "BeforeTool", "--hooks", str(path))
    assert (code, output.startswith(f"warning: {path}:")) == (1, True)
    assert "did you mean 'write_.*'?" in output


def test_a_captured_input_is_tried_with_its_tool_selection(project: Path, hookgate: Hookgate) -> None:
    selection = {"mode": "AUTO", "allowedFunctionNames": ["glob"]}
    request = {"model": "m", "messages": [], "toolConfig": {"functionCallingConfig": selection}}
    path = write_file(project, {"llm_request": request}, "input.json")
    edit = {"hookSpecificOutput": {"llm_request": {"toolConfig": {"mode": "ANY"}}}}
    hooks = configure(project, command(f"echo '{json.dumps(edit)}'"), name="hooks.json")
    code, output = hookgate("test", "BeforeModel", "--input", str(path), "--hooks", str(hooks))
    assert (code, '"allowedFunctionNames"' in output) == (0, True)
    assert [line[1:].split() for line in output.splitlines() if line.startswith(("-  ", "+  "))] == [
        ['"mode":', '"AUTO",'],
        ['"mode":', '"ANY",'],
    ]


def test_the_doctor_finds_what_will_not_work(project: Path, hookgate: Hookgate) -> None:
    path = configure(project, command("/no/such/program", name="gone"), DENY, name="hooks.json")
    code, output = hookgate("doctor", "--hooks", str(path))
    assert code == 1
    missing = "the hook 'gone': /no/such/program does not exist in"
    assert output.startswith(f"FAIL  {path}:1: hooks.BeforeModel: {missing}")
    assert f"note  BeforeModel hook 'deny' ({path}) denies even a sample event, with 'not here'\n" in output
    write_file(project, {"hooks": {"BeforeTool": [{"matcher": "write_", "hooks": [DENY]}]}}, "hooks.json")
    code, output = hookgate("doctor", "--hooks", str(path))
    assert (code, "did you mean 'write_.*'?" in output) == (1, True)
    assert output.endswith("1 hook checked, 1 problem found.\n")
    path.write_text('{"hooks": {"Never": []}}')
    code, output = hookgate("doctor", "--hooks", str(path))
    assert (code, f"FAIL  {path}:1: hooks.Never: there is no such event" in output) == (1, True)


def test_the_doctor_finds_a_missing_script(project: Path, hookgate: Hookgate) -> None:
    hook = command("python3 gone.py", name="guard", on_error="deny")
    path = configure(project, hook, name="hooks.json")
    code, output = hookgate("doctor", "--hooks", str(path))
    assert (code, output) == (
        1,
        f"FAIL  {path}:1: hooks.BeforeModel: the hook 'guard': gone.py, which python3 would run, does not "
        f"exist in {project}; check the path\n1 hook checked, 1 problem found.\n",
    )
    assert f"warning: {path}:1: " in hookgate("test", "BeforeModel", "--hooks", str(path))[1]


JSON_BROKEN = """echo '{"hookSpecificOutput": {"llm_response": {"text": "Be careful!"}}}'"""
SURPRISING = [
    (
        "BeforeModel",
        "echo it is fine",
        ("note", "printed a message for the log, 'it is fine'; a decision is"),
    ),
    (
        "BeforeModel",
        """echo hi; echo '{"decision": "deny"}'""",
        ("FAIL", "so it is not read; print one JSON"),
    ),
    ("BeforeToolSelection", "echo done", ("note", "selects only tools that the request does not declare")),
    (
        "BeforeToolSelection",
        "echo read_file,wirte_file",
        ("note", "names tools that the request does not declare: 'wirte_file'"),
    ),
    (
        "BeforeTool",
        """echo '{"decison": "deny"}'""",
        ("FAIL", "returned the key 'decison', which is not read; did you mean 'decision'?"),
    ),
    ("AfterModel", JSON_BROKEN, ("note", "so that it is no longer JSON")),
    (
        "AfterModel",
        """echo '{"hookSpecificOutput": {"llm_response": {"txt": "x"}}}'""",
        ("FAIL", "'hookSpecificOutput.llm_response.txt', which is not read; did you mean 'text'?"),
    ),
    (
        "BeforeModel",
        """echo '{"hookSpecificOutput": {"llm_request": {"messages": [{"role": "assistant"}]}}}'""",
        ("FAIL", "messages[0].role: expected 'user', 'model' or 'system', got 'assistant'"),
    ),
    ("BeforeModel", "if true", ("note", "denies even a sample event, with")),
]


@pytest.mark.parametrize(("event", "line", "finding"), SURPRISING)
def test_the_doctor_tells_of_surprising_output(
    event: str, line: str, finding: tuple[str, str], project: Path, hookgate: Hookgate
) -> None:
    path = configure(project, command(line, name="odd"), event=event, name="hooks.json")
    level, warning = finding
    output = hookgate("doctor", "--hooks", str(path))[1]
    [told] = [each for each in output.splitlines() if warning in each]
    assert told.startswith(f"{level}  {event} hook 'odd' ({path}) ")


@pytest.mark.parametrize(("event", "line", "warning"), [(e, line, w) for e, line, (_, w) in SURPRISING[1:5]])
def test_trying_tells_of_surprising_output(
    event: str, line: str, warning: str, project: Path, hookgate: Hookgate
) -> None:
    path = configure(project, command(line, name="odd", on_error="allow"), event=event, name="hooks.json")
    output = hookgate("test", event, "--hooks", str(path))[1]
    [told] = [each for each in output.splitlines() if each.startswith("--- warning: the hook ")]
    assert warning.partition(": ")[0] in told


def test_trying_shows_that_a_decision_with_other_text_is_a_failure(project: Path, hookgate: Hookgate) -> None:
    line = """echo hi; echo '{"decision": "deny"}'"""
    path = configure(project, command(line, name="odd"), event="BeforeModel", name="hooks.json")
    code, output = hookgate("test", "BeforeModel", "--hooks", str(path))
    assert code == 1
    assert "printed a decision that is not one valid JSON object on stdout" in output
    assert "=== verdict: deny" in output


def test_the_doctor_says_what_a_persistent_program_must_do(project: Path, hookgate: Hookgate) -> None:
    hook = command("cat >/dev/null", name="reads-all", persistent=True, timeout=500)
    path = configure(project, hook, name="hooks.json")
    code, output = hookgate("doctor", "--hooks", str(path))
    assert code == 1
    assert "timed out after 500 ms; because it is persistent, it must print and flush one line" in output
    assert output.count("because it is persistent") == 1


def test_the_doctor_shows_what_a_program_without_an_error_wrote_to_stderr(
    project: Path, hookgate: Hookgate
) -> None:
    path = configure(project, command("if grpe x; then echo; fi", name="guard"), name="hooks.json")
    _, output = hookgate("doctor", "--hooks", str(path))
    [told] = [line for line in output.splitlines() if "exited with code 0 but wrote to stderr: " in line]
    assert told.startswith("note")
    assert "grpe: command not found" in told


def test_the_doctor_finds_a_decision_on_stderr(project: Path, hookgate: Hookgate) -> None:
    line = """echo '{"decision": "deny"}' >&2"""
    for on_error in ("allow", "deny"):
        hook = command(line, name="guard", on_error=on_error)
        code, output = hookgate("doctor", "--hooks", str(configure(project, hook, name="hooks.json")))
        assert code == 1
        assert output.count("wrote a decision to stderr, where it is not read; print it to stdout") == 1


def test_a_similar_event_is_suggested(hookgate: Hookgate, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        hookgate("test", "beforemodel")
    assert capsys.readouterr().err.endswith("; did you mean BeforeModel?\n")


def test_claude_code_s_hooks_are_taken_over_once(project: Path, hookgate: Hookgate) -> None:
    claude = {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [command("check.sh", timeout=5)]}]}}
    write_file(project, claude, ".claude/settings.json")
    target = project / ".gemini/settings.json"
    assert "would be written to" in hookgate("migrate", "--from-claude", "--dry-run")[1]
    assert not target.exists()
    assert "written to" in hookgate("migrate", "--from-claude")[1]
    [group] = json.loads(target.read_text())["hooks"]["BeforeTool"]
    assert (group["matcher"], group["hooks"][0]["timeout"]) == ("run_shell_command", 5000)
    once = target.read_text()
    assert "were already in" in hookgate("migrate", "--from-claude")[1]
    assert target.read_text() == once


def test_without_claude_code_s_settings_the_folders_are_named(project: Path, hookgate: Hookgate) -> None:
    code, output = hookgate("migrate", "--from-claude")
    assert code == 1
    folders = f"{project / '.claude'} or {Path.home() / '.claude'}"
    assert output == f"No Claude Code settings found in {folders}.\n"


def test_the_schema_is_printed_for_editors(hookgate: Hookgate) -> None:
    assert json.loads(hookgate("schema")[1])["properties"]["hooks"]
