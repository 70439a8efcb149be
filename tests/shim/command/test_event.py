"""`hookgate event` as an agent starts it: input on stdin, output on stdout, and exit codes."""

import asyncio
import json
import os
import ssl
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
from support.gateway.event_service import NOWHERE, event_service, hookgate
from support.gateway.loopback import running_gateway, says

from hookgate.hooks.settings import ADVISORY, EVENTS
from hookgate.shim import conversation
from hookgate.shim.command import asking
from hookgate.shim.command import event as command

INPUT = {
    "session_id": "s-1",
    "transcript_path": "/t.jsonl",
    "cwd": "/",
    "hook_event_name": "BeforeTool",
    "timestamp": "2026-11-21T00:02:35.893Z",
    "tool_name": "run_shell_command",
    "tool_input": {"command": "rm -rf /"},
}
DENY = {"decision": "deny", "reason": "Not that."}


@pytest.mark.parametrize(
    ("output", "code", "err"),
    [
        pytest.param({}, 0, "", id="nothing said"),
        pytest.param({"systemMessage": "Grüße"}, 0, "", id="a message"),
        pytest.param({"decision": "ask", "reason": "Sure?"}, 0, "", id="a question"),
        pytest.param(DENY, 2, "Not that.\n", id="denied"),
        pytest.param({"decision": "block", "reason": "Not that."}, 2, "Not that.\n", id="blocked"),
        pytest.param({"continue": False, "stopReason": "Enough."}, 2, "Enough.\n", id="stopped"),
        pytest.param(
            {"decision": "deny"},
            2,
            "Denied by one of the gateway's BeforeTool hooks.\n",
            id="without a reason",
        ),
    ],
)
async def test_the_output_is_printed_and_the_exit_code_says_whether_it_denies(
    output: Any, code: int, err: str
) -> None:
    async with event_service() as service:
        service.answers["BeforeTool"] = output
        ended = await hookgate("event", "BeforeTool", "--gateway", service.url, given=INPUT)
    assert (ended.code, json.loads(ended.out), ended.err) == (code, output, err)


async def test_the_input_is_sent_unchanged_with_the_caller_s_key() -> None:
    given = b' {"hook_event_name":"BeforeTool", "cwd": "/", "n": 1.0, "s": "\xc3\xa9"}'
    async with event_service() as service:
        env = {"HOOKGATE_URL": service.url, "GEMINI_API_KEY": "k-1", "GOOGLE_API_KEY": "k-2", "MINE": "k-3"}
        assert (await hookgate("event", "BeforeTool", given=given, env=env)).code == 0
        assert (await hookgate("event", "BeforeTool", "--key-env=MINE", given=given, env=env)).code == 0
        del env["GEMINI_API_KEY"], env["GOOGLE_API_KEY"]
        assert (await hookgate("event", "BeforeTool", given=given, env=env)).code == 0
    assert service.raw == [given] * 3
    assert service.paths == ["/hookgate/v1/events/BeforeTool"] * 3
    headers = [headers for _, headers, _ in service.reported]
    assert [each.get("x-goog-api-key") for each in headers] == ["k-1", "k-3", None]
    assert all(each["content-type"] == "application/json" for each in headers)


async def test_a_session_of_the_environment_is_the_url_s_and_what_lacks_is_filled_in(tmp_path: Path) -> None:
    async with event_service() as service:
        env = {"HOOKGATE_URL": f"{service.url}/team/", "HOOKGATE_SESSION": "abc"}
        await hookgate("event", "PreCompress", given={"trigger": "auto"}, env=env, folder=tmp_path)
    [(path, _, reported)] = service.reported
    assert path == "/team/s/abc/hookgate/v1/events/PreCompress"
    assert reported == {"cwd": str(tmp_path), "hook_event_name": "PreCompress", "trigger": "auto"}


async def test_without_a_gateway_it_continues_or_not_as_configured() -> None:
    ended = await hookgate("event", "BeforeTool", "--gateway", NOWHERE, given=INPUT)
    assert (ended.code, ended.out) == (0, "{}\n")
    assert "127.0.0.1:9 is not reachable: Connection refused; the event is allowed" in ended.err
    assert ended.err.count("\n") == 1
    words = ("event", "BeforeTool", "--gateway", NOWHERE, "--on-unreachable", "deny")
    ended = await hookgate(*words, given=INPUT)
    assert (ended.code, json.loads(ended.out)["decision"]) == (2, "deny")
    assert json.loads(ended.out)["reason"] + "\n" == ended.err


