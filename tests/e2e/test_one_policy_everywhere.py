"""One policy applies to every client and API, with the same reasons and the same receipts."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.clients.interface import Shown
from support.clients.one_policy_everywhere import (
    EVERY_CLIENT,
    FORBIDDEN,
    GIVES_UP,
    MASK,
    MAXIMUM,
    OWN,
    REASON,
    SECRETS,
    PythonInteractions,
    Watched,
    watched_gateway,
)
from support.clients.python_sdk import sdk_warnings
from support.gateway.life import until
from support.places import DOCS

pytestmark = sdk_warnings

Json = dict[str, Any]

BEFORE = {("BeforeModel", name): ["allow"] for name in ("no-falcon", "own-answer", "cap", "no-keys")}
ANSWERED = {**BEFORE, ("AfterModel", "no-keys"): ["allow"]}


def receipt(
    outcome: str, hooks: Json, blocked: list[Any] | None = None, found: list[str] | None = None
) -> Json:
    return {"outcome": outcome, "blocked": blocked or [], "hooks": hooks, "found": found or []}


DENIED = receipt("denied", {**BEFORE, ("BeforeModel", "no-falcon"): ["deny"]})
REDACTED = receipt("answered", ANSWERED, found=["GOOGLE_API_KEY"])
BLOCKED = receipt(
    "blocked",
    {**ANSWERED, ("BeforeTool", "no-tools"): ["deny"]},
    [("BeforeTool", ["no-tools"], FORBIDDEN)],
)
ANSWERS_ITSELF = receipt("synthetic", {**BEFORE, ("BeforeModel", "own-answer"): ["answer"]})


class Person:
    """Somebody who uses a client, one prompt after the other."""

    def __init__(self, name: str, watched: Watched, folder: Path, arrived: list[str]) -> None:
        self._client, self._watched, self._folder = EVERY_CLIENT[name], watched, folder
        self._arrived, self._asked = arrived, 0

    async def sees(self, prompt: str, expected_receipt: Json) -> tuple[Shown, list[Json]]:
        """What the person sees, and the bodies that reached the upstream meanwhile."""
        self._asked += 1
        folder = self._folder / str(self._asked)
        folder.mkdir()
        before = len(self._watched.recorded)
        shown = await self._client.ask(self._watched.url, prompt, folder)
        await until(lambda: len(self._watched.receipts()) == len(self._arrived))
        assert self._watched.receipts()[0] == expected_receipt
        return replace(shown, beside=""), [request.body for request in list(self._watched.recorded)[before:]]


def maximum_of(body: Json) -> Any:
    """The maximum of tokens in a request of any API."""
    config = body.get("generationConfig") or body.get("generation_config") or {}
    own = body.get("max_output_tokens") or body.get("max_tokens")
    return config.get("maxOutputTokens") or config.get("max_output_tokens") or own


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name == "LangChain" else ()) for name in EVERY_CLIENT],
)
async def test_the_policy_applies_with_the_same_reasons(
    name: str, tmp_path: Path, arrived: list[str]
) -> None:
    tool = "read_file" if name == "Gemini CLI" else "get_weather"
    async with watched_gateway(tmp_path) as watched:
        person = Person(name, watched, tmp_path, arrived)
        denied, unsent = await person.sees("Tell me of project falcon.", DENIED)
        redacted, sent = await person.sees(f"Is {SECRETS[0]} my key?", REDACTED)
        blocked, told = await person.sees(f"Use {tool}.", BLOCKED)
        own, unasked = await person.sees("And who made this policy?", ANSWERS_ITSELF)
    assert REASON in denied.text
    assert "falcon" not in json.dumps(unsent)
    assert redacted == Shown(f"Mine is {MASK}, too.")
    assert MASK in json.dumps(sent[-1])
    assert not any(secret in json.dumps(sent) for secret in SECRETS)
    assert {maximum_of(body) for body in sent} == {MAXIMUM}
    assert blocked == Shown(GIVES_UP)
    assert f"Tool execution blocked: {FORBIDDEN}" in json.dumps(told[-1])
    assert own == Shown(OWN)
    assert OWN not in json.dumps(unasked)
    row = f"| {name} | `{denied.failed}` |"
    assert row in (DOCS / "tested-clients.md").read_text().splitlines()


def test_the_docs_have_no_other_clients() -> None:
    section = (DOCS / "tested-clients.md").read_text().partition("\n## One policy for all clients\n")[2]
    rows = [line for line in section.partition("\n## ")[0].splitlines() if line.startswith("| ")]
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows[1:]] == [*EVERY_CLIENT]


async def test_in_the_background_the_answer_has_a_receipt_of_its_own(
    tmp_path: Path, arrived: list[str]
) -> None:
    client = PythonInteractions("background")
    async with watched_gateway(tmp_path) as watched:

        async def sees(prompt: str) -> tuple[Shown, list[Json]]:
            """What a person sees, and the receipts of the calls that this takes, the latest first."""
            before = len(watched.receipts())
            shown = await client.ask(watched.url, prompt, tmp_path)
            await until(lambda: len(watched.receipts()) == len(arrived))
            return shown, watched.receipts()[: len(arrived) - before]

        denied, denials = await sees("Tell me of project falcon.")
        redacted, (read, *_, sent) = await sees(f"Is {SECRETS[0]} my key?")
        bodies = json.dumps([request.body for request in watched.recorded])
        blocked, (refused, *_) = await sees("Use get_weather.")
        own, answers = await sees("And who made this policy?")
    assert (REASON in denied.text, denials) == (True, [DENIED])
    assert redacted == Shown(f"Mine is {MASK}, too.")
    assert (MASK in bodies, *(secret in bodies for secret in SECRETS)) == (True, *(False for _ in SECRETS))
    fetched = {("AfterModel", "no-keys"): ["allow"]}
    assert (sent, read) == (REDACTED, receipt("answered", fetched, found=["GOOGLE_API_KEY"]))
    assert FORBIDDEN in blocked.text
    assert refused["blocked"] == BLOCKED["blocked"]
    assert (own, answers) == (Shown(OWN), [ANSWERS_ITSELF])
