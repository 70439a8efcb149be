"""Traffic of real clients and models that was captured, and vectors: in a folder beside the project.

Every test that reads of it takes the fixture `shared`. Where that folder is missing, the fixture skips the
test, or fails it if SHARED_REQUIRED is set.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from support.places import SHARED

from hookgate.translator import ServerSentEvents
from hookgate.translator.strictjson import loads

Json = dict[str, Any]

VECTORS = SHARED / "conformance"
WIRE = SHARED / "wire"
HOOK_INPUT = WIRE / "hook-input"
RECORDED_REQUESTS = WIRE / "requests"
RECORDED_RESPONSES = WIRE / "responses"
NEEDED = (VECTORS, HOOK_INPUT, RECORDED_REQUESTS, RECORDED_RESPONSES)


def require_shared() -> None:
    """Skip the test when a folder of captures or vectors is missing or empty; if it is required, fail."""
    lacking = [str(folder) for folder in NEEDED if not any(folder.glob("*"))]
    if lacking and os.environ.get("SHARED_REQUIRED"):
        pytest.fail(f"SHARED_REQUIRED is set, but nothing is in {', '.join(lacking)}")
    if lacking:
        pytest.skip(f"nothing is in {', '.join(lacking)}")


def captured(folder: Path, *patterns: str) -> list[Any]:
    """One parameter for each file, for tests that take `shared`; a single one when there is none."""
    files = sorted(file for pattern in patterns for file in folder.glob(pattern))
    return [pytest.param(file, id=file.stem) for file in files] or [pytest.param(folder, id="absent")]


REQUESTS = captured(RECORDED_REQUESTS, "*.json")
STREAMS = captured(RECORDED_RESPONSES, "*/streaming-*.txt")
RESPONSES = captured(RECORDED_RESPONSES, "*/streaming-*.txt", "*/unary-*.json")
HOOK_INPUTS = captured(HOOK_INPUT, "*.json")


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
