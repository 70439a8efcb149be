"""The five scenes: what the agent asks, what comes back, and what has to be true of it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from hookgate.proxy.demo.client import Agent, Refused
from hookgate.proxy.embedded import EmbeddedUpstream
from hookgate.translator import declared_names, show_tool_config


@dataclass(frozen=True, slots=True)
class Shown:
    """What a scene shows: the dialogue, and each check with its outcome."""

    lines: list[tuple[str, str]]
    checks: dict[str, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Scene:
    """One scene, by its title and the hook it is about."""

    title: str
    hook: str
    play: Callable[[Agent, EmbeddedUpstream], Awaitable[Shown]]


async def _plain(agent: Agent, upstream: EmbeddedUpstream) -> Shown:
    answer = await agent.ask("What is a hook?")
    return Shown(
        [("asks", "What is a hook?"), ("gets", str(answer))],
        {
            "the answer came through as the upstream gave it": answer == "You said: What is a hook?",
            "the upstream was asked once": len(upstream.recorded) == 1,
        },
    )


async def _redacted_stream(agent: Agent, upstream: EmbeddedUpstream) -> Shown:
    events = await agent.stream("Who looks after the staging database?")
    text = "".join(events)
    return Shown(
        [("asks", "Who looks after the staging database?"), *(("gets", event) for event in events)],
        {
            "the mail address and the password are masked": text.count("[REDACTED]") == 2,
            "neither of them reached the agent": "@example.com" not in text and "hunter2" not in text,
            "the answer arrived as a stream": len(events) == 4,
        },
    )


async def _synthetic(agent: Agent, upstream: EmbeddedUpstream) -> Shown:
    before = len(upstream.recorded)
    answer = await agent.ask("Hello, are you there?")
    return Shown(
        [("asks", "Hello, are you there?"), ("gets", str(answer))],
        {
            "the hook answered": answer == "The gateway is here. No model was asked.",
            "the upstream was not asked": len(upstream.recorded) == before,
        },
    )


async def _denied(agent: Agent, upstream: EmbeddedUpstream) -> Shown:
    before = len(upstream.recorded)
    prompt = "What is wrong with this key? -----BEGIN PRIVATE KEY----- MIIEvQ…"
    answer = await agent.ask(prompt)
    refused = answer if isinstance(answer, Refused) else Refused(200, "")
    return Shown(
        [("asks", prompt), ("gets", f"error {refused.code}: {refused.message}")],
        {
            "the SDK raised 403 with the hook's reason": refused
            == Refused(403, "This prompt holds a private key. Remove it and ask again."),
            "the key never left the house": len(upstream.recorded) == before,
        },
    )


async def _narrowed(agent: Agent, upstream: EmbeddedUpstream) -> Shown:
    ran: list[str] = []

    def write_file(file_path: str, content: str) -> str:
        """Write a file."""
        ran.append("write_file")
        return f"wrote {len(content)} bytes to {file_path}"

    def read_file(file_path: str) -> str:
        """Read a file."""
        ran.append("read_file")
        return f"the content of {file_path}"

    answer = await agent.ask("Use a tool.", tools=[write_file, read_file])
    request = upstream.recorded[-1].body or {}
    allowed = (show_tool_config(request) or {}).get("allowedFunctionNames")
    return Shown(
        [
            ("asks", f"Use a tool. (It offers {', '.join(declared_names(request))}.)"),
            ("runs", ", ".join(ran)),
            ("gets", str(answer)),
        ],
        {
            "of the offered tools the model may call read_file alone": allowed == ["read_file"],
            "the SDK ran read_file, and nothing else": ran == ["read_file"],
            "the call came back with its signature": "thoughtSignature" in str(request.get("contents")),
            "the tool's result reached the answer": "the content of" in str(answer),
        },
    )


SCENES = (
    Scene("A plain call", "nothing to do for any hook", _plain),
    Scene("A redacted stream", "redact.py, a runtime hook on AfterModel", _redacted_stream),
    Scene("A synthetic answer", "canned_answer.sh, a command hook on BeforeModel", _synthetic),
    Scene("A denied prompt", "deny_private_keys.py, exit code 2 on BeforeModel", _denied),
    Scene("Narrowed tools", "echo read_file,list_directory on BeforeToolSelection", _narrowed),
)
