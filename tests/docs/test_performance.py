"""docs/performance.md and its chart match the recorded figures, and docs/detection.md those of today."""

import subprocess
import sys
from pathlib import Path

import pytest
from support.places import DOCS

ROOT = Path(__file__).parents[2]


def test_the_page_and_its_picture_show_the_stored_figures() -> None:
    command = [sys.executable, "-m", "benchmarks.gateway.pages", "--check"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout.strip(), ended.stderr) == (0, "", "")


@pytest.mark.usefixtures("shared")
def test_the_page_of_figures_of_detection_is_that_of_the_program() -> None:
    command = [sys.executable, "-m", "benchmarks.collected"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", check=True)
    page = (DOCS / "detection.md").read_text(encoding="utf-8")
    assert page == ended.stdout, "run: python -m benchmarks.collected > docs/detection.md"
