"""A conversation whose answer calls a tool, and the events of it."""

from pathlib import Path
from typing import Any

from support.gateway.event_service import hookgate

SCRIPT = {
    "rules": [
        {"when": {"tool_response": "write_file"}, "answer": {"text": "It is written."}},
        {"when": {"text": "<state_snapshot>"}, "answer": {"text": "<state_snapshot>All.</state_snapshot>"}},
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


async def install(url: str, folder: Path) -> None:
    """Have the Gemini CLI of `folder` tell the gateway of its events."""
    words = ("shim", "install", "gemini-cli", "--yes", "--gateway", url)
    installed = await hookgate(*words, env={"HOME": str(folder / "home")}, folder=folder / "workspace")
    assert installed.code == 0, installed.err


def names(seen: list[dict[str, Any]]) -> list[str]:
    """The events in order; of those that repeat for each event of a stream the first."""
    found = [event["hook_event_name"] for event in seen]
    return [name for at, name in enumerate(found) if at == 0 or name != found[at - 1]]
