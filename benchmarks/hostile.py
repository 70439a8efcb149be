"""Hostile bodies: how long `/healthz` and other calls wait meanwhile, and how much memory the bodies take.

python -m benchmarks.hostile [WORD OF A NAME]

The gateway has a processor of its own, and this process another one. Each body is sent for a few seconds.
"""

import contextlib
import gzip
import http.client
import os
import statistics
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks.gateway.configurations import RUNTIME, gateway
from benchmarks.gateway.measuring import upstream
from benchmarks.gateway.traffic.upstream import SMALL
from benchmarks.processes import Server, cores, free_port

SECONDS = 5.0
MIB = 1024 * 1024
VALUES = 199_900
"""Just below the bound on values."""

HEAD = b'{"contents":[{"role":"user","parts":[{"text":"hi"}]}],"x":'


def holding(value: bytes) -> bytes:
    """A request that is one to its end, beside a field that the API does not know."""
    return HEAD + value + b"}"


def filled(unit: bytes, size: int) -> bytes:
    """The unit, as often as it fits."""
    return unit * (size // len(unit))


def saying(text: bytes) -> bytes:
    """A request that says something, given as it stands within its quotes."""
    return b'{"contents":[{"role":"user","parts":[{"text":"' + text + b'"}]}]}'


def spaces(size: int) -> bytes:
    """A gzip stream of blanks that is far larger than the machine would like."""
    stream = zlib.compressobj(9, wbits=31)
    pieces = [stream.compress(b" " * MIB) for _ in range(size // MIB)]
    return b"".join([*pieces, stream.flush()])


PLAIN: dict[str, Callable[[], bytes]] = {
    "63 MB of []": lambda: holding(b"[" + filled(b"[],", 63 * MIB) + b"1]"),
    '63 MB of {"a":1} and 1e300': lambda: holding(b"[" + filled(b'{"a":1},', 63 * MIB) + b"1e300]"),
    "64 MB of one letter": lambda: saying(filled(b"a", 63 * MIB)),
    "15 MB of escaped quotes": lambda: saying(filled(b'\\"', 15 * MIB)),
    "15 MB of unicode escapes": lambda: saying(filled(b"\\u00e9", 15 * MIB)),
    "15 MB of letters and one emoji": lambda: saying(filled(b"a", 15 * MIB) + "\U0001f600".encode()),
    "15 MB of quotes and blanks": lambda: holding(b"[" + filled(b'""' + b" " * 80 + b",", 15 * MIB) + b"1]"),
    "15 MB of one number": lambda: holding(b"1." + filled(b"1", 15 * MIB)),
    "15 MB of integers of 300 digits": lambda: holding(b"[" + filled(b"1" * 300 + b",", 15 * MIB) + b"1]"),
    "63 MB of blanks": lambda: holding(filled(b" ", 63 * MIB) + b"1"),
    "as many [] as are taken": lambda: holding(b"[" + b"[]," * VALUES + b"1]"),
    "as many 1e300 as are taken": lambda: holding(b"[" + b"1e300," * VALUES + b"1]"),
    "as many keys as are taken": lambda: holding(
        b"{" + b",".join(b'"key%d":1' % number for number in range(VALUES)) + b"}"
    ),
    "a key given twice behind 15 MB": lambda: holding(b'{"a":1,"a":"' + filled(b'\\"', 15 * MIB) + b'"}'),
    "one level too many": lambda: holding(b"[" * 1000 + b"]" * 1000),
    "15 MB of one level": lambda: holding(b"[" * (15 * MIB)),
    "60 MB of an image": lambda: (
        b'{"contents":[{"role":"user","parts":[{"text":"hi"},{"inlineData":{"mimeType":"image/png","data":"'
        + filled(b"QUJD", 60 * MIB)
        + b'"}}]}]}'
    ),
    "25,000 results of tools without a call": lambda: (
        b'{"contents":['
        + b",".join(
            b'{"role":"user","parts":[{"functionResponse":{"name":"t","response":{"i":%d}}}]}' % number
            for number in range(25_000)
        )
        + b"]}"
    ),
    "35,000 short turns": lambda: (
        b'{"contents":[' + b",".join([b'{"role":"user","parts":[{"text":"a"}]}'] * 35_000) + b"]}"
    ),
}

PACKED: dict[str, Callable[[], bytes]] = {
    "gzip of 4 GiB of blanks": lambda: spaces(4096 * MIB),
    "gzip of 63 MB of []": lambda: gzip.compress(PLAIN["63 MB of []"](), 1),
    'gzip of 63 MB of {"a":1}': lambda: gzip.compress(PLAIN['63 MB of {"a":1} and 1e300'](), 1),
    "gzip of 10 MB of [] in 10 KB": lambda: gzip.compress(holding(b"[" + b"[]," * (3 * MIB) + b"1]"), 9),
}


def main() -> None:
    """Measure each body, and print a row for it."""
    os.sched_setaffinity(0, {cores()[0]})
    address = f"127.0.0.1:{free_port()}"
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        origin = stack.enter_context(upstream()).url
        environment = {"HOOKGATE_ADMIN__ADDRESS": address}
        server = stack.enter_context(gateway(RUNTIME, origin, folder, environment))
        print(f"{'':42}{'':8}{'seconds':>9}{'/healthz ms':>16}{'other calls ms':>16}{'peak memory':>14}")
        print(f"{'':42}{'answer':>8}{'a call':>9}{'p99':>8}{'worst':>8}{'p99':>8}{'worst':>8}{'MiB':>14}")
        for name, make in {**PLAIN, **PACKED}.items():
            if not all(word in name for word in sys.argv[1:]):
                continue
            body = make()
            with (
                _peak(server.pid) as peak,
                _times(lambda: _get(address)) as health,
                _times(lambda: _post(server, holding(b"1"), packed=False)) as others,
            ):
                status, seconds = _repeated(partial(_post, server, body, packed=name in PACKED))
                time.sleep(0.1)
            waits = [wait for times in (health, others) for wait in (_p99(times), max(times))]
            columns = "".join(f"{wait:8.0f}" for wait in waits)
            print(f"{name:42}{status:8}{seconds:9.2f}{columns}{peak() / MIB:14.0f}", flush=True)


def _repeated(call: Callable[[], int]) -> tuple[int, float]:
    """Call repeatedly for some seconds; return the last status, and the mean seconds of a call."""
    number, began = 0, time.monotonic()
    while (elapsed := time.monotonic() - began) < SECONDS or not number:
        status = call()
        number += 1
    return status, elapsed / number


def _post(server: Server, body: bytes, *, packed: bool) -> int:
    coding = {"Content-Encoding": "gzip"} if packed else {}
    headers = {"Content-Type": "application/json", "x-goog-api-key": "benchmark", **coding}
    request = urllib.request.Request(server.url + SMALL, body, headers)  # noqa: S310  # ours
    try:
        with urllib.request.urlopen(request) as answer:  # noqa: S310  # as above
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:  # refused before it was sent to its end
        return 0


def _p99(times: list[float]) -> float:
    return statistics.quantiles(times, n=100)[-1]


@contextlib.contextmanager
def _times(call: Callable[[], object]) -> Iterator[list[float]]:
    """Yield the milliseconds that each call has taken, made one after another meanwhile."""
    times: list[float] = []
    stop = threading.Event()

    def repeat() -> None:
        while not stop.is_set():
            began = time.monotonic()
            call()
            times.append((time.monotonic() - began) * 1000)
            time.sleep(0.002)

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield times
    finally:
        stop.set()
        thread.join()


def _get(address: str) -> None:
    connection = http.client.HTTPConnection(address)
    connection.request("GET", "/healthz")
    connection.getresponse().read()
    connection.close()


@contextlib.contextmanager
def _peak(pid: int) -> Iterator[Callable[[], int]]:
    """The most memory that the process held meanwhile, in bytes."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")

    def peak() -> int:
        status = Path(f"/proc/{pid}/status").read_text()
        [line] = [line for line in status.splitlines() if line.startswith("VmHWM")]
        return int(line.split()[1]) * 1024

    yield peak


if __name__ == "__main__":
    main()