async def test_a_final_answer_that_cannot_be_judged_ends_the_turn_rather_than_begin_another() -> None:
    words = ("event", "AfterAgent", "--gateway", NOWHERE, "--on-unreachable", "deny")
    ended = await hookgate(*words, given={"prompt_response": "x"})
    assert (ended.code, json.loads(ended.out)["continue"]) == (2, False)
    words = ("event", "SessionEnd", "--gateway", NOWHERE, "--on-unreachable", "deny")
    ended = await hookgate(*words, given={"reason": "exit"})
    assert (ended.code, ended.out) == (0, "{}\n")  # an end cannot be denied


Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()
    await writer.wait_closed()


def sends(data: bytes) -> Answer:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(data)
        writer.close()
        await writer.wait_closed()

    return answer


@asynccontextmanager
async def answering(answer: Answer) -> AsyncIterator[str]:
    """A server of no protocol in particular; gives its URL once, and waits for what it was asked."""
    done: list[asyncio.Task[None]] = []

    def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        done.append(asyncio.ensure_future(answer(reader, writer)))

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        await asyncio.gather(*done)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        pytest.param(silent, "did not answer within 0.3 s", id="silent"),
        pytest.param(sends(b""), "closed in the middle", id="closes"),
        pytest.param(sends(b"SSH-2.0-x\r\n\r\n"), "does not speak HTTP", id="not HTTP"),
        pytest.param(
            sends(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{}"), "closed in the middle", id="cut off"
        ),
        pytest.param(
            sends(b"HTTP/1.1 503 No\r\ncontent-length: 0\r\n\r\n"), "answered 503", id="out of service"
        ),
    ],
)
async def test_what_does_not_answer_properly_counts_as_unreachable(answer: Answer, why: str) -> None:
    async with answering(answer) as url:
        words = ("event", "BeforeTool", "--gateway", url, "--timeout", "0.3")
        ended = await hookgate(*words, given=INPUT)
    assert (ended.code, ended.out, why in ended.err) == (0, "{}\n", True), ended.err


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\n%s", id="up to the end"),
        pytest.param(
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
            b"%x;x=1\r\n%s\r\n0\r\n\r\n",
            id="in chunks",
        ),
    ],
)
async def test_an_answer_may_say_its_length_in_any_way(data: bytes) -> None:
    body = json.dumps(DENY).encode()
    data = data % ((len(body), body) if b"%x" in data else (body,))
    async with answering(sends(data)) as url:
        ended = await hookgate("event", "BeforeTool", "--gateway", url, given=INPUT)
    assert (ended.code, ended.err) == (2, "Not that.\n")


@pytest.mark.parametrize("status", [400, 403, 413, 429])
async def test_a_refused_event_is_an_error_that_says_why(status: int) -> None:
    async with event_service() as service:
        service.status = status
        words = ("event", "BeforeTool", "--gateway", service.url)
        ended = await hookgate(*words, given=INPUT)
        assert (ended.code, f"answered {status}: Not this one." in ended.complaint) == (1, True)
        # Whoever wants a denial without a verdict wants it here as well: a long input must not get through.
        ended = await hookgate(*words, "--on-unreachable", "deny", given=INPUT)
    assert (ended.code, json.loads(ended.out)["decision"]) == (2, "deny")


@pytest.mark.parametrize(
    ("words", "given", "expected"),
    [
        pytest.param(["BeforeTool"], b"", "not JSON", id="no input"),
        pytest.param(["BeforeTool"], b"{", "not JSON", id="half an input"),
        pytest.param(["BeforeTool"], b"[]", "not a JSON object", id="a list"),
        pytest.param(["BeforeTool"], b"\xff", "not JSON", id="not UTF-8"),
        pytest.param([], b"{}", "name one event", id="no event"),
        pytest.param(["BeforeLunch"], b"{}", "unknown event 'BeforeLunch'", id="an unknown event"),
        pytest.param(["PreToolUse"], b"{}", "unknown event 'PreToolUse'", id="Claude Code's"),
        pytest.param(["BeforeTool", "--fast"], b"{}", "unknown option --fast", id="an unknown flag"),
        pytest.param(["BeforeTool", "--timeout"], b"{}", "--timeout needs a value", id="no value"),
        pytest.param(["BeforeTool", "--timeout", "x"], b"{}", "--timeout x", id="no number"),
        pytest.param(["BeforeTool", "--on-unreachable", "x"], b"{}", "allow or deny", id="no policy"),
        pytest.param(["BeforeTool", "--key-env", "NONE"], b"{}", "NONE is not set", id="no key"),
        pytest.param(["BeforeTool", "--gateway", "localhost:1"], b"{}", "write it like", id="no scheme"),
        pytest.param(["BeforeTool", "--gateway", "http://x:y"], b"{}", "write it like", id="no port"),
        pytest.param(["BeforeTool", "--gateway", "http://k@x"], b"{}", "without a key", id="a key"),
    ],
)
async def test_what_is_wrong_is_reported_on_one_line(words: list[str], given: bytes, expected: str) -> None:
    ended = await hookgate("event", *words, given=given)
    assert (ended.code, expected in ended.complaint) == (1, True), ended.err


