"""Mistakes in settings files that would leave a hook open or without effect are reported."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.hooks.settings import command, one_group, write_file

from hookgate.hooks import SettingsError
from hookgate.hooks.settings import Layer, SettingsSource, Subject, load_sources, read_sources

OTHERS: list[Layer] = ["explicit", "project", "user", "system", "extensions"]


def lines(*rows: str) -> str:
    """A settings file, whose rows are numbered from 1."""
    return "\n".join(rows)


HOOK = '{"type": "command", "command": "true", "name": "guard"'
SLIPS = [
    pytest.param(
        lines('{"hooks": {"BeforeModel": [{"hooks": [', f"  {HOOK},", '   "on-error": "deny"}]}]}}'),
        "3: hooks.BeforeModel: the hook 'guard': 'on-error' is not known here and has no effect; "
        "did you mean on_error?",
        id="of a hook",
    ),
    pytest.param(
        lines('{"hooks": {"BeforeModel": [{', '  "hooks": [],', '  "sequental": true}]}}'),
        "3: hooks.BeforeModel: 'sequental' is not known here and has no effect; did you mean sequential?",
        id="of a group",
    ),
    pytest.param(
        lines('{"hooksConfig": {', '  "onError": "deny"}}'),
        "2: hooksConfig: 'onError' is not known here and has no effect; did you mean on_error?",
        id="of hooksConfig",
    ),
    pytest.param(
        lines("{", '  "hookConfig": {"on_error": "deny"}}'),
        "2: 'hookConfig' is not known here and has no effect; did you mean hooksConfig?",
        id="near hooksConfig",
    ),
    pytest.param(
        lines('{"hooksConfig": {', '  "zzz": 1}}'),
        "2: hooksConfig: 'zzz' is not known here and has no effect; known keys are concurrency, deadline, "
        "disabled, enabled, http_targets, notifications, on_error, programs",
        id="near nothing",
    ),
]


@pytest.mark.parametrize(("text", "expected"), SLIPS)
def test_a_key_that_is_not_known_ends_the_start_with_a_policy(
    text: str, expected: str, tmp_path: Path
) -> None:
    path = write_file(tmp_path, text)
    with pytest.raises(SettingsError) as caught:
        load_sources([SettingsSource(path, "policy")])
    assert str(caught.value) == f"{path}:{expected}"


@pytest.mark.parametrize("layer", ["policy", "explicit"])
def test_hooks_beside_the_key_for_hooks_end_the_start(layer: Layer, tmp_path: Path) -> None:
    """They would never run, and what they should stop would pass."""
    path = write_file(tmp_path, lines("{", '  "BeforeModel": []}'))
    with pytest.raises(SettingsError) as caught:
        load_sources([SettingsSource(path, layer)])
    assert str(caught.value) == f"{path}:2: BeforeModel: has no effect here; did you mean hooks.BeforeModel?"


@pytest.mark.parametrize("layer", OTHERS)
@pytest.mark.parametrize(("text", "expected"), SLIPS)
def test_a_key_that_is_not_known_elsewhere_is_reported(
    text: str, expected: str, layer: Layer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write_file(tmp_path, text)
    load_sources([SettingsSource(path, layer)])
    assert caplog.messages == [f"{path}:{expected}"]


@pytest.mark.parametrize("layer", ["policy", *OTHERS])
def test_a_misspelled_key_for_hooks_ends_the_start_if_an_operator_names_the_file(
    layer: Layer, tmp_path: Path
) -> None:
    path = write_file(tmp_path, lines("{", '  "hook": {}}'))
    loaded = read_sources([SettingsSource(path, layer)])
    expected = [f"{path}:2: 'hook' is not known here and has no effect; did you mean hooks?"]
    found = [loaded.problems, loaded.warnings]
    assert [str(each) for each in found[layer not in ("policy", "explicit")]] == expected
    assert sum(map(len, found)) == 1


@pytest.mark.parametrize("layer", ["policy", *OTHERS])
@pytest.mark.parametrize("text", [{}, {"hooks": {}}, {"hooks": {"BeforeModel": []}}, {"ui": {}}])
def test_a_file_without_hooks_is_reported_if_an_operator_names_it(
    text: dict[str, Any], layer: Layer, tmp_path: Path
) -> None:
    path = write_file(tmp_path, text)
    loaded = read_sources([SettingsSource(path, layer)])
    expected = [f"{path}: contains no hooks; write them below the key 'hooks'"]
    assert [str(each) for each in loaded.warnings] == (expected if layer in ("policy", "explicit") else [])
    assert loaded.problems == ()


@pytest.mark.parametrize(
    "text",
    [one_group(command()), {"hooksConfig": {"disabled": ["guard"]}}, {"tools": {"enableHooks": False}}],
)
def test_a_named_file_with_hooks_or_switches_is_not_reported(text: dict[str, Any], tmp_path: Path) -> None:
    assert read_sources([SettingsSource(write_file(tmp_path, text))]).warnings == ()


def test_keys_of_gemini_cli_that_are_not_about_hooks_are_reported_of_nowhere(tmp_path: Path) -> None:
    others = {"general": {}, "ui": {"theme": "x"}, "tools": {}, "mcpServers": {}, "security": {}}
    text = {**others, **one_group(command())}
    for layer in ("policy", *OTHERS):
        loaded = read_sources([SettingsSource(write_file(tmp_path, text), layer)])  # type: ignore[arg-type]  # a layer by its name
        assert (loaded.problems, loaded.warnings) == ((), ())


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("model", "did you mean models?"),
        ("modles", "did you mean models?"),
        ("key", "did you mean keys?"),
        ("team", "did you mean teams?"),
        ("client", "did you mean clients?"),
        ("user", "known keys are clients, json, keys, models, operations, sessions, teams, tools"),
    ],
)
def test_an_unknown_condition_is_reported_with_the_one_that_was_meant(
    key: str, expected: str, tmp_path: Path
) -> None:
    path = write_file(tmp_path, one_group(command(when={key: "x"})))
    [problem] = read_sources([SettingsSource(path, "user")]).problems
    assert (
        str(problem) == f"{path}:1: hooks.BeforeModel[0].hooks[0].when.{key}: is not known here; {expected}"
    )


@pytest.mark.parametrize("value", ["true", "yes", 1, 0])
def test_a_condition_is_not_taken_for_what_it_resembles(value: Any, tmp_path: Path) -> None:
    path = write_file(tmp_path, one_group(command(when={"json": value})))
    [problem] = read_sources([SettingsSource(path, "user")]).problems
    assert "when.json: must be true or false" in str(problem)


@pytest.mark.parametrize(
    ("condition", "name", "meant"),
    [
        ("keys", "^alice$", "alice"),
        ("models", "gemini-2.5-.*", "gemini-2.5-*"),
        ("models", "models/gemini-*", "gemini-*"),
        ("tools", "^read.*$", "read*"),
        ("models", ".*", "*"),
    ],
)
def test_a_regular_expression_in_a_condition_is_a_warning(
    condition: str, name: str, meant: str, tmp_path: Path
) -> None:
    path = write_file(tmp_path, one_group(command(name="guard", when={condition: name})))
    loaded = read_sources([SettingsSource(path, "policy")])
    [warning] = loaded.warnings
    about = (
        f"{path}:1: hooks.BeforeModel: the hook 'guard': when.{condition}: {name!r} probably never matches: "
    )
    assert str(warning).startswith(about)
    assert str(warning).endswith(f"; did you mean {meant!r}?")
    assert loaded.problems == ()


def test_a_name_with_wildcards_in_a_condition_is_not_reported(tmp_path: Path) -> None:
    when = {"models": ["gemini-2.*", "*-pro"], "clients": "a.*", "keys": ["alice.*", "[ab]?"], "json": True}
    path = write_file(tmp_path, one_group(command(when=when)))
    assert read_sources([SettingsSource(path, "policy")]).warnings == ()


NEVER = "probably never matches: names are whole and without prefixes, with the wildcards *, ? and […]; "


@pytest.mark.parametrize(
    ("policy", "options", "expected"),
    [
        (
            "models",
            {"allow": ["*-flash", "gemini-.*"]},
            f"options.allow: 'gemini-.*' {NEVER}did you mean 'gemini-*'?",
        ),
        (
            "models",
            {"allow": r"gemini-2\.5-(pro|flash)"},
            f"options.allow: 'gemini-2\\\\.5-(pro|flash)' {NEVER}"
            + 'did you mean ["gemini-2.5-pro", "gemini-2.5-flash"]?',
        ),
        ("models", {"deny": "x-(lite)?"}, f"options.deny: 'x-(lite)?' {NEVER}".removesuffix("; ")),
        ("models", {"deny": "^x-pro$"}, f"options.deny: '^x-pro$' {NEVER}did you mean 'x-pro'?"),
        (
            "models",
            {"route": [{"to": "a"}, {"to": "b", "when": {"models": ["models/*-pro"]}}]},
            f"options.route.1.when.models: 'models/*-pro' {NEVER}did you mean '*-pro'?",
        ),
        (
            "limits",
            {"rules": [{"per": "key", "window": "day", "requests": 9, "models": ".*-pro"}]},
            f"options.rules.0.models: '.*-pro' {NEVER}did you mean '*-pro'?",
        ),
        (
            "tools",
            {"allow": "(read_file|read_.*)"},
            f"options.allow: '(read_file|read_.*)' {NEVER}" + 'did you mean ["read_file", "read_*"]?',
        ),
        (
            "tools",
            {"deny": [{"tool": ["glob", "write_.*"]}]},
            f"options.deny.0.tool: 'write_.*' {NEVER}did you mean 'write_*'?",
        ),
        (
            "tools",
            {"deny": [{"pattern": "write_*"}]},
            "options.deny.0.pattern: 'write_*' is written like a shell's wildcard, but is a regular "
            "expression; did you mean 'write_.*'? Names with wildcards are written in \"tool\"",
        ),
        (
            "tools",
            {"deny": [{"tool": "run_shel_command"}]},
            "options.deny.0.tool: 'run_shel_command' is not a tool of Gemini CLI; did you mean "
            "'run_shell_command'?",
        ),
        (
            "tools",
            {"allow": ["glob", "Bash"]},
            "options.allow: 'Bash' is not a tool of Gemini CLI; did you mean 'run_shell_command'?",
        ),
    ],
)
def test_a_pattern_in_the_other_notation_in_an_option_is_a_warning_at_its_line(
    policy: str, options: dict[str, Any], expected: str, tmp_path: Path
) -> None:
    hook = {"type": "builtin", "builtin": policy, "name": "house", "options": options}
    path = write_file(tmp_path, json.dumps(one_group(hook)).replace('"options"', '\n"options"'))
    loaded = read_sources([SettingsSource(path, "policy")])
    assert [str(warning) for warning in loaded.warnings] == [
        f"{path}:2: hooks.BeforeModel: the hook 'house': {expected}"
    ]
    assert loaded.problems == ()


def test_a_mistake_in_an_item_of_a_list_is_reported_at_the_line_of_the_item(tmp_path: Path) -> None:
    rules = [{"models": "gemini-*", "window": "day", "requests": 1}, {"models": "gemini-.*"}]
    hook = {"type": "builtin", "builtin": "limits", "name": "house", "options": {"rules": rules}}
    path = write_file(tmp_path, json.dumps(one_group(hook)).replace('{"models"', '\n{"models"'))
    loaded = read_sources([SettingsSource(path, "policy")])
    assert [warning.line for warning in loaded.warnings if "rules.1.models" in warning.message] == [3]


@pytest.mark.parametrize(
    ("policy", "options"),
    [
        ("models", {"allow": ["gemini-2.*", "gemini-[23]-*"], "deny": "*-pro", "set": {"x|y": 1}}),
        ("tools", {"allow": ["read_*", "mcp_?"], "deny": [{"pattern": "write_.*|replace"}, {"tool": 5}, 5]}),
        ("tools", {"deny": {"tool": ".*"}}),
        ("tools", {"allow": ["read_file", "of_my_own", "read-files"], "deny": [{"tool": "run_shel_c*"}]}),
        ("redact", {"allow": ".*"}),
    ],
)
def test_options_that_may_match_or_are_not_names_are_not_reported(
    policy: str, options: dict[str, Any], tmp_path: Path
) -> None:
    path = write_file(tmp_path, one_group({"type": "builtin", "builtin": policy, "options": options}))
    assert read_sources([SettingsSource(path, "policy")]).warnings == ()


# ---- programs that cannot be started


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    for name, mode in (("ready.sh", 0o755), ("plain.sh", 0o644)):
        path = tmp_path / name
        path.write_text("#!/bin/sh\n")
        path.chmod(mode)
    for name, text in (
        ("windows.sh", "#!/bin/sh\r\necho\r\n"),
        ("nowhere.sh", "#!/no/such/shell -e\n"),
        ("misspelled.py", "#!/usr/bin/env pyton3\n"),
        ("options.py", "#!/usr/bin/env -S none -x\n"),
        ("environment.sh", "#!/usr/bin/env sh\n"),
        ("windows.py", "print()\r\n"),
        ("bare.py", "import json\n"),
        ("bare.sh", "echo\n"),
        ("late.mjs", "\n#!/usr/bin/env node\n"),
        ("marked", "\ufeff#!/bin/sh\n"),
        ("empty", ""),
        ("binary", "\x7fELF\2\1\1\0"),
        ("binary.py", "\0"),
    ):
        (tmp_path / name).write_bytes(text.encode())
        (tmp_path / name).chmod(0o755)
    (tmp_path / "folder").mkdir()
    (tmp_path / "script.js").write_text("")
    return tmp_path


NO_LINE = "does not begin with a #! line, so "
NOT_STARTED = "it cannot be started; begin it with a line such as #!"
AS_SHELL = "a shell would read it as its own commands; begin it with a line such as #!/usr/bin/env"


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        pytest.param("./plain.sh", "./plain.sh is not executable; run: chmod +x ", id="line"),
        pytest.param(["./plain.sh", "-v"], "./plain.sh is not executable; run: chmod +x ", id="list"),
        pytest.param("A=1 ./plain.sh | cat", "./plain.sh is not executable; ", id="after a variable"),
        pytest.param("$GEMINI_PROJECT_DIR/plain.sh", "/plain.sh is not executable; ", id="in the project"),
        pytest.param('"${GEMINI_CWD}/plain.sh" x', "/plain.sh is not executable; ", id="quoted"),
        pytest.param("./none.sh", "./none.sh does not exist in ", id="missing"),
        pytest.param(["/no/such"], "/no/such does not exist in ", id="missing elsewhere"),
        pytest.param(["./folder"], "./folder is a folder; use the path of a program", id="folder"),
        pytest.param("./windows.sh", "./windows.sh has Windows line ends; save it with Unix ", id="CRLF"),
        pytest.param("bash windows.sh", "which bash would run, has Windows line ends; ", id="CRLF for bash"),
        pytest.param(["./nowhere.sh"], "'/no/such/shell' of its #! line does not exist; ", id="interpreter"),
        pytest.param("./misspelled.py", "pyton3 of its #! line is not on the PATH; ", id="program of env"),
        pytest.param("./bare.py", f"./bare.py {NO_LINE}{AS_SHELL} python3", id="no #! line"),
        pytest.param(["./bare.py"], f"./bare.py {NO_LINE}{NOT_STARTED}/usr/bin/env python3", id="list of it"),
        pytest.param(["./bare.sh"], f"./bare.sh {NO_LINE}{NOT_STARTED}/bin/sh", id="list of a shell script"),
        pytest.param("./late.mjs", f"./late.mjs {NO_LINE}{AS_SHELL} node", id="late #! line"),
        pytest.param(["./marked"], f"./marked {NO_LINE}{NOT_STARTED}/bin/sh", id="byte order mark"),
        pytest.param(["./empty"], f"./empty {NO_LINE}{NOT_STARTED}/bin/sh", id="empty script"),
        pytest.param("bash ./x.sh", "./x.sh, which bash would run, does not exist in ", id="bash"),
        pytest.param("sh -e x.sh", "x.sh, which sh would run, ", id="sh with an option"),
        pytest.param("bash -euo pipefail x.sh", "x.sh, which bash would run, ", id="an option with a value"),
        pytest.param("bash folder", "folder, which bash would run, is a folder; ", id="a folder as a script"),
        pytest.param("python3 missing.py", "missing.py, which python3 would run, ", id="python"),
        pytest.param(
            "python3 -uX dev -W error gone.py a", "gone.py, which python3 would run, ", id="options"
        ),
        pytest.param("X=1 /usr/bin/env python3 -- gone.py", "gone.py, which python3 would run, ", id="env"),
        pytest.param("exec node hooks/guard.js", "hooks/guard.js, which node would run, ", id="node"),
        pytest.param(
            "node --no-warnings -r x gone.js", "gone.js, which node would run, ", id="node's options"
        ),
        pytest.param("uv run guard.py", "guard.py, which uv would run, ", id="uv"),
        pytest.param("uv run -q --with x python y.py", "y.py, which python would run, ", id="python of uv"),
        pytest.param("cat | python3 gone.py 2>log", "gone.py, which python3 would run, ", id="pipeline"),
        pytest.param("cat |& sh gone.sh", "gone.sh, which sh would run, ", id="pipeline of both outputs"),
        pytest.param("env A=1 B=2 sh gone.sh", "gone.sh, which sh would run, ", id="env with variables"),
        pytest.param(
            "python3 gone.py 2>&1; exit 0", "gone.py, which python3 would run, ", id="first of a line"
        ),
        pytest.param("python3 \\\n  gone.py\necho", "gone.py, which python3 would run, ", id="several lines"),
        pytest.param("python3 $GEMINI_CWD/gone.py", "/gone.py, which python3 would run, ", id="variable"),
        pytest.param(["sh", "gone.sh"], "gone.sh, which sh would run, does not exist in ", id="list of sh"),
        pytest.param(
            ["sh", "$GEMINI_CWD/ready.sh"],
            "; variables are expanded in a command line, but not in a list",
            id="variable in a list",
        ),
    ],
)
def test_a_program_that_cannot_be_started_is_reported_at_load(
    program: Any, expected: str, scripts: Path
) -> None:
    path = write_file(scripts, one_group(command(program, name="guard")))
    [warning] = read_sources([SettingsSource(path, "user")]).warnings
    assert str(warning).startswith(f"{path}:1: hooks.BeforeModel: the hook 'guard': ")
    assert expected in str(warning)
    with pytest.raises(SettingsError) as caught:
        load_sources([SettingsSource(path, "policy")])
    assert str(caught.value) == str(warning)


def test_a_variable_that_is_not_set_is_reported_at_its_line(
    scripts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GUARD_URL", "http://127.0.0.1")
    monkeypatch.delenv("GUARD_TOKEN", raising=False)
    guard = command("./ready.sh", name="guard", env={"URL": "$GUARD_URL/x", "TOKEN": "Bearer ${GUARD_TOKEN}"})
    path = scripts / "settings.json"
    path.write_text(json.dumps(one_group(guard), indent=1))
    line = path.read_text().splitlines().index('       "TOKEN": "Bearer ${GUARD_TOKEN}"') + 1
    for layer in ("user", "policy"):
        [warning] = read_sources([SettingsSource(path, layer)]).warnings
        assert str(warning) == (
            f"{path}:{line}: hooks.BeforeModel: the hook 'guard': env.TOKEN: $GUARD_TOKEN is not set in "
            "hookgate's environment, so it is empty"
        )


@pytest.mark.parametrize(
    "program",
    [
        "./ready.sh",
        ["./ready.sh"],
        "sh plain.sh",
        "cat ./plain.sh",
        "$HOME/none.sh",
        "$(which sh)/x",
        "~/none.sh",
        "./options.py",
        "./environment.sh",
        "./bare.sh",
        "./empty",
        ["./binary"],
        "./binary.py",
        "python3 windows.py",
        "none",
        "if [ -e x ]; then ./none.sh; fi",
        "./ready.sh; ./other.sh",
        "echo 'a",
        "sh -c ./none.sh",
        "bash -ec 'none.sh'",
        "bash -s x.sh",
        "ls",
        "sh -e plain.sh none.sh",
        "bash -o pipefail plain.sh",
        "python3 -m none",
        "python3 -Im none",
        "python3 -c 'import none'",
        "python3 - none.py",
        "python3 -W error folder",
        "python3 --version",
        "python3 $HOME/none.py",
        "python3 <<EOF\nprint(1)\nEOF",
        "python3 *.py",
        "cat x > none.sh; sh none.sh",
        "test -e none.sh && sh none.sh",
        "python3 || none.py",
        "cd folder\nsh none.sh",
        "cd folder && python3 none.py",
        "node -e 'process.exit()' none",
        "node --eval 1",
        "node --unknown none.js",
        "node script",
        "uv run pytest none",
        "uv run -m none",
        "uv run https://example.com/none.py",
        "uv run --unknown x none.py",
        "env python3",
        "(cd folder; python3 none.py)",
        ["python3", "-c", "none"],
    ],
)
def test_a_program_that_starts_or_that_only_the_shell_can_find_is_not_reported(
    program: Any, scripts: Path
) -> None:
    loaded = read_sources([SettingsSource(write_file(scripts, one_group(command(program))), "policy")])
    assert loaded.problems == ()


def test_a_variable_that_the_hook_sets_is_the_shell_s_to_expand(scripts: Path) -> None:
    config = command("sh $GEMINI_CWD/none.sh", env={"GEMINI_CWD": "/elsewhere"})
    assert read_sources([SettingsSource(write_file(scripts, one_group(config)), "policy")]).problems == ()


@pytest.mark.parametrize("layer", ["policy", "user"])
@pytest.mark.parametrize("program", ["pyton3 ready.sh", ["pyton3", "-v"], "A=1 pyton3 | cat"])
def test_a_program_that_is_not_on_the_path_is_a_warning(program: Any, layer: Layer, scripts: Path) -> None:
    path = write_file(scripts, one_group(command(program, name="guard")))
    loaded = read_sources([SettingsSource(path, layer)])
    [warning] = loaded.warnings
    expected = "there is no program pyton3 on the PATH; check the name, or use the program's path"
    assert str(warning) == f"{path}:1: hooks.BeforeModel: the hook 'guard': {expected}"
    assert (warning.breaks_hook, loaded.problems) == (True, ())


@pytest.mark.parametrize(
    "config",
    [
        command("no-such-program", env={"PATH": "$HOME/bin"}),
        command("f() { none; }; f"),
        command("while false; do none; done"),
        command("true"),
        command("[ -e x ] && none"),
        command(["sh", "ready.sh"]),
    ],
    ids=lambda config: str(config["command"]),
)
def test_a_program_that_a_shell_or_the_hook_s_path_finds_is_not_reported(config: Any, scripts: Path) -> None:
    assert read_sources([SettingsSource(write_file(scripts, one_group(config)), "policy")]).warnings == ()


@pytest.mark.parametrize("layer", ["policy", "user"])
def test_a_timeout_that_is_probably_in_seconds_is_a_warning(layer: Layer, tmp_path: Path) -> None:
    path = write_file(tmp_path, one_group(command(name="guard", timeout=2), command(timeout=50)))
    loaded = read_sources([SettingsSource(path, layer)])
    [warning] = loaded.warnings
    expected = "the hook 'guard': timeout: 2 is in milliseconds; for seconds, write 2000"
    assert str(warning) == f"{path}:1: hooks.BeforeModel: {expected}"
    assert loaded.problems == ()


def test_a_shell_searches_its_path_for_a_script(scripts: Path) -> None:
    (scripts / "folder/found.sh").write_text("")
    config = command("bash found.sh", env={"PATH": str(scripts / "folder")})
    assert read_sources([SettingsSource(write_file(scripts, one_group(config)), "policy")]).problems == ()


def test_each_warning_names_the_line_of_what_it_is_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GUARD_TOKEN", raising=False)
    guard = command("pyton3", when={"models": ".*"}, env={"TOKEN": "$GUARD_TOKEN"}, timeout=2)
    gone = command("./gone.sh")
    house = {"type": "builtin", "builtin": "tools", "options": {"allow": ["Bash"]}, "modes": "observe"}
    group = one_group(guard, gone, house, event="BeforeTool", matcher="wirte_file")
    path = write_file(tmp_path, json.dumps(group, indent=1))
    warnings = read_sources([SettingsSource(path, "user")]).warnings
    rows = path.read_text().splitlines()
    about = [rows[warning.line - 1].strip(" ,") for warning in warnings if warning.line is not None]
    assert sorted(about) == [
        '"TOKEN": "$GUARD_TOKEN"', '"allow": [', '"command": "./gone.sh"', '"command": "pyton3"',
        '"matcher": "wirte_file"', '"models": ".*"', '"modes": "observe"', '"timeout": 2',
    ]  # fmt: skip
    breaks_hook = {about[index] for index, warning in enumerate(warnings) if warning.breaks_hook}
    assert breaks_hook == {'"command": "./gone.sh"', '"command": "pyton3"'}


GUARD = command("true", name="guard")
TOLERATED = {
    "an unknown event": (
        {"hooks": {"BeforeTol": [{"hooks": [GUARD]}]}},
        "did you mean BeforeTool?; its hooks are",
    ),
    "an event beside the key for hooks": ({"BeforeTool": [{"hooks": [GUARD]}]}, "has no effect here"),
    "a hook without a type": (one_group({"command": "x", "name": "guard"}), "type: is missing"),
    "a hook of another type": (
        one_group({"type": "plugin", "name": "guard"}),
        "there is no hook type 'plugin'",
    ),
    "a hook without a command": (one_group({"type": "command", "name": "guard"}), "command: is missing"),
    "a group without a list": ({"hooks": {"BeforeModel": {"hooks": [GUARD]}}}, "must be a list of groups"),
    "hooks beside no group": ({"hooks": {"BeforeModel": [GUARD]}}, "hooks: is missing"),
}


@pytest.mark.parametrize(("settings", "expected"), TOLERATED.values(), ids=list(TOLERATED))
@pytest.mark.parametrize("layer", ["project", "user", "system", "extensions"])
def test_hooks_that_gemini_cli_leaves_out_are_named_and_no_error_in_its_own_layers(
    settings: Any, expected: str, layer: Layer, tmp_path: Path
) -> None:
    path = write_file(tmp_path, settings)
    source = SettingsSource(path, layer, trusted=True)
    loaded = read_sources([source])
    assert (loaded.problems, loaded.ignored) == ((), ())
    [warning] = loaded.warnings
    assert expected in str(warning)
    assert str(warning).endswith("; its hooks are left out: 'guard'")
    assert warning.breaks_hook
    with pytest.raises(SettingsError):
        load_sources([SettingsSource(path)])


def test_a_matcher_that_is_no_regular_expression_is_compared_as_text_in_gemini_cli_s_layers(
    tmp_path: Path,
) -> None:
    path = write_file(tmp_path, one_group(GUARD, event="BeforeTool", matcher="*_file"))
    loaded = read_sources([SettingsSource(path, "user")])
    [warning] = loaded.warnings
    assert "it is compared as text, as in Gemini CLI" in str(warning)
    assert str(warning).endswith("did you mean '.*_file'?")
    matching = loaded.configuration.matching_groups
    assert matching("BeforeTool", Subject(tools=("*_file",)))
    assert not matching("BeforeTool", Subject(tools=("read_file",)))
    with pytest.raises(SettingsError):
        load_sources([SettingsSource(path)])


@pytest.mark.parametrize("mistake", [{"timeout": "5"}, {"on_error": "never"}, {"when": {"model": "x"}}])
def test_a_wrong_value_ends_the_start_in_the_user_s_layer_as_well(mistake: Any, tmp_path: Path) -> None:
    path = write_file(tmp_path, one_group({**GUARD, **mistake}))
    with pytest.raises(SettingsError):
        load_sources([SettingsSource(path, "user")])
