"""What a test knows of the calls that passed a gateway, and assertions about them.

Nothing here imports the gateway: pytest loads this module at each start.
"""

import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

RECEIPT_HEADER = "x-hookgate-receipt"

_DENIED = ("denied", "stopped")
_SECONDS = 10.0
"""How long to wait for the end of a call whose answer the client has."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to `GatewayUnderTest.ask`.

    `events` are the parsed bodies: one, or one for each event of a stream. Names in `headers` are in lower
    case.
    """

    status: int
    headers: Mapping[str, str]
    events: tuple[Any, ...]

    @property
    def body(self) -> Any:
        """The parsed body of an answer that is not a stream."""
        return self.events[0] if self.events else None

    @property
    def parts(self) -> list[dict[str, Any]]:
        """The parts of the first candidate in all events."""
        found: list[dict[str, Any]] = []
        for event in self.events:
            candidates = event.get("candidates") if isinstance(event, dict) else None
            for candidate in (candidates or [])[:1]:
                found += (candidate.get("content") or {}).get("parts") or []
        return found

    @property
    def text(self) -> str:
        """The text without thoughts, or the message of an error."""
        if isinstance(self.body, dict) and isinstance(error := self.body.get("error"), dict):
            return str(error.get("message") or "")
        return "".join(part.get("text", "") for part in self.parts if not part.get("thought"))

    @property
    def function_calls(self) -> list[dict[str, Any]]:
        """The functions that the model calls, each as `{"name": …, "args": …}`."""
        return [part["functionCall"] for part in self.parts if "functionCall" in part]


@dataclass(frozen=True, slots=True)
class _EndedCall:
    receipt: dict[str, Any]
    reasons: dict[str, str]


