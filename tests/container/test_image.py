"""The files of the container image run as docker-compose.yml runs them. `make container` makes them first."""

import asyncio
import contextlib
import os
import re
import signal
from pathlib import Path

import aiohttp
import pytest
from support.places import PROJECT

ROOT = os.environ.get("HOOKGATE_IMAGE_ROOT", "")
ENVIRONMENT = {
    "PATH": "/venv/bin:/usr/bin:/bin",
    "HOME": "/var/lib/hookgate",
    "HOOKGATE_STATE": "/var/lib/hookgate",
    "HOOKGATE_LISTEN": "127.0.0.1:0",
    "HOOKGATE_ADMIN__ADDRESS": "0.0.0.0:0",
}


@pytest.mark.skipif(not ROOT, reason="needs the files of the image: run `make container` as root")
async def test_the_gateway_starts_as_its_user_on_a_read_only_root(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    os.chown(state, 10001, 10001)
    variables = [f"{name}={value}" for name, value in ENVIRONMENT.items()]
    script = PROJECT / "tests" / "container" / "run_image.sh"
    hooks = PROJECT / "deploy" / "hooks"
    command = ["env", "-i", *variables, "hookgate", "serve", "--hooks", "/hooks/settings.json"]
    process = await asyncio.create_subprocess_exec(
        str(script),
        ROOT,
        str(state),
        str(hooks),
        *command,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stderr is not None
    log = ""
    try:
        async with asyncio.timeout(60):
            while "open the panel" not in log:
                line = await process.stderr.readline()
                assert line, log
                log += line.decode()
        [panel] = re.findall(r"open the panel: (http://127\.0\.0\.1:\d+)/#token=", log)
        async with aiohttp.ClientSession() as client, client.get(f"{panel}/healthz") as answer:
            assert answer.status == 200
    finally:
        with contextlib.suppress(ProcessLookupError):  # it may have ended already
            os.killpg(process.pid, signal.SIGKILL)
        await process.communicate()
    assert "no hooks" in log
    assert {path.name for path in state.iterdir()} >= {"audit.db"}
    assert {path.stat().st_uid for path in state.iterdir()} == {10001}
