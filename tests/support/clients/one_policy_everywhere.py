"""One policy for every client and API: what it consists of, and clients that the matrix does not have."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from support.clients.interface import CLIENTS, FRAMEWORK_CLIENTS, Client, Shown
from support.clients.node import run_script
from support.clients.openai_sdk import chat_with, respond_with
from support.clients.python_sdk import MODEL, python_client
from support.gateway.loopback import running_upstream, runs, upstreams_at, write_settings

from hookgate.hooks import Engine, load_settings
from hookgate.proxy.app import serve_on
from hookgate.proxy.calls.gateway import Gateway
from hookgate.proxy.config import Config

Json = dict[str, Any]

SECRETS = [f"AIzaSy{letter}1234567890abcdefghijklmnopqrstuv" for letter in "AB"]
"""Like API keys of Google's: one of the user, one that the model knows."""
MASK = "[GOOGLE_API_KEY]"
REASON = "Project Falcon is confidential."
FORBIDDEN = "This tool is not for agents."
OWN = "The policy answers this one itself."
MAXIMUM = 1000  # tokens
GIVES_UP = "I may not use it."
TOOLS = ("get_weather", "read_file")
"""The tools of the clients, one of which each client has."""


def no_falcon(event: Json) -> Json | None:
    """BeforeModel: deny a call whose newest message contains a phrase."""
    newest = event["llm_request"]["messages"][-1]["content"]
    return {"decision": "deny", "reason": REASON} if "project falcon" in newest else None


def own_answer(event: Json) -> Json | None:
    """BeforeModel: answer one question without the model."""
    newest = event["llm_request"]["messages"][-1]["content"]
    answer = {"hookSpecificOutput": {"llm_response": {"text": OWN}}}
    return answer if "who made this policy" in newest else None


def one_policy() -> Json:
    """The hooks by event. Each has a name, by which receipts list it."""
    builtin = {"type": "builtin"}
    cap = {"cap": {"maxOutputTokens": MAXIMUM}}
    denied = {"deny": [{"tool": name, "reason": FORBIDDEN} for name in TOOLS]}
    redacts = {**builtin, "builtin": "redact", "name": "no-keys"}
    return {
        "BeforeModel": [
            runs(no_falcon, name="no-falcon"),
            runs(own_answer, name="own-answer"),
            {**builtin, "builtin": "models", "name": "cap", "options": cap},
            redacts,
        ],
        "AfterModel": [redacts],
        "BeforeTool": [{**builtin, "builtin": "tools", "name": "no-tools", "options": denied}],
    }


def model() -> Json:
    """A model that tells a key, and calls the tool that it is asked to call."""
    first, rest = SECRETS[1][:10], SECRETS[1][10:]
    calls = {name: {"functionCall": {"name": name, "args": {}}} for name in TOOLS}
    return {
        "rules": [
            {"when": {"tool_response": True}, "answer": {"text": GIVES_UP}},
            {"when": {"text": "my key"}, "answer": {"chunks": ["Mine is ", first, f"{rest}, ", "too."]}},
            *({"when": {"text": name}, "answer": {"parts": [call]}} for name, call in calls.items()),
        ]
    }


@dataclass(frozen=True)
class Watched:
    """A gateway with the policy: its URL, what reached its upstream, and its receipts."""

    url: str
    recorded: Any
    gateway: Gateway

    def receipts(self) -> list[Json]:
        """What the receipts say of the policy, the latest first, whatever API and framing a call had."""
        return [
            {
                "outcome": receipt["outcome"],
                "blocked": [(each["event"], each["hooks"], each["reason"]) for each in receipt["blocked"]],
                "hooks": {
                    (each["event"], each["hook"]): sorted(each["decisions"]) for each in receipt["hooks"]
                },
                "found": sorted({kind for each in receipt["hooks"] for kind in each["findings"]}),
            }
            for receipt in self.gateway.receipts.latest()
        ]


@asynccontextmanager
async def watched_gateway(folder: Path) -> AsyncIterator[Watched]:
    config = Config()
    engine = Engine(load_settings([write_settings(folder, one_policy())]))
    async with running_upstream(model()) as (upstream_url, recorded), upstreams_at(upstream_url) as upstreams:
        gateway = Gateway(engine, upstreams, config)
        async with serve_on(gateway.handle, "127.0.0.1", 0, config.limits) as url:
            yield Watched(url, recorded, gateway)
        await engine.close()


