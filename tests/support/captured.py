"""Traffic of real clients and models that was captured, where it is at hand."""

import json
from pathlib import Path
from typing import Any

import pytest

from hookgate.translator import ServerSentEvents
from hookgate.translator.strictjson import loads

Json = dict[str, Any]

WIRE = Path(__file__).parents[3] / "shared" / "wire"


def captured(*patterns: str) -> list[Any]:
    """One parameter for each file; a single skipped one when the folder is not there."""
    files = sorted(file for pattern in patterns for file in WIRE.glob(pattern))
    absent = pytest.mark.skip(reason=f"no captured traffic: {WIRE} does not exist")
    return [pytest.param(file, id=file.stem) for file in files] or [
        pytest.param(WIRE, marks=absent, id="absent")
    ]


REQUESTS = captured("requests/*.json")
STREAMS = captured("responses/*/streaming-*.txt")
RESPONSES = STREAMS + captured("responses/*/unary-*.json")


def requests_in(file: Path) -> list[Json]:
    """The bodies of the requests in a file that generate."""
    bodies = [exchange.get("body") for exchange in loads(file.read_bytes())]
    inner = [body.get("request", body) for body in bodies if isinstance(body, dict)]
    return [body for body in inner if "contents" in body]


def responses_in(file: Path) -> list[Json]:
    """The response in a file, or the events of a streamed one."""
    raw = file.read_bytes()
    if file.suffix == ".json":
        return [loads(raw)]
    events = ServerSentEvents()
    return [body for frame in events.feed(raw) + events.finish() if (body := parsed(frame.data))]


def parsed(data: bytes) -> Json:
    """An event's body; an empty one for what is none."""
    try:
        value = json.loads(data)
    except ValueError:  # a stream that broke off, and text in place of JSON, were captured too
        return {}
    return value if isinstance(value, dict) else {}
