"""Flow rules whose hooks do not fit together are an error when a gateway starts."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.hooks.flows import RULES, SINKS, SOURCES
from support.programs.program import run

Json = dict[str, Any]


def settings(**hooks: Json) -> str:
    groups = {
        event: [{"hooks": [{"name": "flows", "type": "builtin", "builtin": "flows", "options": options}]}]
        for event, options in hooks.items()
    }
    return json.dumps({"hooks": groups})


COMPLETE: dict[str, Json] = {
    "BeforeAgent": {},
    "AfterTool": {"sources": SOURCES},
    "BeforeTool": {"sinks": SINKS, "rules": RULES},
}


async def checked(folder: Path, **hooks: Json) -> tuple[int, str]:
    (folder / "settings.json").write_text(settings(**hooks))
    (folder / "hookgate.toml").write_text('[hooks]\npolicy = ["settings.json"]\n')
    done = await run("config", "check", "--config", str(folder / "hookgate.toml"))
    return done.code, done.out + done.err


async def test_hooks_that_fit_together_are_accepted(tmp_path: Path) -> None:
    code, said = await checked(tmp_path, **COMPLETE)
    assert code == 0, said


@pytest.mark.parametrize(
    ("hooks", "message"),
    [
        (
            {**COMPLETE, "AfterTool": {"sources": {"secrets": [{"tool": "x"}]}}},
            "depends on the label 'untrusted', which no AfterTool hook of flows gives; known are secrets",
        ),
        (
            {event: COMPLETE[event] for event in ("AfterTool", "BeforeTool")},
            "depends on what the user says, which no BeforeAgent hook of flows notes; add one",
        ),
        (
            {**COMPLETE, "BeforeTool": {"sinks": SINKS, "rules": [{"to": "sned", "after": "untrusted"}]}},
            "the rule's sinks 'sned' are not among sinks: any, delete, send",
        ),
        (
            {**COMPLETE, "BeforeTool": {"sinks": SINKS, "rules": [{"to": "send", "within": "turn"}]}},
            "within needs after",
        ),
        (
            {**COMPLETE, "AfterTool": {"sources": {"un trusted": [{"tool": "x"}]}}},
            "must consist of letters, digits, - and _",
        ),
        (
            {**COMPLETE, "AfterTool": {"sources": {"a": [{"tool": "x", "feilds": "id"}]}}},
            "feilds: is not known here; did you mean fields?",
        ),
    ],
)
async def test_hooks_that_do_not_fit_together_are_named(
    hooks: dict[str, Json], message: str, tmp_path: Path
) -> None:
    code, said = await checked(tmp_path, **hooks)
    assert (code, message in said) == (1, True), said


async def test_each_hook_can_be_tried_by_itself(tmp_path: Path) -> None:
    await checked(tmp_path, **COMPLETE)
    for event in COMPLETE:
        tried = await run("hooks", "test", event, "--config", str(tmp_path / "hookgate.toml"))
        assert tried.code == 0, tried
