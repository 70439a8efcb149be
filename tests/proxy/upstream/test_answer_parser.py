"""The parser of HTTP answers: the result does not depend on the split, and what it refuses."""

from dataclasses import dataclass

import pytest

from hookgate.proxy.upstream.answer_parser import MAX_HEAD, AnswerParser, InvalidAnswerError

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
EMPTY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


@dataclass(frozen=True)
class Read:
    """What a parser made of some bytes."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    complete: bool
    keep_alive: bool


def read(*pieces: bytes, has_no_body: bool = False, eof: bool = False) -> Read:
    parser = AnswerParser()
    parser.begin(has_no_body=has_no_body)
    body = b""
    for piece in pieces:
        parser.feed(piece)
        body += parser.take()
    if eof:
        parser.feed_eof()
    return Read(parser.status, tuple(parser.headers.items()), body, parser.complete, parser.keep_alive)


ANSWERS = {
    "a length": (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody", 200, b"body", True),
    "no reason": (b"HTTP/1.1 200\r\nContent-Length: 4\r\n\r\nbody", 200, b"body", True),
    "an empty body": (EMPTY, 200, b"", True),
    "chunks": (CHUNKED + b"2\r\nbo\r\n2\r\ndy\r\n0\r\n\r\n", 200, b"body", True),
    "extensions": (CHUNKED + b'004;a=b;c="d"\r\nbody\r\n0;e\r\n\r\n', 200, b"body", True),
    "trailers": (CHUNKED + b"4\r\nbody\r\n0\r\nX: y\r\n\r\n", 200, b"body", True),
    "coding in capitals": (CHUNKED.replace(b"chunked", b"CHUNKED") + b"0\r\n\r\n", 200, b"", True),
    "no content": (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b"", True),
    "not modified": (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", 304, b"", True),
    "an error": (b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbody", 503, b"body", True),
    "interim answers": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n" + EMPTY,
        200,
        b"",
        True,
    ),
    "closed": (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbody", 200, b"body", False),
    "HTTP/1.0": (b"HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\nbody", 200, b"body", False),
    "HTTP/1.0, kept": (
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 4\r\n\r\nbody",
        200,
        b"body",
        True,
    ),
    "upgrade offered": (
        b"HTTP/1.1 200 OK\r\nConnection: upgrade\r\nUpgrade: h2c\r\nContent-Length: 4\r\n\r\nbody",
        200,
        b"body",
        True,
    ),
}

every_answer = pytest.mark.parametrize(
    ("data", "status", "body", "keep_alive"),
    [pytest.param(*answer, id=name) for name, answer in ANSWERS.items()],
)


@every_answer
def test_an_answer_is_understood_wherever_it_is_split(
    data: bytes, status: int, body: bytes, keep_alive: bool
) -> None:
    whole = read(data)
    assert (whole.status, whole.body, whole.complete, whole.keep_alive) == (status, body, True, keep_alive)
    assert read(*(data[at : at + 1] for at in range(len(data)))) == whole
    for first in range(len(data)):
        for second in range(first, len(data)):
            assert read(data[:first], data[first:second], data[second:]) == whole


@every_answer
def test_a_connection_on_which_more_follows_is_not_used_again(
    data: bytes, status: int, body: bytes, keep_alive: bool
) -> None:
    for more in (b"H", b"HTTP/1.1 200 OK\r\n", EMPTY, b"\0"):
        for pieces in ((data + more,), (data, more)):
            answer = read(*pieces)
            assert (answer.status, answer.body, answer.complete, answer.keep_alive) == (
                status,
                body,
                True,
                False,
            )


def test_one_answer_after_another_on_one_connection() -> None:
    parser = AnswerParser()
    for body in (b"one", b"two"):
        parser.begin()
        parser.feed(CHUNKED + b"3\r\n%b\r\n0\r\n\r\n" % body)
        assert (parser.take(), parser.complete, parser.keep_alive) == (body, True, True)
    parser.begin()
    assert (parser.status, parser.complete, parser.keep_alive, parser.take()) == (0, False, False, b"")


def test_a_body_without_a_length_ends_with_the_connection() -> None:
    data = b"HTTP/1.1 200 OK\r\n\r\nbody"
    assert not read(data).complete
    ended = read(data, eof=True)
    assert (ended.body, ended.complete, ended.keep_alive) == (b"body", True, False)


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nbody",
        CHUNKED + b"4\r\nbody\r\n",
        CHUNKED + b"4\r\nbody\r\n0\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-",
        b"",
    ],
)
def test_an_answer_that_the_connection_cuts_off_is_not_complete(data: bytes) -> None:
    assert not read(data, eof=True).complete


@pytest.mark.parametrize("framing", [b"Content-Length: 4", b"Transfer-Encoding: chunked", b"X: y"])
def test_the_answer_to_head_has_no_body(framing: bytes) -> None:
    answer = read(b"HTTP/1.1 200 OK\r\n%b\r\n\r\nbody" % framing, has_no_body=True)
    assert (answer.status, answer.body, answer.complete, answer.keep_alive) == (200, b"", True, False)


def test_headers_are_as_they_were_sent() -> None:
    fields = b"A: one\r\na:\ttwo \t\r\nB:\r\nC: \xc3\xa9\xff\r\nD: \x1b[2J\r\n"
    assert read(EMPTY[:17] + fields + EMPTY[17:]).headers == (
        ("A", "one"),
        ("a", "two"),
        ("B", ""),
        ("C", "é\udcff"),
        ("D", "\x1b[2J"),
        ("Content-Length", "0"),
    )


AMBIGUOUS = {
    "length and coding": b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n",
    "coding and length": b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n",
    "two lengths": b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nbody",
    "one length twice": b"Content-Length: 4\r\nContent-Length: 4\r\n\r\nbody",
    "a list of lengths": b"Content-Length: 4, 4\r\n\r\nbody",
    "a length with a sign": b"Content-Length: +4\r\n\r\nbody",
    "a negative length": b"Content-Length: -4\r\n\r\nbody",
    "no length at all": b"Content-Length: \r\n\r\nbody",
    "a length with a space": b"Content-Length: 4 4\r\n\r\nbody",
    "a hexadecimal length": b"Content-Length: 0x4\r\n\r\nbody",
    "a length beyond 64 bits": b"Content-Length: 18446744073709551620\r\n\r\nbody",
    "a space before the colon": b"Content-Length : 4\r\n\r\nbody",
    "a folded value": b"X: a\r\n b\r\nContent-Length: 4\r\n\r\nbody",
    "a value folded with a tab": b"X: a\r\n\tb\r\nContent-Length: 4\r\n\r\nbody",
    "a folded length": b"Content-Length:\r\n 4\r\n\r\nbody",
    "a space before a name": b" Content-Length: 4\r\n\r\nbody",
    "a space in a name": b"Content -Length: 4\r\n\r\nbody",
    "a name with a control": b"Content-Length\x0b: 4\r\n\r\nbody",
    "a line without a colon": b"Content-Length\r\n\r\nbody",
    "no name": b": 4\r\n\r\nbody",
    "a NUL": b"X: a\0b\r\nContent-Length: 4\r\n\r\nbody",
    "a bare LF": b"X: y\nContent-Length: 4\r\n\r\nbody",
    "a bare CR": b"X: y\rContent-Length: 4\r\n\r\nbody",
    "only LF": b"Content-Length: 4\n\nbody",
    "a list of codings": b"Transfer-Encoding: gzip, chunked\r\n\r\n",
    "another coding": b"Transfer-Encoding: gzip\r\n\r\n",
    "chunked, not last": b"Transfer-Encoding: chunked, gzip\r\n\r\n",
    "chunked twice": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
    "a coding with a control": b"Transfer-Encoding: \x0bchunked\r\n\r\n",
}


@pytest.mark.parametrize("rest", [pytest.param(rest, id=name) for name, rest in AMBIGUOUS.items()])
def test_an_ambiguous_answer_is_refused_wherever_it_is_split(rest: bytes) -> None:
    data = b"HTTP/1.1 200 OK\r\n" + rest
    with pytest.raises(InvalidAnswerError):
        read(data)
    for at in range(len(data)):
        with pytest.raises(InvalidAnswerError):
            read(data[:at], data[at:])


@pytest.mark.parametrize(
    "rest",
    [
        b"2\nbo\r\n",
        b"2 \r\nbo\r\n",
        b"0x2\r\nbo\r\n",
        b"+2\r\nbo\r\n",
        b"\r\nbo\r\n",
        b"2\r\nbody\r\n",
        b"2\r\nbo\n0\r\n\r\n",
        b"10000000000000000\r\nbo\r\n",
        b"2;a=\x01\r\nbo\r\n",
        b"2\r\nbo\r\n0\r\nContent-Length: 9\r\n\r\n",
    ],
    ids=repr,
)
def test_chunks_that_are_ambiguous_are_refused(rest: bytes) -> None:
    for at in range(len(rest)):
        with pytest.raises(InvalidAnswerError):
            read(CHUNKED + rest[:at], rest[at:])


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x",
        b"HTTP/1.1 099 Odd\r\nContent-Length: 0",
        b"HTTP/1.1 600 Odd\r\nContent-Length: 0",
        b"HTTP/1.1 20 Odd\r\nContent-Length: 0",
        b"HTTP/1.1 2000 Odd\r\nContent-Length: 0",
        b"HTTP/1.1 100 Continue\r\nContent-Length: 3",
        b"HTTP/1.1 103 Early Hints\r\nTransfer-Encoding: chunked",
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked",
        b"HTTP/2.0 200 OK\r\nContent-Length: 0",
        b"HTTP/0.9 200 OK\r\nContent-Length: 0",
        b"HTTP/1.2 200 OK\r\nContent-Length: 0",
        b"http/1.1 200 OK\r\nContent-Length: 0",
        b"ICY 200 OK\r\nContent-Length: 0",
        b"RTSP/1.0 200 OK\r\nContent-Length: 0",
        b"\r\nHTTP/1.1 200 OK\r\nContent-Length: 0",
        b"GET / HTTP/1.1\r\nHost: x",
        b"SSH-2.0-OpenSSH\r\n",
    ],
    ids=repr,
)
def test_a_start_that_is_not_an_answer_is_refused(head: bytes) -> None:
    for at in range(len(head)):
        with pytest.raises(InvalidAnswerError):
            read(head[:at], head[at:] + b"\r\n\r\n")


def test_what_cannot_become_an_answer_is_refused_when_the_connection_ends() -> None:
    with pytest.raises(InvalidAnswerError):
        read(b"SSH-2.0-OpenSSH\r\n", eof=True)


# ---- an upstream that never comes to an end


ENDLESS = {
    "headers": (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"),
    "one name": (b"HTTP/1.1 200 OK\r\n", b"name"),
    "one value": (b"HTTP/1.1 200 OK\r\nX: ", b"value"),
    "a reason": (b"HTTP/1.1 200 ", b"reason"),
    "interim answers": (b"", b"HTTP/1.1 102 Processing\r\n\r\n"),
    "empty lines": (b"", b"\r\n"),
    "an extension": (CHUNKED + b"4;", b"extension"),
    "extensions": (CHUNKED + b"4\r\nbody\r\n4", b";a=b"),
    "trailers": (CHUNKED + b"4\r\nbody\r\n0\r\n", b"X: y\r\n"),
    "zeros of a size": (CHUNKED, b"0"),
}


@pytest.mark.parametrize("size", [1, 100_000])
@pytest.mark.parametrize(("start", "more"), [pytest.param(*each, id=name) for name, each in ENDLESS.items()])
def test_what_never_ends_is_refused(start: bytes, more: bytes, size: int) -> None:
    """The bytes arrive in pieces of this size; a parser may keep no more than its limit of them."""
    endless = more * (2 * MAX_HEAD // len(more))
    with pytest.raises(InvalidAnswerError):
        read(start, *(endless[at : at + size] for at in range(0, len(endless), size)))


def test_a_long_answer_in_small_chunks_is_not_endless() -> None:
    body = b"1;x\r\na\r\n" * MAX_HEAD
    answer = read(CHUNKED, *(body[at : at + 997] for at in range(0, len(body), 997)), b"0\r\n\r\n")
    assert (len(answer.body), answer.complete) == (MAX_HEAD, True)


def test_large_headers_within_the_limit_are_accepted() -> None:
    data = b"HTTP/1.1 200 OK\r\nX: %b\r\nContent-Length: 0\r\n\r\n" % (b"y" * (MAX_HEAD - 200))
    assert read(data).complete
    assert read(*(data[at : at + 1] for at in range(len(data)))).complete
