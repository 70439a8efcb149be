"""The example in docs/managing-hooks.md that runs hooks without the gateway works as printed."""

import ast
import inspect
import json
import textwrap
from pathlib import Path
from typing import Any

import pytest
from support.places import DOCS

SETTINGS = """
{"hooks": {"BeforeTool": [{"hooks": [{"type": "command", "command": %s}]}]}}
"""
DENY_EXIT_CODE = "echo not this file >&2; exit 2"
EDITS = """echo '{"hookSpecificOutput": {"tool_input": {"file_path": "b"}}}'"""


def example() -> str:
    section = (DOCS / "managing-hooks.md").read_text().partition("\n## Hooks without the gateway\n")[2]
    lines = section.lstrip("\n").splitlines()
    return textwrap.dedent("\n".join(line for line in lines if not line or line.startswith("    ")))


async def printed_by_the_example(hook: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines that the example prints in a project with this BeforeTool hook."""
    (folder / ".gemini").mkdir()
    (folder / ".gemini" / "settings.json").write_text(SETTINGS % json.dumps(hook))

    def write_file(file_path: str) -> None:
        print("written:", file_path)

    code = compile(example(), "managing-hooks.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    names: dict[str, Any] = {"write_file": write_file}
    running = eval(code, names)  # noqa: S307  # our own page
    assert inspect.isawaitable(running)
    await running
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(("hook", "lines"), [(DENY_EXIT_CODE, ["not this file"]), (EDITS, ["written: b"])])
async def test_the_example_applies_what_the_hook_decides(
    hook: str,
    lines: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert await printed_by_the_example(hook, tmp_path, capsys) == lines
