"""Uploads with `routes.files = "judge"`: text is judged, whatever its type; the rest follows a rule."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from support.gateway.loopback import gateway_before, listens, runs, says
from support.hooks.policies import CARD, REFUSAL, answer_itself, no_rockets
from support.wire import KEY, UNARY, Answer, connected, ok, peer, post, request_bytes

from hookgate.proxy.app import serve_on
from hookgate.proxy.config import Config
from hookgate.proxy.routes.uploads import file_text
from hookgate.translator.media_types import media_type

PATH = "/upload/v1beta/files"
DATA = f"{PATH}?upload_id=u-1&upload_protocol=resumable"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
REDACT = {"type": "builtin", "builtin": "redact", "options": {"words": {"CARD": [CARD]}}}
JUDGES = {"routes": {"files": "judge"}}
WITH_IMAGES = {"routes": {"files": "judge", "file_types": ["image/*"], "file_bytes": 1000}}
WHOLE = {"X-Goog-Upload-Command": "upload, finalize", "X-Goog-Upload-Offset": "0"}
START = {
    "X-Goog-Upload-Protocol": "resumable",
    "X-Goog-Upload-Command": "start",
    "X-Goog-Upload-Header-Content-Type": "image/png",
}


class Files:
    """An upstream that keeps what is uploaded to it."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.bodies.append(await request.read())
        url = f"http://{request.host}{DATA}"
        started = request.headers.get("X-Goog-Upload-Command") == "start"
        status = {"X-Goog-Upload-URL": url} if started else {"X-Goog-Upload-Status": "final"}
        return web.json_response({"file": {"name": "files/1"}}, headers=status)


@pytest.fixture
async def files() -> AsyncIterator[tuple[str, Files]]:
    upstream = Files()
    async with serve_on(upstream.handle, "127.0.0.1", 0) as url:
        yield url, upstream


async def upload(
    url: str, data: bytes, headers: dict[str, str] = WHOLE, target: str = DATA, method: str = "POST"
) -> Answer:
    async with connected(url) as wire:
        await wire.write(request_bytes(method, target, data, KEY | headers))
        return await wire.answer()


async def receipt_of(url: str, answer: Answer) -> Any:
    async with connected(url) as wire:
        target = f"/hookgate/v1/receipts/{answer.headers['x-hookgate-receipt']}"
        await wire.write(request_bytes("GET", target, b"", KEY))
        return (await wire.answer()).json


async def test_text_is_shown_to_hooks_and_put_on_record(files: tuple[str, Files]) -> None:
    upstream_url, upstream = files
    seen: list[dict[str, Any]] = []
    hooks = {"BeforeModel": [REDACT, runs(no_rockets), listens(seen)], "AfterModel": [listens(seen)]}
    async with gateway_before(upstream_url, hooks, Config.model_validate(JUDGES)) as url:
        plain = await upload(url, "für Ada\n".encode())
        redacted = await upload(url, f"pay {CARD}!".encode())
        denied = await upload(url, b"a rocket")
        receipts = [await receipt_of(url, answer) for answer in (plain, redacted, denied)]
    assert (plain.status, plain.headers["x-goog-upload-status"], redacted.status) == (200, "final", 200)
    assert (denied.status, denied.error["message"]) == (403, REFUSAL)
    assert denied.headers["x-goog-upload-status"] == "cancelled"
    assert upstream.bodies == ["für Ada\n".encode(), b"pay [CARD]!".ljust(len(f"pay {CARD}!"))]
    assert {(event["hook_event_name"], event["operation"]) for event in seen} == {
        ("BeforeModel", "uploadFile")
    }
    assert [message["content"] for message in seen[0]["llm_request"]["messages"]] == ["für Ada\n"]
    assert receipts[0]["upload"] == {"type": "text", "judged": True, "offset": 0, "bytes": 9}
    assert receipts[0]["route"]["kind"] == "judged"
    assert [receipt["outcome"] for receipt in receipts] == ["answered", "answered", "denied"]


