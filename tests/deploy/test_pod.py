"""A gateway starts as the pod of the Helm chart would: with its arguments, variables, files and probes."""

import asyncio
import json
import os
import re
import shlex
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.gateway.databases import postgres
from support.operating.helm import Json, container, only, pod
from support.places import PROJECT
from support.programs.program import COMMAND, Server, environment
from support.upstream.recording import RecordingUpstream, recording_upstream
from support.wire import UNARY, ask, post, prompt

pytestmark = pytest.mark.e2e

DOCKERFILE = (PROJECT / "Dockerfile").read_text()
PAGE = (PROJECT / "docs" / "deploying.md").read_text()

GEMINI_KEY = "AIza-canary-of-the-gateway"
DENIED = "The word is not allowed."
GUARD = f"""\
#!/bin/sh
if grep -q forbidden; then echo '{{"decision": "deny", "reason": "{DENIED}"}}'; else echo '{{}}'; fi
"""
REDACT = {"detect": ["credentials", "personal"], "actions": {"personal": "pseudonymise"}}
HOOKS = [
    {"type": "command", "command": "/hooks/guard.sh"},
    {"type": "builtin", "builtin": "redact", "options": REDACT},
]
SETTINGS = json.dumps({"hooks": {"BeforeModel": [{"hooks": HOOKS}]}})


class Pod:
    """The files and the process of a pod, in a folder in place of the root of its container."""

    def __init__(self, root: Path, values: Json, secrets: Path) -> None:
        self.root = root
        self._container, self._spec = container(values), pod(values)["spec"]
        self._maps = {
            volume["configMap"]["name"]: only("ConfigMap", values, volume["configMap"]["name"])["data"]
            for volume in self._spec["volumes"]
            if "configMap" in volume
        }
        self._secret = {
            name: (PROJECT / secrets / file).read_bytes()
            for name, file in re.findall(r"--from-file=([\w.-]+)=secrets/(\S+)", PAGE)
        }
        self._paths = sorted((mount["mountPath"] for mount in self._container["volumeMounts"]), key=len)
        volumes = {volume["name"]: volume for volume in self._spec["volumes"]}
        for mount in sorted(self._container["volumeMounts"], key=lambda mount: len(mount["mountPath"])):
            self._mount(mount, volumes[mount["name"]])

    def _mount(self, mount: Json, volume: Json) -> None:
        """Write the files of a volume, with their modes; `subPath` mounts a single one."""
        path = Path(self.moved(mount["mountPath"]))
        (path.parent if "subPath" in mount else path).mkdir(parents=True, exist_ok=True)
        source = volume.get("configMap") or volume.get("secret") or {}
        for name, content in self._files(volume).items():
            if mount.get("subPath", name) == name:
                file = path if "subPath" in mount else path / name
                file.write_bytes(content)
                file.chmod(source.get("defaultMode", 0o644))

    def _files(self, volume: Json) -> dict[str, bytes]:
        match volume:
            case {"configMap": {"name": name}}:
                return {key: self.moved(text).encode() for key, text in self._maps[name].items()}
            case {"secret": _}:
                return self._secret
            case _:
                return {}

    def moved(self, text: str) -> str:
        """A text with each path below a mount below the folder instead."""
        mounts = "|".join(map(re.escape, self._paths))
        return re.sub(rf"(?<![\w/])(?={mounts})", str(self.root), text)

    @property
    def env(self) -> dict[str, str]:
        """The variables of the image and of the container, but ports that nobody else listens on."""
        [block] = re.findall(r"^ENV (PATH=.*(?:\n    .*)+)", DOCKERFILE, re.M)
        of_image = dict(re.findall(r"(\w+)=(\S+)", block))
        assert of_image["HOOKGATE_LISTEN"] == "0.0.0.0:8787"  # the container's port
        own = {each["name"]: each["value"] for each in self._container.get("env", ())}
        variables = {name: self.moved(value) for name, value in (of_image | own).items() if name != "PATH"}
        ports = {"HOOKGATE_LISTEN": "127.0.0.1:0", "HOOKGATE_ADMIN__ADDRESS": "127.0.0.1:0"}
        return {**environment(), **variables, **ports}

    @property
    def probes(self) -> dict[str, str]:
        """The paths that are asked at the admin listener, by the kind of probe."""
        return {
            kind: self._container[f"{kind}Probe"]["httpGet"]["path"]
            for kind in ("startup", "readiness", "liveness")
        }

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Server]:
        """The gateway, once it is ready."""
        assert 'ENTRYPOINT ["hookgate"]' in DOCKERFILE
        assert "command" not in self._container
        process = await self._start(*map(self.moved, self._container["args"]))
        server = Server(process)
        try:
            async with asyncio.timeout(60):
                await server.started()
                while "admin listener on" not in server.log:
                    assert await server.next_line(), server.log
            yield server
        finally:
            if process.returncode is None:
                process.kill()
            await process.communicate()

    async def run(self, *words: str) -> str:
        """What a command prints that `kubectl exec` runs in the container."""
        process = await self._start(*map(self.moved, words))
        async with asyncio.timeout(60):
            out, err = await process.communicate()
        assert process.returncode == 0, err.decode()
        return out.decode().strip()

    async def _start(self, *words: str) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            *COMMAND, *words, env=self.env, cwd=self.root / "hooks", stdin=pipe, stdout=pipe, stderr=pipe
        )