async def test_a_session_s_name_is_checked_before_it_becomes_part_of_a_path() -> None:
    ended = await hookgate("event", "BeforeTool", given=INPUT, env={"HOOKGATE_SESSION": "../x"})
    assert (ended.code, "'../x' is not a valid session id" in ended.complaint) == (1, True)


async def test_https_is_spoken_with_the_machine_s_authorities(tmp_path: Path) -> None:
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    async with event_service(context) as service:
        service.answers["BeforeTool"] = DENY
        words = ("event", "BeforeTool", "--gateway", service.url)
        trusting = {"SSL_CERT_FILE": str(tmp_path / "ca.pem")}
        assert (await hookgate(*words, given=INPUT, env=trusting)).code == 2
        ended = await hookgate(*words, given=INPUT)
    assert (ended.code, "certificate verify failed" in ended.err) == (0, True)


async def test_the_launcher_s_own_events_are_not_reported_twice() -> None:
    async with event_service() as service:
        env = {"HOOKGATE_URL": service.url, "HOOKGATE_SESSION": "a", "HOOKGATE_LAUNCHED": "a"}
        for event, given in (
            ("SessionStart", {"source": "startup"}),
            ("SessionEnd", {"reason": "exit"}),
            ("SessionStart", {"source": "clear"}),
            ("SessionEnd", {"reason": "clear"}),
        ):
            assert (await hookgate("event", event, given=given, env=env)).code == 0
        env["HOOKGATE_SESSION"] = "b"
        await hookgate("event", "SessionStart", given={"source": "startup"}, env=env)
    assert [reported.get("source", reported.get("reason")) for *_, reported in service.reported] == [
        "clear",
        "clear",
        "startup",
    ]


async def test_a_real_gateway_s_hooks_decide() -> None:
    async with running_gateway({"BeforeTool": [says(DENY)]}) as gateway:
        ended = await hookgate("event", "BeforeTool", "--gateway", gateway.url, given=INPUT)
        assert (ended.code, json.loads(ended.out), ended.err) == (2, DENY, "Not that.\n")
        ended = await hookgate("event", "BeforeTool", "--gateway", gateway.url, given={})
        assert (ended.code, "tool_name" in ended.complaint) == (1, True)
        ended = await hookgate(
            "event", "AfterTool", "--gateway", gateway.url, given={**INPUT, "tool_response": {}}
        )
        assert (ended.code, ended.out) == (0, "{}\n")


def test_the_shim_s_own_lists_of_events_are_those_of_the_contract() -> None:
    """The shim does not import the engine, so it has copies."""
    assert command.EVENTS == EVENTS
    assert set(command._ADVISORY) == conversation._ADVISORY == set(ADVISORY)


async def test_nothing_that_takes_long_to_import_is_imported() -> None:
    code = (
        "import sys; from hookgate.shim.command.event import run_event;"
        "run_event(sys.argv[1:]); print(*sys.modules)"
    )
    words = ("-S", "-c", code, "BeforeTool", "--gateway", NOWHERE)
    roots = os.pathsep.join(
        path for path in sys.path if path.endswith(("shim", "proxy", "hooks", "translator"))
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *words,
        env={"PYTHONPATH": roots},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    out, _ = await process.communicate(json.dumps(INPUT).encode())
    imported = set(out.decode().split())
    assert "hookgate.shim.command.event" in imported
    slow = {
        "argparse",
        "asyncio",
        "collections",
        "dataclasses",
        "http",
        "json",
        "re",
        "socket",
        "ssl",
        "typing",
    }
    assert not slow & imported


VALUES = [{"a": [1, -2.5e3, None, True, '\\ "\u00e9\U0001f600'], "": {}}, [], "x", 7, 10**30, "\ud800"]


@pytest.mark.parametrize("value", VALUES)
def test_json_is_read_and_written_as_the_standard_library_does(
    value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "json", None)  # whose private parts this Python must have
    text = asking.to_json(value)
    assert asking.from_json(b"\xef\xbb\xbf \n" + text + b" ") == value
    assert text.decode() == json.dumps(value)


def test_another_python_s_private_parts_cost_time_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(asking._ScannerOptions, "strict")
    monkeypatch.setattr(asking, "make_encoder", lambda: None)
    assert [asking.from_json(asking.to_json(value)) for value in VALUES] == VALUES
