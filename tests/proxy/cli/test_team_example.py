"""examples/team as its README shows it: the commands of the page, with free ports."""

import asyncio
import json
import os
import re
import shlex
import shutil
from pathlib import Path

import pytest
from support.gateway.keys import denial_reason, until_answered
from support.places import EXAMPLES
from support.programs.program import COMMAND, environment, serving

BLOCKS = re.findall(r"(?:^    .*\n)+", (EXAMPLES / "team" / "README.md").read_text(), re.MULTILINE)


async def shell(text: str, folder: Path) -> list[str]:
    """Run a block of the page in the example's folder, and then print the keys that it has made."""
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    (programs / "hookgate").write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n')
    (programs / "hookgate").chmod(0o755)
    variables = {"HOOKGATE_CONFIG": "hookgate.toml", "HOOKGATE_STATE": "state"}
    process = await asyncio.create_subprocess_exec(
        *("bash", "-ec", text),
        env=environment({**variables, "PATH": f"{programs}:{os.environ['PATH']}"}),
        cwd=folder / "examples" / "team",
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    return out.decode().splitlines()


@pytest.mark.e2e
async def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / "team", tmp_path / "examples" / "team")
    start, issue, call, revoke = ("\n".join(line[4:] for line in block.splitlines()) for block in BLOCKS)
    here = tmp_path / "examples" / "team"
    (here / "gemini-key").write_text("the-key-of-the-gateway\n")
    assert "echo the-key-of-the-gateway > gemini-key" in start
    async with serving("mock-upstream", patience=120) as upstream:
        (here / "hookgate.toml").write_text(
            (here / "hookgate.toml").read_text().replace("http://127.0.0.1:8788", upstream.url)
        )
        words = ("serve", "--config", str(here / "hookgate.toml"), "--state", str(here / "state"))
        async with serving(*words, "--listen", "127.0.0.1:0", patience=120) as server:
            issued = issue.replace("cd examples/team\n", "") + '\necho "$alice $ivan"'
            *table, keys = await shell(issued, tmp_path)
            alice, ivan = keys.split()
            assert [line.split()[1:3] for line in table[1:]] == [["alice", "search"], ["ivan", "interns"]]
            given = f"alice={alice}\nivan={ivan}\n"
            calls = call.replace("http://127.0.0.1:8787", server.url).replace("curl ", "curl -s ")
            called = "\n".join(line.replace(" -d ", " -w '\\n' -d ") for line in calls.splitlines())
            answers = [line for line in await shell(given + called, tmp_path) if line]
            answered, denied = (json.loads(line) for line in answers)
            assert answered["candidates"]
            assert denied["error"]["message"].endswith("Interns use the flash models.")
            revoked, _, *used = revoke.splitlines()
            assert (await shell(revoked, tmp_path))[0].startswith("Revoked ")
            assert denial_reason(await until_answered(server.url, ivan, 403)) == "KEY_REVOKED"
            usage, audit = [await shell(line, tmp_path) for line in used]
            assert [line.split()[1] for line in usage[1:]] == ["alice", "ivan"]
            assert {line.split()[2] for line in audit[1:]} >= {"refused", "denied"}
