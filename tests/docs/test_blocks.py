"""Every block of code in the README and in docs/ is valid for the program that reads it.

What the blocks do is shown by test_commands.py, and by the tests that this module names.
"""

import ast
import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest
from support.hooks.limits import Prices
from support.hooks.settings import one_group, write_file
from support.pages import ALL_BLOCKS, EVENTS_OF_OTHERS, Block, Kind

from hookgate.hooks.policies.models import ModelsOptions
from hookgate.hooks.policies.options import read_options
from hookgate.hooks.policies.redact.options import RedactOptions
from hookgate.hooks.runner_factory import make_runners
from hookgate.hooks.settings import BuiltinConfig, SettingsSource, read_sources
from hookgate.proxy.cli import main
from hookgate.proxy.config import read_config
from hookgate.shim.command import event

_DIAGRAM, _NOTATION = "a diagram", "a notation, with words in place of values"
_RULES = "rules in Rego: test_rego.py"

NOT_READ = {
    ("README.md", "agent ──>"): _DIAGRAM,
    ("README.md", "2. A redacted stream"): "the output of `hookgate demo`: test_demo.py",
    ("docs/agents/aider.md", "- name: aider/extra_params"): "the settings of aider: test_agents.py",
    ("docs/architecture.md", "client ───> 1 accept"): _DIAGRAM,
    ("docs/architecture.md", "testing -> proxy"): _DIAGRAM,
    ("docs/architecture.md", "__main__"): "a table",
    ("docs/audit.md", '{"v": 1, "writer": W'): _NOTATION,
    ("docs/audit.md", "writer 9526ba6eecf6326a"): "a line of `verify`: test_audit_restored.py",
    ("docs/hook-kinds.md", "# tools.rego"): _RULES,
    ("docs/hook-kinds.md", "# model.rego"): _RULES,
    ("docs/operating.md", "pg_dump"): "the command line of PostgreSQL: test_backup.py",
    ("docs/deploying.md", "client_max_body_size"): "the configuration of nginx: test_nginx.py",
    ("docs/deploying.md", "rules:"): "the configuration of prometheus-adapter",
    (
        "docs/deploying.md",
        "GEMINI_API_KEY=… deploy/team/secrets.sh secrets",
    ): "needs a machine for PostgreSQL",
    ("docs/deploying.md", "for host in"): "needs several machines",
    ("docs/deploying.md", "gcloud run deploy"): "needs a project of Google Cloud",
    (
        "docs/exports.md",
        'module(load="imtcp"',
    ): "the configuration of rsyslog: tests/support/operating/export_receivers.py",
    ("docs/guardrails.md", "guardrails:"): "the configuration of LiteLLM's proxy: test_litellm_proxy.py",
    ("docs/flows.md", "BeforeAgent   the user's words"): _DIAGRAM,
    ("docs/helm-values.md", "image:"): "values of the Helm chart: tests/deploy/test_helm.py",
    ("docs/scaling.md", "processors of gateways"): "formulas",
    ("docs/events.md", "POST /hookgate/v1/events/{event}"): _NOTATION,
    ("docs/hooks.md", '{"type": "text", "text"}'): _NOTATION,
    ("docs/panel.md", "open the panel: "): "a line of the log: test_commands.py",
    ("docs/testing.md", "AssertionError: "): "the output of pytest: test_testing.py",
    ("docs/limits.md", "x-hookgate-budget"): "a header: test_limits_policy.py",
    ("docs/receipts.md", "{"): "a receipt, abbreviated: test_commands.py",
}
"""The blocks that nothing reads, by page and beginning, each with the reason."""

HOOK_TYPES = {"command", "runtime", "http", "builtin"}


def params(*kinds: Kind) -> list[Any]:
    found = [pytest.param(block, id=block.place) for block in ALL_BLOCKS if block.kind in kinds]
    assert found
    return found


def test_what_nothing_reads_has_a_reason_and_nothing_else_has() -> None:
    unread = [block for block in ALL_BLOCKS if block.kind == "other"]
    without = [
        block.place
        for block in unread
        if not any(block.page == page and block.text.startswith(start) for page, start in NOT_READ)
    ]
    assert without == [], "name in NOT_READ why nothing reads these, or mend them"
    assert len(unread) == len(NOT_READ)