@pytest.fixture
def upstream() -> Iterator[RecordingUpstream]:
    """An upstream that tells how many requests came with the gateway's key."""
    with recording_upstream(GEMINI_KEY) as running:
        yield running


@pytest.fixture
def secrets(tmp_path: Path) -> Iterator[Path]:
    """The files that the script of the page creates, with the URL of a database corrected."""
    folder = tmp_path / "secrets"
    script = PROJECT / "deploy" / "team" / "secrets.sh"
    with postgres() as url:
        subprocess.run([script, folder], check=True, env={**os.environ, "GEMINI_API_KEY": GEMINI_KEY})
        (folder / "store-url").chmod(0o644)
        (folder / "store-url").write_text(f"{url}\n")
        yield folder


async def test_it_starts_is_probed_and_judges_calls(
    tmp_path: Path, upstream: RecordingUpstream, secrets: Path
) -> None:
    values = {
        "config": {"upstream": {"gemini": upstream.url}},
        "hooks": {"settings.json": SETTINGS, "guard.sh": GUARD},
    }
    gateway = Pod(tmp_path / "root", values, secrets)
    [create] = re.findall(r"kubectl .* exec deployment/hookgate -- hookgate (keys create .*)", PAGE)
    async with gateway.running() as server:
        [admin] = re.findall(r"admin listener on (http://127\.0\.0\.1:\d+)", server.log)
        for path in gateway.probes.values():
            assert (await ask(admin, "GET", path)).status == 200, server.log
        ready = (await ask(admin, "GET", gateway.probes["readiness"])).json
        assert (ready["status"], ready["degraded"]) == ("ready", [])
        key = {"x-goog-api-key": await gateway.run(*shlex.split(create))}
        answered = await post(server.url, UNARY, prompt("I am alice@example.com."), key)
        denied = await post(server.url, UNARY, prompt("forbidden"), key)
        unknown = await post(server.url, UNARY, prompt("hi"), {"x-goog-api-key": "unknown"})
    assert answered.json["candidates"][0]["content"]["parts"] == [{"text": "ok"}]
    assert DENIED in denied.body.decode()
    assert unknown.status == 403
    report = upstream.report()
    assert (report.requests, report.forbidden) == (1, 1)  # the key of the upstream, not that of the client
    assert "I am HG_EMAIL_" in report.examples[0]
    state = tmp_path / "root/var/lib/hookgate"
    assert (state / "redact.key").read_bytes() == (secrets / "redact.key").read_bytes()
    written = {path.name for path in state.iterdir()}
    assert not {"audit.db", "keys.pepper", "hookgate.db"} & written  # gateways share these
