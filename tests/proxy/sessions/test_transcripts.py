"""Transcripts: the file at `transcript_path`."""

import json
import os
import stat
import time
from pathlib import Path
from typing import Any

import pytest
from support.gateway.loopback import listens, running_gateway, runs, says
from support.hooks.policies import CARD, REDACTED, redact
from support.wire import KEY, SSE, UNARY, post

from hookgate.proxy.config import Config, TranscriptSettings

HI = {"role": "user", "parts": [{"text": "hi"}]}
AGAIN = {"role": "user", "parts": [{"text": "hi again"}]}


def kept_in(folder: Path, **more: Any) -> Config:
    return Config(transcripts=TranscriptSettings(enabled=True, folder=folder, **more))


def lines(path: str | Path) -> list[Any]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("target", [UNARY, SSE], ids=["whole", "stream"])
async def test_a_session_is_written_down_as_hooks_left_it(target: str, tmp_path: Path) -> None:
    seen: list[dict[str, Any]] = []
    hooks = {"BeforeModel": [listens(seen)], "AfterModel": [runs(redact)]}
    script = {"rules": [{"answer": {"text": f"card {CARD}"}}]}
    async with running_gateway(hooks, script, kept_in(tmp_path)) as gateway:
        await post(gateway.url, "/s/s-1/hookgate/v1/events/BeforeAgent", {"prompt": "hi"}, KEY)
        await post(gateway.url, f"/s/s-1{target}", {"contents": [HI]})
        more = [HI, {"role": "model", "parts": [{"text": "so"}]}, HI]
        await post(gateway.url, f"/s/s-1{target}", {"contents": more})
        await post(gateway.url, f"/s/s-1{target}", {"contents": [AGAIN]})
    path = Path(seen[0]["transcript_path"])
    event, first, answer, second, _, third, _ = lines(path)
    assert (event["type"], event["event"], event["input"]) == ("event", "BeforeAgent", {"prompt": "hi"})
    assert (first["type"], first["contents"]) == ("request", [HI])
    assert answer["answer"]["candidates"][0]["content"]["parts"][0]["text"] == f"card {REDACTED}"
    assert second["contents"] == more[1:]
    assert third["contents"] == [AGAIN]  # the history was given up: none of it is known
    assert {line["session_id"] for line in lines(path)} == {"s-1"}
    assert path.is_relative_to(tmp_path)
    assert mode(path) == 0o600


@pytest.mark.parametrize("suppressed", [False, True])
async def test_a_message_that_a_hook_suppresses_is_not_written_down(suppressed: bool, tmp_path: Path) -> None:
    output = {"systemMessage": "noise", "suppressOutput": suppressed}
    seen: list[dict[str, Any]] = []
    hooks = {"BeforeAgent": [listens(seen), says(output)]}
    async with running_gateway(hooks, {"rules": []}, kept_in(tmp_path)) as gateway:
        answer = await post(gateway.url, "/s/s-1/hookgate/v1/events/BeforeAgent", {"prompt": "hi"}, KEY)
    assert answer.json["systemMessage"] == "noise"
    [event] = lines(seen[0]["transcript_path"])
    assert event["output"].get("systemMessage") == (None if suppressed else "noise")


async def test_none_is_kept_unless_it_is_wanted(tmp_path: Path) -> None:
    seen: list[dict[str, Any]] = []
    config = Config(transcripts=TranscriptSettings(folder=tmp_path))
    async with running_gateway({"BeforeModel": [listens(seen)]}, config=config) as gateway:
        await post(gateway.url, UNARY, {"contents": [HI]})
    assert (seen[0]["transcript_path"], names(tmp_path)) == ("", [])


async def test_a_large_one_is_set_aside_and_one_that_cannot_be_written_fails_no_call(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_gateway({}, config=kept_in(tmp_path, max_bytes=500)) as gateway:
        for _ in range(5):
            await post(gateway.url, f"/s/s-1{UNARY}", {"contents": [HI]})
        [folder] = names(tmp_path)
        assert names(tmp_path / folder) == ["s-1.jsonl", "s-1.jsonl.1"]
    (tmp_path / "file").write_text("")
    async with running_gateway({}, config=kept_in(tmp_path / "file")) as gateway:
        for _ in range(2):
            assert (await post(gateway.url, UNARY, {"contents": [HI]})).status == 200
    assert caplog.text.count("transcripts cannot be written") == 1


async def test_old_transcripts_are_removed(tmp_path: Path) -> None:
    old, recent = (tmp_path / "bob" / name for name in ("old.jsonl", "recent.jsonl"))
    old.parent.mkdir()
    for file, days in ((old, 8), (recent, 6)):
        file.write_text("{}\n")
        os.utime(file, (time.time() - days * 24 * 3600,) * 2)
    async with running_gateway(
        {}, {"rules": [{"answer": {"text": "hi"}}]}, kept_in(tmp_path, days=7)
    ) as gateway:
        await post(gateway.url, f"/s/s-1{UNARY}", {"contents": [HI]})
    assert names(old.parent) == ["recent.jsonl"]
