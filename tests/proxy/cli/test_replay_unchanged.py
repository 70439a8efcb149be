"""A replay of recorded calls with an unchanged policy reports no differences."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, tzinfo
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from support.gateway.audits import audited_gateway
from support.gateway.databases import postgres
from support.gateway.loopback import running_upstream
from support.gateway.routes import PLACE
from support.programs.program import run
from support.wire import SSE, STREAM, UNARY, post, prompt

from hookgate.hooks.policies import limits
from hookgate.proxy.audit import chain
from hookgate.proxy.cli.audit import export_records
from hookgate.proxy.store.database import open_audit

Json = dict[str, Any]
MAIL = "anna.berg@example.org"
GUARD = """
def before_model(event):
    text = event["llm_request"]["messages"][-1]["content"]
    if "answer yourself" in text:
        return {"hookSpecificOutput": {"llm_response": {"text": "I answer."}}}
    if "stop now" in text:
        return {"continue": False, "stopReason": "stopped"}
    if "forbidden" in text:
        return {"decision": "deny", "reason": "forbidden"}

def after_model(event):
    if "bad answer" in event["llm_response"]["text"]:
        return {"decision": "deny", "reason": "a bad answer"}

def after_agent(event):
    if "lazy" in event["prompt_response"] and not event["stop_hook_active"]:
        return {"decision": "deny", "reason": "say more"}

def after_tool(event):
    if "secret" in str(event["tool_response"]):
        return {"decision": "deny", "reason": "hidden"}

def before_agent(event):
    if "unwanted" in event["prompt"]:
        return {"decision": "deny", "reason": "unwanted"}

def select(event):
    if "only read" in event["llm_request"]["messages"][-1]["content"]:
        return {"hookSpecificOutput": {"toolConfig": {"mode": "ANY", "allowedFunctionNames": ["read"]}}}
"""


def runtime(name: str) -> Json:
    return {"type": "runtime", "name": name, "action": f"./guard.py:{name}"}


def builtin(name: str, policy: str, **options: Any) -> Json:
    return {"type": "builtin", "name": name, "builtin": policy, "options": options}


LIMITS = [
    {"per": "key", "window": "day", "requests": 120},
    {"per": "session", "window": "day", "tokens": 400},
    {"per": "everyone", "window": "minute", "requests": 150},
]
DENY = [{"tool": "sh", "when": {"/command": {"runs": {"program": "rm"}}}}]
POLICY = {
    "BeforeAgent": [runtime("before_agent")],
    "BeforeModel": [
        builtin("models", "models", deny=["*-pro"]),
        {**builtin("no-counts", "models", deny=["*-lite"]), "when": {"operations": ["countTokens"]}},
        builtin("limits", "limits", rules=LIMITS),
        runtime("before_model"),
        builtin("no-mail", "redact"),
    ],
    "BeforeToolSelection": [runtime("select")],
    "AfterModel": [builtin("no-mail-out", "redact"), {**runtime("after_model"), "stream": "complete"}],
    "AfterAgent": [runtime("after_agent")],
    "AfterTool": [runtime("after_tool")],
    "BeforeTool": [builtin("no-rm", "tools", deny=DENY)],
}
REMOVE = {"functionCall": {"name": "sh", "args": {"command": "sudo bash -c 'rm -rf x'"}}}
SCRIPT = {
    "rules": [
        {"when": {"tool_response": "sh"}, "answer": {"text": "Then not."}},
        {"when": {"text": "say more"}, "answer": {"text": "More."}},
        {"when": {"text": "remove"}, "answer": {"chunks": [[{"text": f"I ask {MAIL}."}, REMOVE]]}},
        {"when": {"text": "bad"}, "answer": {"text": "a bad answer"}},
        {"when": {"text": "lazy"}, "answer": {"text": "lazy"}},
        {"when": {"text": "mail"}, "answer": {"text": f"mail {MAIL}, and no-one else"}},
    ]
}
CODE_ASSIST = "/v1internal:generateContent"
VERTEX = f"{PLACE}/publishers/google/models/gemini-2.5-flash:generateContent"
EMBED = "/v1beta/models/gemini-embedding-001"
INTERACTIONS = "/v1beta/interactions"
OPENAI = "/v1beta/openai"
TOOLS = [{"functionDeclarations": [{"name": "sh"}, {"name": "read"}]}]
EVENT = "/s/shim-{}/hookgate/v1/events/BeforeTool"


def conversation_with_result(text: str) -> Json:
    """A conversation whose last turn is the result of a tool."""
    call = {"role": "model", "parts": [{"functionCall": {"name": "read", "args": {}}}]}
    result = {"functionResponse": {"name": "read", "response": {"output": text}}}
    return {"contents": [*prompt("read it")["contents"], call, {"role": "user", "parts": [result]}]}


def batch(text: str) -> Json:
    items = [{"request": prompt(each), "metadata": {"key": each}} for each in ("hi", text)]
    return {"batch": {"displayName": "b", "inputConfig": {"requests": {"requests": items}}}}


def interaction(text: str, **more: Any) -> Json:
    tools = [{"type": "function", **declared} for declared in TOOLS[0]["functionDeclarations"]]
    return {"model": "gemini-2.5-flash", "input": text, "tools": tools, **more}


def chat(text: str, **more: Any) -> Json:
    tools = [{"type": "function", "function": declared} for declared in TOOLS[0]["functionDeclarations"]]
    messages = [{"role": "user", "content": text}]
    return {"model": "gemini-2.5-flash", "messages": messages, "tools": tools, **more}


def calls(number: int) -> Iterator[tuple[str, Json]]:
    """One round of calls of all kinds."""
    session = f"/s/own-{number % 3}"
    for target in (UNARY, SSE, STREAM, VERTEX, session + UNARY):
        yield target, prompt(f"hello {number}")
        yield target, prompt(f"please remove it {number}", tools=TOOLS)
        yield target, prompt(f"write a mail to {MAIL} {number}")
    yield CODE_ASSIST, {"model": "gemini-2.5-flash", "request": prompt(f"remove it {number}", tools=TOOLS)}
    yield CODE_ASSIST, {"model": "gemini-2.5-flash", "request": prompt("forbidden")}
    for text in ("answer yourself", "stop now", "forbidden", "bad", "lazy", "unwanted"):
        yield UNARY, prompt(f"{text} {number}")
        yield SSE, prompt(f"{text} {number}")
    yield UNARY.replace("flash", "pro"), prompt("hi")
    yield UNARY, prompt(f"only read, and remove {number}", tools=TOOLS)
    yield UNARY, conversation_with_result(f"secret {number}")
    yield f"{EMBED}:embedContent", {"content": prompt(f"to {MAIL}")["contents"][0]}
    yield f"{EMBED}:embedContent", {"content": prompt("forbidden")["contents"][0]}
    yield f"{EMBED}:countTokens", prompt(f"count {MAIL} {number}")
    yield "/v1beta/models/gemini-2.5-flash-lite:countTokens", prompt("count")
    for text in ("only read", "forbidden"):
        yield "/v1beta/cachedContents", {"model": "gemini-2.5-flash", **prompt(text, tools=TOOLS)}
    for text in ("hello", "forbidden", "answer yourself", "stop now"):
        yield "/v1beta/models/gemini-2.5-flash:batchGenerateContent", batch(text)
    for text in (
        f"hello {number}",
        f"write a mail to {MAIL}",
        "remove it",
        "forbidden",
        "answer yourself",
        "bad",
    ):
        yield INTERACTIONS, interaction(text)
        yield INTERACTIONS, interaction(text, stream=True)
        yield f"{OPENAI}/chat/completions", chat(text)
        yield f"{OPENAI}/chat/completions", chat(text, stream=True)
    yield f"{OPENAI}/embeddings", {"model": "gemini-embedding-001", "input": ["hello", f"to {MAIL}"]}
    for command in ("ls", "rm x"):
        yield EVENT.format(number % 2), {"tool_name": "sh", "tool_input": {"command": command}}


class StandingClock(datetime):
    """A clock that stands in the middle of the minute in which it was first asked."""

    @classmethod
    @cache
    def now(cls, tz: tzinfo | None = None) -> "StandingClock":
        return super().now(tz).replace(second=30)


@pytest.fixture(autouse=True)
def _within_one_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is recorded is within one window of the limits, however long the calls take."""
    monkeypatch.setattr(limits, "datetime", StandingClock)
    monkeypatch.setattr(chain, "now", lambda: int(StandingClock.now(UTC).timestamp() * 1000))


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest) -> Iterator[str | None]:
    """The URL of an audit's database; None for a file."""
    if request.param == "sqlite":
        yield None
    else:
        with postgres() as url:
            yield url


