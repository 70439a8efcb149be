"""Real clients with one interface: what does a user see who sends this prompt to this base URL?"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

from google.genai import errors
from support.clients.environments import ADK, ANTIGRAVITY, FRAMEWORKS, OLDER_SDK
from support.clients.node import FRAMEWORKS_DIR, NODE_DIR, GeminiCli, Login, run_framework, run_script
from support.clients.python_sdk import Way, delete_each, pieces, python_client
from support.clients.versions import node_version, python_version
from support.places import PROJECT
from support.programs.commands import Ran

Json = dict[str, Any]

TOOL_SAYS = "storm in Oslo"
"""The result of every client's tool."""

_ADK_ASK = PROJECT / "tests" / "e2e" / "adk" / "ask.py"
_FRAMEWORKS_ASK = PROJECT / "tests" / "e2e" / "frameworks" / "ask.py"
_OLDER_SDK_ASK = PROJECT / "tests" / "e2e" / "older_sdk" / "ask.py"
_OLDER_SDK_DELETES = _OLDER_SDK_ASK.with_name("deletes.py")
_ANTIGRAVITY_ASK = PROJECT / "tests" / "e2e" / "antigravity" / "ask.py"


@dataclass(frozen=True)
class Shown:
    """What a person sees: the text, and how the client failed; empty when it did not."""

    text: str
    failed: str = ""
    beside: str = ""
    """What it reports beside the text."""


class Client(Protocol):
    """One client; `folder` is for what it keeps on disk."""

    @property
    def denial(self) -> str:
        """How it fails when a call is denied."""

    @property
    def version(self) -> str:
        """Its package and version; empty if it is not installed."""

    @property
    def traits(self) -> set[str]:
        """What it can do.

        `stream` or `unary`; `json` if it can ask for JSON itself, `router` if it does so on its own; `tools`
        if it runs tools; `delete` if it has methods that delete: then it is a `Deletes`.
        """

    @property
    def call(self) -> Json:
        """A functionCall of a tool that it runs."""

    async def ask(self, base_url: str, prompt: str, folder: Path, *, json: bool = False) -> Shown:
        """One prompt, its tools run; with `json` one that asks the model for JSON."""


class Deletes(Client, Protocol):
    """A client with methods that delete."""

    async def delete(self, base_url: str) -> int:
        """Delete one of each kind of resource; how many these are."""


# ---- Gemini CLI


@dataclass(frozen=True)
class Cli:
    """Gemini CLI, headless. The JSON is what it asks for when it chooses a model."""

    login: Login
    denial: ClassVar[str] = "exit 1"
    traits: ClassVar[set[str]] = {"stream", "router", "tools"}
    call: ClassVar[Json] = {"name": "read_file", "args": {"file_path": "weather.txt"}}

    @property
    def version(self) -> str:
        return node_version("@google/gemini-cli", NODE_DIR)

    async def ask(self, base_url: str, prompt: str, folder: Path, *, json: bool = False) -> Shown:
        gemini = GeminiCli(folder, self.login)
        (gemini.workspace / "weather.txt").write_text(TOOL_SAYS)
        ran = await gemini.ask(base_url, prompt, model="auto" if json else "gemini-2.5-flash")
        if ran.exit_code:
            return Shown(ran.stderr, f"exit {ran.exit_code}")
        return Shown(ran.stdout.removesuffix("\n"), beside=ran.stderr)


# ---- SDKs


def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"storm in {city}"


class _Sdk:
    denial = "ClientError 403"
    call: ClassVar[Json] = {"name": "get_weather", "args": {"city": "Oslo"}}


@dataclass(frozen=True)
class Python(_Sdk):
    """google-genai, which runs tools by itself."""

    way: Way
    vertex: bool = False

    @property
    def traits(self) -> set[str]:
        return {"json", "tools", "delete", "stream" if "stream" in self.way else "unary"}

    @property
    def version(self) -> str:
        return python_version("google-genai")

    async def ask(self, base_url: str, prompt: str, folder: Path, *, json: bool = False) -> Shown:
        config: Json = {"response_mime_type": "application/json"} if json else {"tools": [get_weather]}
        try:
            async with python_client(base_url, vertex=self.vertex) as client:
                return Shown("".join(await pieces(client, self.way, prompt, **config)))
        except errors.APIError as error:
            return Shown(error.message or "", f"{type(error).__name__} {error.code}")

    async def delete(self, base_url: str) -> int:
        async with python_client(base_url, vertex=self.vertex) as client:
            return await delete_each(client)


