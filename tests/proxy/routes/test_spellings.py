"""Spellings that another parser could take for a generative route never pass unjudged."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio
from support.gateway.loopback import RunningGateway, running_gateway, runs
from support.wire import connected, prompt

FORBIDDEN = "the-forbidden-prompt"
CONTENTS = prompt(FORBIDDEN)
BATCH = {"batch": {"inputConfig": {"requests": {"requests": [{"request": CONTENTS}]}}}}
VERTEX = "/v1beta1/projects/p/locations/l"
ROUTES: dict[str, Any] = {
    "/v1beta/models/m:generateContent": CONTENTS,
    "/v1/models/m:streamGenerateContent": CONTENTS,
    "/v1alpha/models/m:batchGenerateContent": BATCH,
    "/v1beta/tunedModels/m:generateContent": CONTENTS,
    "/v1beta/tunedModels/m:streamGenerateContent": CONTENTS,
    f"{VERTEX}/publishers/google/models/m:generateContent": CONTENTS,
    f"{VERTEX}/publishers/google/models/m:streamGenerateContent": CONTENTS,
    "/v1/publishers/google/models/m:generateContent": CONTENTS,
    f"{VERTEX}/endpoints/17:generateContent": CONTENTS,
    f"{VERTEX}/endpoints/17:streamGenerateContent": CONTENTS,
    "/v1internal:generateContent": {"model": "m", "request": CONTENTS},
    "/v1internal:streamGenerateContent": {"model": "m", "request": CONTENTS},
    "/v1beta/interactions": {"model": "m", "input": FORBIDDEN},
    f"{VERTEX}/interactions": {"model": "m", "input": [{"type": "text", "text": FORBIDDEN}], "stream": True},
    "/v1beta/openai/chat/completions": {"model": "m", "messages": [{"role": "user", "content": FORBIDDEN}]},
    "/v1beta/openai/embeddings": {"model": "m", "input": ["hi", FORBIDDEN]},
    "/v1beta/openai/responses": {"model": "m", "input": FORBIDDEN},
    f"{VERTEX}/endpoints/openapi/responses": {
        "model": "google/m",
        "input": [{"role": "user", "content": [{"type": "input_text", "text": FORBIDDEN}]}],
        "stream": True,
    },
    f"{VERTEX}/endpoints/openapi/embeddings": {"model": "google/m", "input": FORBIDDEN},
    f"{VERTEX}/endpoints/openapi/chat/completions": {
        "model": "google/m",
        "messages": [{"role": "system", "content": [{"type": "text", "text": FORBIDDEN}]}],
        "stream": True,
    },
    "/v1beta/cachedContents": {"model": "models/m", **CONTENTS},
    f"{VERTEX}/cachedContents": {"model": "models/m", **CONTENTS},
    "/v1beta/models/m:predict": {"instances": [{"prompt": FORBIDDEN}]},
    "/v1beta/models/m:predictLongRunning": {"instances": [{"prompt": FORBIDDEN}]},
    f"{VERTEX}/publishers/google/models/m:predict": {"instances": [{"prompt": FORBIDDEN}]},
    f"{VERTEX}/batchPredictionJobs": {"model": "m", "prompt": FORBIDDEN},
    "/v1beta/agents": {"input": FORBIDDEN},
    "/v1beta/triggers": {"input": FORBIDDEN},
    "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent": CONTENTS,
    "/ws/google.cloud.aiplatform.v1beta1.LlmBidiService/BidiGenerateContent": CONTENTS,
}


def spellings(path: str) -> Iterator[str]:
    """The path itself, and how else it could be written."""
    stem, verb = path[: path.rfind(mark := ":" if ":" in path else "/")], path[path.rfind(mark) + 1 :]
    version, rest = path.split("/", 2)[1] if path.count("/") > 1 else path[1:], path[path.find("/", 1) :]
    yield from (path, f"/s/abc{path}", f"{path}?alt=json", f"{path}?key=k", f"{path}?")
    # case
    yield from (
        path.upper(),
        path.swapcase(),
        f"{stem}{mark}{verb.capitalize()}x",
        f"{stem}{mark}{verb.lower()}.",
    )
    yield from (
        f"{stem}{mark}{verb[0].upper()}{verb[1:]}",
        path.replace("/v1", "/V1"),
        path.replace("/ws", "/WS"),
    )
    # encodings
    yield from (path.replace(":", "%3A"), path.replace(":", "%3a"), path.replace(":", "%253A"))
    yield from (f"{stem}{mark}%{ord(verb[0]):x}{verb[1:]}", f"/%{ord(path[1]):x}{path[2:]}", f"{path}%00")
    yield from (
        f"%2F{path[1:]}",
        f"/%2F{path[1:]}",
        f"/%2f..{path}",
        f"{path}%20",
        f"{path}%0a",
        f"{path}%0d%0a",
    )
    yield from (path[0] + path[1:].replace("/", "%2F"), path[0] + path[1:].replace("/", "%5C"), f"{path}%3Fa")
    yield from (f"/%c0%af{path[1:]}", f"{path}%", f"{path}%zz", f"{path}%23")
    # slashes and dots
    yield from (
        f"/{path}",
        f"//{path}",
        f"{path}/",
        f"{path}//",
        f"{stem}/{mark}{verb}",
        f"{stem}{mark}/{verb}",
    )
    yield from (path.replace("/", "//"), path.replace("/", "\\"), path[1:], f"\\{path[1:]}", f"/x/..{path}")
    yield from (f"/.{path}", f"/..{path}", f"{path}/.", f"{path}/..", f"{path}/../{verb}", f"/%2e{path}")
    yield from (f"/{version}/.{rest}", f"/{version}/../{version}{rest}", f"/{version}/%2e%2e/{version}{rest}")
    # parameters of a segment, and of nothing
    yield from (f"{path};a=b", f"{path};", f"/{version};a=b{rest}", f"{stem};a=b{mark}{verb}", f"/;{path}")
    # unicode
    yield from (
        path.replace(":", "：") + "é",
        path.replace("e", "е"),
        path.replace("/", "／"),
        f"{path}\u200b",
    )
    yield from (f"{path}\xa0", f"\ufeff{path}", path.replace("o", "ο"))
    # missing and extra
    yield from (f"/{version}{path}", f"/v2{rest}", f"{rest}x", f"{path}x", f"{path}{mark}{verb}", f"/x{path}")
    yield from (
        f"{stem}{mark}{mark}{verb}",
        f"{stem} {mark}{verb}",
        f"{stem}{mark} {verb}",
        f"{stem}.{verb}x",
    )
    yield from (
        f"{stem}@{verb}",
        f"{path}:",
        f":{path}",
        f"{path},x",
        f"/s/a/s/b{path}",
        f"/s/{path}",
        f"/s/..{path}",
    )
    # other forms of a target
    yield from (
        f"http://localhost{path}",
        f"https://generativelanguage.googleapis.com{path}",
        f"*{path}",
        "*",
    )
    yield from (
        f"//localhost{path}",
        f"localhost{path}",
        f"@evil{path}",
        f"/http://localhost{path}",
        f"{path} ",
    )
    # queries
    yield from (f"{path}?$alt=proto", f"{path}?%24alt=json", f"{path}?alt=json&alt=sse", f"{path}?fields=x")
    yield from (
        f"{path}?prettyPrint=false",
        f"{path}?$httpMethod=GET",
        f"{path}?alt=media;alt=json",
        f"{path}?a#b",
    )
    yield from (
        f"{path}#",
        f"{path}#?alt=json",
        f"{path}?key=a&key=b",
        f"{path}?callback=f",
        f"{path}?\xe9",
        f"?{path}",
    )


def forbid(event: dict[str, Any]) -> dict[str, Any] | None:
    """BeforeModel: deny what holds the forbidden prompt."""
    return {"decision": "deny", "reason": "forbidden"} if FORBIDDEN in str(event["llm_request"]) else None


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway() -> AsyncIterator[RunningGateway]:
    async with running_gateway({"BeforeModel": [runs(forbid)]}) as running:
        yield running


def test_there_are_enough_spellings_of_each_route() -> None:
    assert all(len(set(spellings(path))) > 60 for path in ROUTES)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("path", ROUTES)
async def test_each_spelling_is_judged_or_refused(gateway: RunningGateway, path: str) -> None:
    statuses = {spelling: await post_status(gateway, "POST", spelling, path) for spelling in spellings(path)}
    assert {spelling: status for spelling, status in statuses.items() if status not in (400, 403)} == {}
    assert leaked(gateway) == []


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "post", "QUERY"])
async def test_no_other_method_carries_a_forbidden_prompt_upstream(
    gateway: RunningGateway, path: str, method: str
) -> None:
    await post_status(gateway, method, path, path)
    assert leaked(gateway) == []


async def post_status(gateway: RunningGateway, method: str, target: str, path: str) -> int:
    """The status that a request with the forbidden prompt gets."""
    body = json.dumps(ROUTES[path]).encode()
    head = f"{method} {target} HTTP/1.1\r\nHost: localhost\r\nx-goog-api-key: k\r\n"
    async with connected(gateway.url) as wire:
        await wire.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        return (await wire.head())[0]


def leaked(gateway: RunningGateway) -> list[Any]:
    """The requests that reached the upstream with the forbidden prompt."""
    return [request for request in gateway.recorded if FORBIDDEN in json.dumps(request.body)]
