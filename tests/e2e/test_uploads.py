"""File uploads of google-genai: all of their bytes pass through the gateway."""

import asyncio
import io
from pathlib import Path

import pytest
from google.genai.errors import ClientError
from support.clients.python_sdk import MODEL, python_client, sdk_warnings
from support.gateway.loopback import FORWARDS_FILES, gateway_before, running_gateway, running_upstream, runs
from support.hooks.policies import CARD, REFUSAL, no_rockets

from hookgate.proxy.config import Config

pytestmark = [
    sdk_warnings,
    # The SDK's own way to send a part of a file.
    pytest.mark.filterwarnings("ignore:Sending a large body directly with raw bytes:ResourceWarning"),
]

SIZE = 9 * 1024 * 1024  # the SDK sends parts of 8 MiB


CONTENT = bytes(range(256)) * (SIZE // 256)


@pytest.fixture
def big(tmp_path: Path) -> Path:
    path = tmp_path / "big.txt"
    path.write_bytes(CONTENT)
    return path


@pytest.mark.parametrize("way", ["sync", "async"])
@pytest.mark.parametrize("prefix", ["", "/s/abc"])
async def test_a_file_is_uploaded_read_and_deleted(
    way: str, prefix: str, big: Path, arrived: list[str]
) -> None:
    hooks = {"BeforeModel": [runs(no_rockets)]}
    async with (
        running_gateway(hooks, config=FORWARDS_FILES) as gateway,
        python_client(gateway.url + prefix) as client,
    ):
        if way == "async":
            file = await client.aio.files.upload(file=big)
        else:
            file = await asyncio.to_thread(lambda: client.files.upload(file=big))
        listed = [each.name async for each in await client.aio.files.list()]
        described = await client.aio.files.get(name=file.name)
        content = await client.aio.files.download(file=file.name)
        await client.aio.files.delete(name=file.name)
        left = [each.name async for each in await client.aio.files.list()]
        # What did not pass the gateway would have been recorded upstream alone.
        seen = [request.path_qs for request in gateway.recorded]
    assert (file.mime_type, described.size_bytes) == ("text/plain", SIZE)
    assert content == CONTENT
    assert (listed, left) == ([file.name], [])
    assert [target.removeprefix(prefix) for target in arrived] == seen
    assert all(target.startswith(f"{prefix}/") for target in arrived)
    assert len([target for target in arrived if "upload_id=" in target]) == 2


async def test_an_uploaded_text_is_judged_and_calls_may_refer_to_it() -> None:
    redact = {"type": "builtin", "builtin": "redact", "options": {"words": {"CARD": [CARD]}}}
    hooks = {"BeforeModel": [redact, runs(no_rockets)]}
    async with running_upstream() as (upstream, recorded):
        config = Config.model_validate({"routes": {"files": "judge"}, "upstream": {"gemini": upstream}})
        async with gateway_before(upstream, hooks, config) as url, python_client(url) as client:
            upload = client.aio.files.upload
            file = await upload(file=io.BytesIO(f"pay {CARD}".encode()), config={"mime_type": "text/plain"})
            content = await client.aio.files.download(file=file.name)
            answer = await client.aio.models.generate_content(model=MODEL, contents=["Summarize.", file])
            before = len(recorded)
            with pytest.raises(ClientError) as denied:
                await upload(file=io.BytesIO(b"a rocket"), config={"mime_type": "image/png"})
    assert content.rstrip() == b"pay [CARD]"
    assert answer.text
    assert (denied.value.code, denied.value.message) == (403, REFUSAL)
    assert [request.path_qs for request in list(recorded)[before:]] == ["/upload/v1/files"]
