"""The calls in an answer, held against the tools that were allowed for it.

A model may name a tool that it was not offered; declarations bind what is asked for, not what comes back.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from hookgate.translator.fields import JsonObject, read, read_list, read_object, write

REFUSED = "The tool {name!r} was not allowed here, so it was not called."
"""What stands in the place of a call that was refused."""


@dataclass(slots=True)
class CallGate:
    """Lets an answer's calls pass that name an allowed tool; for the events of one answer, in order."""

    allowed: frozenset[str]
    passed: bool = False
    """Whether a call has passed."""
    _refusing: dict[int, bool] = field(default_factory=dict)
    """By candidate, whether the call that goes on in the next event was refused."""

    def judged(self, body: JsonObject) -> JsonObject:
        """The response with a text for each refused call; `body` itself when there is none."""
        candidates = read_list(body, "candidates")
        new = [self._candidate(at, candidate) for at, candidate in enumerate(candidates)]
        unchanged = all(a is b for a, b in zip(new, candidates, strict=True))
        return body if unchanged else write(body, "candidates", new)

    def _candidate(self, position: int, candidate: JsonObject) -> JsonObject:
        content = read_object(candidate, "content")
        parts = read_list(content, "parts")
        if not any(_call(part) is not None for part in parts):
            return candidate
        index = read(candidate, "index")
        kept = list(self._parts(position if index is None else index, parts))
        if len(kept) == len(parts) and all(a is b for a, b in zip(kept, parts, strict=True)):
            return candidate
        return write(candidate, "content", write(content, "parts", kept or [{"text": ""}]))

    def _parts(self, index: int, parts: list[JsonObject]) -> Iterator[JsonObject]:
        for part in parts:
            call = _call(part)
            if call is None:
                yield part
            elif (name := call.get("name")) is None and index in self._refusing:
                if not self._refusing[index]:  # the arguments of a call go on
                    yield part
            else:
                refused = self._refusing[index] = name not in self.allowed
                self.passed |= not refused
                yield {"text": REFUSED.format(name=name)} if refused else part


def _call(part: JsonObject) -> JsonObject | None:
    call = read(part, "functionCall")
    return call if isinstance(call, dict) else None
