"""Requests that two servers could interpret differently are refused or judged exactly once."""

import contextlib
import gzip
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from support.gateway.life import gateway_with
from support.gateway.loopback import RunningGateway, running_upstream, runs
from support.wire import UNARY, Wire, connected, post, prompt

from hookgate.proxy.config import LimitSettings
from hookgate.proxy.server import connection as kept

MARK = "forbidden-word"
BODY = json.dumps(prompt(MARK)).encode()
SIZE = str(len(BODY)).encode()
GOOD: dict[str, Any] = prompt("hi")
DENY = {"decision": "deny", "reason": "Not in this house."}
LINE = b"POST " + UNARY.encode() + b" HTTP/1.1\r\n"
HOST = b"Host: localhost\r\n"
KEY = b"x-goog-api-key: k\r\n"
HEAD = LINE + HOST + KEY
LENGTH = b"Content-Length: " + SIZE + b"\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
CHUNK = b"%x\r\n%s\r\n" % (len(BODY), BODY)
CHUNKS = CHUNK + b"0\r\n\r\n"
WHOLE = HEAD + LENGTH + b"\r\n" + BODY
PACKED = gzip.compress(BODY)
EMPTY = b'{"error": {"code": 0}}'  # of an answer without a body, to HEAD


def post_bytes(*headers: bytes, body: bytes = BODY) -> bytes:
    """A POST with these header lines."""
    return HEAD + b"".join(line + b"\r\n" for line in headers) + b"\r\n" + body


def chunked(body: bytes, *headers: bytes) -> bytes:
    return post_bytes(b"Transfer-Encoding: chunked", *headers, body=body)


def to(target: bytes, method: bytes = b"POST", version: bytes = b"HTTP/1.1") -> bytes:
    return method + b" " + target + b" " + version + b"\r\n" + HOST + KEY + LENGTH + b"\r\n" + BODY