@pytest.mark.parametrize("condition", [{"keys": ["*"]}, {"teams": ["search"]}], ids=["keys", "teams"])
async def test_bytes_without_a_key_are_refused_if_hooks_are_selected_by_it(
    condition: dict[str, Any], files: tuple[str, Files]
) -> None:
    upstream_url, upstream = files
    hooks = {"BeforeModel": [{**REDACT, "when": condition}]}
    async with gateway_before(upstream_url, hooks, Config.model_validate(JUDGES)) as url:
        async with connected(url) as wire:
            await wire.write(request_bytes("POST", DATA, b"text", WHOLE))
            answer = await wire.answer()
        with_key = await upload(url, b"text")
    assert (answer.status, answer.error["details"][0]["reason"]) == (403, "FILE_NOT_ALLOWED")
    assert "send the key with each request" in answer.error["message"]
    assert (with_key.status, upstream.bodies) == (200, [b"text"])


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xfe" + "a rocket".encode("utf-16-le"),
        "a rocket".encode("utf-16-le"),
        b"a rocket\0",
        b"a rocket \xff",
        b"\x1f\x8b\x08" + bytes(range(256)),
        b"PK\x03\x04" + bytes(range(256)),
        PNG,
    ],
    ids=["UTF-16", "UTF-16 without a mark", "null", "invalid UTF-8", "gzip", "zip", "png"],
)
@pytest.mark.parametrize("declared", ["text/plain", "image/png"])
async def test_what_hooks_cannot_read_is_refused(
    data: bytes, declared: str, files: tuple[str, Files]
) -> None:
    upstream_url, upstream = files
    headers = WHOLE | {"X-Goog-Upload-Header-Content-Type": declared}
    async with gateway_before(upstream_url, {}, Config.model_validate(JUDGES)) as url:
        answer = await upload(url, data, headers)
    assert (answer.status, upstream.bodies) == (403, [])
    assert answer.error["details"][0]["reason"] == "FILE_NOT_ALLOWED"
    assert "routes.file_types" in answer.error["message"]


async def test_listed_types_are_forwarded_by_their_bytes_and_up_to_their_size(
    files: tuple[str, Files],
) -> None:
    upstream_url, upstream = files
    config = Config.model_validate(WITH_IMAGES)
    async with gateway_before(upstream_url, {"BeforeModel": [runs(no_rockets)]}, config) as url:
        image = await upload(url, PNG)
        receipt = await receipt_of(url, image)
        pdf = await upload(url, b"%PDF-1.7\n\xe2\xe3")
        text = await upload(url, b"a rocket", WHOLE | {"X-Goog-Upload-Header-Content-Type": "image/png"})
        large = await upload(url, PNG * 4)
        part = WHOLE | {"X-Goog-Upload-Offset": "600"}
        beyond = await upload(url, PNG * 2, part)
        second = await upload(url, PNG, part)
    assert [each.status for each in (image, pdf, text, large, beyond, second)] == [
        200,
        403,
        403,
        403,
        403,
        200,
    ]
    assert upstream.bodies == [PNG, PNG]
    assert receipt["upload"] == {"type": "image/png", "judged": False, "offset": 0, "bytes": len(PNG)}
    assert "this one is of the type application/pdf" in pdf.error["message"]
    assert text.error["message"] == REFUSAL


