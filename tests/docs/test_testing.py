"""docs/testing.md: pytest runs its example as users do, and GitHub would accept its workflow."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.pages import block_of, write_guard
from support.programs.commands import missing

pytestmark = pytest.mark.e2e

yaml = pytest.importorskip("yaml", reason="needs PyYAML: run `make install`")

PAGE = "docs/testing.md"
BIN = Path(sys.executable).parent


def run_pytest(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the tests in a folder as a user's, with no plugin but ours."""
    words = [sys.executable, "-m", "pytest", "-p", "hookgate.testing.plugin", "-q"]
    variables = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(words, cwd=folder, env=variables, capture_output=True, text=True, check=False)


def test_the_example_passes_and_fails_with_the_message_of_the_page(tmp_path: Path) -> None:
    write_guard(tmp_path / "guard")
    example = block_of(PAGE, "def test_a_private_key_stays_here").text
    fixture = block_of(PAGE, "import pytest").text
    (tmp_path / "test_guard.py").write_text(example)
    (tmp_path / "test_shared.py").write_text(
        f"{fixture}\n\ndef test_wrong(gateway):\n    gateway.assert_denied(gateway.ask('hi'))\n"
    )
    ran = run_pytest(tmp_path)
    assert "1 failed, 2 passed" in ran.stdout, ran.stdout + ran.stderr
    shown = [line.removeprefix("E").strip() for line in ran.stdout.splitlines() if line.startswith("E  ")]
    printed = [line.strip() for line in block_of(PAGE, "AssertionError: the call").text.splitlines()]
    assert shown == printed


def test_the_plugin_is_one_that_pytest_finds_in_an_installation() -> None:
    tomllib = pytest.importorskip("tomllib")
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"hookgate": "hookgate.testing.plugin"}


def test_loading_the_plugin_costs_no_import_of_the_gateway() -> None:
    code = (
        "import sys, hookgate.testing.plugin; print([n for n in sys.modules if n in ('aiohttp', 'pydantic')])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def workflow() -> Any:
    return yaml.safe_load(block_of(PAGE, "name: policy").text)


def test_the_workflow_has_the_schema_of_workflows(tmp_path: Path) -> None:
    program = shutil.which("check-jsonschema", path=str(BIN))
    if program is None:
        missing("needs check-jsonschema: run `make install`")
    file = tmp_path / "policy.yml"
    file.write_text(block_of(PAGE, "name: policy").text)
    words = [program, "--builtin-schema", "vendor.github-workflows", file]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout


def test_what_runs_the_hooks_of_a_pull_request_cannot_write() -> None:
    jobs = workflow()["jobs"]
    assert workflow()["permissions"] == {"contents": "read"}
    assert "permissions" not in jobs["replay"]
    assert "secrets" not in block_of(PAGE, "name: policy").text
    assert not any("checkout" in str(step) for step in jobs["comment"]["steps"])


def test_the_workflow_replays_and_quotes_the_report_as_code(tmp_path: Path) -> None:
    hook = {"name": "```\n# x", "type": "builtin", "builtin": "models", "options": {"deny": ["*-pro"]}}
    for name in ("policy", "recordings"):
        (tmp_path / name).mkdir()
    settings = {"hooks": {"BeforeModel": [{"hooks": [hook]}]}}
    (tmp_path / "policy/settings.json").write_text(json.dumps(settings))
    request = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
    body = {"session": {"id": "s"}, "model": "gemini-2.5-pro"}
    records = [
        {"type": "start", "id": "1", "body": body, "content": {"request": request}},
        {"type": "end", "id": "1", "body": {"outcome": "answered", "hooks": []}, "content": {}},
    ]
    (tmp_path / "recordings/week.jsonl").write_text("".join(json.dumps(each) + "\n" for each in records))
    [step] = [step for step in workflow()["jobs"]["replay"]["steps"] if step.get("name") == "replay"]
    variables = {
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "GITHUB_STEP_SUMMARY": "summary.md",
    }
    words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    ran = subprocess.run(words, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    comment = (tmp_path / "comment.md").read_text()
    assert (tmp_path / "summary.md").read_text() == comment
    assert "answered → denied" in comment
    introduction, _, report = comment.partition("\n\n")
    assert introduction.startswith("What this policy would change")
    assert [line for line in report.splitlines() if not line.startswith("    ")] == []

    (tmp_path / "policy/settings.json").write_text("{")
    ran = subprocess.run(words, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
    assert ran.returncode != 0, "a policy that does not load fails the run"