def settings_in(block: Block) -> Any:
    """The settings file that a block is, or is a part of; None for other JSON."""
    if block.kind == "members":
        [(name, value)] = block.members.items()
        match name:
            case "when":
                return one_group({"type": "command", "command": "true", "when": value}, event="BeforeTool")
            case "route":
                return one_group({"type": "builtin", "builtin": "models", "options": {"route": value}})
            case _:
                assert name == "options"
                return one_group({"type": "builtin", "builtin": "redact", "options": value})
    value = block.value
    if isinstance(value, dict) and value.get("type") in HOOK_TYPES:
        return one_group(value)
    if isinstance(value, dict) and {"hooks", "hooksConfig"} & value.keys():
        is_of_other = value["hooks"].keys() & EVENTS_OF_OTHERS  # test_agent_hooks.py, test_migrating.py
        return None if is_of_other else value
    return None


SETTINGS = [
    pytest.param(found, id=block.place)
    for block in ALL_BLOCKS
    if block.kind in ("json", "members") and (found := settings_in(block)) is not None
]


def test_the_pages_show_settings() -> None:
    assert len(SETTINGS) >= 12


@pytest.mark.parametrize("settings", SETTINGS)
def test_settings_load_without_a_warning(
    settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("GUARD_TOKEN", "t")
    for name in ("no_keys.sh", "guard.py"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "style.py").write_text("def apply(call): ...\n")
    with caplog.at_level(logging.WARNING):
        loaded = read_sources([SettingsSource(write_file(tmp_path, settings))])
    assert (loaded.problems, loaded.warnings, caplog.messages) == ((), (), [])
    assert loaded.configuration.declared
    hooks = [hook for hook in loaded.configuration.hooks() if "presidio" not in str(hook.config)]
    targets = settings.get("hooksConfig", {}).get("http_targets", ())  # allowed if it is a policy file
    runners = make_runners(hooks, http_targets=targets, state=tmp_path, prices=Prices())
    assert len(runners) == len(hooks)
    for hook in loaded.configuration.hooks():
        if isinstance(hook.config, BuiltinConfig) and "presidio" in hook.config.options:
            read_options(RedactOptions, hook.config.options)  # its policy needs 400 MB more
        if isinstance(hook.config, BuiltinConfig) and hook.config.builtin == "models":
            read_options(ModelsOptions, hook.config.options)


@pytest.mark.parametrize("block", params("toml"))
def test_a_configuration_loads(block: Block, tmp_path: Path) -> None:
    file = tmp_path / "hookgate.toml"
    file.write_text(block.text)
    effective = read_config({"config": file}, {})
    assert effective.file == file
    assert effective.places


@pytest.mark.parametrize("block", params("python"))
def test_python_compiles(block: Block) -> None:
    """Those of hook-kinds.md, shim.md and managing-hooks.md run in the tests of hooks and of the shim."""
    assert compile(block.text, block.place, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


COMMANDS = [
    pytest.param(words, id=f"{block.place} {' '.join(words)}")
    for block in ALL_BLOCKS
    for words in block.commands
]


def test_the_pages_show_commands() -> None:
    assert len(COMMANDS) >= 25


@pytest.mark.parametrize("words", COMMANDS)
def test_a_command_is_one_that_hookgate_takes(words: list[str]) -> None:
    if words[0] == "event":
        name, flags = event._parse_arguments(words[1:])
        event._EventCommand(name, flags)
    else:
        assert main.command_parser().parse_args(words).chosen


def test_json_that_is_not_a_settings_file_is_an_object_or_a_list() -> None:
    others = [block for block in ALL_BLOCKS if block.kind == "json" and settings_in(block) is None]
    assert len(others) >= 10
    for block in others:
        assert isinstance(json.loads(json.dumps(block.value)), dict | list), block.place


def test_nothing_is_installed_by_a_name_that_anybody_could_register() -> None:
    """The package is not published, so `pip install hookgate` would install what somebody else calls so."""
    root = Path(__file__).parents[2]
    folders = ("docs", "examples", "hooks", "proxy", "shim", "translator")
    files = [root / "README.md", *(file for folder in folders for file in (root / folder).rglob("*.*"))]
    texts = {file: file.read_text() for file in files if file.suffix in (".md", ".py", ".toml", ".sh", ".js")}
    assert len(texts) > 200
    assert [file for file, text in texts.items() if re.search(r"pip install ['\"]?hookgate", text)] == []
