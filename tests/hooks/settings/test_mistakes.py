"""Slips in settings files that would leave a hook open or without effect, and what is told of them."""

from pathlib import Path
from typing import Any

import pytest
from support.hooks import command, one_group, write_file

from hookgate.hooks import SettingsError
from hookgate.hooks.settings import Layer, SettingsSource, load_sources, read_sources

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
        lines("{", '  "Hooks": {}}'),
        "2: 'Hooks' is not known here and has no effect; did you mean hooks?",
        id="near hooks",
    ),
    pytest.param(
        lines("{", '  "BeforeModel": []}'),
        "2: 'BeforeModel' has no effect here; did you mean hooks.BeforeModel?",
        id="an event by itself",
    ),
    pytest.param(
        lines('{"hooksConfig": {', '  "zzz": 1}}'),
        "2: hooksConfig: 'zzz' is not known here and has no effect; known keys are concurrency, deadline, "
        "disabled, enabled, http_targets, notifications, on_error",
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


@pytest.mark.parametrize("layer", OTHERS)
@pytest.mark.parametrize(("text", "expected"), SLIPS)
def test_a_key_that_is_not_known_elsewhere_is_reported(
    text: str, expected: str, layer: Layer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write_file(tmp_path, text)
    load_sources([SettingsSource(path, layer)])
    assert caplog.messages == [f"{path}:{expected}"]


def test_keys_of_gemini_cli_that_are_not_about_hooks_are_reported_of_nowhere(tmp_path: Path) -> None:
    text = {"general": {}, "ui": {"theme": "x"}, "tools": {}, "mcpServers": {}, "security": {}, "hooks": {}}
    for layer in ("policy", *OTHERS):
        loaded = read_sources([SettingsSource(write_file(tmp_path, text), layer)])  # type: ignore[arg-type]  # a layer by its name
        assert (loaded.problems, loaded.warnings) == ((), ())


# ---- programs that cannot be started


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    for name, mode in (("ready.sh", 0o755), ("plain.sh", 0o644)):
        path = tmp_path / name
        path.write_text("#!/bin/sh\n")
        path.chmod(mode)
    (tmp_path / "folder").mkdir()
    return tmp_path


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
        "none",
        "if [ -e x ]; then ./none.sh; fi",
        "./ready.sh; ./other.sh",
        "echo 'a",
    ],
)
def test_a_program_that_starts_or_is_the_shell_s_to_find_is_not_told_of(program: Any, scripts: Path) -> None:
    loaded = read_sources([SettingsSource(write_file(scripts, one_group(command(program))), "policy")])
    assert loaded.problems == ()