PATH = UNARY.encode()
H2C = (b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABkAAQAAP__")

LENGTHS = {
    "length and chunked": chunked(CHUNKS, b"Content-Length: " + SIZE),
    "chunked and length": post_bytes(b"Content-Length: " + SIZE, b"Transfer-Encoding: chunked", body=CHUNKS),
    "length of the chunks and chunked": chunked(CHUNKS, b"Content-Length: %d" % len(CHUNKS)),
    "length 0 and chunked": chunked(CHUNKS, b"Content-Length: 0"),
    "length twice": post_bytes(b"Content-Length: " + SIZE, b"Content-Length: " + SIZE),
    "lengths that differ": post_bytes(b"Content-Length: " + SIZE, b"Content-Length: 0"),
    "lengths in a list": post_bytes(b"Content-Length: " + SIZE + b", " + SIZE),
    "lengths in a list that differ": post_bytes(b"Content-Length: 0, " + SIZE),
    "length signed": post_bytes(b"Content-Length: +" + SIZE),
    "length negative": post_bytes(b"Content-Length: -1"),
    "length hexadecimal": post_bytes(b"Content-Length: 0x%x" % len(BODY)),
    "length with an exponent": post_bytes(b"Content-Length: 1e2"),
    "length with a fraction": post_bytes(b"Content-Length: " + SIZE + b".0"),
    "length with underscores": post_bytes(b"Content-Length: " + SIZE[:1] + b"_" + SIZE[1:]),
    "length with zeros before": post_bytes(b"Content-Length: 000" + SIZE),
    "length in octal": post_bytes(b"Content-Length: 0o" + SIZE),
    "length with a space inside": post_bytes(b"Content-Length: " + SIZE[:1] + b" " + SIZE[1:]),
    "length with a space before": post_bytes(b"Content-Length:  " + SIZE),
    "length with a tab": post_bytes(b"Content-Length:\t" + SIZE + b"\t"),
    "length with no digits": post_bytes(b"Content-Length: "),
    "length of text": post_bytes(b"Content-Length: all"),
    "length in other digits": post_bytes("Content-Length: \u0661\u0662".encode()),
    "length beyond 64 bits": post_bytes(b"Content-Length: 18446744073709551616"),
    "length of 30 digits": post_bytes(b"Content-Length: " + b"9" * 30),
    "length too small": post_bytes(b"Content-Length: 10"),
    "length with a semicolon": post_bytes(b"Content-Length: " + SIZE + b";"),
    "length quoted": post_bytes(b'Content-Length: "' + SIZE + b'"'),
    "no length": post_bytes(),
    "length under another name": post_bytes(b"Content_Length: " + SIZE, b"Content-Length: 0"),
}
CODINGS = {
    "chunked twice": post_bytes(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked", body=CHUNKS),
    "chunked, chunked": post_bytes(b"Transfer-Encoding: chunked, chunked", body=CHUNKS),
    "chunked not last": post_bytes(b"Transfer-Encoding: chunked, identity", body=CHUNKS),
    "gzip, chunked": post_bytes(b"Transfer-Encoding: gzip, chunked", body=CHUNKS),
    "chunked with a length in another line": post_bytes(
        b"Transfer-Encoding: identity", b"Content-Length: " + SIZE
    ),
    "coding identity": post_bytes(b"Transfer-Encoding: identity"),
    "coding unknown": post_bytes(b"Transfer-Encoding: xchunked", body=CHUNKS),
    "coding empty": post_bytes(b"Transfer-Encoding:", b"Content-Length: " + SIZE),
    "coding quoted": post_bytes(b'Transfer-Encoding: "chunked"', body=CHUNKS),
    "coding in capitals": post_bytes(b"Transfer-Encoding: CHUNKED", body=CHUNKS),
    "coding with a vertical tab": post_bytes(b"Transfer-Encoding: \x0bchunked", body=CHUNKS),
    "coding with a form feed": post_bytes(b"Transfer-Encoding: chunked\x0c", body=CHUNKS),
    "coding with a null": post_bytes(b"Transfer-Encoding: chunked\0", body=CHUNKS),
    "coding with a parameter": post_bytes(b"Transfer-Encoding: chunked;x=1", body=CHUNKS),
    "coding with a comma": post_bytes(b"Transfer-Encoding: ,chunked", body=CHUNKS),
    "coding with a space in its name": post_bytes(b"Transfer-Encoding : chunked", body=CHUNKS),
    "coding behind a space": post_bytes(b" Transfer-Encoding: chunked", body=CHUNKS),
    "coding by another name": post_bytes(b"Transfer_Encoding: chunked", b"Content-Length: " + SIZE),
    "chunked in HTTP/1.0": b"POST " + PATH + b" HTTP/1.0\r\n" + HOST + KEY + CHUNKED + b"\r\n" + CHUNKS,
    "trailer that is a length": chunked(CHUNK + b"0\r\nContent-Length: 5\r\n\r\n"),
    "trailer that is a coding": chunked(CHUNK + b"0\r\nTransfer-Encoding: gzip\r\n\r\n"),
    "trailer that is a key": chunked(CHUNK + b"0\r\nx-goog-api-key: other\r\n\r\n"),
    "trailer that is none": chunked(CHUNK + b"0\r\nno colon\r\n\r\n"),
    "trailer folded": chunked(CHUNK + b"0\r\nX: 1\r\n 2\r\n\r\n"),
    "trailers without an end": chunked(CHUNK + b"0\r\nX: 1\r\n"),
}
CHUNK_SIZES = {
    "chunk extension": chunked(b"%x;name=value\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)),
    "chunk extension quoted": chunked(b'%x;n="v;\r"\r\n%s\r\n0\r\n\r\n' % (len(BODY), BODY)),
    "chunk extension with a line feed": chunked(b"%x;a\nb\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)),
    "chunk extension that is long": chunked(b"%x;%s\r\n%s\r\n0\r\n\r\n" % (len(BODY), b"x" * 70_000, BODY)),
    "chunk size with 0x": chunked(b"0x%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)),
    "chunk size signed": chunked(b"+%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)),
    "chunk size negative": chunked(b"-1\r\n%s\r\n0\r\n\r\n" % BODY),
    "chunk size with zeros before": chunked(b"000%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)),
    "chunk size with a space before": chunked(b" %x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)),
    "chunk size with a space after": chunked(b"%x \r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)),
    "chunk size with a tab": chunked(b"%x\t\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)),
    "chunk size with an underscore": chunked(b"%x_0\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)),
    "chunk size empty": chunked(b"\r\n%s\r\n0\r\n\r\n" % BODY),
    "chunk size that is none": chunked(b"xyz\r\n%s\r\n0\r\n\r\n" % BODY),
    "chunk size beyond 64 bits": chunked(b"1%s\r\n%s\r\n0\r\n\r\n" % (b"0" * 16, BODY)),
    "chunk size in many digits": chunked(b"%s%x\r\n%s\r\n0\r\n\r\n" % (b"0" * 100_000, len(BODY), BODY)),
    "chunk with a bare line feed": chunked(b"%x\n%s\n0\n\n" % (len(BODY), BODY)),
    "chunk with a bare return": chunked(b"%x\r%s\r0\r\r" % (len(BODY), BODY)),
    "chunk longer than it says": chunked(b"5\r\n%s\r\n0\r\n\r\n" % BODY),
    "chunk shorter than it says": chunked(b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY) + 9, BODY)),
    "chunk without its line end": chunked(b"%x\r\n%s0\r\n\r\n" % (len(BODY), BODY)),
    "chunks of one byte": chunked(b"".join(b"1\r\n%c\r\n" % byte for byte in BODY) + b"0\r\n\r\n"),
    "chunks without an end": chunked(CHUNK),
    "chunk behind the last one": chunked(b"0\r\n\r\n" + CHUNKS),
    "chunked body that is none": chunked(BODY),
}
LINES = {
    "line feeds alone": WHOLE[: -len(BODY)].replace(b"\r\n", b"\n") + BODY,
    "line feed behind the request line": LINE.replace(b"\r\n", b"\n") + WHOLE[len(LINE) :],
    "line feed behind a header": HEAD + b"X: 1\n" + LENGTH + b"\r\n" + BODY,
    "line feed at the end of the head": HEAD + LENGTH + b"\n" + BODY,
    "return alone behind a header": HEAD + b"X: 1\r" + LENGTH + b"\r\n" + BODY,
    "return in a value": post_bytes(b"X: a\rb", LENGTH.strip()),
    "two returns": HEAD.replace(b"\r\n", b"\r\r\n") + LENGTH + b"\r\n" + BODY,
    "null in a value": post_bytes(b"X: a\0b", LENGTH.strip()),
    "null in a name": post_bytes(b"X\0: a", LENGTH.strip()),
    "null in the target": to(PATH + b"\0"),
    "null first": b"\0" + WHOLE,
    "control character in a value": post_bytes(b"X: a\x01b", LENGTH.strip()),
    "folded header": post_bytes(b"X: a", b" b", LENGTH.strip()),
    "folded with a tab": post_bytes(b"X: a", b"\tb", LENGTH.strip()),
    "folded length": post_bytes(b"Content-Length:", b" " + SIZE),
    "folded host": LINE + b"Host: localhost\r\n evil\r\n" + LENGTH + b"\r\n" + BODY,
    "folded first header": LINE + b" X: 1\r\n" + HOST + LENGTH + b"\r\n" + BODY,
    "space before the colon": post_bytes(b"X : a", LENGTH.strip()),
    "space before the colon of the length": post_bytes(b"Content-Length : " + SIZE),
    "tab before the colon": post_bytes(b"Content-Length\t: " + SIZE),
    "no colon": post_bytes(b"just words", LENGTH.strip()),
    "no name": post_bytes(b": value", LENGTH.strip()),
    "name with brackets": post_bytes(b"X(y): 1", LENGTH.strip()),
    "name with a space": post_bytes(b"X y: 1", LENGTH.strip()),
    "name with other letters": post_bytes("X\u00e9: 1".encode(), LENGTH.strip()),
    "name quoted": post_bytes(b'"X": 1', LENGTH.strip()),
    "name of 10,000 letters": post_bytes(b"X" * 10_000 + b": 1", LENGTH.strip()),
    "value of 10,000 letters": post_bytes(b"X: " + b"x" * 10_000, LENGTH.strip()),
    "200 headers": post_bytes(*(b"X-%d: 1" % number for number in range(200)), LENGTH.strip()),
    "empty lines first": b"\r\n\r\n" + WHOLE,
    "line feeds first": b"\n\n" + WHOLE,
    "space first": b" " + WHOLE,
    "byte order mark first": b"\xef\xbb\xbf" + WHOLE,
}
TARGETS = {
    "absolute target": to(b"http://localhost" + PATH),
    "absolute target elsewhere": to(b"http://evil.example" + PATH),
    "absolute target of another scheme": to(b"https://evil.example" + PATH),
    "absolute target with a user": to(b"http://localhost@evil.example" + PATH),
    "absolute target without a host": to(b"http://" + PATH),
    "target without a slash": to(PATH[1:]),
    "target with a scheme alone": to(b"http:" + PATH),
    "authority target": to(b"localhost:80"),
    "asterisk target": to(b"*"),
    "empty target": b"POST  HTTP/1.1\r\n" + WHOLE[len(LINE) :],
    "target with a space": to(PATH + b" x"),
    "target with a tab": to(PATH + b"\tx"),
    "target with a fragment": to(PATH + b"#x"),
    "target with other letters": to(PATH + b"\xc3\xa9"),
    "target with a backslash": to(PATH.replace(b"/", b"\\")),
    "target of 10,000 letters": to(PATH + b"?key=" + b"x" * 10_000),
    "target with an encoded line end": to(PATH + b"%0d%0aX:%201"),
    "target doubled slash": to(b"/" + PATH),
    "two spaces before the target": to(b" " + PATH),
    "tabs in the request line": WHOLE.replace(b" ", b"\t", 2),
    "CONNECT": to(b"localhost:443", b"CONNECT"),
    "TRACE": to(PATH, b"TRACE"),
    "method in small letters": to(PATH, b"post"),
    "method unknown": to(PATH, b"JUDGE"),
    "method with a colon": to(PATH, b"PO:ST"),
    "method override": post_bytes(b"X-HTTP-Method-Override: PUT", LENGTH.strip()),
    "GET with a body": to(b"/v1beta/models", b"GET"),
    "HEAD with a body": to(b"/v1beta/models", b"HEAD"),
    "GET with chunks": b"GET /v1beta/models HTTP/1.1\r\n" + HOST + KEY + CHUNKED + b"\r\n" + CHUNKS,
}
VERSIONS = {
    "HTTP/0.9": b"GET " + PATH + b"\r\n",
    "HTTP/0.9 with a version": to(PATH, version=b"HTTP/0.9"),
    "HTTP/1.2": to(PATH, version=b"HTTP/1.2"),
    "HTTP/1": to(PATH, version=b"HTTP/1"),
    "HTTP/1.10": to(PATH, version=b"HTTP/1.10"),
    "HTTP/2.0": to(PATH, version=b"HTTP/2.0"),
    "HTTP/3.0": to(PATH, version=b"HTTP/3.0"),
    "http/1.1": to(PATH, version=b"http/1.1"),
    "HTTP/1,1": to(PATH, version=b"HTTP/1,1"),
    "no version": to(PATH, version=b""),
    "version with a space behind": to(PATH, version=b"HTTP/1.1 "),
    "ICE/1.0": to(PATH, version=b"ICE/1.0"),
    "RTSP/1.0": to(PATH, version=b"RTSP/1.0"),
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\x04\0\0\0\0\0",
    "TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + BODY,
    "PROXY protocol": b"PROXY TCP4 1.1.1.1 2.2.2.2 1 2\r\n" + WHOLE,
    "h2c upgrade with a body": post_bytes(*H2C, LENGTH.strip()),
    "h2c upgrade with chunks": chunked(CHUNKS, *H2C),
    "h2c or websocket upgrade with a body": post_bytes(
        b"Connection: Upgrade", b"Upgrade: h2c, websocket", LENGTH.strip()
    ),
    "tcp upgrade with a body": post_bytes(b"Connection: Upgrade", b"Upgrade: TCP", LENGTH.strip()),
    "websocket upgrade with a body": post_bytes(
        b"Connection: Upgrade", b"Upgrade: websocket", LENGTH.strip()
    ),
    "bytes behind a websocket upgrade": b"GET "
    + PATH
    + b" HTTP/1.1\r\n"
    + HOST
    + KEY
    + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    + WHOLE,
    "bytes behind an upgrade to tcp": b"GET /v1beta/models HTTP/1.1\r\n"
    + HOST
    + KEY
    + b"Connection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
    + WHOLE,
}
HEADERS = {
    "no host": LINE + KEY + LENGTH + b"\r\n" + BODY,
    "host twice": LINE + HOST + HOST + LENGTH + b"\r\n" + BODY,
    "hosts that differ": LINE + HOST + b"Host: evil\r\n" + LENGTH + b"\r\n" + BODY,
    "host empty": LINE + b"Host:\r\n" + LENGTH + b"\r\n" + BODY,
    "host with a path": LINE + b"Host: localhost/#@evil\r\n" + LENGTH + b"\r\n" + BODY,
    "host with a user": LINE + b"Host: localhost@evil\r\n" + LENGTH + b"\r\n" + BODY,
    "host with a space": LINE + b"Host: local host\r\n" + LENGTH + b"\r\n" + BODY,
    "host with a comma": LINE + b"Host: localhost, evil\r\n" + LENGTH + b"\r\n" + BODY,
    "host with a port that is none": LINE + b"Host: localhost:x\r\n" + LENGTH + b"\r\n" + BODY,
    "key twice": post_bytes(b"x-goog-api-key: other", LENGTH.strip()),
    "authorization twice": post_bytes(b"Authorization: Bearer a", b"Authorization: Bearer b", LENGTH.strip()),
    "session twice": post_bytes(b"x-hookgate-session: a", b"x-hookgate-session: b", LENGTH.strip()),
    "content type twice": post_bytes(b"Content-Type: text/plain", b"Content-Type: text/html", LENGTH.strip()),
    "expect twice": post_bytes(b"Expect: 100-continue", b"Expect: 100-continue", LENGTH.strip()),
    "x-gzip": post_bytes(b"Content-Encoding: x-gzip", b"Content-Length: %d" % len(PACKED), body=PACKED),
    "gzip, gzip": post_bytes(
        b"Content-Encoding: gzip, gzip",
        b"Content-Length: %d" % len(gzip.compress(PACKED)),
        body=gzip.compress(PACKED),
    ),
    "gzip twice": post_bytes(
        b"Content-Encoding: gzip",
        b"Content-Encoding: gzip",
        b"Content-Length: %d" % len(gzip.compress(PACKED)),
        body=gzip.compress(PACKED),
    ),
    "gzip that is none": post_bytes(b"Content-Encoding: gzip", LENGTH.strip()),
    "gzip cut short": post_bytes(
        b"Content-Encoding: gzip", b"Content-Length: %d" % (len(PACKED) - 9), body=PACKED[:-9]
    ),
    "gzip and more": post_bytes(
        b"Content-Encoding: gzip", b"Content-Length: %d" % (len(PACKED) * 2), body=PACKED * 2
    ),
    "gzip in capitals": post_bytes(
        b"Content-Encoding: GZIP", b"Content-Length: %d" % len(PACKED), body=PACKED
    ),
    "gzip with a space": post_bytes(
        b"Content-Encoding:  gzip ", b"Content-Length: %d" % len(PACKED), body=PACKED
    ),
    "br": post_bytes(b"Content-Encoding: br", LENGTH.strip()),
    "gzip that nobody announced": post_bytes(b"Content-Length: %d" % len(PACKED), body=PACKED),
    "websocket key of old": post_bytes(b"Sec-WebSocket-Key1: x", LENGTH.strip()),
    "connection names the length": post_bytes(b"Connection: content-length", LENGTH.strip()),
    "connection names the key": post_bytes(b"Connection: x-goog-api-key", LENGTH.strip()),
}
PIPELINES = {
    "a request in a body": post_bytes(b"Content-Length: 0", body=WHOLE),
    "a request behind an unknown route": b"GET /nowhere HTTP/1.1\r\n" + HOST + b"\r\n" + WHOLE,
    "a request behind a refused one": post_bytes(b"Content-Length: +1", body=WHOLE),
    "a request behind garbage": b"garbage\r\n\r\n" + WHOLE,
    "a request behind a HEAD": b"HEAD /v1beta/models HTTP/1.1\r\n" + HOST + b"\r\n" + WHOLE,
    "a request behind its own body": WHOLE + WHOLE,
    "a request behind chunks": chunked(CHUNKS) + WHOLE,
    "a request behind a close": post_bytes(b"Connection: close", LENGTH.strip()) + WHOLE,
    "forty requests": WHOLE * 40,
    "a request behind an h2c upgrade": post_bytes(*H2C, LENGTH.strip()) + WHOLE,
}
CORPUS = LENGTHS | CODINGS | CHUNK_SIZES | LINES | TARGETS | VERSIONS | HEADERS | PIPELINES

JUDGED = (
    *("length with zeros before", "length with a space before", "length with a tab"),
    *("coding in capitals", "coding by another name", "trailer that is a key"),
    *("chunk extension", "chunk size with zeros before"),
    *("chunks of one byte", "empty lines first", "line feeds first"),
    *("two spaces before the target", "method override", "RTSP/1.0", "gzip in capitals"),
    *("gzip with a space", "connection names the length", "connection names the key"),
    *("h2c upgrade with a body", "h2c upgrade with chunks"),
)
"""What every reader takes for the same one request: its policy denies it."""
ELSEWHERE = (
    *("absolute target", "absolute target elsewhere", "absolute target of another scheme"),
    *("absolute target with a user", "target with a fragment", "target with an encoded line end"),
    *("target doubled slash", "TRACE"),
)
"""What is one request, to a place that the gateway does not serve."""
ANSWERS: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(JUDGED + ELSEWHERE, (403,)),
    **dict.fromkeys(("x-gzip", "gzip, gzip", "gzip twice", "br"), (415,)),
    "HTTP/0.9": (),  # its answer would have no status
    "CONNECT": (403, 400),
    "bytes behind a websocket upgrade": (403, 403),
    "bytes behind an upgrade to tcp": (200,),
    "a request in a body": (400, 403),
    "a request behind an unknown route": (403, 403),
    "a request behind a HEAD": (403, 403),
    "a request behind its own body": (403, 403),
    "a request behind chunks": (403, 403),
    "a request behind an h2c upgrade": (403,),  # aiohttp drops what is pipelined behind any upgrade
    "forty requests": (403,) * 40,
    "h2c or websocket upgrade with a body": (403,),  # WebSockets are refused before anything is judged
}
"""The statuses of the answers. Where none stand here, the request is malformed: one answer, 400."""


@dataclass(frozen=True)
class Judging:
    """A gateway whose policy denies the forbidden word, and the prompts that it was shown."""

    running: RunningGateway
    prompts: list[str]


@pytest.fixture
async def judging(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Judging]:
    # Every connection ends by itself, soon: then all that the gateway has to say was said.
    monkeypatch.setattr(kept, "KEEP_ALIVE_TIMEOUT", 0.2)
    limits = LimitSettings(header_timeout=0.2, body_timeout=0.2)
    prompts: list[str] = []

    def policy(event: dict[str, Any]) -> dict[str, Any] | None:
        prompts.append(json.dumps(event["llm_request"]))
        return DENY if MARK in prompts[-1] else None

    async with (
        running_upstream() as (upstream_url, recorded),
        gateway_with(upstream_url, {"BeforeModel": [runs(policy)]}, limits=limits) as url,
    ):
        yield Judging(RunningGateway(url, upstream_url, recorded), prompts)


def test_the_corpus_is_large() -> None:
    assert len(CORPUS) >= 100


def test_the_statuses_are_those_of_requests_in_the_corpus() -> None:
    assert ANSWERS.keys() <= CORPUS.keys()


@pytest.mark.parametrize("name", CORPUS)
async def test_an_ambiguous_request_is_refused_or_judged_once(judging: Judging, name: str) -> None:
    gateway, data = judging.running, CORPUS[name]
    async with connected(gateway.url) as wire:
        found = answers(await everything(wire, data))
    assert tuple(status for status, _ in found) == ANSWERS.get(name, (400,))
    errors = [json.loads(body or EMPTY)["error"] for status, body in found if status != 200]
    assert all(error["code"] in (status, 0) for error, (status, _) in zip(errors, found, strict=False))
    denied = [error for error in errors if error.get("message") == DENY["reason"]]
    assert sum(MARK in prompt for prompt in judging.prompts) == len(denied) >= (name in JUDGED)
    assert not any(MARK in json.dumps([each.body, each.path_qs, each.headers]) for each in gateway.recorded)
    assert gateway.generated == []
    assert (await post(gateway.url, UNARY, GOOD)).status == 200
    assert len(gateway.generated) == 1


@pytest.mark.parametrize(
    "name",
    [
        *(
            "GET with a body",
            "GET with chunks",
            "websocket upgrade with a body",
            "host with a user",
            "key twice",
        ),
        *("length twice", "no version", "content type twice"),
    ],
)
async def test_an_answer_after_which_the_connection_closes_says_so(judging: Judging, name: str) -> None:
    async with connected(judging.running.url) as wire:
        await wire.write(CORPUS[name])
        answer = await wire.answer()
        assert (answer.status, answer.headers.get("connection")) == (400, "close")
        assert await wire.ended()


async def test_a_connection_serves_another_request_after_an_upgrade_that_is_ignored(judging: Judging) -> None:
    async with connected(judging.running.url) as wire:
        for data in (post_bytes(*H2C, LENGTH.strip()), WHOLE):
            await wire.write(data)
            answer = await wire.answer()
            assert (answer.status, answer.error["message"]) == (403, DENY["reason"])


async def everything(wire: Wire, data: bytes) -> bytes:
    """All that the gateway says to these bytes."""
    with contextlib.suppress(ConnectionError):  # it may have closed before it has taken all of them
        await wire.write(data)
    return await wire.rest()


def answers(data: bytes) -> list[tuple[int, bytes]]:
    """The answers in a connection's bytes, each with its status and body."""
    found = []
    while data:
        head, _, data = data.partition(b"\r\n\r\n")
        assert head.startswith((b"HTTP/1.1 ", b"HTTP/1.0 ")), head
        if (status := int(head.split()[1])) == 100:
            continue
        length = re.search(rb"(?i)content-length: ([0-9]+)", head)
        size = int(length[1]) if length and not data.startswith(b"HTTP/1.") else 0
        found.append((status, data[:size]))
        data = data[size:]
    return found
