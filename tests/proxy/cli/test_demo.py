"""`hookgate demo`: five checked scenes, and the report of a failed one."""

import shlex
import shutil
from dataclasses import replace
from typing import Any

import pytest
from support.gateway.loopback import running_gateway
from support.pages import block_of
from support.programs.program import run

from hookgate.proxy.cli import demo
from hookgate.proxy.cli.init import examples_folder
from hookgate.proxy.mock_upstream import MockUpstream


async def test_it_plays_five_scenes_and_all_their_checks_succeed() -> None:
    ended = await run("demo", env={"GEMINI_API_KEY": "", "HTTP_PROXY": "http://127.0.0.1:1"})
    assert (ended.code, ended.err) == (0, "")
    titles = [line for line in ended.out.splitlines() if line[:2] in ("1.", "2.", "3.", "4.", "5.", "6.")]
    assert len(titles) == 5
    assert ended.out.count("   ok     ") >= 10
    assert "FAILED" not in ended.out
    assert "All 5 scenes passed." in ended.out
    shown = [line.strip() for line in block_of("README.md", "2. A redacted stream").text.splitlines()]
    printed = [line.strip() for line in ended.out.splitlines()]
    start = printed.index(shown[0])
    assert printed[start : start + len(shown)] == shown
    program, *arguments = shlex.split(printed[-1].removeprefix("Next: "))
    assert shutil.which(program), "it can be typed as it is printed"
    assert arguments[:2] == ["serve", "--hooks"]
    assert arguments[2] == str(examples_folder() / "settings.json")


async def test_it_prints_plain_text_into_a_pipe() -> None:
    ended = await run("demo", env={"TERM": "xterm-256color"})
    assert "\x1b" not in ended.out
    assert "not a model" in ended.out.splitlines()[0]


async def test_a_check_that_fails_is_shown_and_makes_the_demo_fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = demo.SCENES[0]

    async def play(agent: Any, upstream: MockUpstream) -> demo.Shown:
        return replace(await plain.play(agent, upstream), checks={"this cannot be": False, "this is": True})

    monkeypatch.setattr(demo, "SCENES", (replace(plain, play=play),))
    async with running_gateway() as gateway:
        code = await demo.play_scenes(gateway.url, MockUpstream(gateway.upstream_url, gateway.recorded))
    out = capsys.readouterr().out
    assert code == 1
    assert "FAILED this cannot be" in out
    assert "1 check failed" in out
    assert "scenes passed" not in out


async def test_scenes_without_their_hooks_fail() -> None:
    async with running_gateway() as gateway:
        assert await demo.play_scenes(gateway.url, MockUpstream(gateway.upstream_url, gateway.recorded)) == 1


async def test_the_demo_uses_the_examples_that_users_are_shown() -> None:
    assert (examples_folder() / "settings.json").is_file()
