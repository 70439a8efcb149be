"""Real clients whose tool calls people approve, deny, or leave undecided: what their users see."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from support.clients.interface import CLIENTS, TOOL_SAYS, Client, Shown
from support.clients.node import GeminiCli
from support.clients.python_sdk import sdk_warnings
from support.gateway.approving import Approving, approving_gateway, decision

from hookgate.proxy.approvals.requests import Scope

pytestmark = sdk_warnings

ASKS = {"type": "builtin", "builtin": "tools", "name": "asks", "options": {"ask": [{"tool": "*"}]}}
CLIENT_NAMES = ("python-unary", "python-stream", "js", "gemini-cli", "adk", "antigravity")


def script_of(call: Any) -> Any:
    """A model that calls a tool, and then tells its user about the result, or about why there is none."""
    return {
        "rules": [
            {"when": {"tool_response": True}, "answer": {"text": "That is what I know."}},
            {"answer": {"parts": [{"functionCall": call}]}},
        ]
    }


def last_result(gateway: Approving) -> str:
    """What the model was told about its call."""
    contents = gateway.gateway.generated[-1].body["contents"]
    return json.dumps(contents[-1], ensure_ascii=False)


@pytest.mark.parametrize("answer", ["yes", "no", "none"])
@pytest.mark.parametrize("client", [CLIENTS[name] for name in CLIENT_NAMES], ids=CLIENT_NAMES)
async def test_an_answer_is_held_for_a_person(client: Client, answer: str, tmp_path: Path) -> None:
    hold = 1 if answer == "none" else 60
    async with approving_gateway(
        tmp_path / "state", script_of(client.call), {"BeforeTool": [ASKS]}, mode="hold", hold=hold
    ) as gateway:
        asking = asyncio.create_task(client.ask(gateway.url, "the weather in Oslo?", tmp_path))
        waiting = asyncio.create_task(gateway.people.wait())
        await asyncio.wait((asking, waiting), return_when=asyncio.FIRST_COMPLETED)
        assert waiting.done(), asking.result()
        request = waiting.result()
        assert request.tool == client.call["name"]
        if answer != "none":
            gateway.people.decide(request, decision(approves=answer == "yes", reason="not today"))
        shown = await asking
        told = last_result(gateway)
    assert (shown.text.strip(), shown.failed) == ("That is what I know.", "")
    if answer == "yes":
        assert TOOL_SAYS in told
    else:
        assert "Tool execution blocked: " in told
        assert (
            "A person has denied this call" if answer == "no" else "nobody has decided within 1 s"
        ) in told
        assert TOOL_SAYS not in told


@pytest.mark.parametrize("client", [CLIENTS["python-stream"], CLIENTS["adk"]], ids=["python-stream", "adk"])
async def test_a_ticket_passes_when_the_user_tries_again(client: Client, tmp_path: Path) -> None:
    async with approving_gateway(tmp_path, script_of(client.call), {"BeforeTool": [ASKS]}) as gateway:

        async def ask() -> tuple[Shown, str]:
            shown = await client.ask(f"{gateway.url}/s/weather", "the weather in Oslo?", tmp_path)
            return shown, last_result(gateway)

        shown, told = await ask()
        request = await gateway.people.wait()
        assert shown == Shown("That is what I know.")
        assert f"people were asked (request {request.short_id})" in told
        gateway.people.decide(request, decision())
        assert TOOL_SAYS in (await ask())[1]


async def test_a_file_is_written_by_gemini_cli_once_a_person_has_approved_its_tools(tmp_path: Path) -> None:
    gemini = GeminiCli(tmp_path)
    file = gemini.workspace / "note.txt"
    call = {"name": "write_file", "args": {"file_path": str(file), "content": "approved\n"}}
    async with approving_gateway(tmp_path / "state", script_of(call), {"BeforeTool": [ASKS]}) as gateway:
        ran = await gemini.ask(gateway.url, "write a note", "--approval-mode", "yolo")
        assert (ran.exit_code, ran.stdout.strip()) == (0, "That is what I know.")
        assert not file.exists()
        request = await gateway.people.wait()
        # Another process of Gemini CLI has another session.
        gateway.people.decide(request, decision(scope=Scope("tools", "write_*", 60)))
        await gemini.ask(gateway.url, "write a note", "--approval-mode", "yolo")
    assert file.read_text() == "approved\n"
