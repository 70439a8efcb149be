"""Lines for log shippers: each record once and in order, without waiting for the reader."""

import asyncio
import json
import logging
import os
import threading
from pathlib import Path

import pytest
from support.gateway.audits import audited_gateway, report_of
from support.gateway.life import until
from support.gateway.loopback import running_upstream, says
from support.programs.program import COMMAND, environment
from support.wire import HI, KEY, UNARY, post, prompt

from hookgate.proxy.audit import jsonl
from hookgate.proxy.audit.chain import audit_entry, new_record
from hookgate.proxy.audit.verifying import verify_lines


async def test_a_file_has_every_record(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    for _ in range(2):
        async with (
            running_upstream() as (upstream, _),
            audited_gateway(upstream, tmp_path, jsonl=file, content="full") as gateway,
        ):
            await asyncio.gather(*(post(gateway.url, UNARY, HI) for _ in range(5)))
    report = verify_lines(file.read_bytes().splitlines(), lambda done: None)
    assert (report.problems, report.records, report.writers) == ([], 22, 2)
    assert file.stat().st_mode & 0o777 == 0o600


async def test_the_line_of_an_end_says_whose_call_it_was_and_what_hooks_did(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    guard = says({"decision": "deny", "reason": "no"}, findings={"EMAIL": 2})
    async with (
        running_upstream() as (upstream, _),
        audited_gateway(
            upstream, tmp_path, {"BeforeModel": [{**guard, "name": "guard"}]}, jsonl=file
        ) as gateway,
    ):
        await post(gateway.url, UNARY, HI, {**KEY, "user-agent": "test/1"})
    lines = [json.loads(line) for line in file.read_bytes().splitlines()]
    [start] = [line["body"] for line in lines if line["type"] == "start"]
    [end] = [line["body"] for line in lines if line["type"] == "end"]
    assert end["session"] == start["session"]
    assert (end["session"]["client"], "key" in end["session"]) == ("test", True)
    assert (end["model"], end["outcome"]) == ("gemini-2.5-flash", "denied")
    assert (end["decided_by"], end["found"]) == (["guard"], {"EMAIL": 2})


async def test_a_file_that_is_moved_away_is_created_again(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    async with (
        running_upstream() as (upstream, _),
        audited_gateway(upstream, tmp_path, jsonl=file) as gateway,
    ):
        await post(gateway.url, UNARY, HI)
        await until(lambda: file.read_bytes().count(b"\n") == 3)
        file.rename(tmp_path / "old.jsonl")
        await post(gateway.url, UNARY, HI)
        await until(lambda: file.exists() and file.read_bytes().count(b"\n") >= 2)
    both = (tmp_path / "old.jsonl").read_bytes() + file.read_bytes()
    assert verify_lines(both.splitlines(), lambda done: None).problems == []


async def test_a_reader_that_is_too_slow_delays_no_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(jsonl, "MAX_WAITING", 4)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)  # who never reads
    os.set_blocking(reader, True)
    caplog.set_level(logging.ERROR)
    big = prompt("x" * 200_000)
    async with (
        running_upstream() as (upstream, _),
        audited_gateway(upstream, tmp_path, jsonl=pipe, content="full", deadline=0.5) as gateway,
    ):
        for _ in range(8):
            assert (await post(gateway.url, UNARY, big)).status == 200
        os.set_blocking(reader, False)
    os.close(reader)
    await until(lambda: not any(thread.name == "hookgate-audit-jsonl" for thread in threading.enumerate()))
    assert "the reader is too slow" in caplog.text
    assert report_of(tmp_path).problems == []


def test_lines_beyond_the_limit_are_counted_instead_of_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonl, "MAX_WAITING", 4)
    lines = jsonl.Lines(str(tmp_path / "lines"))
    entry = audit_entry("policy", revision="r")
    lines.add([new_record("w", seq, "0" * 64, entry) for seq in range(1, 10)])
    lines.close(within=10)
    written = [json.loads(line)["seq"] for line in (tmp_path / "lines").read_text().splitlines()]
    assert (written, lines.dropped) == ([1, 2, 3, 4], 5)


async def test_lines_that_cannot_be_written_are_reported_once_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lines = jsonl.Lines("/dev/full")
    entry = audit_entry("policy", revision="r")
    for seq in (1, 2):
        lines.add([new_record("w", seq, "0" * 64, entry)])
        await until(lambda seq=seq: lines.dropped == seq)  # type: ignore[misc]  # mypy infers no default
    lines.close(within=10)
    assert [message.partition(":")[0] for message in caplog.messages] == ["audit.jsonl cannot be written"]


async def test_a_new_file_that_cannot_be_opened_at_first_is_written_later(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    lines = jsonl.Lines(str(file))
    entry = audit_entry("policy", revision="r")
    file.unlink()
    file.mkdir()  # no file can be opened there
    lines.add([new_record("w", 1, "0" * 64, entry)])
    await until(lambda: lines.dropped == 1)
    file.rmdir()
    file.touch()
    lines.add([new_record("w", 2, "0" * 64, entry)])
    lines.close(within=10)
    assert [json.loads(line)["seq"] for line in file.read_text().splitlines()] == [2]


async def test_stdout_has_nothing_else(tmp_path: Path) -> None:
    async with running_upstream() as (upstream, _):
        process = await asyncio.create_subprocess_exec(
            *(*COMMAND, "serve", "--listen", "127.0.0.1:0", "--upstream", upstream, "--state", str(tmp_path)),
            env=environment({"HOOKGATE_AUDIT__JSONL": "-", "HOOKGATE_ADMIN__ADDRESS": "off"}),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        async with asyncio.timeout(20):
            line = await process.stdout.readline()
            process.terminate()
            rest, _ = await process.communicate()
    assert json.loads(line)["type"] == "writer"
    assert [json.loads(each)["body"]["event"] for each in rest.splitlines()] == ["closed"]
