"""The gateway's own API keys replace the callers' credentials, and appear in no answer."""

import asyncio
import base64
import cProfile
import json
import logging
import urllib.parse
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.gateway.loopback import upstreams_at
from support.wire import peer, response

from hookgate.proxy.calls.answer_reading import read_whole
from hookgate.proxy.cli.main import run_command
from hookgate.proxy.config import ConfigError, UpstreamSettings, read_config
from hookgate.proxy.errors import ApiError
from hookgate.proxy.observe.record import UpstreamAttempt
from hookgate.proxy.routes.table import match, with_gateway_credential
from hookgate.proxy.upstream.client import UpstreamAnswer, Upstreams
from hookgate.proxy.upstream.key_mask import KeyMask

OWN = "AIza-canary-of-the-gateway"
CALLERS = "hgk_canary-of-a-caller"
MASKED = "*" * len(OWN)
TARGETS = {
    "gemini": "/v1beta/models/m:generateContent",
    "vertex": "/v1/publishers/google/models/m:generateContent",
}


@pytest.fixture(autouse=True)
def all_logs(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """No log line of any level holds a key."""
    caplog.set_level(logging.DEBUG)
    yield
    assert "canary" not in caplog.text


async def exchange(
    answer: bytes, headers: dict[str, str] | None = None, api: str = "gemini", query: str = "", **options: Any
) -> tuple[str, UpstreamAnswer, bytes]:
    """A call with the gateway's key: what the upstream heard, its answer, and the answer's body."""
    route = with_gateway_credential(match("POST", TARGETS[api] + query))
    settings = UpstreamSettings.model_validate({f"{api}_key": OWN})
    async with peer(answer) as other, upstreams_at(other.url, settings) as upstreams:
        attempt = UpstreamAttempt(None)
        how = {"decompress": True, "candidate": upstreams.credentials.candidates(route)[0], **options}
        async with upstreams.exchange(attempt, "POST", route, headers or {}, b"{}", **how) as got:
            body = await read_whole(got.chunks())
    return other.heard[0].decode(), got, body


@pytest.mark.parametrize("api", ["gemini", "vertex"])
@pytest.mark.parametrize(
    ("headers", "query"),
    [
        ({"X-Goog-Api-Key": CALLERS}, ""),
        ({"authorization": f"Bearer {CALLERS}"}, ""),
        ({}, f"?key={CALLERS}"),
        ({"x-goog-user-project": CALLERS, "x-goog-iam-authorization-token": CALLERS}, ""),
    ],
    ids=["header", "bearer", "query", "other credentials"],
)
async def test_the_gateways_key_is_sent_in_place_of_the_callers_credentials(
    api: str, headers: dict[str, str], query: str
) -> None:
    kept = {"User-Agent": "antigravity/1.2", "X-Goog-Api-Client": "a/1"}
    heard, _, _ = await exchange(response(200, b"{}", {}), headers | kept, api, query)
    assert heard.count("canary") == heard.count(f"\r\nx-goog-api-key: {OWN}\r\n") == 1
    assert "\r\nUser-Agent: antigravity/1.2\r\nX-Goog-Api-Client: a/1\r\n" in heard


async def test_the_openai_compatible_path_receives_the_key_as_openais_clients_send_it() -> None:
    route = with_gateway_credential(match("POST", "/v1beta/openai/chat/completions", ("openai",)))
    upstreams = Upstreams(UpstreamSettings.model_validate({"gemini_key": OWN}))
    (candidate,) = upstreams.credentials.candidates(route)
    sent = await candidate.authenticated({"x-goog-api-key": CALLERS})
    assert sent == ({"Accept-Encoding": "identity", "Authorization": f"Bearer {OWN}"}, OWN)


async def test_a_callers_issued_key_is_never_sent_upstream() -> None:
    async with peer(response(200, b"{}", {})) as other, upstreams_at(other.url) as upstreams:
        route, attempt = with_gateway_credential(match("POST", TARGETS["gemini"])), UpstreamAttempt(None)
        with pytest.raises(RuntimeError, match="must not be sent upstream"):
            async with upstreams.exchange(attempt, "POST", route, {"a": CALLERS}, b"{}", decompress=True):
                pass
    assert not other.heard


def test_a_token_in_the_query_is_not_sent_with_the_gateways_key() -> None:
    live = "/ws/google.ai.generativelanguage.v1.GenerativeService.BidiGenerateContent"
    route = match("GET", f"{live}?access_token={CALLERS}&alt=json&key={CALLERS}", ("live",))
    assert with_gateway_credential(route).query == "alt=json"
    assert "canary" not in repr(with_gateway_credential(route))


@pytest.mark.parametrize("status", [200, 403])
async def test_an_answer_that_quotes_the_gateways_key_arrives_without_it(status: int) -> None:
    quoted = f'{{"error": "Consumer \'api_key:{OWN}\' has been suspended."}}'.encode()
    _, answer, body = await exchange(response(status, quoted, {"X-Goog-Debug": f"key {OWN}!"}))
    assert answer.status == status
    assert body.decode() == quoted.decode().replace(OWN, MASKED)
    assert answer.headers["X-Goog-Debug"] == f"key {MASKED}!"


async def test_a_key_in_the_name_of_a_header_is_masked() -> None:
    _, answer, _ = await exchange(response(200, b"{}", {f"X-Goog-{OWN}": "quoted"}))
    assert answer.headers[f"X-Goog-{MASKED}"] == "quoted"
    assert OWN not in "".join(answer.headers)


async def test_an_answer_whose_key_could_not_be_masked_is_refused() -> None:
    with pytest.raises(ApiError, match="it is compressed, although the gateway did not ask for that"):
        await exchange(response(200, b"x", {"Content-Encoding": "br"}), decompress=False)


async def test_nothing_is_compressed_in_answer_to_the_gateways_key() -> None:
    heard, _, _ = await exchange(response(200, b"{}", {}), {"Accept-Encoding": "gzip, br"}, decompress=False)
    assert "\r\nAccept-Encoding: identity\r\n" in heard


# ---- the mask


async def _pieces(text: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(text), size):
        yield text[start : start + size]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 64])