@dataclass(frozen=True)
class JavaScript(_Sdk):
    """@google/genai on Node, streaming."""

    denial: ClassVar[str] = "ApiError 403"
    traits: ClassVar[set[str]] = {"json", "stream", "tools", "delete"}

    @property
    def version(self) -> str:
        return node_version("@google/genai", NODE_DIR)

    async def ask(self, base_url: str, prompt: str, folder: Path, *, json: bool = False) -> Shown:
        return shown_by(await run_script("turn.mjs", base_url, prompt, *(["json"] if json else [])))

    async def delete(self, base_url: str) -> int:
        return deleted_by(await run_script("deletes.mjs", base_url))


@dataclass(frozen=True)
class Adk(_Sdk):
    """An agent of google-adk, streaming. Its google-genai is an older one than ours."""

    traits: ClassVar[set[str]] = {"json", "stream", "tools"}

    @property
    def version(self) -> str:
        return ADK.version("google-adk")

    async def ask(self, base_url: str, prompt: str, folder: Path, *, json: bool = False) -> Shown:
        return shown_by(await ADK.run(_ADK_ASK, base_url, prompt, *(["json"] if json else [])))


@dataclass(frozen=True)
class Antigravity(_Sdk):
    """An agent of Antigravity's Python SDK, whose harness streams."""

    denial: ClassVar[str] = "AntigravityConnectionError 403"
    traits: ClassVar[set[str]] = {"stream", "tools"}

    @property
    def version(self) -> str:
        return ANTIGRAVITY.version("google-antigravity")

    async def ask(self, base_url: str, prompt: str, folder: Path, *, json: bool = False) -> Shown:
        return shown_by(await antigravity(folder, prompt, base_url))


@dataclass(frozen=True)
class Framework(_Sdk):
    """LangChain or LiteLLM, either of which has errors of its own."""

    name: Literal["langchain", "litellm"]
    way: Literal["unary", "stream"]

    @property
    def denial(self) -> str:
        error = {"langchain": "GooglePermissionDeniedError", "litellm": "BadRequestError"}[self.name]
        return f"{error} 403"

    @property
    def traits(self) -> set[str]:
        return {"json", "tools", self.way, *({"delete"} if self.name == "litellm" else ())}

    @property
    def version(self) -> str:
        return FRAMEWORKS.version({"langchain": "langchain-google-genai", "litellm": "litellm"}[self.name])

    async def ask(self, base_url: str, prompt: str, folder: Path, *, json: bool = False) -> Shown:
        words = (self.name, self.way, base_url, prompt, *(["json"] if json else []))
        return shown_by(await FRAMEWORKS.run(_FRAMEWORKS_ASK, *words))

    async def delete(self, base_url: str) -> int:
        return deleted_by(await FRAMEWORKS.run(_FRAMEWORKS_ASK.with_name("deletes.py"), base_url))


@dataclass(frozen=True)
class JavaScriptFramework(_Sdk):
    """A framework, or an SDK of the past, on Node."""

    name: str
    package: str
    denial: str
    way: Literal["unary", "stream"] = "stream"
    more: frozenset[str] = frozenset({"json"})
    """Traits beside the way and its tools."""

    @property
    def traits(self) -> set[str]:
        return {self.way, "tools", *self.more}

    @property
    def version(self) -> str:
        return node_version(self.package, FRAMEWORKS_DIR)

    async def ask(self, base_url: str, prompt: str, folder: Path, *, json: bool = False) -> Shown:
        words = (self.name, self.way, base_url, prompt, *(["json"] if json else []))
        return shown_by(await run_framework("ask.mjs", *words))

    async def delete(self, base_url: str) -> int:
        return deleted_by(await run_framework("deletes.mjs", base_url))


