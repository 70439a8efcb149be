"""The alerts for Prometheus are valid, and fire for what they describe only."""

import shutil
import subprocess
from pathlib import Path

import pytest
from support.places import PROJECT

RULES = PROJECT / "deploy" / "prometheus" / "alerts.yml"
CASES = Path(__file__).parent / "prometheus_alerts.yml"


@pytest.fixture(scope="module")
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("needs promtool; on Debian: apt-get install prometheus")
    return found


def test_the_rules_are_valid(promtool: str) -> None:
    checked = subprocess.run([promtool, "check", "rules", RULES], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    assert f"{RULES.read_text().count('- alert:')} rules found" in checked.stdout


def test_each_rule_fires_when_it_should(promtool: str, tmp_path: Path) -> None:
    cases = tmp_path / "cases.yml"
    cases.write_text(CASES.read_text().replace("[RULES]", f"[{RULES}]"))
    tested = subprocess.run([promtool, "test", "rules", cases], capture_output=True, text=True, check=False)
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_each_rule_has_a_case() -> None:
    """Also where promtool is missing."""
    names = [line.split()[-1] for line in RULES.read_text().splitlines() if "- alert:" in line]
    assert [name for name in names if f"alertname: {name}\n" not in CASES.read_text()] == []
