"""Text from others cannot control terminals or clients: logs, commands and answer headers."""

import io
import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.gateway.life import nothing_left
from support.gateway.loopback import gateway_before
from support.hooks.settings import write_file
from support.wire import HI, SSE, UNARY, ask, peer, post, spoken

from hookgate.proxy.cli.main import run_command
from hookgate.proxy.observe.logs import EscapingStream, JsonLines, TextLines, escape_controls

HOSTILE = "\x1b]0;owned\x07 \x1b[2K\r\n2026-01-01 forged \x9b31m \u202e\u2066bidi\u2028\u2029\u200b\x7f\ud800"
WHOLE = json.dumps(spoken("all of it", finishReason="STOP")).encode()


def speaks(text: str) -> bool:
    """Whether something in a text is more than a character to look at, or a line end."""
    return not text.replace("\n", "").isprintable()


def logged(formatter: logging.Formatter, message: str, *arguments: Any, error: bool = False) -> str:
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        info = sys.exc_info() if error else None
    return formatter.format(logging.LogRecord("hookgate", 30, __file__, 1, message, arguments, info))


@given(st.text())
def test_escaped_text_cannot_control_a_terminal_and_is_the_same_json(text: str) -> None:
    assert escape_controls(text, keep_lines=False).isprintable()
    written = json.dumps(text, ensure_ascii=False)
    assert json.loads(escape_controls(written, keep_lines=False)) == text


def test_a_text_log_has_one_line_for_each_record_whatever_is_in_it() -> None:
    line = logged(TextLines(), "tool %s", HOSTILE)
    assert line.isprintable()
    assert "\\u001b]0;owned\\u0007" in line
    assert "\\u202e" in line


def test_a_traceback_in_a_text_log_cannot_pass_for_a_record() -> None:
    first, *rest = logged(TextLines(), "it failed", error=True).split("\n")
    assert first.endswith("it failed")
    assert all(line.startswith("  ") and line.isprintable() for line in rest)


def test_a_json_log_says_the_same_without_speaking() -> None:
    line = logged(JsonLines(), "tool %s", HOSTILE, error=True)
    assert line.isprintable()
    assert json.loads(line)["message"] == f"tool {HOSTILE}"


def test_output_of_commands_is_escaped_and_bytes_are_unchanged() -> None:
    plain = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    stream: Any = EscapingStream(plain)
    print(f"a\tb {HOSTILE}", file=stream)
    stream.flush()
    stream.buffer.write(b"\x1b")
    written = plain.buffer.getvalue()  # type: ignore[attr-defined]  # of BytesIO
    assert written.endswith(b"\x1b")
    assert not speaks(written[:-1].decode().replace("\t", ""))


@pytest.mark.parametrize("command", [["hooks", "show", "x"], ["hooks", "test", "BeforeModel"]])
def test_hooks_of_others_cannot_control_the_terminal(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    output = json.dumps({"decision": "deny", "reason": "no\x9b31m\u202e"}, ensure_ascii=False)
    hook = {"name": "x", "type": "command", "command": f"echo '{output}' # \x9b2K\u202e"}
    file = write_file(tmp_path, {"hooks": {"BeforeModel": [{"hooks": [hook]}]}})
    run_command([*command, "--hooks", str(file), "--state", str(tmp_path)])
    said = capsys.readouterr()
    assert "\\u202e" in said.out
    assert not speaks(said.out + said.err)


def test_errors_quote_input_without_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["receipt", "\x9b31m\u202e"]) == 1
    assert not speaks(capsys.readouterr().err)


def head(status: bytes, *lines: bytes) -> bytes:
    length = b"Content-Length: %d" % len(WHOLE)
    return b"\r\n".join(
        (b"HTTP/1.1 " + status, b"Content-Type: application/json", length, *lines, b"", WHOLE)
    )


@pytest.mark.parametrize("target", [UNARY, SSE, "/v1beta/models/gemini-2.5-flash:countTokens"])
@pytest.mark.parametrize("value", [b"a\x1b[31m", b"a\x07", b"\x7f", b"a\xc2\x9b", b"\xff\xfe", b"a\x0bb"])
async def test_headers_with_control_characters_are_left_out(target: str, value: bytes) -> None:
    said = head(b"200 OK", b"x-goog-b: " + value, b"x-goog-c: well")
    async with nothing_left(), peer(said) as upstream, gateway_before(upstream.url, {}) as url:
        answer = await post(url, target, HI)
    assert (answer.status, answer.body) == (200, WHOLE)
    assert answer.headers["x-goog-c"] == "well"
    assert "x-goog-b" not in answer.headers


@pytest.mark.parametrize("target", [UNARY, SSE, "/v1beta/models/gemini-2.5-flash:countTokens"])
@pytest.mark.parametrize(
    "status", [b"099 Odd", b"000 Odd", b"101 Switching Protocols", b"199 Odd", b"600 Odd"]
)
async def test_a_status_that_ends_no_call_is_a_502(target: str, status: bytes) -> None:
    async with nothing_left(), peer(head(status)) as upstream, gateway_before(upstream.url, {}) as url:
        answer = await post(url, target, HI)
    assert answer.status == 502
    assert answer.error["details"][0]["reason"] in {"UPSTREAM_UNREADABLE", "UPSTREAM_UNREACHABLE"}


async def test_a_reason_phrase_with_control_characters_is_replaced() -> None:
    said = head(b"200 \x1b[31m\x07")
    async with nothing_left(), peer(said) as upstream, gateway_before(upstream.url, {}) as url:
        answer = await ask(url, "GET", "/v1beta/models")
    assert answer.status == 200
