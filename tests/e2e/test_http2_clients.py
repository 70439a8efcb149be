"""Clients that ask for HTTP/2 with their first request: the JDK's HttpClient, and curl."""

import json
import shutil
from pathlib import Path

import pytest
from support.clients.jdk import call_with_jdk
from support.gateway.loopback import running_gateway, runs
from support.hooks.policies import CARD, REDACTED, REFUSAL, no_rockets, redact
from support.programs.commands import run_command
from support.wire import SSE, UNARY, prompt

_ANSWER = {"rules": [{"answer": {"chunks": ["Keep\u2028", CARD, "\x85safe."], "chunk_delay_ms": 100}}]}
_HOOKS = {"BeforeModel": [runs(no_rockets)], "AfterModel": [runs(redact)]}


async def test_the_http_client_of_the_jdk_makes_calls_one_after_another() -> None:
    hello, rocket = json.dumps(prompt("hello")), json.dumps(prompt("a rocket"))
    async with running_gateway(_HOOKS, _ANSWER) as gateway:
        calls = [
            ("POST", gateway.url + UNARY, hello),
            ("POST", gateway.url + SSE, hello),
            ("POST", gateway.url + UNARY, rocket),
            ("GET", f"{gateway.url}/v1beta/models", "x"),  # refused, and the connection closes
            ("DELETE", f"{gateway.url}/v1beta/cachedContents/none", "{}"),
            ("POST", gateway.url + UNARY, hello),
        ]
        lines = await call_with_jdk(*calls)
    statuses = [line for line in lines if line.endswith(" HTTP_1_1")]
    assert [line[:3] for line in statuses] == ["200", "200", "403", "400", "404", "200"]
    printed = "".join(lines)
    assert REFUSAL in printed
    assert REDACTED in printed
    assert CARD not in printed
    assert len([request for request in gateway.recorded if request.method == "DELETE"]) == 1


@pytest.mark.skipif(not shutil.which("curl"), reason="needs curl")
async def test_curl_asks_for_http2_and_gets_http1() -> None:
    async with running_gateway(_HOOKS, _ANSWER) as gateway:
        words = ["-sS", "--http2", "-H", "x-goog-api-key: any", "-w", "%{http_version} %{http_code}"]
        ran = await run_command(
            ["curl", *words, "-d", json.dumps(prompt("hello")), gateway.url + UNARY], Path("/")
        )
    assert ran.exit_code == 0, ran.stderr
    assert ran.stdout.endswith("1.1 200")
