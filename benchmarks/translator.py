"""The translator beside bare JSON: reading a body and writing it again, with an edit or without."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import orjson
from benchmarks.bodies import agent_request, answer_stream

from hookgate.translator import ShownRequest, apply_response, show_request, show_response
from hookgate.translator.strictjson import loads

ROUNDS = 9


def main() -> None:
    data = orjson.dumps(agent_request())
    body = orjson.loads(data)
    view = show_request("m", body)
    messages = [*view["messages"][:-1], {"role": "user", "content": "go on, but carefully"}]
    print(f"translator: an agent's request of {len(data) // 1024} KB")
    _report(
        {
            "orjson.loads + orjson.dumps (= 1)": lambda: orjson.dumps(orjson.loads(data)),
            "view": lambda: show_request("m", body),
            "view + apply of one edit": lambda: edit_request(body, messages),
            "strict loads (repeated keys, large integers)": lambda: loads(data),
        }
    )
    events = answer_stream()
    bodies = [orjson.loads(event) for event in events]
    print(f"translator: a stream of {len(events)} events of {len(events[0])} bytes")
    _report(
        {
            "orjson.loads + orjson.dumps (= 1)": lambda: [orjson.dumps(orjson.loads(e)) for e in events],
            "view": lambda: [show_response(b) for b in bodies],
            "view + apply of one edit": lambda: edit_stream(bodies, 1),
            "view + apply of an edit of every event": lambda: edit_stream(bodies, len(bodies)),
        }
    )


def edit_request(body: dict[str, Any], messages: list[Any]) -> tuple[str, dict[str, Any]]:
    shown = ShownRequest("m", body)
    return shown.edited({**shown.view(), "messages": messages})


def edit_stream(bodies: list[dict[str, Any]], edits: int) -> None:
    """Every event is shown, and the first `edits` come back with another text."""
    for number, body in enumerate(bodies):
        view = show_response(body)
        if number < edits:
            apply_response(body, {**view, "text": "another text"})


def _report(cases: dict[str, Callable[[], object]]) -> None:
    """Medians of interleaved rounds, in microseconds and as a ratio to the first case."""
    times: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(ROUNDS):
        for name, case in cases.items():
            times[name].append(_microseconds(case))
    base = statistics.median(next(iter(times.values())))
    for name, values in times.items():
        median = statistics.median(values)
        print(f"  {name:46} {median:9.1f} us   {median / base:5.2f}")
    print()


def _microseconds(case: Callable[[], object], repeats: int = 200) -> float:
    begin = time.perf_counter()
    for _ in range(repeats):
        case()
    return (time.perf_counter() - begin) / repeats * 1e6


if __name__ == "__main__":
    main()
