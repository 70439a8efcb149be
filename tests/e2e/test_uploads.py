"""Files of google-genai through the gateway: every byte of them passes it."""

import asyncio
from pathlib import Path

import pytest
from support.gateway import FORWARDS_FILES, running_gateway, runs
from support.policies import no_rockets
from support.python_sdk import python_client, sdk_warnings

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
