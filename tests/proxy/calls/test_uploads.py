"""Upload URLs lead through the gateway, at the address that the client used."""

import asyncio

import pytest
from support.gateway.loopback import FORWARDS_FILES, gateway_before
from support.hooks.http import peer as talking
from support.wire import Answer, connected, ok

from hookgate.proxy.calls.forward import UploadUrls
from hookgate.proxy.errors import ApiError

PATH = "/upload/v1beta/files"
QUERY = "upload_id=AB-c_9&upload_protocol=resumable"


async def answer_with(headers: dict[str, str], target: str = PATH, host: str = "gate.example:8787") -> Answer:
    """What a client is answered when the upstream answers with these headers; {} stands for its URL."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(
            ok(b"{}", **{name: value.replace("{}", _address_of(writer)) for name, value in headers.items()})
        )

    async with (
        talking(talk) as upstream,
        gateway_before(upstream, config=FORWARDS_FILES) as url,
        connected(url) as wire,
    ):
        await wire.write(f"POST {target} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n".encode())
        return await wire.answer()


def _address_of(writer: asyncio.StreamWriter) -> str:
    return "http://{}:{}".format(*writer.get_extra_info("sockname"))


@pytest.mark.parametrize("header", ["X-Goog-Upload-URL", "X-Goog-Upload-Control-URL", "Location"])
@pytest.mark.parametrize("prefix", ["", "/s/team-a"])
async def test_an_uploads_url_leads_back_as_the_client_came(header: str, prefix: str) -> None:
    answer = await answer_with({header: "{}" + f"{PATH}?{QUERY}"}, target=prefix + PATH)
    assert answer.status == 200
    assert answer.headers[header.lower()] == f"http://gate.example:8787{prefix}{PATH}?{QUERY}"


@pytest.mark.parametrize("host", ["localhost", "[::1]:80", "a-b.example", "a~b.example"])
async def test_the_host_is_the_one_that_was_asked(host: str) -> None:
    answer = await answer_with({"X-Goog-Upload-URL": "{}" + PATH}, host=host)
    assert answer.headers["x-goog-upload-url"] == f"http://{host}{PATH}"


@pytest.mark.parametrize(
    "elsewhere",
    [
        "https://evil.example/upload/v1beta/files",
        "http://127.0.0.1:1/upload/v1beta/files",
        "{}@evil.example/upload",
        "{}.evil.example/upload",
        "{}0/upload",
        "//evil.example/upload",
        "/upload/v1beta/files",
        "",
        "{}",
        "http://[",
        "http://127.0.0.1:x/",
    ],
)
@pytest.mark.parametrize("header", ["X-Goog-Upload-URL", "Location"])
async def test_an_upload_to_another_address_is_refused(header: str, elsewhere: str) -> None:
    answer = await answer_with({header: elsewhere})
    assert answer.status == 502
    assert header.lower() not in answer.headers
    assert "evil" not in answer.error["message"]


@pytest.mark.parametrize("port", ["", ":443"])
def test_the_default_port_of_a_scheme_may_be_left_out(port: str) -> None:
    route = UploadUrls("http", "gate.example", "", "https://api.example", uploads=True)
    assert route.gateway_url_for(f"https://api.example{port}/upload?a=b") == "http://gate.example/upload?a=b"


@pytest.mark.parametrize("place", [":0/upload", ":80/upload", ":444/upload", "/upload/é", "/upload a"])
def test_a_url_with_another_port_or_other_characters_is_refused(place: str) -> None:
    route = UploadUrls("http", "gate.example", "", "https://api.example", uploads=True)
    with pytest.raises(ApiError):
        route.gateway_url_for(f"https://api.example{place}")


async def test_a_location_of_any_other_answer_stays_behind() -> None:
    answer = await answer_with({"Location": "https://evil.example/"}, target="/v1/models/m:countTokens")
    assert (answer.status, "location" in answer.headers) == (200, False)
