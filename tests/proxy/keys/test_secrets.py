"""API keys reach only the upstream."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from support.gateway.loopback import gateway_before, listens, running_gateway, says
from support.wire import HI, SSE, UNARY, Answer, connected, peer, post

CANARY = "AIza-canary-0815"
WAYS = pytest.mark.parametrize(
    ("query", "headers"),
    [
        ("", {"x-goog-api-key": CANARY}),
        ("", {"Authorization": f"Bearer {CANARY}"}),
        (f"?key={CANARY}", {}),
        ("?key=AIza%2Dcanary-0815&alt=json", {"x-goog-api-key": CANARY}),
    ],
    ids=["header", "bearer", "query", "both"],
)


@pytest.fixture(autouse=True)
def all_logs(caplog: pytest.LogCaptureFixture) -> Any:
    """Whatever a test here does, no log line of any level or library holds the key."""
    caplog.set_level(logging.DEBUG)
    yield
    assert "canary" not in caplog.text


def recorder(folder: Path) -> dict[str, Any]:
    """A program that keeps what it is given: its input, environment and arguments."""
    keep = f"cat >> {folder}/input; env >> {folder}/environment; cat /proc/$$/cmdline >> {folder}/args"
    return {"type": "command", "command": keep}


@WAYS
async def test_a_clients_key_is_not_shown_to_any_hook(
    query: str, headers: dict[str, str], tmp_path: Path
) -> None:
    seen: list[Any] = []
    events = ("BeforeModel", "BeforeToolSelection", "AfterModel")
    hooks = {event: [recorder(tmp_path), listens(seen)] for event in events}
    async with running_gateway(hooks) as gateway:
        answer = await post(gateway.url, UNARY + query, HI, headers)
        [request] = gateway.recorded
    assert answer.status == 200
    assert "canary" in json.dumps([request.headers, request.path_qs])  # the upstream needs it
    assert len(seen) == 3
    assert "canary" not in json.dumps(seen)
    for name in ("input", "environment", "args"):
        noted = (tmp_path / name).read_text()
        assert noted
        assert "canary" not in noted


@pytest.mark.parametrize("name", ["GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY"])
async def test_a_key_in_the_gateways_own_environment_stays_there(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, CANARY)
    async with running_gateway({"BeforeModel": [recorder(tmp_path)]}) as gateway:
        await post(gateway.url, UNARY, HI)
    assert "GEMINI_SESSION_ID=" in (tmp_path / "environment").read_text()
    assert "canary" not in (tmp_path / "environment").read_text()


@WAYS
@pytest.mark.parametrize("hooks", [{}, {"BeforeModel": [says()]}], ids=["without hooks", "with hooks"])
async def test_a_failing_call_does_not_tell_its_key(query: str, headers: dict[str, str], hooks: Any) -> None:
    answers: list[Answer] = []
    async with peer() as upstream, gateway_before(upstream.url, hooks) as url:
        answers.append(await post(url, UNARY + query, HI, headers))
        answers.append(await post(url, UNARY + query, b"{", headers))
        answers.append(await post(url, "/v1beta/elsewhere" + query, HI, headers))
        answers.append(await post(url, f"{UNARY}{query or '?'}&fields=x", HI, headers))
    assert [answer.status for answer in answers] == [502, 400 if hooks else 502, 403, 400]
    assert all(b"canary" not in answer.body for answer in answers)


async def test_a_failing_hook_does_not_tell_the_key() -> None:
    hooks = {"BeforeModel": [{"type": "command", "command": "env >&2; exit 1", "on_error": "deny"}]}
    async with running_gateway(hooks) as gateway:
        answer = await post(gateway.url, f"{SSE}&key={CANARY}", HI, {"x-goog-api-key": CANARY})
    assert (answer.status, b"canary" in answer.body) == (403, False)


@pytest.mark.parametrize("key", [f"{CANARY} x", f"{CANARY}\xe9", f"{CANARY}\x01"])
async def test_a_malformed_request_line_does_not_tell_its_key(key: str) -> None:
    async with running_gateway() as gateway, connected(gateway.url) as wire:
        await wire.post(f"{UNARY}?key={key}", HI)
        answer = await wire.answer()
    assert (answer.status, b"canary" in answer.body) == (400, False)
