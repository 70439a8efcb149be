"""Keys with names and teams at a whole gateway, and the refusal of unknown keys."""

import io
import logging
import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.clients.python_sdk import python_client, sdk_warnings
from support.gateway.loopback import RunningGateway, running_gateway, runs
from support.wire import HI, UNARY, Answer, ask, post

from hookgate.proxy.cli import keys
from hookgate.proxy.cli.main import run_command
from hookgate.proxy.config import ClientSettings, Config, NamedKey, RouteSettings, TranscriptSettings
from hookgate.proxy.keys.callers import Caller, Callers, KeyOwner
from hookgate.proxy.routes.table import Route

CANARY = "AIza-canary-0815"
OTHER = "AIza-canary-4711"
LIVE = "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent"
UPLOAD = "/upload/v1beta/files"
EVENT = {"session_id": "s-1", "hook_event_name": "SessionStart", "source": "startup"}


def digest(key: str) -> str:
    return sha256(key.encode()).hexdigest()


NAMES = {
    "alice": NamedKey(sha256=digest(CANARY), team="search"),
    "bob": NamedKey(sha256=digest("AIza-canary-bob"), team="platform"),
}
ROUTES = RouteSettings(unhooked=("live", "openai", "agents"), files="forward")
REFUSING = Config(keys=NAMES, clients=ClientSettings(unknown_keys="refuse"), routes=ROUTES)


def deny(**when: Any) -> dict[str, Any]:
    return runs(lambda _: {"decision": "deny", "reason": "Not for you."}, when=when)


@pytest.fixture(autouse=True)
def all_logs(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """No log line of any level holds a key."""
    caplog.set_level(logging.DEBUG)
    yield
    assert "canary" not in caplog.text


# ---- who calls


@pytest.mark.parametrize(
    ("headers", "in_query"),
    [
        ({"x-goog-api-key": CANARY}, ""),
        ({}, CANARY),
        ({"authorization": f"Bearer {CANARY}"}, ""),
        ({"authorization": f"bearer  {CANARY}"}, ""),
        ({"authorization": f"Bearer\t{CANARY}"}, ""),
        ({"authorization": f"OAuth {CANARY}"}, ""),
        ({"x-goog-api-key": CANARY, "authorization": "Bearer token"}, ""),
    ],
    ids=["header", "query", "bearer", "other case", "tab", "other scheme", "both"],
)
def test_a_caller_has_the_name_of_its_key(headers: dict[str, str], in_query: str) -> None:
    callers = Callers({digest(CANARY): KeyOwner("alice", "search")})
    caller = callers.caller_for(Route("judged", "/", api_key=in_query), headers)
    session = caller.in_session("s")
    assert (caller.key, session.key, session.team) == ("alice", "alice", "search")
    assert "canary" not in repr(session)


@pytest.mark.parametrize(
    ("headers", "name"),
    [
        ({"x-goog-api-key": OTHER}, digest(OTHER)[:24]),
        ({"authorization": f"Bearer {OTHER}"}, digest(OTHER)[:24]),
        ({"authorization": "Bearer "}, ""),
        ({}, ""),
    ],
    ids=["header", "bearer", "empty", "none"],
)
def test_a_key_without_a_name_is_called_by_its_hash(headers: dict[str, str], name: str) -> None:
    caller = Callers({digest(CANARY): KeyOwner("alice", "search")}).caller_for(Route("judged", "/"), headers)
    assert (caller.key, caller.team) == (name, "")


def test_callers_and_conversations_keep_their_names_after_an_upgrade() -> None:
    """Stored sessions and receipts belong to these names."""
    sent = {"x-goog-api-key": "k-1", "user-agent": "x"}
    caller = Callers().caller_for(Route("judged", "/"), sent)
    assert caller.key == "7c35c5a1785d20704e44d5de"
    first_turn = [{"role": "user", "parts": [{"text": "hi"}]}]
    assert caller.conversation_id(first_turn) == "f8e985ffc2cb84afa2385272e186bf47"


def test_conversations_that_begin_alike_are_separate_for_each_key_and_program() -> None:
    callers, route = Callers(), Route("judged", "/")
    sent = [
        {"x-goog-api-key": key, "user-agent": agent}
        for key in ("k-1", "k-2")
        for agent in ("GeminiCLI/1", "x")
    ]
    first_turn = [{"role": "user", "parts": [{"text": "hi"}]}]
    ids = [callers.caller_for(route, headers).conversation_id(first_turn) for headers in sent]
    assert len(set(ids)) == 4
    assert callers.caller_for(route, sent[0]).conversation_id([*first_turn, "more"]) == ids[0]


def test_a_callers_repr_does_not_tell_its_key() -> None:
    caller: Caller = Callers().caller_for(Route("judged", "/"), {"x-goog-api-key": CANARY})
    assert "canary" not in repr(caller)


# ---- hooks for a name or a team


@pytest.mark.parametrize(
    ("when", "denied"),
    [
        ({"keys": ["alice"]}, True),
        ({"keys": ["bob"]}, False),
        ({"keys": [digest(CANARY)[:24]]}, False),
        ({"teams": "search"}, True),
        ({"teams": "platform"}, False),
    ],
    ids=["key", "another key", "hash", "team", "another team"],
)
@pytest.mark.parametrize("batch", [False, True], ids=["call", "batch"])
async def test_a_hook_is_for_a_name_or_a_team(when: dict[str, Any], denied: bool, batch: bool) -> None:
    target, body = UNARY, HI
    if batch:
        target = UNARY.replace(":generate", ":batchGenerate")
        body = {"batch": {"inputConfig": {"requests": {"requests": [{"request": HI}]}}}}
    async with running_gateway({"BeforeModel": [deny(**when)]}, config=Config(keys=NAMES)) as gateway:
        answer = await post(gateway.url, target, body, {"x-goog-api-key": CANARY})
        went_up = len(gateway.recorded) == 1
    assert (b"Not for you." in answer.body, went_up) == (denied, not denied)


async def test_events_have_the_team_of_their_key() -> None:
    async with running_gateway({"BeforeTool": [deny(teams="search")]}, config=Config(keys=NAMES)) as gateway:
        event = {"session_id": "s-1", "tool_name": "t", "tool_input": {}}
        target = "/hookgate/v1/events/BeforeTool"
        ours = await post(gateway.url, target, event, {"x-goog-api-key": CANARY})
        theirs = await post(gateway.url, target, event, {"x-goog-api-key": OTHER})
    assert (ours.json["decision"], theirs.json) == ("deny", {})


async def test_transcripts_are_in_a_folder_of_the_name(tmp_path: Path) -> None:
    config = Config(keys=NAMES, transcripts=TranscriptSettings(enabled=True, folder=tmp_path))
    async with running_gateway(config=config) as gateway:
        await post(gateway.url, UNARY, HI, {"x-goog-api-key": CANARY})
    assert os.listdir(tmp_path) == ["alice"]


# ---- calls without a name


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        ("POST", UNARY, HI),
        ("GET", "/v1beta/models", None),
        ("POST", UPLOAD, HI),
        ("POST", "/upload/v1beta/environments/e/files?upload_id=x", HI),
        ("POST", "/v1beta/openai/chat/completions", HI),
        ("GET", LIVE, None),
        ("POST", "/hookgate/v1/events/SessionStart", EVENT),
    ],
    ids=["judged", "forwarded", "upload", "agents upload", "unhooked", "tunnel", "event"],
)
@pytest.mark.parametrize("headers", [{}, {"x-goog-api-key": OTHER}], ids=["no key", "unknown key"])
async def test_a_call_without_a_name_is_refused_on_every_path(
    method: str, target: str, body: Any, headers: dict[str, str]
) -> None:
    async def post_call(gateway: RunningGateway, headers: dict[str, str]) -> Answer:
        if method == "GET":
            return await ask(gateway.url, method, target, headers)
        return await post(gateway.url, target, body, headers)

    async with running_gateway(config=REFUSING) as gateway:
        answer = await post_call(gateway, headers)
        assert not gateway.recorded
        known = await post_call(gateway, {"x-goog-api-key": CANARY})
    assert (answer.status, answer.error["status"]) == (403, "PERMISSION_DENIED")
    assert answer.error["details"][0]["reason"] == "KEY_UNKNOWN"
    assert b"canary" not in answer.body
    assert b"KEY_UNKNOWN" not in known.body


