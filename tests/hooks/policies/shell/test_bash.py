"""The condition `runs` compared with a real bash, and with the commands that agents write every day."""

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

EVERYDAY = [line.replace("⏎", "\n") for line in (HERE / "everyday.txt").read_text().splitlines()]
"""Commands as agents write them, one a line, with a mark for line ends within them."""


@pytest.mark.parametrize("command", SPELLINGS, ids=range(len(SPELLINGS)))
def test_no_spelling_of_a_forbidden_program_passes(command: str) -> None:
    assert Runs(program=("zap",)).check(command).holds


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
    programs = tmp_path / "zap-bin"
    programs.mkdir()
    (programs / "zap").write_text('#!/bin/sh\necho >> "$MARK"\n')
    (programs / "zap").chmod(0o755)
    with ThreadPoolExecutor(2) as pool:
        ran = list(
            pool.map(
                lambda number: runs_zap(SPELLINGS[number], tmp_path / str(number)), range(len(SPELLINGS))
            )
        )
    runs = Runs(program=("zap",))
    assert [
        command for command, did in zip(SPELLINGS, ran, strict=True) if did and not runs.check(command).holds
    ] == []
    assert sum(ran) >= 400


def runs_zap(command: str, folder: Path) -> bool:
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
        ["/bin/bash", "-c", command],
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
