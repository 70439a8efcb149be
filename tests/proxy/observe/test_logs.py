"""The log: one line for each call with its ID, and never a key or content."""

import json
import logging
import os
import re
from collections.abc import Iterator
from typing import Any

import pytest
from support.gateway.loopback import gateway_before, running_gateway, says
from support.programs.program import serving
from support.wire import KEY, SSE, UNARY, ask, connected, post, prompt

from hookgate.proxy.config import ClientSettings, Config, LogSettings
from hookgate.proxy.keys.callers import hash_single_key
from hookgate.proxy.observe import logs

HI = prompt("secret-prompt")
CANARY = "AIza-canary-0815"
SAYS = {"BeforeModel": [says()], "AfterModel": [says()]}


class Stderr:
    """What went to stderr so far."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self._text = ""

    @property
    def text(self) -> str:
        self._text += self._capsys.readouterr().err
        return self._text

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.text.splitlines()]


@pytest.fixture
def stderr(capsys: pytest.CaptureFixture[str]) -> Iterator[Stderr]:
    """The loggers are as they were afterwards."""
    root, own = logging.getLogger(), logging.getLogger("hookgate")
    handlers, level, own_level = root.handlers, root.level, own.level
    yield Stderr(capsys)
    root.handlers = handlers
    root.setLevel(level)
    own.setLevel(own_level)


async def test_a_call_is_one_line(stderr: Stderr) -> None:
    logs.configure(LogSettings(format="json"))
    async with running_gateway(SAYS) as gateway:
        answer = await post(gateway.url, f"/s/abc{SSE}&key={CANARY}", HI, {"X-Request-Id": "r-1"})
    [line] = stderr.lines
    assert line["timestamp"].endswith("Z")
    assert (line["level"], line["logger"]) == ("info", "hookgate.gateway")
    assert line["request_id"] == "r-1"
    assert (line["method"], line["route"], line["status"]) == ("POST", UNARY.replace("gen", "streamGen"), 200)
    assert line["session"] == "abc"
    assert line["bytes"] > len(answer.body)
    assert line["duration_ms"] > 0


async def test_the_line_of_a_call_says_whose_it_was_and_what_hooks_did(stderr: Stderr) -> None:
    logs.configure(LogSettings(format="json"))
    keys = {"anna": {"sha256": hash_single_key(KEY["x-goog-api-key"]), "team": "search"}}
    guard = says({"decision": "deny", "reason": "no"}, findings={"EMAIL": 2})
    async with running_gateway(
        {"BeforeModel": [{**guard, "name": "guard"}]}, config=Config.model_validate({"keys": keys})
    ) as gateway:
        await post(gateway.url, UNARY, HI, {**KEY, "user-agent": "curl/8"})
    line = stderr.lines[-1]
    assert (line["key"], line["team"], line["client"]) == ("anna", "search", "curl")
    assert (line["model"], line["answered_by"], line["outcome"]) == ("gemini-2.5-flash", "", "denied")
    assert (line["decided_by"], line["found"]) == (["guard"], {"EMAIL": 2})
    assert line["session"]


async def test_text_tells_the_same(stderr: Stderr) -> None:
    logs.configure(LogSettings())
    async with running_gateway() as gateway:
        answer = await post(gateway.url, UNARY, HI, {"X-Request-Id": "r-1"})
    [line] = stderr.text.splitlines()
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z ", line), "the timestamp of all records"
    assert f"INFO hookgate.gateway [r-1]: POST {UNARY} session -: 403 in " in line
    assert line.endswith(f" bytes, receipt {answer.headers['x-hookgate-receipt']}")


async def test_a_call_that_is_refused_is_reported_with_its_cause(stderr: Stderr) -> None:
    logs.configure(LogSettings())
    config = Config(clients=ClientSettings(unknown_keys="refuse"))
    async with running_gateway({}, config=config) as gateway:
        await post(gateway.url, UNARY, HI, {"x-goog-api-key": CANARY})
        await post(gateway.url, "/nowhere", HI, {})
    unknown, nowhere = stderr.text.splitlines()
    assert f"POST {UNARY} session -: 403 KEY_UNKNOWN in " in unknown
    assert "session -: 403 ROUTE_NOT_ALLOWED in " in nowhere


@pytest.mark.parametrize("hooks", [{}, SAYS], ids=["copied", "judged"])
async def test_an_upstream_that_is_down_is_warned_of(stderr: Stderr, hooks: Any) -> None:
    logs.configure(LogSettings(format="json"))
    async with gateway_before("http://127.0.0.1:1", hooks) as url:
        answer = await post(url, f"{UNARY}?key={CANARY}", HI, {})
    assert answer.error["message"] == "The upstream cannot be reached (connection refused)."
    warning, line = stderr.lines
    assert (warning["level"], warning["message"]) == (
        "warning",
        "no answer from http://127.0.0.1:1: connection refused",
    )
    assert (line["status"], line["cause"]) == (502, "UPSTREAM_UNREACHABLE")
    assert CANARY not in stderr.text


@pytest.mark.parametrize("given", [None, "", "two words", "x" * 129, "a\xe9", "a;b", "<script>"])
async def test_a_request_without_a_sane_id_gets_one(given: str | None) -> None:
    headers = {} if given is None else {"X-Request-Id": given}
    async with running_gateway(SAYS) as gateway:
        answer = await post(gateway.url, UNARY, HI, {"x-goog-api-key": "k", **headers})
        [request] = gateway.recorded
    assert len(answer.headers["x-request-id"]) == 32
    assert request.headers["x-request-id"] == answer.headers["x-request-id"]


@pytest.mark.parametrize("hooks", [{}, SAYS], ids=["copied", "judged"])
async def test_the_id_goes_upstream_and_comes_back(hooks: Any) -> None:
    headers = {"x-goog-api-key": "k", "X-Request-ID": "Aa0._-"}
    async with running_gateway(hooks) as gateway:
        answers = [await post(gateway.url, target, HI, headers) for target in (UNARY, SSE, "/nowhere")]
        assert [request.headers["x-request-id"] for request in gateway.recorded] == ["Aa0._-"] * 2
    assert [answer.headers["x-request-id"] for answer in answers] == ["Aa0._-"] * 3
    assert all("server" not in answer.headers for answer in answers)


async def test_what_a_hook_does_is_reported_with_the_calls_id(stderr: Stderr) -> None:
    logs.configure(LogSettings(format="json", level="debug"))
    hooks = {"BeforeModel": [{"type": "command", "command": "exit 1"}]}
    async with running_gateway(hooks) as gateway:
        await post(gateway.url, UNARY, HI, {"x-goog-api-key": "k", "X-Request-Id": "r-1"})
    reported = stderr.lines
    assert {line["logger"] for line in reported} >= {"hookgate.gateway", "hookgate.hooks"}
    assert {line["request_id"] for line in reported} == {"r-1"}


async def test_a_refused_path_is_logged_without_what_may_be_a_key(stderr: Stderr) -> None:
    logs.configure(LogSettings())
    async with running_gateway() as gateway:
        await post(gateway.url, f"/v1beta/models/gemini-2.5-flash:generateContents?key={CANARY}", HI, {})
    assert "POST /v1beta/models/…:generateContents session" in stderr.text
    assert CANARY not in stderr.text


@pytest.mark.parametrize("level", ["debug", "info", "warning"])
@pytest.mark.parametrize("form", ["text", "json"])
async def test_no_line_contains_a_key_or_content_of_a_call(stderr: Stderr, form: Any, level: Any) -> None:
    logs.configure(LogSettings(format=form, level=level))
    fails = {"BeforeModel": [{"type": "command", "command": "env >&2; exit 1"}]}
    for hooks in ({}, SAYS, fails):
        async with running_gateway(hooks) as gateway:
            await post(gateway.url, f"{UNARY}?key={CANARY}", HI, {"X-Request-Id": "fine"})
            await post(gateway.url, f"{UNARY}&key={CANARY}", HI, {})
            await post(gateway.url, f"/{CANARY}", HI, {"Authorization": f"Bearer {CANARY}"})
            await post(gateway.url, f"{UNARY}?key={CANARY}&x=1", b"{", {})
            await post(gateway.url, UNARY, b"{", {"x-goog-api-key": CANARY})
            await ask(gateway.url, "GET", f"/v1beta/models?key={CANARY}")
            async with connected(gateway.url) as wire:
                await wire.write(f"POST {UNARY}?key={CANARY} x HTTP/1.1\r\nkey {CANARY}\r\n\r\n".encode())
                assert (await wire.answer()).status == 400
    assert (level == "warning") or stderr.text
    for word in ("canary", "secret-prompt"):
        assert word not in stderr.text


def test_other_libraries_are_heard_when_something_is_wrong(stderr: Stderr) -> None:
    logs.configure(LogSettings(format="json", level="debug"))
    logging.getLogger("asyncio").debug("not this")
    logging.getLogger("asyncio").warning("this")
    assert [line["message"] for line in stderr.lines] == ["this"]


def test_a_traceback_is_part_of_its_line(stderr: Stderr) -> None:
    logs.configure(LogSettings(format="json"))
    try:
        raise ValueError("no")
    except ValueError:
        logging.getLogger("hookgate").exception("it\nfailed")
    [line] = stderr.lines
    assert line["message"] == "it\nfailed"
    assert line["exception"].endswith("ValueError: no")


def test_a_message_is_one_line_of_text(stderr: Stderr) -> None:
    logs.configure(LogSettings())
    logging.getLogger("hookgate").warning("a\r\nb")
    assert stderr.text.count("\n") == 1


# ---- a reader of stderr that is slow


def test_calls_do_not_wait_for_a_slow_reader_of_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "MAX_WAITING", 5)
    ours, theirs = os.pipe()
    handler = logs.BackgroundHandler(theirs)
    handler.setFormatter(logging.Formatter("%(message)s"))
    line = "x" * 100_000  # more than the pipe takes
    for number in range(20):
        handler.handle(logging.makeLogRecord({"msg": f"{number} {line}"}))
    with open(ours, closefd=False) as reader:
        written = [reader.readline()]
        while handler.waiting:
            written.append(reader.readline())
        handler.handle(logging.makeLogRecord({"msg": "the last"}))
        while written[-1] != "the last\n":
            written.append(reader.readline())
    handler.close()
    os.close(ours)
    os.close(theirs)
    *lines, lost, _ = written
    assert lines == [f"{number} {line}\n" for number in range(len(lines))]
    assert lost == f"{20 - len(lines)} lines of the log were dropped: stderr is read too slowly\n"
    assert len(lines) < 10


async def test_calls_are_answered_while_the_log_is_not_read() -> None:
    long_id = {"X-Request-Id": "i" * 128}
    async with serving("serve", "--listen", "127.0.0.1:0", patience=60) as gateway:
        for _ in range(1500):  # about 400 KB of log: more than a pipe and its reader hold
            assert (await post(gateway.url, "/nowhere", HI, long_id)).status == 403
