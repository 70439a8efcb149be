"""Calls with many items or crafted commands: how long `/healthz` and the calls of others wait beside them.

python -m benchmarks.callers [WORD OF A NAME]

The gateway has a processor of its own, and this process another one. Eight callers repeat the same call for a
few seconds. `/healthz` and another caller are measured beside them, and alone.
"""

import contextlib
import http.client
import http.server
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.gateway.configurations import gateway
from benchmarks.processes import Server, cores, free_port

CALLERS = 8
SECONDS = 5.0

GENERATE = "/v1beta/models/gemini-2.5-flash:generateContent"
OTHER = "/v1beta/models/gemini-2.0-flash:generateContent"
EMBEDDINGS = "/v1beta/openai/embeddings"
BATCH = "/v1beta/models/gemini-2.5-flash:batchGenerateContent"
TOOL_EVENT = "/hookgate/v1/events/BeforeTool"

HI = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
SETTINGS: dict[str, Any] = {
    "hooks": {
        event: [{"hooks": [{"name": policy, "type": "builtin", "builtin": policy, **more}]}]
        for event, policy, more in (
            ("BeforeModel", "redact", {}),
            ("AfterModel", "redact", {}),
            (
                "BeforeTool",
                "tools",
                {
                    "options": {
                        "deny": [
                            {"tool": "sh", "when": {"/command": {"runs": {"program": "rm", "flags": "rf"}}}}
                        ]
                    }
                },
            ),
        )
    }
}


@dataclass(frozen=True)
class Hostile:
    """A call, and the answer of the upstream to it."""

    target: str
    body: Callable[[], Any]
    answer: Callable[[], Any] = lambda: {"candidates": []}


def command(text: str, size: int = 33 * 1024) -> Hostile:
    """A tool call with a command that repeats a text."""
    tool_input = {"command": text * (size // len(text))}
    return Hostile(TOOL_EVENT, lambda: {"tool_name": "sh", "tool_input": tool_input})


def turns(number: int) -> Any:
    """A conversation of short turns."""
    roles = ("user", "model")
    return {
        "contents": [{"role": roles[at % 2], "parts": [{"text": "a"}]} for at in range(number)],
    }


def results(number: int) -> Any:
    """A conversation of results of tools."""
    parts = ({"functionResponse": {"name": "f", "response": {"at": at}}} for at in range(number))
    return {"contents": [{"role": "user", "parts": [part]} for part in parts]}


def calls(number: int) -> Any:
    """An answer with calls of tools."""
    parts = [{"functionCall": {"name": "f", "args": {"at": str(at)}}} for at in range(number)]
    return {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]}


def batch(number: int) -> Any:
    """A batch of short requests."""
    return {"batch": {"inputConfig": {"requests": {"requests": [{"request": HI}] * number}}}}


def embeddings(number: int) -> Any:
    """A request for embeddings of short texts."""
    return {"model": "text-embedding-004", "input": ["a"] * number}


SHAPES: dict[str, Hostile] = {
    "2,048 embeddings": Hostile(EMBEDDINGS, lambda: embeddings(2048)),
    "20,000 embeddings": Hostile(EMBEDDINGS, lambda: embeddings(20_000)),
    "a batch of 2,000 requests": Hostile(BATCH, lambda: batch(2000)),
    "4,900 short turns": Hostile(GENERATE, lambda: turns(4900)),
    "2,900 results of tools": Hostile(GENERATE, lambda: results(2900)),
    "6,000 calls of tools in the answer": Hostile(GENERATE, lambda: HI, lambda: calls(6000)),
    **{
        f"commands of 33 KB: {text}": command(text)
        for text in ("((", "$(", "`(", "${a", "<<a ", "{ ", "if ", "case a in ", "[[ ", "'\"")
    },
}


def main() -> None:
    """Measure each shape, and print a row for it."""
    os.sched_setaffinity(0, {cores()[0]})
    print(f"{'':36}{'/healthz ms':>24}{'other calls ms':>24}{'gateway CPU':>14}")
    print(f"{'':36}{'p50':>12}{'p99':>12}{'p50':>12}{'p99':>12}{'s per call':>14}")
    for name, shape in {"nothing else": None, **SHAPES}.items():
        if shape is None or all(word in name for word in sys.argv[1:]):
            _report(name, shape)


def _report(name: str, shape: Hostile | None) -> None:
    address = f"127.0.0.1:{free_port()}"
    answer = json.dumps(shape.answer() if shape else {"candidates": []}).encode()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        origin = stack.enter_context(_upstream(answer))
        environment = {"HOOKGATE_ADMIN__ADDRESS": address}
        server = stack.enter_context(gateway(SETTINGS, origin, folder, environment))
        small = json.dumps(HI).encode()
        _post(server, GENERATE, small, "warm")
        before, stop, sent = server.cpu_seconds(), threading.Event(), [0]
        threads = []
        if shape is not None:
            body = json.dumps(shape.body(), separators=(",", ":")).encode()
            attacks = [partial(_post, server, shape.target, body, f"k-{at}") for at in range(CALLERS)]
            threads = [threading.Thread(target=_repeat, args=(attack, stop, sent)) for attack in attacks]
        for thread in threads:
            thread.start()
        health, others = (
            _measured(lambda: _get(address)),
            _measured(lambda: _post(server, OTHER, small, "other")),
        )
        stop.set()
        for thread in threads:
            thread.join()
        cost = (server.cpu_seconds() - before) / sent[0] if sent[0] else 0.0
    columns = "".join(f"{value:12.1f}" for value in (*health, *others))
    print(f"{name:36}{columns}{cost:14.3f}", flush=True)


def _measured(call: Callable[[], object]) -> tuple[float, float]:
    """Return the median and the 99th percentile of a call's time in milliseconds."""
    times = []
    end = time.monotonic() + SECONDS
    while time.monotonic() < end or len(times) < 3:
        began = time.monotonic()
        call()
        times.append((time.monotonic() - began) * 1000)
        time.sleep(0.01)
    return statistics.median(times), statistics.quantiles(times, n=100)[-1]


def _repeat(call: Callable[[], object], stop: threading.Event, sent: list[int]) -> None:
    while not stop.is_set():
        call()
        sent[0] += 1


def _post(server: Server, target: str, body: bytes, key: str) -> int:
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"))
    try:
        credential = {"Authorization": f"Bearer {key}"} if "openai" in target else {"x-goog-api-key": key}
        connection.request("POST", target, body, {"Content-Type": "application/json", **credential})
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


def _get(address: str) -> None:
    connection = http.client.HTTPConnection(address)
    connection.request("GET", "/healthz")
    connection.getresponse().read()
    connection.close()


@contextlib.contextmanager
def _upstream(answer: bytes) -> Iterator[str]:
    """An upstream that gives this answer, but a short one to calls of another model."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # one write for head and body: two of them would wait for a delayed acknowledgement

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            data = b'{"candidates":[]}' if self.path == OTHER else answer
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
            self.wfile.flush()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


if __name__ == "__main__":
    main()