def test_a_key_is_masked_wherever_chunks_end(size: int) -> None:
    key = "abab-abc"
    text = b"abab-abab-abc abab-ab abab-abcabab-abc ab"

    async def masked() -> bytes:
        return b"".join([piece async for piece in KeyMask(key).stream(_pieces(text, size))])

    assert asyncio.run(masked()) == text.replace(key.encode(), b"*" * len(key))


async def test_only_what_may_begin_the_key_is_held_back() -> None:
    async def stream() -> AsyncIterator[bytes]:
        for chunk in (b"data: AIz", b"a-", b"nothing", b" AIza"):
            yield chunk

    assert [piece async for piece in KeyMask(OWN).stream(stream())] == [
        b"data: ",
        b"AIza-nothing",
        b" ",
        b"AIza",
    ]


def _spelled(key: str, escapes: Sequence[str]) -> str:
    """The key with each of its characters written in one of these ways, in turn."""
    ways: dict[str, Callable[[str], str]] = {
        "": str,
        "u": lambda c: f"\\u{ord(c):04x}",
        "U": lambda c: f"\\u{ord(c):04X}",
        "nested": lambda c: f"\\\\u{ord(c):04x}",
        "%": lambda c: f"%{ord(c):02x}",
        "%U": lambda c: f"%{ord(c):02X}",
    }
    return "".join(ways[escapes[at % len(escapes)]](character) for at, character in enumerate(key))


ESCAPES = st.lists(st.sampled_from(["", "u", "U", "nested", "%", "%U"]), min_size=1, max_size=9)


@given(ESCAPES, st.integers(1, 40), st.sampled_from(["abab-abc", OWN, "ya29.c+b/0A=="]))
def test_a_key_is_masked_in_every_spelling_wherever_chunks_end(
    escapes: list[str], size: int, key: str
) -> None:
    spelled = _spelled(key, escapes)
    text = f'{{"a": "{spelled}\\u003c%41{key[:3]}", "b": "{key}"}}'.encode()

    async def masked() -> bytes:
        return b"".join([piece async for piece in KeyMask(key).stream(_pieces(text, size))])

    expected = text.replace(spelled.encode(), b"*" * len(spelled)).replace(key.encode(), b"*" * len(key))
    assert asyncio.run(masked()) == expected
    assert KeyMask(key).data(text) == expected


