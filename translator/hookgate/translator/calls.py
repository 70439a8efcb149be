"""The calls in an answer: which begin in an event of it, and what becomes of each once it is decided."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from hookgate.translator.fields import JsonObject, indexes, read, read_list, read_object, write

Decision = str | JsonObject | None
"""A text to stand in a call's place, other arguments for it, or None when it passes as it is."""


@dataclass(slots=True)
class CallGate:
    """The calls of one answer, over its events in order: `begun`, then `decided`, for each."""

    passed: bool = False
    """Whether a call has passed."""
    _open: dict[int, bool] = field(default_factory=dict)
    """By candidate with a call whose arguments go on in the next part, whether that call was refused."""

    def begun(self, body: JsonObject) -> list[JsonObject]:
        """The calls that begin in the event, in order: what goes on with an earlier one is none."""
        going_on = set(self._open)
        found = []
        for index, call in _calls(body):
            if call.get("name") is not None or index not in going_on:
                found.append(call)
            (going_on.add if read(call, "willContinue") else going_on.discard)(index)
        return found

    def decided(self, body: JsonObject, decisions: Sequence[Decision]) -> JsonObject:
        """The event with each decision in force, one for each call begun; `body` itself when all pass."""
        rest = iter(decisions)
        candidates = read_list(body, "candidates")
        numbered = zip(indexes(candidates), candidates, strict=True)
        new = [self._candidate(index, candidate, rest) for index, candidate in numbered]
        unchanged = all(a is b for a, b in zip(new, candidates, strict=True))
        return body if unchanged else write(body, "candidates", new)

    def _candidate(self, index: int, candidate: JsonObject, rest: Iterator[Decision]) -> JsonObject:
        content = read_object(candidate, "content")
        parts = read_list(content, "parts")
        kept = [new for part in parts if (new := self._part(index, part, rest)) is not None]
        if len(kept) == len(parts) and all(a is b for a, b in zip(kept, parts, strict=True)):
            return candidate
        return write(candidate, "content", write(content, "parts", kept or [{"text": ""}]))

    def _part(self, index: int, part: JsonObject, rest: Iterator[Decision]) -> JsonObject | None:
        call = _call(part)
        if call is None:
            return part
        if call.get("name") is None and index in self._open:  # the arguments of a call go on
            refused = self._open[index] if read(call, "willContinue") else self._open.pop(index)
            return None if refused else part
        decision = next(rest)
        self._open.pop(index, None)
        if read(call, "willContinue"):
            self._open[index] = isinstance(decision, str)
        if isinstance(decision, str):
            return {"text": decision}
        self.passed = True
        return part if decision is None else write(part, "functionCall", write(call, "args", decision))


def _calls(body: JsonObject) -> Iterator[tuple[int, JsonObject]]:
    """Each call with its candidate's index."""
    candidates = read_list(body, "candidates")
    for index, candidate in zip(indexes(candidates), candidates, strict=True):
        for part in read_list(read_object(candidate, "content"), "parts"):
            if (call := _call(part)) is not None:
                yield index, call


def _call(part: JsonObject) -> JsonObject | None:
    call = read(part, "functionCall")
    return call if isinstance(call, dict) else None
