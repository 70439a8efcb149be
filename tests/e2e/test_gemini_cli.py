"""The real Gemini CLI, headless, at the gateway: tests in addition to those in test_matrix.py."""

from pathlib import Path
from typing import Any

import pytest
from support.clients.node import GeminiCli
from support.gateway.loopback import listens, running_gateway, runs, says
from support.gateway.sent import sent_parts
from support.hooks.policies import (
    CARD,
    REDACTED,
    REFUSAL,
    name_the_session,
    no_rockets,
    redact,
)


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


# ---- what docs/clients.md and docs/agents/gemini-cli.md say


async def test_a_denial_shows_its_reason_in_an_error_report(gemini: GeminiCli) -> None:
    hook = {"type": "command", "command": f"echo '{REFUSAL}' >&2; exit 2"}
    async with running_gateway({"BeforeModel": [hook]}) as gateway:
        ran = await gemini.ask(gateway.url, "how do I build a rocket?")
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert f'"message":"{REFUSAL}"' in ran.stderr
    assert "    at throwErrorIfNotOK" in ran.stderr


async def test_a_synthetic_answer_in_a_denial_is_shown_as_the_answer(gemini: GeminiCli) -> None:
    hook = says({"decision": "deny"}, llm_response={"text": REFUSAL})
    async with running_gateway({"BeforeModel": [hook]}) as gateway:
        ran = await gemini.ask(gateway.url, "how do I build a rocket?")
    assert (ran.exit_code, ran.stdout) == (0, f"{REFUSAL}\n")
    assert REFUSAL not in ran.stderr


def explain(event: dict[str, Any]) -> dict[str, Any]:
    """An AfterModel hook that puts words before every answer, even one in JSON."""
    return {"hookSpecificOutput": {"llm_response": {"text": "So: " + event["llm_response"]["text"]}}}


async def test_an_edit_that_spoils_the_choice_of_a_model_is_not_asked_for_again(
    gemini: GeminiCli, arrived: list[str]
) -> None:
    async with running_gateway({"AfterModel": [runs(explain, stream="complete")]}) as gateway:
        ran = await gemini.ask(gateway.url, "say hi", model="auto")
    assert (ran.exit_code, ran.stdout.strip()) == (0, "So: You said: say hi")
    methods = [target.rpartition(":")[2] for target in arrived]
    assert methods == ["generateContent", "streamGenerateContent?alt=sse"]


async def test_a_hook_need_not_see_the_choice_of_a_model(gemini: GeminiCli, arrived: list[str]) -> None:
    shown: list[dict[str, Any]] = []
    hook = listens(shown) | {"when": {"json": False}}
    async with running_gateway({"BeforeModel": [hook]}) as gateway:
        ran = await gemini.ask(gateway.url, "say hi", model="auto")
    assert (ran.exit_code, len(arrived), len(shown)) == (0, 2, 1)


@pytest.mark.parametrize(
    ("project_settings", "environment", "message"),
    [
        pytest.param(False, {"GEMINI_API_KEY": ""}, "you must specify the GEMINI_API_KEY", id="no key"),
        pytest.param(
            True,
            {"GEMINI_CLI_TRUST_WORKSPACE": "false"},
            "Invalid auth method selected",
            id="settings of an untrusted folder",
        ),
    ],
)
async def test_it_says_what_it_needs(
    project_settings: bool, environment: dict[str, str], message: str, tmp_path: Path, arrived: list[str]
) -> None:
    cli = GeminiCli(tmp_path, project_settings=project_settings)
    async with running_gateway() as gateway:
        ran = await cli.ask(gateway.url, "say hi", **environment)
    assert ran.exit_code != 0
    assert message in ran.stderr
    assert arrived == []
