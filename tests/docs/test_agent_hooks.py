"""docs/agent-hooks.md shows the settings that are installed, docs/agent-events.md what dialects express."""

from pathlib import Path

import pytest
from generators.agent_events import agent_events
from support.hooks.settings import SESSION, write_file
from support.pages import ALL_BLOCKS, block_of
from support.places import PROJECT

from hookgate.hooks import BeforeTool, Engine, load_settings
from hookgate.hooks.agents import AGENT_DIALECTS
from hookgate.hooks.settings.editing import value_of
from hookgate.shim.command.edits import AGENTS

PAGE = "docs/agent-hooks.md"
TEXT = (PROJECT / PAGE).read_text()
TOOLS = {"cursor": "preToolUse", "copilot": "preToolUse"}


@pytest.mark.parametrize("name", AGENT_DIALECTS)
def test_settings_are_those_that_are_installed(name: str) -> None:
    agent, event = AGENTS[name], TOOLS.get(name, "PreToolUse")
    settings = value_of(agent.with_hooks_of_agent("", "hookgate", None, denies=False))
    settings[agent.section] = {event: settings[agent.section][event]}
    shown = [block.value for block in ALL_BLOCKS if block.page == PAGE and block.kind == "json"]
    assert settings in shown
    section = TEXT.partition(f"\n## {AGENT_DIALECTS[name].title}\n")[2].partition("\n## ")[0]
    assert f"`~/{agent.folder}/{agent.file}` or\n`{agent.project_file}`".replace(
        "\n", " "
    ) in section.replace("\n", " ")


def test_the_page_of_events_is_that_of_the_program() -> None:
    page = (PROJECT / "docs/agent-events.md").read_text()
    assert page == agent_events(), (
        "run: PYTHONPATH=docs python -m generators.agent_events > docs/agent-events.md"
    )


async def test_hooks_json_of_antigravity_runs(tmp_path: Path) -> None:
    page = block_of("docs/hook-kinds.md", '{"safety-gate"')
    (tmp_path / "gate.sh").write_text("""#!/bin/sh\nprintf '{"decision": "deny", "reason": "Gated."}'\n""")
    (tmp_path / "gate.sh").chmod(0o755)
    judge = Engine(load_settings([write_file(tmp_path, page.value, "hooks.json")]))
    outcome = await judge.fire(BeforeTool("run_command", {"CommandLine": "ls"}), SESSION)
    await judge.close()
    assert outcome.verdict.reason == "Gated."
