"""The translator beside bare JSON: reading a body and writing it again, with an edit or without."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import orjson
from benchmarks.payloads import agent_request, answer_stream

from hookgate.translator import (
    ShownRequest,
    apply_response,
    join_events,
    show_request,
    show_response,
    split_edit,
)
from hookgate.translator.strictjson import loads

ROUNDS = 9
LONG = 4_000


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
    long = [orjson.dumps(_numbered(i)) for i in range(LONG)]
    read = [orjson.loads(event) for event in long]
    half = f"word{LONG // 2}x5"
    print(f"translator: a stream of {LONG} events read as one answer")
    _report(
        {
            "orjson.loads + orjson.dumps (= 1)": lambda: [orjson.dumps(orjson.loads(e)) for e in long],
            "join + cut of an echo": lambda: edit_joined(read, str),
            "join + apply + cut of one edit": lambda: edit_joined(read, lambda t: t.replace(half, "[X]")),
            "join + apply + cut of an edit in every event": lambda: edit_joined(
                read, lambda t: t.replace("x5", "[X]")
            ),
            "join + apply + cut of all in upper case": lambda: edit_joined(read, str.upper),
        },
        repeats=1,
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


def edit_joined(bodies: list[dict[str, Any]], edit: Callable[[str], str]) -> None:
    """All events are shown as one answer, and its text comes back edited."""
    joined = join_events(bodies)
    split_edit(bodies, joined, apply_response(joined, {"text": edit(show_response(joined)["text"])}))


def _numbered(event: int) -> dict[str, Any]:
    """An event of twelve words that no other has."""
    text = "".join(f"word{event}x{i} " for i in range(12))
    return {"candidates": [{"content": {"parts": [{"text": text}], "role": "model"}, "index": 0}]}


def _report(cases: dict[str, Callable[[], object]], repeats: int = 200) -> None:
    """Medians of interleaved rounds, in microseconds and as a ratio to the first case."""
    times: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(ROUNDS):
        for name, case in cases.items():
            times[name].append(_microseconds(case, repeats))
    base = statistics.median(next(iter(times.values())))
    for name, values in times.items():
        median = statistics.median(values)
        print(f"  {name:46} {median:9.1f} us   {median / base:5.2f}")
    print()


def _microseconds(case: Callable[[], object], repeats: int) -> float:
    begin = time.perf_counter()
    for _ in range(repeats):
        case()
    return (time.perf_counter() - begin) / repeats * 1e6


if __name__ == "__main__":
    main()
