"""The tables and the chart of docs/performance.md match the recorded figures."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_and_its_picture_show_the_stored_figures() -> None:
    command = [sys.executable, "-m", "benchmarks.gateway.pages", "--check"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout.strip(), ended.stderr) == (0, "", "")