# ---- clients


@dataclass(frozen=True)
class PythonInteractions:
    """google-genai's interactions.

    "continued" is the second turn of one that the API remembers. "background" fetches the answer afterwards.
    """

    way: Literal["whole", "streamed", "continued", "background"]

    async def ask(self, base_url: str, prompt: str, folder: Path) -> Shown:
        parameters = {"type": "object", "properties": {}}
        tools: Any = [{"type": "function", "name": "get_weather", "parameters": parameters}]
        asked: Json = {"model": MODEL, "input": prompt, "tools": tools}
        async with python_client(base_url) as client:
            interactions = client.aio.interactions
            try:
                if self.way == "continued":
                    begun = await interactions.create(model=MODEL, input="Good morning.")
                    asked["previous_interaction_id"] = begun.id
                if self.way == "background":
                    interaction = await interactions.create(**asked, background=True)
                    while interaction.status == "in_progress":
                        interaction = await interactions.get(interaction.id)
                    return Shown(interaction.output_text or "")
                if self.way != "streamed":
                    return Shown((await interactions.create(**asked)).output_text or "")
                events = [event async for event in await interactions.create(**asked, stream=True)]
            except Exception as error:
                status = getattr(error, "status_code", None)
                return Shown(str(error), f"{type(error).__name__} {status}")
        deltas = [event.delta for event in events if event.event_type == "step.delta"]
        return Shown("".join(delta.text for delta in deltas if delta.type == "text"))


@dataclass(frozen=True)
class NodeInteractions:
    """@google/genai's interactions."""

    way: Literal["whole", "stream"]

    async def ask(self, base_url: str, prompt: str, folder: Path) -> Shown:
        ran = await run_script("interact.mjs", self.way, base_url, prompt)
        assert ran.exit_code == 0, ran.stderr
        for error in [line["error"] for line in ran.lines if "error" in line]:
            return Shown(error["message"], f"{error['name']} {error['status']}")
        return Shown("".join(line.get("text", "") for line in ran.lines))


@dataclass(frozen=True)
class OpenAI:
    """OpenAI's SDK, which shows answers and runs no tools."""

    ask_with: Callable[..., Awaitable[list[dict[str, Any]]]]
    program: Literal["python", "node"]
    stream: bool

    async def ask(self, base_url: str, prompt: str, folder: Path) -> Shown:
        printed = await self.ask_with(self.program, base_url, prompt, stream=self.stream)
        for error in [line["error"] for line in printed if "error" in line]:
            return Shown(error["message"], f"{error['name']} {error['status']}")
        return Shown("".join(line.get("text", "") for line in printed))


EVERY_CLIENT: dict[str, Client | PythonInteractions | NodeInteractions | OpenAI] = {
    "Gemini CLI": CLIENTS["gemini-cli"],
    "Antigravity, Python SDK": CLIENTS["antigravity"],
    "google-genai": CLIENTS["python-unary"],
    "google-genai, streamed": CLIENTS["python-stream"],
    "google-genai, interactions": PythonInteractions("whole"),
    "google-genai, interactions, streamed": PythonInteractions("streamed"),
    "google-genai, interactions, continued": PythonInteractions("continued"),
    "@google/genai, streamed": CLIENTS["js"],
    "@google/genai, interactions": NodeInteractions("whole"),
    "OpenAI for Python, chat": OpenAI(chat_with, "python", stream=False),
    "OpenAI for Python, chat, streamed": OpenAI(chat_with, "python", stream=True),
    "OpenAI for Python, responses": OpenAI(respond_with, "python", stream=False),
    "OpenAI for Python, responses, streamed": OpenAI(respond_with, "python", stream=True),
    "OpenAI for JavaScript, chat, streamed": OpenAI(chat_with, "node", stream=True),
    "OpenAI for JavaScript, responses": OpenAI(respond_with, "node", stream=False),
    "OpenAI for JavaScript, responses, streamed": OpenAI(respond_with, "node", stream=True),
    "google-adk, streamed": CLIENTS["adk"],
    "LangChain": FRAMEWORK_CLIENTS["langchain-unary"],
}
"""The clients by the names that they have in the docs."""