@pytest.mark.parametrize(
    ("data", "headers", "target", "method", "status"),
    [
        pytest.param(b"a rock", {**WHOLE, "X-Goog-Upload-Command": "upload"}, DATA, "POST", 403, id="a part"),
        pytest.param(b"\xc3", {**WHOLE, "X-Goog-Upload-Command": "upload"}, DATA, "POST", 403, id="cut"),
        pytest.param(b"et", {**WHOLE, "X-Goog-Upload-Offset": "6"}, DATA, "POST", 403, id="a later part"),
        pytest.param(b"x", {**WHOLE, "X-Goog-Upload-Offset": "-1"}, DATA, "POST", 400, id="negative offset"),
        pytest.param(b"x", {"X-Goog-Upload-Command": "upload"}, DATA, "POST", 400, id="no offset"),
        pytest.param(b"x", {}, DATA, "POST", 403, id="no command"),
        pytest.param(b"x", {"X-Goog-Upload-Command": "start, upload"}, PATH, "POST", 403, id="both"),
        pytest.param(b"x", {"X-Goog-Upload-Command": "cancel"}, DATA, "POST", 400, id="a body of cancel"),
        pytest.param(b"x", WHOLE, DATA, "PUT", 403, id="another method"),
        pytest.param(b"x", {}, f"{PATH}?uploadType=multipart", "POST", 403, id="multipart"),
        pytest.param(
            b"x", {"X-Goog-Upload-Protocol": "multipart"}, PATH, "POST", 403, id="multipart by header"
        ),
        pytest.param(b"x", {"X-Goog-Upload-Protocol": "raw"}, DATA, "POST", 400, id="two protocols"),
        *(
            pytest.param(b"a rock", given | extra, target, "POST", 400, id=f"raw by {how}, with {what}")
            for how, given, raw in (
                ("header", {"X-Goog-Upload-Protocol": "raw"}, PATH),
                ("upload_protocol", {}, f"{PATH}?upload_protocol=RAW"),
                ("uploadType", {}, f"{PATH}?uploadType=media"),
            )
            for what, extra, target in (
                ("upload_id", {}, f"{raw}{'&' if '?' in raw else '?'}upload_id=u-1"),
                ("an offset", {"X-Goog-Upload-Offset": "0"}, raw),
                ("a command", {"X-Goog-Upload-Command": "upload, finalize"}, raw),
                ("another protocol", {"x-goog-upload-protocol": "resumable"}, raw),
            )
        ),
        pytest.param(
            b"x", {"X-Goog-Upload-Protocol": "multipart"}, DATA, "POST", 400, id="multipart and resumable"
        ),
        pytest.param(b"x", {**WHOLE, "Content-Type": "multipart/related"}, DATA, "POST", 403, id="parts"),
        pytest.param(b"x", {**WHOLE, "x-goog-upload-offset": "9"}, DATA, "POST", 400, id="two offsets"),
        pytest.param(b"x", {**WHOLE, "x-goog-upload-command": "start"}, DATA, "POST", 400, id="two commands"),
        pytest.param(b"x", {**WHOLE, "Content-Encoding": "gzip"}, DATA, "POST", 415, id="compressed"),
        pytest.param(
            b"{}",
            {**START, "X-Goog-Upload-Header-Content-Length": "99999999999"},
            PATH,
            "POST",
            403,
            id="size",
        ),
        pytest.param(b'{"note": "x"}', START, PATH, "POST", 400, id="a description with other fields"),
        pytest.param(b'{"file": {"note": "x"}}', START, PATH, "POST", 400, id="a file with other fields"),
        pytest.param(
            b'{"file": {"mimeType": "a rocket"}}', START, PATH, "POST", 400, id="a type that is none"
        ),
        pytest.param(b'{"file": {"name": "a rocket"}}', START, PATH, "POST", 400, id="a name that is none"),
        pytest.param(b'{"file": {"displayName": "a rocket"}}', START, PATH, "POST", 403, id="its name"),
        pytest.param(
            b'{"file": {"displayName": "a", "display_name": "b"}}', START, PATH, "POST", 400, id="two names"
        ),
    ],
)
async def test_a_step_that_cannot_be_judged_is_refused(
    data: bytes, headers: dict[str, str], target: str, method: str, status: int
) -> None:
    config = Config.model_validate(JUDGES)
    async with (
        peer() as upstream,
        gateway_before(upstream.url, {"BeforeModel": [runs(no_rockets)]}, config) as url,
    ):
        answer = await upload(url, data, headers, target, method)
    assert (answer.status, upstream.heard) == (status, [])


async def test_every_other_step_is_forwarded(files: tuple[str, Files]) -> None:
    upstream_url, upstream = files
    described = {
        "file": {"display_name": f"of {CARD}", "mime_type": "text/plain; charset=utf-8", "size_bytes": 5}
    }
    async with gateway_before(upstream_url, {"BeforeModel": [REDACT]}, Config.model_validate(JUDGES)) as url:
        started = await upload(url, json.dumps(described).encode(), START, f"/s/abc{PATH}")
        answers = [
            await upload(url, b"", START, PATH),
            await upload(url, b"", {"X-Goog-Upload-Command": "query"}),
            await upload(url, b"", {"X-Goog-Upload-Command": "cancel"}),
            await upload(url, b"", WHOLE),
            await upload(
                url, b"hello", {"X-Goog-Upload-Protocol": "raw", "Content-Type": "text/plain"}, PATH
            ),
            await upload(url, f"{CARD}".encode(), {}, f"{PATH}?uploadType=media"),
        ]
    assert {answer.status for answer in (started, *answers)} == {200}
    assert started.headers["x-goog-upload-url"] == f"http://localhost/s/abc{DATA}"
    described["file"]["display_name"] = "of [CARD]"
    assert json.loads(upstream.bodies[0]) == described
    assert upstream.bodies[1:] == [b"", b"", b"", b"", b"hello", b"[CARD]"]


