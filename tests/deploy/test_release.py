""".github/workflows/release.yml: valid for GitHub, and careful with its rights."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.places import PROJECT
from support.programs.commands import missing

from hookgate.proxy import __version__

yaml = pytest.importorskip("yaml", reason="needs PyYAML: run `make install`")

FILE = PROJECT / ".github" / "workflows" / "release.yml"
WORKFLOW: dict[Any, Any] = yaml.safe_load(FILE.read_text())


def test_it_has_the_schema_of_workflows() -> None:
    program = shutil.which("check-jsonschema", path=str(Path(sys.executable).parent))
    if program is None:
        missing("needs check-jsonschema: run `make install`")
    words = [program, "--builtin-schema", "vendor.github-workflows", FILE]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout


def test_only_a_tag_publishes() -> None:
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert WORKFLOW["jobs"]["publish"]["if"] == "github.ref_type == 'tag'"
    image = WORKFLOW["jobs"]["image"]["steps"]
    [push] = [step["with"]["push"] for step in image if step.get("id") == "build"]
    assert push == "${{ github.ref_type == 'tag' }}"


def test_every_action_is_pinned_to_a_commit() -> None:
    used = re.findall(r"uses: (.+)", FILE.read_text())
    assert used
    assert [each for each in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v[\d.]+", each)] == []


def test_only_jobs_after_the_checks_have_rights() -> None:
    jobs = WORKFLOW["jobs"]
    assert "permissions" not in jobs["package"]  # so it has those of the workflow: to read
    assert jobs["image"]["needs"] == "package"
    assert "package" in jobs["publish"]["needs"]


def test_the_base_of_the_image_is_pinned_by_its_digest() -> None:
    bases = re.findall(r"^FROM (\S+:\S+)", (PROJECT / "Dockerfile").read_text(), re.M)
    assert bases
    assert [base for base in bases if not re.search(r"@sha256:[0-9a-f]{64}$", base)] == []


def test_one_version_is_everywhere() -> None:
    chart = yaml.safe_load((PROJECT / "deploy/helm/hookgate/Chart.yaml").read_text())
    [label] = re.findall(r"image\.version=(\S+)", (PROJECT / "Dockerfile").read_text())
    pages = "".join(
        path.read_text() for path in [*(PROJECT / "docs").rglob("*.md"), PROJECT / "CHANGELOG.md"]
    )
    named = {
        *re.findall(r"hookgate:(\d+\.\d+\.\d+)", pages),
        *re.findall(r"first version, (\S+)\.", pages),
    }
    assert {chart["version"], chart["appVersion"], label, *named} == {__version__}


def test_it_runs_targets_that_the_makefile_has() -> None:
    targets = {*re.findall(r"^([\w-]+):", (PROJECT / "Makefile").read_text(), re.M)}
    used = {*re.findall(r"run: make ([\w-]+)", FILE.read_text())}
    assert used
    assert used <= targets
