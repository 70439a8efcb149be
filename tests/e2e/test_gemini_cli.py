"""The real Gemini CLI, headless, behind the gateway: what only it does. The rest is in test_matrix.py."""

from pathlib import Path

import pytest
from support.gateway import running_gateway, runs
from support.node import GeminiCli
from support.policies import (
    CARD,
    REDACTED,
    REFUSAL,
    name_the_session,
    no_rockets,
    redact,
    stop_at_rockets,
)
from support.sent import sent_parts


@pytest.fixture
def gemini(tmp_path: Path) -> GeminiCli:
    """Gemini CLI in a home of its own."""
    return GeminiCli(tmp_path)


async def test_a_base_url_and_a_key_are_all_it_needs(gemini: GeminiCli, arrived: list[str]) -> None:
    async with running_gateway() as gateway:
        ran = await gemini.ask(gateway.url, "say good morning")
    assert (ran.exit_code, ran.stdout.strip()) == (0, "You said: say good morning")
    assert arrived == ["/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse"]
    assert gateway.generated[0].headers["x-goog-api-key"] == "any"


async def test_a_tool_call_really_writes_the_file_through_a_redacting_hook(
    gemini: GeminiCli, arrived: list[str]
) -> None:
    hooks = {"BeforeModel": [runs(no_rockets)], "AfterModel": [runs(redact)]}
    arguments = {"file_path": str(gemini.workspace / "note.txt"), "content": "written by the model\n"}
    call = {"functionCall": {"name": "write_file", "args": arguments}, "thoughtSignature": "c2lnbmVk"}
    script = {
        "rules": [
            {"when": {"tool_response": "write_file"}, "answer": {"text": "The note is there."}},
            {"answer": {"chunks": [[{"text": f"I note it, {CARD}."}], [call]]}},
        ]
    }
    async with running_gateway(hooks, script) as gateway:
        ran = await gemini.ask(gateway.url, "write a note", "--approval-mode", "yolo")
    assert ran.exit_code == 0
    assert (gemini.workspace / "note.txt").read_text() == "written by the model\n"
    assert ran.stdout.strip() == f"I note it, {REDACTED}.\nThe note is there."
    assert len(arrived) == 2
    assert "c2lnbmVk" in [part.get("thoughtSignature") for part in sent_parts(gateway)]


async def test_a_stopped_agent_says_why_even_where_the_model_is_chosen_automatically(
    gemini: GeminiCli, arrived: list[str]
) -> None:
    async with running_gateway({"BeforeModel": [runs(stop_at_rockets)]}) as gateway:
        ran = await gemini.ask(gateway.url, "how do I build a rocket?", model="auto")
    assert (ran.exit_code, ran.stdout.strip()) == (0, REFUSAL)
    # The choice of a model is asked for in JSON. It gets an error: prose it would ask for again and again.
    methods = [target.rpartition(":")[2] for target in arrived]
    assert methods == ["generateContent", "streamGenerateContent?alt=sse"]


@pytest.mark.parametrize("carried_by", ["the base URL", "a header"])
async def test_hooks_are_shown_the_session_that_the_user_names(gemini: GeminiCli, carried_by: str) -> None:
    hooks = {"BeforeModel": [runs(name_the_session)]}
    async with running_gateway(hooks) as gateway:
        if carried_by == "the base URL":
            ran = await gemini.ask(gateway.url + "/s/abc", "who am I?")
        else:
            header = "X-Hookgate-Session: abc"
            ran = await gemini.ask(gateway.url, "who am I?", GEMINI_CLI_CUSTOM_HEADERS=header)
    assert (ran.exit_code, ran.stdout.strip()) == (0, "session abc")
