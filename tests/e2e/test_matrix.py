"""Every real client in every situation: what a person sees, and how many requests it took.

A client that takes a denial for a fault asks again and again, so the counts are exact. The situation of a
slow hook is in test_matrix_slow.py.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.clients.interface import TOOL_SAYS, Client, Deletes
from support.clients.matrix import MATRIX, SLOW
from support.clients.python_sdk import sdk_warnings
from support.gateway.life import until
from support.gateway.loopback import gateway_before, running_gateway, runs
from support.hooks.policies import (
    CANNED,
    CARD,
    REDACTED,
    REFUSAL,
    answer_itself,
    no_rocket_answers,
    no_rockets,
    no_tool_results,
    no_tools,
    redact,
    stop_at_rockets,
)
from support.wire import ok, peer

from hookgate.proxy.calls.judge import NOT_JSON
from hookgate.proxy.config import Config, StreamSettings

pytestmark = sdk_warnings

BESIDE = (
    *(":loadCodeAssist", ":listExperiments", ":retrieveUserQuota", ":recordCodeAssistMetrics"),
    "/models/gemini-2.5-flash",
)
"""Requests of Gemini CLI to Code Assist, and one of LlamaIndex, that are not model calls."""

Rules = Callable[[Client], list[Any]]


def default_answers(_: Client) -> list[Any]:
    return []


def greets(_: Client) -> list[Any]:
    return [{"answer": {"text": "Good morning."}}]


def calls_a_tool(client: Client) -> list[Any]:
    """A call of the client's own tool first, then an answer to its result."""
    return [
        {"when": {"tool_response": True}, "answer": {"text": "I have looked."}},
        {"answer": {"parts": [{"functionCall": client.call}]}},
    ]


def tells_a_secret(_: Client) -> list[Any]:
    return [{"answer": {"chunks": ["The card is ", f"{CARD}, ", "keep it safe."]}}]


def speaks_in_lines(_: Client) -> list[Any]:
    """With a pause before each piece, and line ends that only Unicode knows."""
    chunks = [f"One\u2028{CARD}", f", two\x85{CARD}", f", three\u2029{CARD}."]
    return [{"answer": {"chunks": chunks, "chunk_delay_ms": 500}}]


def talks_of_rockets(_: Client) -> list[Any]:
    """Slowly: events that wait for a hook would be judged together."""
    return [{"answer": {"chunks": ["All is fine. ", "But a rocket ", "comes."], "chunk_delay_ms": 300}}]


@dataclass(frozen=True)
class Scenario:
    """A policy, what the model says, and what comes of it."""

    shown: str
    """The whole text that is shown; of a failure, a part of it."""
    requests: tuple[int, int]
    """How many requests arrive at the gateway, and how many of them at the upstream."""
    before: Any = None
    """The BeforeModel hook."""
    after: Any = None
    """The AfterModel hook."""
    tool: Any = None
    """The BeforeTool hook."""
    rules: Rules = default_answers
    prompt: str = "how do I build a rocket?"
    result_text: str = ""
    """What the upstream is told in the last request."""
    json: bool = False
    fails: bool = False
    cut: bool = False
    """The upstream's answer is not taken to its end."""
    takes: str = ""
    """The trait of the clients that it is for; all, if empty."""
    column: str = ""
    """Its column in the table of clients, if it is there."""

    @property
    def hooks(self) -> dict[str, Any]:
        given = {"BeforeModel": self.before, "AfterModel": self.after, "BeforeTool": self.tool}
        return {event: [hook] for event, hook in given.items() if hook}