@dataclass(frozen=True)
class OlderPython(_Sdk):
    """google-genai 2, alone or in a framework that requires it."""

    name: Literal["google-genai", "pydantic-ai", "llama-index"]
    denial: str
    way: Literal["unary", "stream"] = "stream"

    @property
    def traits(self) -> set[str]:
        return {self.way, "tools", *({"delete"} if self.name == "google-genai" else ())}

    @property
    def version(self) -> str:
        packages = {"pydantic-ai": "pydantic-ai-slim", "llama-index": "llama-index-llms-google-genai"}
        return OLDER_SDK.version(packages.get(self.name, self.name))

    async def ask(self, base_url: str, prompt: str, folder: Path, *, json: bool = False) -> Shown:
        return shown_by(await OLDER_SDK.run(_OLDER_SDK_ASK, self.name, self.way, base_url, prompt))

    async def delete(self, base_url: str) -> int:
        return deleted_by(await OLDER_SDK.run(_OLDER_SDK_DELETES, base_url))


async def antigravity(folder: Path, prompt: str, *base_urls: str, key: str = "any") -> Ran:
    """Ask Antigravity's harness one prompt at each base URL; it works and keeps its files in `folder`."""
    return await ANTIGRAVITY.run(_ANTIGRAVITY_ASK, str(folder), key, prompt, *base_urls)


async def antigravity_openai(folder: Path, prompt: str, base_url: str) -> Ran:
    """Ask Antigravity's harness with the wire protocol of OpenAI.

    The SDK passes no key in this protocol. The user and password of a URL are sent as a credential.
    """
    script = _ANTIGRAVITY_ASK.with_name("ask_openai.py")
    return await ANTIGRAVITY.run(script, str(folder), prompt, base_url.replace("://", "://any:key@"))


def shown_by(ran: Ran) -> Shown:
    """What a person sees of a script, which prints `{"text"}` for each piece, `{"error"}` at its end."""
    assert ran.exit_code == 0, ran.stderr
    text = "".join(line["text"] for line in ran.lines if "text" in line)
    for error in [line["error"] for line in ran.lines if "error" in line]:
        return Shown(text + error["message"], f"{error['name']} {error.get('status')}")
    return Shown(text)


def deleted_by(ran: Ran) -> int:
    """How many deletions a script made, each of which it printed in a line."""
    assert ran.exit_code == 0, ran.stderr
    return len(ran.lines)


CLIENTS: dict[str, Client] = {
    "gemini-cli": Cli("api key"),
    "gemini-cli-vertex": Cli("vertex"),
    "gemini-cli-code-assist": Cli("code assist"),
    "python-unary": Python("sync"),
    "python-stream": Python("async stream"),
    "python-vertex": Python("sync stream", vertex=True),
    "js": JavaScript(),
    "adk": Adk(),
    "antigravity": Antigravity(),
}
"""Every client that hookgate promises to work with, by the name it has in a test's ID."""

FRAMEWORK_CLIENTS: dict[str, Client] = {
    "langchain-unary": Framework("langchain", "unary"),
    "langchain-stream": Framework("langchain", "stream"),
    "litellm-unary": Framework("litellm", "unary"),
    "litellm-stream": Framework("litellm", "stream"),
    "genkit": JavaScriptFramework("genkit", "@genkit-ai/google-genai", "GenkitError UNKNOWN"),
    "genkit-unary": JavaScriptFramework("genkit", "@genkit-ai/google-genai", "GenkitError UNKNOWN", "unary"),
    "langchain-js": JavaScriptFramework("langchain-genai", "@langchain/google-genai", "Error 403"),
    "langchain-js-google": JavaScriptFramework(
        "langchain-google", "@langchain/google", "RequestError 403", more=frozenset()
    ),
    "generative-ai": JavaScriptFramework(
        "generative-ai", "@google/generative-ai", "Error 403", more=frozenset({"json", "delete"})
    ),
    "ai-sdk": JavaScriptFramework("ai-sdk", "@ai-sdk/google", "AI_APICallError 403"),
    "mastra": JavaScriptFramework("mastra", "@mastra/core", "AI_APICallError 403", more=frozenset()),
    "google-genai-2": OlderPython("google-genai", "ClientError 403"),
    "pydantic-ai": OlderPython("pydantic-ai", "ModelAuthenticationError 403"),
    "llama-index": OlderPython("llama-index", "ClientError 403"),
}
"""The same, for clients whose environment takes too long to install for `make test`."""
