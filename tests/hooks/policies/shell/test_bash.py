"""The condition `runs` compared with real shells, and with the commands that agents write every day."""

import json
import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hookgate.hooks.policies.conditions import Runs

HERE = Path(__file__).parent
SPELLINGS: list[str] = json.loads((HERE / "spellings.json").read_text())
"""Commands that run the program `zap` in bash, or try to."""

DASH_SPELLINGS = [
    f"{before}{text}{after}"
    for before, after in (
        ("", ""),
        ("x=1; ", ""),
        ("if ", "; then :; fi"),
        (': "$(', ')"'),
        ("f() { ", "; }; f"),
    )
    for text in (
        *(
            "echo a &> out zap",
            "echo a &>> out zap",
            "echo a &>out A=1 zap",
            ": &> out; zap",
            "{ echo a; } &> out; zap",
        ),
        *("[[ a || zap ]]", "[[ a < /dev/null || zap ]]", "[[ a = a || ! zap ]]", "[[ zap ]] || zap"),
        *("[[ x =~ y|zap ]]", "[[ x =~ ^y|zap$ ]] | zap", "! [[ a ]] && zap", "[[ -n a\n]]\nzap"),
        *("((zap))", "((zap)) ", "((1)) || zap", "( (zap) )", "((x=1, zap))", "((zap - 1))"),
        *("[\\\n[ a || zap ]]", "[[ a ]] & zap", "[[ a &> out || zap ]]", "[[ a &> out zap ]]"),
    )
]
"""Commands that may run the program `zap` in dash, which reads some of them otherwise than bash."""

EVERYDAY = [line.replace("⏎", "\n") for line in (HERE / "everyday.txt").read_text().splitlines()]
"""Commands as agents write them, one a line, with a mark for line ends within them."""


def test_no_spelling_of_a_forbidden_program_passes() -> None:
    runs = Runs(program=("zap",))
    assert [command for command in SPELLINGS if not runs.check(command).holds] == []


def test_everyday_commands_can_be_read() -> None:
    runs = Runs(program=("rm", "curl"))
    unreadable = {
        command: finding.unreadable for command in EVERYDAY if (finding := runs.check(command)).holds
    }
    assert len(EVERYDAY) >= 400
    assert len(unreadable) <= len(EVERYDAY) * 0.02, unreadable


@pytest.mark.e2e
def test_whatever_runs_in_bash_is_denied(tmp_path: Path) -> None:
    """Programs that this machine lacks run nothing, which proves nothing about their spellings."""
    passed, ran = passed_and_ran("/bin/bash", SPELLINGS, tmp_path)
    assert passed == []
    assert ran >= 400


@pytest.mark.skipif(not Path("/bin/dash").exists(), reason="dash is not installed")
def test_whatever_runs_in_dash_is_denied(tmp_path: Path) -> None:
    passed, ran = passed_and_ran("/bin/dash", DASH_SPELLINGS, tmp_path)
    assert passed == []
    assert ran >= len(DASH_SPELLINGS) // 2


@pytest.mark.e2e
@pytest.mark.skipif(not Path("/bin/dash").exists(), reason="dash is not installed")
def test_no_spelling_for_bash_runs_in_dash_alone(tmp_path: Path) -> None:
    passed, ran = passed_and_ran("/bin/dash", SPELLINGS, tmp_path)
    assert passed == []
    assert ran >= 200


def passed_and_ran(shell: str, commands: list[str], folder: Path) -> tuple[list[str], int]:
    """The commands that run `zap` in a shell although the condition does not hold, and how many run it."""
    programs = folder / "zap-bin"
    programs.mkdir()
    (programs / "zap").write_text('#!/bin/sh\necho >> "$MARK"\n')
    (programs / "zap").chmod(0o755)
    with ThreadPoolExecutor(2) as pool:
        ran = list(
            pool.map(
                lambda number: runs_zap(shell, commands[number], folder / str(number)), range(len(commands))
            )
        )
    runs = Runs(program=("zap",))
    passed = [each for each, did in zip(commands, ran, strict=True) if did and not runs.check(each).holds]
    return passed, sum(ran)


def runs_zap(shell: str, command: str, folder: Path) -> bool:
    folder.mkdir()
    mark = folder.with_suffix(".mark")
    path = f"{folder.parent / 'zap-bin'}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
    names = {f"GIT_{role}_{key}": "a" for role in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")}
    environment = {
        "PATH": path,
        "MARK": str(mark),
        "HOME": str(folder),
        "npm_config_offline": "true",
        **names,
    }
    process = subprocess.Popen(
        [shell, "-c", command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return mark.exists()