@dataclass(slots=True)
class CallLog:
    """The receipts of the calls that have gone through a gateway, written by its thread and read by tests."""

    _ended: dict[str, _EndedCall] = field(default_factory=dict)
    _running: int = 0
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def note_begin(self) -> None:
        """Note that a call has begun."""
        with self._changed:
            self._running += 1

    def note_end(self, receipt: dict[str, Any], reasons: Mapping[str, str]) -> None:
        """Note that a call has ended, with its receipt and the reasons of its denials, by event."""
        with self._changed:
            self._running -= 1
            self._ended[receipt["receipt"]] = _EndedCall(receipt, dict(reasons))
            self._changed.notify_all()

    def all(self) -> list[dict[str, Any]]:
        """Wait for calls in progress, and return all receipts in the order in which the calls ended.

        Raises TimeoutError if a call does not end within ten seconds, because its stream is still open.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: not self._running, _SECONDS):
                raise TimeoutError("a call has not ended: read its answer to the end, or close it")
            return [ended.receipt for ended in self._ended.values()]

    def find(self, answer: object) -> _EndedCall:
        """Return the call of an answer. Raises TypeError, LookupError or TimeoutError."""
        receipt_id = receipt_id_of(answer)
        with self._changed:
            self._changed.wait_for(lambda: receipt_id in self._ended or not self._running, _SECONDS)
            if receipt_id in self._ended:
                return self._ended[receipt_id]
            if self._running:
                raise TimeoutError("the call has not ended: read its answer to the end, or close it")
        raise LookupError(f"this gateway has no receipt {receipt_id!r}: another one has sent the answer")


def receipt_id_of(answer: object) -> str:
    """Return the receipt's ID in an answer's headers; a text is an ID itself.

    `answer` may be a response of aiohttp, httpx, requests or urllib, an error of urllib, or an answer or an
    error of google-genai. Raises TypeError if it has no such header.
    """
    if isinstance(answer, str):
        return answer
    for holder in (answer, getattr(answer, "sdk_http_response", None), getattr(answer, "response", None)):
        headers = getattr(holder, "headers", None)
        for name, value in headers.items() if headers is not None else ():
            if str(name).lower() == RECEIPT_HEADER:
                return str(value)
    raise TypeError(
        f"{type(answer).__name__} has no header {RECEIPT_HEADER}: pass a response with `headers`, "
        "or the value of that header as a text"
    )


def check_denied(call: _EndedCall, reason: str | None, hook: str | None) -> None:
    """Raise AssertionError unless hooks denied or stopped the call, with `reason` in a reason, by `hook`."""
    __tracebackhide__ = True
    receipt = call.receipt
    if receipt["outcome"] not in _DENIED:
        raise AssertionError(f"the call was {receipt['outcome']}, not denied\n{_described(call)}")
    if reason is not None and not any(reason in given for given in call.reasons.values()):
        raise AssertionError(f"no reason of the denial contains {reason!r}\n{_described(call)}")
    deciding = [run["hook"] for run in receipt["hooks"] if _denials(run) > run["failures"]]
    if not deciding:
        raise AssertionError(
            f"the call was denied because a hook failed, not by a decision\n{_described(call)}"
        )
    if hook is not None and hook not in deciding:
        raise AssertionError(f"the hook {hook!r} did not deny the call\n{_described(call)}")


def _denials(run: Mapping[str, Any]) -> int:
    """Return in how many runs a hook denied; those that failed may be among them, because of `on_error`."""
    decisions: Mapping[str, int] = run["decisions"]
    return decisions.get("deny", 0) + decisions.get("stop", 0)


def check_answered(call: _EndedCall) -> None:
    """Raise AssertionError unless the model answered the call, without a hook that failed."""
    __tracebackhide__ = True
    if call.receipt["outcome"] != "answered":
        raise AssertionError(f"the call was {call.receipt['outcome']}, not answered\n{_described(call)}")
    if any(run["failures"] for run in call.receipt["hooks"]):
        raise AssertionError(f"the call was answered, but a hook failed\n{_described(call)}")


def check_hook(call: _EndedCall, hook: str, decision: str | None) -> None:
    """Raise AssertionError unless the hook ran without a failure, and decided `decision` at least once."""
    __tracebackhide__ = True
    runs = [run for run in call.receipt["hooks"] if run["hook"] == hook]
    if not runs:
        raise AssertionError(f"the hook {hook!r} did not run\n{_described(call)}")
    if any(run["failures"] for run in runs):
        raise AssertionError(f"the hook {hook!r} failed\n{_described(call)}")
    if decision is not None and not any(decision in run["decisions"] for run in runs):
        raise AssertionError(f"the hook {hook!r} did not decide {decision!r}\n{_described(call)}")


def check_absent(text: str, bodies: list[Any]) -> None:
    """Raise AssertionError if a key or a value of one of the bodies contains `text`."""
    __tracebackhide__ = True
    for number, body in enumerate(bodies):
        for place, found in _texts(body):
            if text in found:
                shown = json.dumps(found[:200], ensure_ascii=False)
                raise AssertionError(f"{text!r} was sent upstream, in request {number} at {place}: {shown}")


def _texts(value: Any, place: str = "body") -> Iterator[tuple[str, str]]:
    """Yield each key and each text of a JSON value, with its place."""
    waiting = [(place, value)]
    while waiting:
        where, each = waiting.pop()
        if isinstance(each, str):
            yield where, each
        elif isinstance(each, dict):
            yield from ((where, key) for key in each)
            waiting += [(f"{where}.{key}", inner) for key, inner in each.items()]
        elif isinstance(each, list):
            waiting += [(f"{where}[{number}]", inner) for number, inner in enumerate(each)]


def _described(call: _EndedCall) -> str:
    """Return what hooks did with the call, one line each, for messages of assertions."""
    receipt = call.receipt
    lines = [
        f"  {receipt['route']['path']}: {receipt['outcome']}, status {receipt['status']}, "
        f"{receipt['upstream_requests']} upstream"
    ]
    lines += [f"  reason ({event}): {reason}" for event, reason in call.reasons.items()]
    for run in receipt["hooks"]:
        decided = ", ".join(f"{name} {count}" for name, count in run["decisions"].items())
        failed = f"; failed {run['failures']} times: {', '.join(run['causes'])}" if run["failures"] else ""
        edited = f"; edited {', '.join(run['edits'])}" if run["edits"] else ""
        lines.append(
            f"  {run['event']} {run['hook']} ({run['mode']}): {decided or 'no decision'}{edited}{failed}"
        )
    if not receipt["hooks"]:
        lines.append("  no hook ran: its event, `matcher` or `when` may not match")
    return "\n".join(lines)