async def test_calls_without_a_name_pass_unless_they_are_refused() -> None:
    async with running_gateway(config=Config(keys=NAMES)) as gateway:
        unknown = await post(gateway.url, UNARY, HI, {"x-goog-api-key": OTHER})
        keyless = await post(gateway.url, UNARY, HI, {})
        assert len(gateway.recorded) == 2  # it is the upstream that does not take a call without a key
    assert unknown.status == 200
    assert b"KEY_UNKNOWN" not in keyless.body


@sdk_warnings
async def test_a_named_client_can_upload_although_its_sdk_sends_the_bytes_without_a_key(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.txt").write_text("hi")
    config = Config(
        keys={"sdk": NamedKey(sha256=digest("any"))}, clients=ClientSettings(unknown_keys="refuse")
    )
    config = config.model_copy(update={"routes": ROUTES})
    async with running_gateway(config=config) as gateway, python_client(gateway.url) as client:
        file = await client.aio.files.upload(file=tmp_path / "a.txt")
        start, part = gateway.recorded
    assert file.size_bytes == 2
    assert ("x-goog-api-key" in start.headers, "x-goog-api-key" in part.headers) == (True, False)


@pytest.mark.parametrize(
    ("target", "headers"),
    [
        (f"{UPLOAD}?upload_id=x", {"x-goog-api-key": OTHER}),
        (f"{UPLOAD}?upload_id=", {}),
        (f"{UPLOAD}?upload_protocol=resumable", {}),
    ],
    ids=["unknown key", "empty id", "no id"],
)
async def test_other_parts_of_uploads_need_a_known_key(target: str, headers: dict[str, str]) -> None:
    async with running_gateway(config=REFUSING) as gateway:
        answer = await post(gateway.url, target, b"hi", headers)
        assert not gateway.recorded
    assert answer.status == 403


# ---- hookgate keys hash


@pytest.mark.parametrize("text", [CANARY, f"{CANARY}\n"], ids=["bare", "line"])
def test_key_hash_prints_the_hash_of_stdin(
    text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert run_command(["keys", "hash"]) == 0
    assert capsys.readouterr().out == digest(CANARY) + "\n"


def test_key_hash_asks_at_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr(keys, "getpass", lambda prompt: CANARY if "key" in prompt else "")
    assert run_command(["keys", "hash"]) == 0
    assert capsys.readouterr().out == digest(CANARY) + "\n"


@pytest.mark.parametrize("text", ["", "\n", f"{CANARY} x", f"{CANARY}\n{CANARY}"], ids=repr)
def test_key_hash_wants_one_key(
    text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert run_command(["keys", "hash"]) == 1
    reported = "hookgate: stdin contains no key, or more than one; it must contain one key on one line\n"
    assert capsys.readouterr() == ("", reported)


def test_key_hash_accepts_no_key_as_an_argument(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run_command(["keys", "hash", "x"])
    assert "unrecognized arguments" in capsys.readouterr().err
