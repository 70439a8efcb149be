"""The lines for nginx in docs/deploying.md, before a gateway."""

import asyncio
import io
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from support.gateway.loopback import RunningGateway, running_gateway
from support.pages import block_of
from support.programs.commands import missing
from team import Service, free_address

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio]

NGINX = shutil.which("nginx", path="/usr/sbin:/usr/bin")
PAGE = block_of("docs/deploying.md", "client_max_body_size").text
MODEL = "/v1beta/models/gemini-3.8-flash"
SCRIPT = {
    "rules": [{"when": {"text": "slowly"}, "answer": {"chunks": ["One,", " two."], "chunk_delay_ms": 60_000}}]
}


@asynccontextmanager
async def behind_nginx(gateway: RunningGateway, folder: Path) -> AsyncIterator[str]:
    """The base URL of nginx, which passes calls on to the gateway as the page says."""
    if NGINX is None:
        missing("nginx is not installed")
    address = free_address()
    lines = PAGE.replace("http://127.0.0.1:8787", gateway.url)
    temporary = "".join(f"{name}_temp_path {name};\n" for name in ("proxy", "fastcgi", "uwsgi", "scgi"))
    http = (
        f"access_log off;\nclient_body_temp_path body;\n{temporary}server {{\nlisten {address};\n{lines}}}\n"
    )
    file = folder / "nginx.conf"
    file.write_text(f"pid nginx.pid;\nerror_log stderr warn;\nevents {{}}\nhttp {{\n{http}}}\n")
    nginx = Service("nginx", folder)
    await nginx.run([str(NGINX), "-p", folder, "-c", file, "-g", "daemon off;"])
    try:
        await listens(address)
        yield f"http://{address}"
    finally:
        await nginx.end()


async def listens(address: str) -> None:
    """Wait until something listens there."""
    host, port = address.split(":")
    async with asyncio.timeout(20):
        while True:
            try:
                _, writer = await asyncio.open_connection(host, int(port))
            except OSError:
                await asyncio.sleep(0.05)
                continue
            writer.close()
            return


async def test_calls_pass_and_large_bodies_are_not_refused_by_nginx(tmp_path: Path) -> None:
    async with running_gateway() as gateway, behind_nginx(gateway, tmp_path) as url, client(url) as session:
        body = json.dumps({"contents": [{"role": "user", "parts": [{"text": "a" * 3_000_000}]}]})
        async with session.post(f"{MODEL}:generateContent", data=io.BytesIO(body.encode())) as answer:
            assert answer.status == 200, await answer.text()


async def test_the_first_event_arrives_before_the_upstream_has_sent_the_second(tmp_path: Path) -> None:
    async with (
        running_gateway(script=SCRIPT) as gateway,
        behind_nginx(gateway, tmp_path) as url,
        client(url) as session,
    ):
        body = {"contents": [{"role": "user", "parts": [{"text": "slowly"}]}]}
        async with (
            session.post(f"{MODEL}:streamGenerateContent?alt=sse", json=body) as answer,
            asyncio.timeout(30),
        ):
            assert b"One," in await answer.content.readuntil(b"\n")
        assert not gateway.recorded[-1].finished


def client(url: str) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(url, headers={"x-goog-api-key": "any"})
