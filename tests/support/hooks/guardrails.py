"""Stand-ins for services that judge texts: Model Armor, and one of LiteLLM's generic guardrail API."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web
from support.gateway.loopback import upstreams_at
from support.hooks.http import service

from hookgate.hooks import Engine, HookError
from hookgate.hooks.runner_factory import make_runners
from hookgate.hooks.settings import SettingsSource, load_sources
from hookgate.proxy.app import serve_on
from hookgate.proxy.calls.gateway import Gateway
from hookgate.proxy.config import Config

Json = dict[str, Any]

TEMPLATE = "projects/my-project/locations/europe-west4/templates/strict"
TOKEN = "ya29.canary-token-of-the-gateway"  # noqa: S105  # no password
KEY = "canary-key-of-the-guardrail"
REASON = "Rockets are not discussed here."
EMAIL = re.compile(r"[a-z]+@example\.com")
FORBIDDEN = "rocket"


class Tokens:
    """The access tokens of a gateway that has one credential, `cloud`."""

    names = frozenset({"cloud"})

    def __init__(self, error: str = "") -> None:
        self._error = error

    async def get(self, name: str) -> str:
        if self._error:
            raise HookError(self._error)
        return TOKEN


Answer = Callable[[str], Any]
"""What a service answers to a text: a JSON value, or a response."""


@dataclass
class Guardrail:
    """A service that judges texts, and what it was asked."""

    url: str = ""
    answer: Callable[[Json], Any] = lambda _: {}
    asked: list[Json] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    open: asyncio.Event = field(default_factory=asyncio.Event)
    """The service answers once this is set."""
    delay: float = 0.0
    """Seconds until it answers."""
    most_at_once: int = 0
    """The largest number of requests that were open at the same time."""
    _running: int = 0

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.json()
        self.asked.append(body)
        self.paths.append(request.path)
        self.headers.append(request.headers)
        self._running += 1
        self.most_at_once = max(self.most_at_once, self._running)
        await self.open.wait()
        await asyncio.sleep(self.delay)
        self._running -= 1
        answer = self.answer(body)
        return answer if isinstance(answer, web.StreamResponse) else web.json_response(answer)

    @property
    def texts(self) -> list[str]:
        """All texts that it was asked about."""
        return [text for body in self.asked for text in texts_of(body)]


def texts_of(body: Json) -> list[str]:
    if "texts" in body:
        return list(body["texts"])
    return [value["text"] for value in body.values()]


# ---- Model Armor


def armor_result(state: str, filters: Json, invocation: str = "SUCCESS") -> Json:
    return {
        "sanitizationResult": {
            "filterMatchState": state,
            "filterResults": filters,
            "invocationResult": invocation,
            "sanitizationMetadata": {},
        }
    }


def filter_result(name: str, state: str, **more: Any) -> Json:
    return {name: {"executionState": "EXECUTION_SUCCESS", "matchState": state, **more}}


def clean_filters() -> Json:
    return {
        "rai": filter_result("raiFilterResult", "NO_MATCH_FOUND"),
        "pi_and_jailbreak": filter_result("piAndJailbreakFilterResult", "NO_MATCH_FOUND"),
        "sdp": {"sdpFilterResult": filter_result("deidentifyResult", "NO_MATCH_FOUND")},
    }


def deidentified(text: str) -> Json:
    found = filter_result("deidentifyResult", "MATCH_FOUND", data={"text": text}, infoTypes=["EMAIL_ADDRESS"])
    return armor_result("MATCH_FOUND", {**clean_filters(), "sdp": {"sdpFilterResult": found}})


def denied_by(name: str, field: str) -> Json:
    return armor_result("MATCH_FOUND", {**clean_filters(), name: filter_result(field, "MATCH_FOUND")})


def armor_answer(body: Json) -> Json:
    """Denies texts about rockets, and de-identifies addresses."""
    [text] = texts_of(body)
    if FORBIDDEN in text:
        return denied_by("rai", "raiFilterResult")
    if EMAIL.search(text):
        return deidentified(EMAIL.sub("[EMAIL_ADDRESS]", text))
    return armor_result("NO_MATCH_FOUND", clean_filters())


# ---- the generic guardrail API


def guardrail_answer(body: Json) -> Json:
    """The same decisions."""
    texts = texts_of(body)
    if any(FORBIDDEN in text for text in texts):
        return {"action": "BLOCKED", "blocked_reason": REASON}
    new = [EMAIL.sub("[EMAIL_ADDRESS]", text) for text in texts]
    return {"action": "NONE"} if new == texts else {"action": "GUARDRAIL_INTERVENED", "texts": new}


# ---- the policies that ask them

POLICIES = ("model_armor", "guardrail")

USUAL = {"model_armor": armor_answer, "guardrail": guardrail_answer}


def options_of(policy: str, url: str, **more: Any) -> Json:
    if policy == "model_armor":
        return {"template": TEMPLATE, "credential": "cloud", "endpoint": url, **more}
    return {"url": url, "headers": {"x-api-key": KEY}, **more}


@asynccontextmanager
async def guardrail(policy: str) -> AsyncIterator[Guardrail]:
    """The stand-in for the service of a policy."""
    stand_in = Guardrail(answer=USUAL[policy])
    stand_in.open.set()
    async with service(stand_in.handle) as stand_in.url:  # type: ignore[arg-type]  # a plain server's requests
        try:
            yield stand_in
        finally:
            stand_in.open.set()


def hook_of_policy(policy: str, url: str, hook: Json | None = None, **options: Any) -> Json:
    """The hook that asks a service at a URL."""
    about = {"type": "builtin", "builtin": policy, "name": "armor"}
    return {**about, "options": options_of(policy, url, **options), **(hook or {})}


@asynccontextmanager
async def asking_engine(
    folder: Path, hooks: Mapping[str, Json], url: str, tokens: Any = None, layer: Any = "user"
) -> AsyncIterator[Engine]:
    """An engine with one hook per event, which may ask the service at this URL."""
    settings = {
        "hooks": {event: [{"hooks": [hook]}] for event, hook in hooks.items()},
        "hooksConfig": {"http_targets": [f"{url}/"]},
    }
    file = folder / "settings.json"
    file.write_text(json.dumps(settings))
    targets = folder / "targets.json"
    targets.write_text(json.dumps({"hooksConfig": settings["hooksConfig"]}))
    sources = [SettingsSource(targets, "policy"), SettingsSource(file, layer, trusted=True)]
    configuration = load_sources(sources)
    runners = make_runners(
        configuration.hooks(),
        http_targets=configuration.http_targets,
        access_tokens=tokens or Tokens(),
    )
    engine = Engine(configuration, runners)
    try:
        yield engine
    finally:
        await engine.close()


@asynccontextmanager
async def guarded_gateway(
    folder: Path, policy: str, guard: Guardrail, upstream_url: str, hook: Json | None = None, **options: Any
) -> AsyncIterator[str]:
    """A gateway whose requests and answers a service judges; gives its base URL."""
    configured = hook_of_policy(policy, guard.url, hook, **options)
    hooks = {"BeforeModel": configured, "AfterModel": configured}
    async with (
        asking_engine(folder, hooks, guard.url) as engine,
        upstreams_at(upstream_url) as upstreams,
        serve_on(Gateway(engine, upstreams).handle, "127.0.0.1", 0, Config().limits) as url,
    ):
        yield url
