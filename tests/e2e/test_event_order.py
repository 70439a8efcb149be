"""The order of events in a real Gemini CLI conversation: with its own hooks, and derived from calls."""

import json
import re
from pathlib import Path
from typing import Any

from support.clients.node import GeminiCli
from support.gateway.event_order import LAST, SCRIPT, TURN, install, names
from support.gateway.loopback import listens, running_gateway
from support.programs.terminal import Terminal
from support.upstream.captured import HOOK_INPUT

from hookgate.hooks.settings import EVENTS


async def conversation(folder: Path, *, shim: bool) -> list[dict[str, Any]]:
    """What hooks of all eleven events are shown of one prompt whose answer calls a tool."""
    seen: list[dict[str, Any]] = []
    gemini = GeminiCli(folder)
    async with running_gateway({event: [listens(seen)] for event in EVENTS}, SCRIPT) as gateway:
        if shim:
            await install(gateway.url, folder)
        ran = await gemini.ask(gateway.url, "write it", "--approval-mode", "yolo")
    assert (ran.exit_code, ran.stdout.strip()) == (0, "It is written."), ran.stderr
    return seen


async def typed_conversation(folder: Path) -> list[dict[str, Any]]:
    """The same in its terminal, where the user permits the call, compresses the history, and quits."""
    seen: list[dict[str, Any]] = []

    def reported(name: str) -> bool:
        return name in names(seen)

    gemini = GeminiCli(folder)
    async with running_gateway({event: [listens(seen)] for event in EVENTS}, SCRIPT) as gateway:
        await install(gateway.url, folder)
        async with gemini.in_terminal(gateway.url) as terminal:
            # A prompt typed before the session's start is told may be sent before it, too.
            await terminal.until(lambda: reported("SessionStart") and "Type your message" in terminal.text)
            terminal.press("write it")
            await terminal.until(lambda: "> write it" in terminal.text)
            terminal.press("\r")
            await terminal.until(lambda: reported("Notification") and "Action Required" in terminal.title)
            assert "Allow once" in terminal.text
            terminal.press("\r")
            await terminal.until(lambda: reported("AfterAgent") and "Ready" in terminal.title)
            await command(terminal, "compress")
            await terminal.until(lambda: "Chat history compressed" in terminal.text)
            await command(terminal, "quit")
            assert await terminal.ended() == 0
    assert (gemini.workspace / "a.txt").read_text() == "x"
    return seen


async def command(terminal: Terminal, name: str) -> None:
    """Type a slash command; Enter takes the first suggestion, so that must be this command."""
    terminal.press(f"/{name}")
    await terminal.until(lambda: re.search(rf"> /{name}[\s─]+{name} ", terminal.text))
    terminal.press("\r")


def shape(value: Any) -> Any:
    """The keys of a document and the types of its values."""
    return {key: type(each) for key, each in value.items()}


async def test_with_its_own_hooks_they_fire_in_the_documented_order(tmp_path: Path) -> None:
    seen = await conversation(tmp_path, shim=True)
    check_as_captured(seen)
    assert [name for name in names(seen) if name != "PreCompress"] == [
        "SessionStart",
        "BeforeAgent",
        *TURN,
        *LAST,
        "SessionEnd",
    ]


async def test_from_the_wire_alone_those_that_it_shows_fire_in_the_same_order(tmp_path: Path) -> None:
    seen = await conversation(tmp_path, shim=False)
    check_as_captured(seen)
    assert names(seen) == ["SessionStart", "BeforeAgent", *TURN, *LAST]


async def test_in_its_terminal_all_eleven_fire_in_the_documented_order(tmp_path: Path) -> None:
    seen = await typed_conversation(tmp_path)
    reported = names(seen)
    # It tells of a compression before each turn, needed or not. The two calls that compress are its own
    # doing, which only the gateway sees. SessionEnd it tells more than once.
    assert reported == [
        *("SessionStart", "BeforeAgent"),
        *("PreCompress", *TURN[:-1], "Notification", "AfterTool"),
        *("PreCompress", *LAST),
        *("PreCompress", *LAST[:-1], *LAST[:-1]),
        "SessionEnd",
    ]
    assert set(reported) == set(EVENTS)
    triggers = [event["trigger"] for event in seen if event["hook_event_name"] == "PreCompress"]
    assert triggers == ["auto", "auto", "manual"]
    kinds = [event["notification_type"] for event in seen if event["hook_event_name"] == "Notification"]
    assert kinds == ["ToolPermission"]
    check_as_captured(seen)


def check_as_captured(events: list[dict[str, Any]]) -> None:
    """Each input has the keys that all captured ones have, and no key of another type than theirs.

    Where nothing captured is there, there is nothing to compare; tests/test_shared.py says so.
    """
    assert events
    for event in events if HOOK_INPUT.is_dir() else ():
        name = event["hook_event_name"]
        captured = json.loads((HOOK_INPUT / f"{name}.json").read_text())
        known: dict[str, Any] = {key: kind for each in captured for key, kind in shape(each).items()}
        here = shape(event)
        assert here.items() >= {key: kind for key, kind in known.items() if key in here}.items(), name
        always = set.intersection(*(set(each) for each in captured))
        assert always <= here.keys(), name
