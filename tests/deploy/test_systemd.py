"""deploy/systemd: systemd accepts the unit, and rates its exposure as low."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from support.places import PROJECT
from support.programs.commands import missing

from hookgate.proxy.config.reading import read_config

UNIT = PROJECT / "deploy" / "systemd" / "hookgate.service"


@pytest.fixture
def analyze() -> str:
    found = shutil.which("systemd-analyze")
    if found is None:
        missing("needs systemd-analyze; on Debian: apt-get install systemd")
    return found


def test_systemd_accepts_the_unit(analyze: str, tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/hookgate/bin/hookgate", "/bin/true"))
    ran = subprocess.run([analyze, "verify", unit], capture_output=True, text=True, check=False)
    assert [line for line in ran.stderr.splitlines() if UNIT.name in line] == []


def test_the_unit_leaves_little_exposed(analyze: str) -> None:
    words = [analyze, "security", "--offline=true", "--no-pager", UNIT]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    level = re.search(r"Overall exposure level for hookgate.service: ([\d.]+)", ran.stdout)
    assert level is not None, ran.stderr
    assert float(level[1]) <= 2


def test_the_settings_of_a_team_name_files_that_the_unit_may_read(tmp_path: Path) -> None:
    """The page has a command that adapts the settings of containers."""
    page = (PROJECT / "docs" / "deploying.md").read_text()
    [command] = re.findall(r"^    (sed .*deploy/team/hookgate\.toml) >", page, re.MULTILINE)
    adapted = subprocess.run(shlex.split(command), cwd=PROJECT, capture_output=True, text=True, check=True)
    toml = tmp_path / "hookgate.toml"
    toml.write_text(adapted.stdout)
    config = read_config({"config": str(toml)}, {}).config
    files = [
        config.admin.token_file,
        config.upstream.gemini_key_file,
        config.clients.pepper_file,
        config.store.url_file,
        *config.hooks.policy,
    ]
    assert {path.parent for path in files if path} == {Path("/etc/hookgate/secrets"), Path("/etc/hookgate")}
    assert all(files)


def test_the_page_installs_the_hooks_of_the_example_before_the_unit_starts() -> None:
    page = (PROJECT / "docs" / "deploying.md").read_text()
    before_start = page.partition("## systemd")[2].partition("systemctl enable --now")[0]
    [policy] = read_config({"config": str(PROJECT / "examples" / "hookgate.toml")}, {}).config.hooks.policy
    assert re.search(rf"^    install -m 644 \S+ /etc/hookgate/{policy.name} ", before_start, re.MULTILINE)


def test_a_folder_of_settings_has_the_mode_that_the_page_gives_it() -> None:
    page = (PROJECT / "docs" / "deploying.md").read_text()
    mode = re.search(r"^    install -d -m (\d+) -g hookgate /etc/hookgate$", page, re.MULTILINE)
    assert mode is not None
    assert f"ConfigurationDirectoryMode=0{mode[1]}\n" in UNIT.read_text()


def test_a_gateway_that_a_reload_has_ended_while_it_was_starting_is_started_again() -> None:
    """SIGHUP ends a process that has no handler yet, and systemd counts that as a success."""
    assert "Restart=always\n" in UNIT.read_text()


def test_a_stop_waits_for_the_calls_in_progress() -> None:
    seconds = re.search(r"TimeoutStopSec=(\d+)s", UNIT.read_text())
    assert seconds is not None
    assert int(seconds[1]) > 60  # limits.drain_timeout
