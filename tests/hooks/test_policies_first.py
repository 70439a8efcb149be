"""Hooks listed after a policy never see what it removed, not even in a first run."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.hooks.settings import SESSION, Json, runtime, write_file

from hookgate.hooks import AfterModel, AfterTool, BeforeModel, Configuration, Engine, Event, load_settings
from hookgate.hooks.events.base import SharedValue
from hookgate.hooks.settings import Group, Hook

SECRET = "AKIA" + "Q3EGRYH7XJ4WPL2D"
CONTENT = {"role": "user", "parts": [{"text": f"key {SECRET}"}]}
EVENTS: dict[str, Event] = {
    "BeforeModel": BeforeModel("gemini-2.5-flash", {"contents": [CONTENT]}),
    "AfterModel": AfterModel(
        SharedValue({"model": "gemini-2.5-flash"}),
        {"candidates": [{"content": {**CONTENT, "role": "model"}, "index": 0}]},
        "gemini-2.5-flash",
    ),
    "AfterTool": AfterTool("read_file", {}, {"llmContent": f"key {SECRET}"}),
}


class Recorder:
    """A hook that records its inputs, and edits nothing."""

    __name__ = "recorder"

    def __init__(self) -> None:
        self.inputs: list[str] = []

    async def __call__(self, event: Json) -> None:
        self.inputs.append(json.dumps(event))


def redact(folder: Path, event: str, **more: Any) -> Hook:
    config = {"type": "builtin", "builtin": "redact", "name": "no-secrets", **more}
    file = write_file(folder, {"hooks": {event: [{"hooks": [config]}]}})
    [hook] = load_settings([file]).hooks()
    return hook


LAYOUTS = pytest.mark.parametrize("layout", ["one group", "two groups", "sequential", "behind a sequential"])


def arranged(layout: str, first: Hook, *later: Hook) -> list[Group]:
    match layout:
        case "one group":
            return [Group((first, *later))]
        case "two groups":
            return [Group((first,)), Group(later)]
        case "sequential":
            return [Group((first, *later), sequential=True)]
    return [Group((first,), sequential=True), Group(later)]


@LAYOUTS
@pytest.mark.parametrize("name", EVENTS)
async def test_a_later_hook_sees_only_what_the_redaction_left(name: str, layout: str, tmp_path: Path) -> None:
    recorder = Recorder()
    groups = arranged(layout, redact(tmp_path, name), runtime(recorder))
    await Engine(Configuration({name: tuple(groups)})).fire(EVENTS[name], SESSION)
    [document] = recorder.inputs
    assert "[AWS_ACCESS_KEY]" in document
    assert SECRET not in document


@LAYOUTS
@pytest.mark.parametrize("name", EVENTS)
async def test_a_later_hook_does_not_run_on_what_a_policy_withholds(
    name: str, layout: str, tmp_path: Path
) -> None:
    recorder = Recorder()
    groups = arranged(layout, redact(tmp_path, name, options={"action": "block"}), runtime(recorder))
    outcome = await Engine(Configuration({name: tuple(groups)})).fire(EVENTS[name], SESSION)
    assert outcome.verdict.decision == "deny"
    assert recorder.inputs == []


async def test_an_edit_before_the_redaction_is_redacted_for_the_hooks_behind_it(tmp_path: Path) -> None:
    """The redaction runs twice; the recorder waits for its second run."""
    recorder = Recorder()

    async def add_secret(event: Json) -> Json:
        message = {"role": "user", "content": f"now {SECRET}"}
        return {"hookSpecificOutput": {"llm_request": {"messages": [message]}}}

    groups = [Group((runtime(add_secret), redact(tmp_path, "BeforeModel"), runtime(recorder)))]
    await Engine(Configuration({"BeforeModel": tuple(groups)})).fire(EVENTS["BeforeModel"], SESSION)
    [document] = recorder.inputs
    assert "now [AWS_ACCESS_KEY]" in document
    assert SECRET not in document


async def test_a_policy_that_observes_holds_nothing_up(tmp_path: Path) -> None:
    recorder = Recorder()
    groups = [Group((redact(tmp_path, "BeforeModel", mode="observe"), runtime(recorder)))]
    await Engine(Configuration({"BeforeModel": tuple(groups)})).fire(EVENTS["BeforeModel"], SESSION)
    [document] = recorder.inputs
    assert SECRET in document