@pytest.mark.parametrize(
    ("hook", "message"),
    [
        (runs(answer_itself), "synthetic answer"),
        (says({"continue": False, "stopReason": "enough"}), "enough"),
        (
            says(llm_request={"messages": [{"role": "user", "content": "a longer text than before"}]}),
            "longer",
        ),
        (says(llm_request={"messages": [{"role": "user", "content": "a"}] * 2}), "one turn"),
    ],
)
async def test_what_has_no_place_in_a_file_refuses_it(
    hook: Any, message: str, files: tuple[str, Files]
) -> None:
    upstream_url, upstream = files
    async with gateway_before(upstream_url, {"BeforeModel": [hook]}, Config.model_validate(JUDGES)) as url:
        answer = await upload(url, b"hello")
    assert (answer.status, upstream.bodies) == (403, [])
    assert message in answer.error["message"]


async def test_policies_for_models_allow_files_and_those_for_requests_count_them(
    files: tuple[str, Files],
) -> None:
    hooks = [
        {"type": "builtin", "builtin": "models", "options": {"allow": ["gemini-*"]}},
        {
            "type": "builtin",
            "builtin": "limits",
            "options": {"rules": [{"per": "key", "window": "day", "requests": 1}]},
        },
    ]
    async with gateway_before(files[0], {"BeforeModel": hooks}, Config.model_validate(JUDGES)) as url:
        first, second = await upload(url, b"hello"), await upload(url, b"hello")
    assert (first.status, second.status) == (200, 403)
    assert "1 of 1 requests" in second.error["message"]


@pytest.mark.parametrize("target", ["/v1/files", "/v1/files:register", "/v1/fileSearchStores"])
async def test_other_ways_to_write_files_stay_refused(target: str) -> None:
    async with peer() as upstream, gateway_before(upstream.url, {}, Config.model_validate(JUDGES)) as url:
        answer = await post(url, target, {})
    assert (answer.status, upstream.heard) == (403, [])


@pytest.mark.parametrize(
    ("uri", "status"),
    [
        ("files/abc-1", 200),
        ("https://generativelanguage.googleapis.com/v1beta/files/abc-1", 200),
        ("{}/v1beta/files/abc-1", 200),
        ("https://evil.example/v1beta/files/abc-1", 403),
        ("https://generativelanguage.googleapis.com/v1beta/files/abc-1?x=y", 403),
        ("https://generativelanguage.googleapis.com.evil.example/v1beta/files/abc", 403),
        ("gs://bucket/files/abc", 403),
        ("https://www.youtube.com/watch?v=1", 403),
        ("", 403),
        (None, 403),
    ],
)
async def test_calls_may_refer_to_uploaded_files_and_no_others(uri: str | None, status: int) -> None:
    async with peer(ok(b"{}")) as upstream:
        uri = uri and uri.replace("{}", upstream.url)
        body = {"contents": [{"role": "user", "parts": [{"fileData": {"fileUri": uri}}]}]}
        config = Config.model_validate(JUDGES | {"upstream": {"gemini": upstream.url}})
        async with gateway_before(upstream.url, {"BeforeModel": [listens([])]}, config) as url:
            assert (await post(url, UNARY, body)).status == status


@given(st.text(), st.integers(0, 8))
def test_the_beginning_of_a_text_is_text(text: str, end: int) -> None:
    data = text.replace("\0", "").encode()
    assert file_text(data, is_last=True) == text.replace("\0", "")
    assert file_text(data[:end], is_last=False) is not None


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
        (b"RIFF\0\0\0\0WAVEfmt ", "audio/wav"),
        (b"\0\0\0\x18ftypheic", "image/heic"),
        (b"\0\0\0\x18ftypisom", "video/mp4"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"\x89PN", ""),
        (b"", ""),
    ],
)
def test_the_first_bytes_tell_the_type(data: bytes, kind: str) -> None:
    assert media_type(data) == kind


async def test_headers_of_an_upload_that_hold_text_are_not_forwarded() -> None:
    named = {**START, "X-Goog-Upload-File-Name": "rocket.txt", "x-goog-upload-note": "rocket"}
    typed = {**START, "X-Goog-Upload-Header-Content-Type": "a rocket"}
    config = Config.model_validate(JUDGES)
    async with (
        peer(ok(b"{}")) as upstream,
        gateway_before(upstream.url, {"BeforeModel": [runs(no_rockets)]}, config) as url,
    ):
        started, refused = await upload(url, b"", named, PATH), await upload(url, b"", typed, PATH)
    assert (started.status, refused.status) == (200, 400)
    assert "X-Goog-Upload-Header-Content-Type" in refused.error["message"]
    [request] = upstream.heard
    assert b"rocket" not in request
    assert b"x-goog-upload-command: start" in request.lower()