@pytest.mark.parametrize("before", ["", "a", "ab", "user:"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
@pytest.mark.parametrize("key", [OWN, "k~~~?>>\x7f?~~", "ya29.c+b/0A=="])
def test_a_key_is_masked_in_base64(before: str, encode: Callable[[bytes], bytes], key: str) -> None:
    quoted = encode(f"{before}{key} and more".encode())
    masked = KeyMask(key).data(b"Authorization: Basic " + quoted)
    assert len(masked) == len(quoted) + 21
    left = base64.b64decode(masked[21:].replace(b"*", b"A").translate(bytes.maketrans(b"-_", b"+/")))
    assert not any(key[at : at + 3].encode() in left for at in range(len(key) - 2))


def test_escapes_that_are_not_the_keys_are_left_alone() -> None:
    text = b'{"html": "\\u003cb\\u003e 100%25 \\\\u0041 \\/ %", "key": "AIza"}'
    assert KeyMask(OWN).data(text) == text


def test_masking_escapes_takes_linear_time() -> None:
    """Counted by the profiler, since time depends on the machine."""

    def calls(data: bytes) -> int:
        profile = cProfile.Profile()
        profile.runcall(KeyMask(OWN)._partial_key_size, data)
        return sum(each.callcount for each in profile.getstats())

    for piece in (_spelled(OWN[:-1], ["u"]).encode(), OWN[:-1].encode(), b"\\", b"%", b"\\u004"):
        assert calls(piece * 2000) <= 2 * calls(piece * 1000) + 100


async def test_an_answer_that_quotes_the_key_in_escapes_or_base64_arrives_without_it() -> None:
    spelled, encoded = _spelled(OWN, ["u"]), base64.b64encode(f"x:{OWN}".encode()).decode()
    quoted = f'{{"error": "{spelled} Basic {encoded} ?key={_spelled(OWN, ["%"])}"}}'.encode()
    headers = {"X-Goog-Debug": _spelled(OWN, ["", "%"])}
    _, answer, body = await exchange(response(403, quoted, headers))
    shown = urllib.parse.unquote(json.loads(body)["error"])
    assert "canary" not in shown + urllib.parse.unquote(answer.headers["X-Goog-Debug"])
    assert encoded[8:-8] not in shown
    assert len(body) == len(quoted)


# ---- where the key comes from


@pytest.mark.parametrize("ending", ["", "\n", "\r\n"])
async def test_the_key_is_read_from_a_file(ending: str, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(OWN + ending)
    upstreams = Upstreams(UpstreamSettings(gemini_key_file=file))
    refusal = upstreams.refusal(with_gateway_credential(match("POST", TARGETS["vertex"])))
    assert refusal is not None
    assert refusal.reason == "UPSTREAM_KEY_MISSING"
    (candidate,) = upstreams.credentials.candidates(with_gateway_credential(match("POST", TARGETS["gemini"])))
    headers, _ = await candidate.authenticated({})
    assert headers["x-goog-api-key"] == OWN


@pytest.mark.parametrize(
    "text", [b"", b"\n", b"short", f"{OWN} x".encode(), f"{OWN}\n{OWN}".encode(), b"\xff" * 20], ids=repr
)
def test_a_file_that_is_not_a_key_is_refused_without_its_text(text: bytes, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_bytes(text)
    with pytest.raises(ValueError, match=r"^upstream\.gemini_key_file: .*must ") as error:
        Upstreams(UpstreamSettings(gemini_key_file=file))
    assert "canary" not in str(error.value)


def test_a_missing_file_is_an_error_of_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOOKGATE_UPSTREAM__GEMINI_KEY_FILE", "nowhere")
    assert run_command(["config", "check", "--config", "/dev/null", "--state", str(tmp_path)]) == 1
    assert capsys.readouterr().err == (
        "hookgate: HOOKGATE_UPSTREAM__GEMINI_KEY_FILE: upstream.gemini_key_file: nowhere: "
        "does not exist; write the secret into it, or check the path\n"
    )


def test_the_key_is_read_from_a_variable_and_shown_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOOKGATE_UPSTREAM__GEMINI_KEY", OWN)
    effective = read_config({"config": "/dev/null"})
    route = with_gateway_credential(match("POST", TARGETS["gemini"]))
    assert Upstreams(effective.config.upstream).refusal(route) is None
    for command in ("check", "show"):
        assert run_command(["config", command, "--config", "/dev/null", "--state", str(tmp_path)]) == 0
    shown = "".join(capsys.readouterr())
    assert "HOOKGATE_UPSTREAM__GEMINI_KEY" in shown
    assert "canary" not in shown + repr(effective) + str(effective.config.upstream)


@pytest.mark.parametrize("value", [f"{OWN} x", "canary"])
def test_a_value_that_is_not_a_key_is_refused_without_it(value: str) -> None:
    with pytest.raises(ConfigError, match="must be an API key: 8 to 512 letters") as error:
        read_config({"config": "/dev/null"}, {"HOOKGATE_UPSTREAM__GEMINI_KEY": value})
    assert "canary" not in str(error.value)


def test_a_key_comes_from_one_place(tmp_path: Path) -> None:
    environ = {"HOOKGATE_UPSTREAM__VERTEX_KEY": OWN, "HOOKGATE_UPSTREAM__VERTEX_KEY_FILE": str(tmp_path)}
    with pytest.raises(
        ConfigError, match=r"vertex_key and upstream\.vertex_key_file are both set; remove one"
    ):
        read_config({"config": "/dev/null"}, environ)