async def recorded(state: Path, store: str | None) -> Path:
    """An export of more than 200 calls and events of all kinds."""
    (state / "hooks").mkdir()
    (state / "hooks" / "guard.py").write_text(GUARD)
    listed = [call for number in range(5) for call in calls(number)]
    async with (
        running_upstream(SCRIPT) as (upstream, _),
        audited_gateway(upstream, state, POLICY, store=store, content="full") as gateway,
    ):
        for number, (target, body) in enumerate(listed):
            answer = await post(gateway.url, target, body, {"x-goog-api-key": f"key-{number % 2}"})
            assert answer.status in (200, 403, 404), (target, answer)  # the upstream has no batches
    export = state / "export.jsonl"
    with closing(open_audit(store, state, writes=False)) as database, export.open("wb") as out:
        export_records(database, None, None, out)
    return export


async def test_calls_of_all_kinds_are_decided_again_as_they_were(tmp_path: Path, store: str | None) -> None:
    export = await recorded(tmp_path, store)
    ends = [json.loads(line) for line in export.read_text().splitlines()]
    outcomes = Counter(end["body"]["outcome"] for end in ends if "outcome" in end.get("body", {}))
    assert outcomes.total() >= 200
    assert outcomes.keys() >= {"answered", "blocked", "denied", "stopped", "synthetic"}, outcomes
    reasons = [str(end.get("body", {}).get("reasons")) for end in ends]
    assert sum("limit has been reached" in reason for reason in reasons) >= 5
    policy = tmp_path / "hooks" / "settings.json"
    ran = await run("replay", "--json", "--policy", str(policy), str(export))
    assert ran.code == 0, ran
    reported = json.loads(ran.out)
    assert (reported["rules"], reported["outcomes"], reported["failed"]) == ([], [], {})
    assert reported["without_content"] == 0
    assert reported["unchanged"] == reported["replayed"] >= 200
