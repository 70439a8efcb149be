"""The eleven events of a real conversation with Gemini CLI: with its own hooks, and from the wire alone."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.event_service import hookgate
from support.gateway import listens, running_gateway
from support.node import GeminiCli

from hookgate.hooks.settings import EVENTS

CAPTURED = Path(__file__).parents[3] / "shared" / "wire" / "hook-input"
SCRIPT = {
    "rules": [
        {"when": {"tool_response": "write_file"}, "answer": {"text": "It is written."}},
        {
            "answer": {
                "parts": [
                    {"functionCall": {"name": "write_file", "args": {"file_path": "a.txt", "content": "x"}}}
                ]
            }
        },
    ]
}
TURN = ["BeforeModel", "BeforeToolSelection", "AfterModel", "BeforeTool", "AfterTool"]
LAST = ["BeforeModel", "BeforeToolSelection", "AfterModel", "AfterAgent"]


async def conversation(folder: Path, *, shim: bool) -> list[dict[str, Any]]:
    """What hooks of all eleven events are shown of one prompt whose answer calls a tool."""
    seen: list[dict[str, Any]] = []
    gemini = GeminiCli(folder)
    async with running_gateway({event: [listens(seen)] for event in EVENTS}, SCRIPT) as gateway:
        url = gateway.url
        if shim:
            words = ("shim", "install", "gemini-cli", "--yes", "--gateway", url)
            installed = await hookgate(*words, env={"HOME": str(folder / "home")}, folder=gemini.workspace)
            assert installed.code == 0, installed.err
        ran = await gemini.ask(url, "write it", "--approval-mode", "yolo")
    assert (ran.exit_code, ran.stdout.strip()) == (0, "It is written."), ran.stderr
    return seen


def names(seen: list[dict[str, Any]]) -> list[str]:
    """The events in order; of those that repeat for each event of a stream the first."""
    found = [event["hook_event_name"] for event in seen]
    return [name for at, name in enumerate(found) if at == 0 or name != found[at - 1]]


def shape(value: Any) -> Any:
    """The keys of a document and the types of its values."""
    return {key: type(each) for key, each in value.items()}


async def test_with_its_own_hooks_they_fire_in_the_documented_order(tmp_path: Path) -> None:
    told = names(await conversation(tmp_path, shim=True))
    assert [name for name in told if name != "PreCompress"] == [
        "SessionStart",
        "BeforeAgent",
        *TURN,
        *LAST,
        "SessionEnd",
    ]


async def test_from_the_wire_alone_those_that_it_shows_fire_in_the_same_order(tmp_path: Path) -> None:
    told = names(await conversation(tmp_path, shim=False))
    assert told == ["SessionStart", "BeforeAgent", *TURN, *LAST]


@pytest.mark.parametrize("shim", [True, False], ids=["shim", "wire"])
async def test_each_input_has_the_captured_one_s_keys_and_types(shim: bool, tmp_path: Path) -> None:
    if not CAPTURED.is_dir():
        pytest.skip("the captured traffic is not here")
    for event in await conversation(tmp_path, shim=shim):
        name = event["hook_event_name"]
        captured = json.loads((CAPTURED / f"{name}.json").read_text())
        known: dict[str, Any] = {key: kind for each in captured for key, kind in shape(each).items()}
        here = shape(event)
        assert here.items() >= {key: kind for key, kind in known.items() if key in here}.items(), name
        always = set.intersection(*(set(each) for each in captured))
        assert always <= here.keys(), name
