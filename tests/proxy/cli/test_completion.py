"""`hookgate completion`: what bash completes with the script, and that every shell has one."""

import shutil
import subprocess
from pathlib import Path

import pytest
from support.programs.program import run

BASH = shutil.which("bash")


async def script(shell: str) -> str:
    ran = await run("completion", shell)
    assert ran.code == 0, ran
    return ran.out


@pytest.mark.skipif(BASH is None, reason="bash is not installed")
@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("hookgate se", ["serve"]),
        ("hookgate audit ver", ["verify"]),
        ("hookgate hooks test BeforeT", ["BeforeToolSelection", "BeforeTool"]),
        ("hookgate serve --conf", ["--config"]),
        ("hookgate serve --config hook", ["hookgate.toml"]),
    ],
)
async def test_bash_completes_commands_flags_values_and_files(
    words: str, completed: list[str], tmp_path: Path
) -> None:
    (tmp_path / "hookgate.toml").touch()
    (tmp_path / "completion").write_text(await script("bash"))
    complete = f"source completion; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))"
    ended = subprocess.run(  # noqa: ASYNC221  # nothing else runs meanwhile
        [str(BASH), "-c", f'{complete}; _shtab_hookgate; printf "%s\\n" "${{COMPREPLY[@]}}"'],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.split() == completed


@pytest.mark.parametrize("shell", ["zsh", "fish", "powershell"])
async def test_each_shell_has_a_script_with_all_commands(shell: str) -> None:
    written = await script(shell)
    assert all(command in written for command in ("accept-restore", "migrate", "rotate"))


async def test_an_unknown_shell_is_an_error_that_names_the_known_ones() -> None:
    ran = await run("completion", "csh")
    assert (ran.code, "bash" in ran.err) == (2, True)
