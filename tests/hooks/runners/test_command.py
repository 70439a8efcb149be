"""Command hooks: their shell, environment and folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.hooks.settings import SESSION, asking, command, one_group, write_file
from support.programs.processes import run_process

from hookgate.hooks import Engine, load_settings
from hookgate.hooks.runners.command import (
    command_program,
    hook_environment,
    in_session,
    quote_project_variables,
)
from hookgate.hooks.settings import CommandConfig, Hook, SettingsSource, read_sources

NAMES = ["GEMINI_PROJECT_DIR", "GEMINI_CWD", "GEMINI_PLANS_DIR", "CLAUDE_PROJECT_DIR"]


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """A project whose path holds what shells trip over."""
    folder = tmp_path / 'it\'s my "$HOME" `id` *'
    folder.mkdir()
    return folder


def hook(root: Path, line: str = "true", env: Mapping[str, str] | None = None) -> Hook:
    config = CommandConfig(type="command", command=line, env=dict(env or {}))
    return Hook("guard", config, root, root / "settings.json")


async def printed(root: Path, line: str, env: Mapping[str, str] | None = None, session: str = "s-1") -> str:
    each = hook(root, line, env)
    assert isinstance(each.config, CommandConfig)
    ended = await run_process(in_session(command_program(each, each.config), session), b"")
    assert (ended.exit_code, ended.stderr) == (0, b"")
    return ended.stdout.decode()


# ---- the command line


@pytest.mark.parametrize("form", ["$GEMINI_CWD", "${GEMINI_CWD}", '"$GEMINI_CWD"', '"${GEMINI_CWD}"'])
async def test_the_project_s_path_is_one_word_quoted_or_not(form: str, odd: Path) -> None:
    assert await printed(odd, f"printf '<%s>' a {form}/b c") == f"<a><{odd}/b><c>"


@pytest.mark.parametrize(
    "line",
    [
        'printf \'%s\' "$(basename "$GEMINI_CWD")"',
        "printf '%s' \"`basename $GEMINI_CWD`\"",
        'x="$(cd "$GEMINI_CWD" && pwd)"; printf \'%s\' "${x##*/}"',
    ],
)
def test_a_command_within_quotes_is_left_to_its_author(line: str) -> None:
    assert quote_project_variables(line) == line


async def test_quotes_within_a_command_within_quotes_keep_their_meaning(odd: Path) -> None:
    assert await printed(odd, 'printf \'%s\' "$(basename "$GEMINI_CWD")"') == odd.name


@pytest.mark.parametrize("text", ["'$GEMINI_CWD'", r"\$GEMINI_CWD", r'"\$GEMINI_CWD"'])
async def test_what_the_shell_would_not_expand_stays_as_it_is(text: str, odd: Path) -> None:
    assert await printed(odd, f"printf %s {text}") == "$GEMINI_CWD"


async def test_quotes_around_a_part_of_a_word_may_stay(odd: Path) -> None:
    assert await printed(odd, "printf '<%s>' 'a '$GEMINI_CWD\" b\"") == f"<a {odd} b>"


async def test_a_here_document_is_left_as_it_is(odd: Path) -> None:
    assert await printed(odd, 'cat <<END\n$GEMINI_CWD "it\'s"\nEND') == f'{odd} "it\'s"\n'


@pytest.mark.parametrize(
    "line", ["echo $GEMINI_CWD_OLD", "echo $HOME ${x[1]}", "echo ${GEMINI_CWD:-x}", "a $b"]
)
def test_other_variables_are_the_shell_s_business(line: str) -> None:
    assert quote_project_variables(line) == line


async def test_command_lines_are_written_for_bash(odd: Path) -> None:
    line = "words=(a b); [[ ${words[1]} == b* ]] && cat <(echo ${words[@]^^})"
    assert await printed(odd, line) == "A B\n"


async def test_a_session_s_name_is_never_run(odd: Path) -> None:
    session = "'; touch pwned; $(touch pwned) `touch pwned` \""
    assert await printed(odd, "printf %s $GEMINI_SESSION_ID", session=session) == session
    assert not (odd / "pwned").exists()


# ---- environment and folder


async def test_a_hook_runs_in_its_project(odd: Path) -> None:
    assert await printed(odd, "pwd") == f"{odd}\n"


def test_a_hook_finds_the_contract_s_variables(tmp_path: Path) -> None:
    found = hook_environment(hook(tmp_path), {}, {})
    plans = str(tmp_path / ".gemini" / "plans")
    assert found == dict(zip(NAMES, [str(tmp_path), str(tmp_path), plans, str(tmp_path)], strict=True))


def test_the_contract_s_variables_outrank_the_parent_s_and_the_hook_s_own_outrank_both(
    tmp_path: Path,
) -> None:
    parent = {"GEMINI_CWD": "/elsewhere", "GEMINI_PLANS_DIR": "/other", "LANG": "C"}
    found = hook_environment(hook(tmp_path), {"GEMINI_CWD": "mine", "LANG": "de"}, parent)
    plans = str(tmp_path / ".gemini" / "plans")
    assert (found["GEMINI_CWD"], found["GEMINI_PLANS_DIR"], found["LANG"]) == ("mine", plans, "de")


async def test_the_session_outranks_the_parent_s_and_the_hook_s_own_outranks_both(
    odd: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEMINI_SESSION_ID", "the parent's")
    assert await printed(odd, "printf %s $GEMINI_SESSION_ID", session="s-1") == "s-1"
    own = {"GEMINI_SESSION_ID": "mine"}
    assert await printed(odd, "printf %s $GEMINI_SESSION_ID", own, session="s-1") == "mine"


INHERITED = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM", "TMPDIR",
    "VIRTUAL_ENV", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS",
)  # fmt: skip
SECRET = (
    "GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY", "OPENAI_API_KEY",
    "AWS_SECRET_ACCESS_KEY", "HOOKGATE_ADMIN__TOKEN", "HOOKGATE_STORE__URL", "OTEL_EXPORTER_OTLP_HEADERS",
    "HTTPS_PROXY", "http_proxy", "DATABASE_URL", "PGPASSWORD", "XPATH", "PATH_TOKEN", "LC_",
    "XDG_SESSION_COOKIE", "path",
)  # fmt: skip


def test_a_hook_inherits_what_programs_need_and_nothing_that_may_hold_a_secret(tmp_path: Path) -> None:
    parent = dict.fromkeys((*INHERITED, *SECRET), "canary")
    found = hook_environment(hook(tmp_path), {}, parent)
    assert {name for name, value in found.items() if value == "canary"} == set(INHERITED)


async def test_a_program_sees_what_it_inherits_as_it_is_and_no_secret(
    odd: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_TIME", "a  b")
    for name in SECRET:
        monkeypatch.setenv(name, "canary-key")
    assert await printed(odd, 'printf %s "$LC_TIME"') == "a  b"
    assert "canary-key" not in await printed(odd, "env; cat /proc/self/environ | tr '\\0' '\\n'")


def test_a_hook_s_env_names_any_other_variable(tmp_path: Path) -> None:
    parent = {"HTTPS_PROXY": "http://proxy.example:3128"}
    found = hook_environment(hook(tmp_path), {"HTTPS_PROXY": "$HTTPS_PROXY"}, parent)
    assert found["HTTPS_PROXY"] == parent["HTTPS_PROXY"]


@pytest.mark.parametrize("form", ["$GEMINI_API_KEY", "${GEMINI_API_KEY}"])
def test_a_key_that_the_hook_s_env_names_does(form: str, tmp_path: Path) -> None:
    named = {"KEY": form, "GEMINI_API_KEY": f"<{form}>"}
    found = hook_environment(hook(tmp_path), named, {"GEMINI_API_KEY": "secret"})
    assert (found["KEY"], found["GEMINI_API_KEY"]) == ("secret", "<secret>")


def test_an_unset_variable_in_the_hook_s_env_is_empty(tmp_path: Path) -> None:
    assert hook_environment(hook(tmp_path), {"A": "x${NONE}y$NONE"}, {})["A"] == "xy"


# ---- scripts that vanished


def guarded(folder: Path, line: str, **more: Any) -> Engine:
    return Engine(load_settings([write_file(folder, one_group(command(line, name="guard", **more)))]))


@pytest.mark.parametrize(
    ("line", "script"),
    [
        ("python3 g.py", "g.py"),
        ("exec python3 -u ./g.py x", "g.py"),
        ('python3 "$GEMINI_PROJECT_DIR"/g.py', "g.py"),
        ("dash g.sh", "g.sh"),
        ("bash ./g.sh", "g.sh"),
        ("./g.sh", "g.sh"),
        ("cat | python3 g.py", "g.py"),
    ],
)
@pytest.mark.parametrize("on_error", ["allow", "deny"])
async def test_a_script_that_vanished_is_a_failure_and_no_decision(
    line: str, script: str, on_error: str, tmp_path: Path
) -> None:
    """Python and dash end with 2 if they do not find their script, which is the exit code of a denial."""
    path = write_file(tmp_path, "#!/bin/sh\nexit 0\n" if script == "g.sh" else "", script)
    path.chmod(0o755)
    engine = guarded(tmp_path, line, on_error=on_error)
    path.unlink()
    outcome = await engine.fire(asking("hi"), SESSION)
    assert outcome.runs[0].failure is not None
    assert outcome.verdict.denied is (on_error == "deny")
    assert str(tmp_path) not in outcome.verdict.reason


@pytest.mark.parametrize(
    "text",
    [
        "import os, sys; os.remove('g.py'); print('no'); sys.exit(2)",
        "import os, sys; os.remove('g.py'); sys.stderr.write('g.py says no'); sys.exit(2)",
        "import sys; sys.stderr.write(\"can't open file 'g.py': no\"); sys.exit(2)",
    ],
)
async def test_the_denial_of_a_script_counts_even_if_it_is_gone_afterwards(text: str, tmp_path: Path) -> None:
    write_file(tmp_path, text, "g.py")
    outcome = await guarded(tmp_path, "python3 g.py", on_error="allow").fire(asking("hi"), SESSION)
    assert outcome.verdict.denied
    assert "no" in outcome.verdict.reason


async def test_the_reason_of_a_denial_has_no_path_of_the_hook_s_folder(tmp_path: Path) -> None:
    write_file(tmp_path, "", "g.py")
    line = 'cd . && python3 "$GEMINI_PROJECT_DIR/helpers/gone.py"'
    outcome = await guarded(tmp_path, line).fire(asking("hi"), SESSION)
    assert outcome.verdict.denied
    assert "'helpers/gone.py'" in outcome.verdict.reason
    assert str(tmp_path) not in outcome.verdict.reason


# ---- variables that are not set


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("python3 ${PLUGIN_ROOT}/g.py", ["PLUGIN_ROOT"]),
        ('"$PLUGIN_ROOT/run" "$OTHER"', ["PLUGIN_ROOT", "OTHER"]),
        ("A_DIR=. && $A_DIR/run ${B_DIR:-x} '$C_DIR' \\$D_DIR", []),
        ("for NAME in a b; do echo $NAME $GEMINI_CWD $HOME $PWD $RANDOM; done", []),
        ("while read -r ONE TWO; do echo $ONE $TWO; done", []),
        (". ./env.sh; $FROM_FILE/run", []),
        ("echo $GIVEN", []),
    ],
)
def test_variables_that_are_not_set_are_reported_by_name(line: str, names: list[str], tmp_path: Path) -> None:
    path = write_file(tmp_path, one_group(command(line, env={"GIVEN": "x"})))
    warnings = [str(warning) for warning in read_sources([SettingsSource(path, "policy")]).warnings]
    found = [warning.partition("command: $")[2].split()[0] for warning in warnings if "command: $" in warning]
    assert found == names