DENY, ANSWER = runs(no_rockets), runs(answer_itself)
DENY_ANSWERS = runs(no_rocket_answers, stream="event")  # so that the first one is shown
SCENARIOS = {
    "plain": Scenario(
        "Good morning.", (1, 1), rules=greets, prompt="say hello", result_text="say hello", column="plain"
    ),
    "tool-turn": Scenario(
        "I have looked.",
        (2, 2),
        rules=calls_a_tool,
        result_text=TOOL_SAYS,
        takes="tools",
        column="tool call",
    ),
    "redaction": Scenario(
        f"The card is {REDACTED}, keep it safe.",
        (1, 1),
        after=runs(redact),
        rules=tells_a_secret,
        column="secret",
    ),
    "lines-and-pauses": Scenario(
        f"One\u2028{REDACTED}, two\x85{REDACTED}, three\u2029{REDACTED}.",
        (1, 1),
        after=runs(redact),
        rules=speaks_in_lines,
        column="U+2028",
    ),
    # The model learns that it must not call the tool, and answers without.
    "forbidden-tool": Scenario(
        "I have looked.",
        (1, 2),
        tool=runs(no_tools),
        rules=calls_a_tool,
        takes="tools",
        column="forbidden tool",
    ),
    "deny-user-turn": Scenario(REFUSAL, (1, 0), DENY, fails=True, column="denial"),
    "deny-tool-turn": Scenario(
        REFUSAL, (2, 1), runs(no_tool_results, view="raw"), rules=calls_a_tool, takes="tools"
    ),
    "stop": Scenario(REFUSAL, (1, 0), runs(stop_at_rockets)),
    "synthetic": Scenario(CANNED, (1, 0), ANSWER),
    "deny-mid-stream": Scenario(
        f"All is fine. {REFUSAL}",
        (1, 1),
        after=DENY_ANSWERS,
        rules=talks_of_rockets,
        cut=True,
        takes="stream",
        column="late denial",
    ),
    # Of an answer that comes in one piece nothing was shown yet: it can still be an error.
    "deny-answer": Scenario(
        REFUSAL,
        (1, 1),
        after=DENY_ANSWERS,
        rules=talks_of_rockets,
        fails=True,
        takes="unary",
        column="late denial",
    ),
    "json-denied": Scenario(REFUSAL, (1, 0), DENY, json=True, fails=True, takes="json"),
    "json-synthetic": Scenario(NOT_JSON, (1, 0), ANSWER, json=True, fails=True, takes="json"),
    # Gemini CLI asks in JSON which model to take, and without an answer goes on to the prompt itself.
    "router-denied": Scenario(REFUSAL, (2, 0), DENY, json=True, fails=True, takes="router"),
    "router-synthetic": Scenario(CANNED, (2, 0), ANSWER, json=True, takes="router"),
}


# Gemini CLI shows what arrives from other APIs as it does what arrives from the Gemini API.
_OF_OTHER_APIS = frozenset({"plain", "tool-turn", "deny-user-turn", "redaction", "router-denied"})
PAUSES = Config(streams=StreamSettings(keep_alive=0.1))
"""Keep-alives are sent in each pause of a stream."""

IN_EVERY_RUN = {
    "gemini-cli-vertex": _OF_OTHER_APIS,
    "gemini-cli-code-assist": _OF_OTHER_APIS,
    "jdk": frozenset({"plain", "lines-and-pauses"}),  # each call starts a program
    **dict.fromkeys(SLOW, frozenset[str]()),
}

CELLS = [
    pytest.param(
        name,
        scenario,
        id=f"{name}/{title}",
        marks=() if title in IN_EVERY_RUN.get(name, SCENARIOS) else pytest.mark.slow,
    )
    for name, client in MATRIX.items()
    for title, scenario in SCENARIOS.items()
    if not scenario.takes or scenario.takes in client.traits
]


@pytest.mark.parametrize(("name", "scenario"), CELLS)
async def test_a_person_sees_what_the_policy_says_and_nothing_is_asked_twice(
    name: str, scenario: Scenario, tmp_path: Path, arrived: list[str], cell: Callable[..., None]
) -> None:
    client = MATRIX[name]
    cell(name, client, scenario.column)
    rules = {"rules": scenario.rules(client)}
    async with running_gateway(scenario.hooks, rules, PAUSES) as gateway:
        shown = await client.ask(gateway.url, scenario.prompt, tmp_path, json=scenario.json)
        if scenario.cut:
            await until(lambda: gateway.generated[-1].aborted)
    assert shown.failed == (client.denial if scenario.fails else "")
    assert scenario.shown in shown.text if scenario.fails else scenario.shown == shown.text
    assert scenario.json or scenario.shown not in shown.beside
    asked = [target for target in arrived if not target.endswith(BESIDE)]
    assert (len(asked), len(gateway.generated)) == scenario.requests
    assert not scenario.result_text or scenario.result_text in str(gateway.generated[-1].body)


FORWARDS = Config.model_validate({"routes": {"files": "forward", "unhooked": ["openai"]}})


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name in SLOW else ())
        for name, client in MATRIX.items()
        if "delete" in client.traits
    ],
)
async def test_each_deletion_reaches_the_upstream_once(name: str, cell: Callable[..., None]) -> None:
    client: Deletes = MATRIX[name]
    cell(name, client, "DELETE")
    hooks = {"BeforeModel": [runs(no_rockets)], "AfterModel": [runs(redact)]}
    async with peer(ok(b"{}")) as upstream, gateway_before(upstream.url, hooks, FORWARDS) as url:
        number = await client.delete(url)
    assert [request.split(b" ")[0] for request in upstream.heard] == [b"DELETE"] * number
