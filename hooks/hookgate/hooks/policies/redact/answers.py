"""A model's answer redacted as it streams: texts as threads over many events, all else at once."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from hookgate.hooks.policies.redact.covering import (
    CONTENT,
    Handler,
    elsewhere,
    opaque,
    redacted_fields,
    redacted_part,
)
from hookgate.hooks.policies.redact.outbox import Leaving, Outbox, Place, Thread
from hookgate.hooks.policies.redact.redaction import Redaction, Scope
from hookgate.hooks.policies.redact.strands import Strand
from hookgate.translator.fields import JsonObject, indexes, read, read_list, read_object, without, write
from hookgate.translator.texts import is_text

_SILENCE = 256
"""Characters of one text, answer or thought, after which the other one is over unless it went on meanwhile.

A model thinks, and then speaks: its last thought must not hold up the answer behind it.
"""

_ARGUMENT = "args "
"""What the threads of arguments begin with; the path of the argument follows."""


class AnswerScreen:
    """One answer before a redaction. A Screen."""

    def __init__(self, redaction: Redaction, *, logprobs: bool = False) -> None:
        """`logprobs`: the probabilities of the answer's tokens may stay."""
        self._redaction, self._logprobs = redaction, logprobs
        self._strands: dict[Thread, Strand[Place]] = {}
        self._silent: Counter[Thread] = Counter()  # characters that came of another text since
        self._outbox = Outbox(self._waits)

    @property
    def slow(self) -> bool:
        return self._redaction.slow

    def judge(
        self, events: Sequence[JsonObject], *, last: bool, cut_off: bool = False
    ) -> list[tuple[int, JsonObject]]:
        for event in events:
            self._take(event, whole=last)
        if last:
            self._finish(list(self._strands), cut_off=cut_off)
        return self._outbox.released()

    def redact(self, value: Any) -> Any:
        return self._redaction.value(value)

    def told(self) -> JsonObject:
        found = {kind: count for kind, count in self._redaction.findings.items() if count}
        if not found:
            return {}
        return {"hookSpecificOutput": {"redacted": True, "findings": found, "llm_response": {"raw": {}}}}

    def _take(self, body: JsonObject, *, whole: bool) -> None:
        """The next event; a `whole` answer stays one, even if nothing is left of what it says."""
        rest = redacted_fields(self._redaction, body, "answers", {"candidates": elsewhere})
        event = self._outbox.begin(body, rest)
        candidates = read_list(body, "candidates")
        event.plain = not whole
        numbered = enumerate(zip(indexes(candidates), candidates, strict=True))
        event.complete([self._candidate(event, at, index, each) for at, (index, each) in numbered])

    def _candidate(self, event: Leaving, at: int, index: int, candidate: JsonObject) -> JsonObject:
        content = read_object(candidate, "content")
        parts = read_list(content, "parts")
        new = [self._part(event, Place(event.number, at, k), index, part) for k, part in enumerate(parts)]
        with_rest = redacted_fields(self._redaction, content, "answers", CONTENT)
        if any(a is not b for a, b in zip(new, parts, strict=True)):
            with_rest = write(with_rest, "parts", new)
        if with_rest is not content:
            candidate = write(candidate, "content", with_rest)
        if read(candidate, "finishReason") is not None:
            event.plain = False  # its texts may go on all the same: some upstreams say so in every event
        return self._besides(candidate)

    def _part(self, event: Leaving, place: Place, index: int, part: JsonObject) -> JsonObject:
        if is_text(part):
            thinks = bool(part.get("thought"))
            if ("thoughts" if thinks else "answers") in self._redaction.scopes:
                thread = (index, "thought" if thinks else "text")
                self._feed(event, place, thread, part["text"])
                self._outlast((index, "text" if thinks else "thought"), thread, len(part["text"]))
            if len(part) == 1:
                return part
        else:
            event.plain = False
        redacted = redacted_part(self._redaction, part, "answers")
        if isinstance(came := read(part, "functionCall"), dict):
            event.plain = False
            self._arguments(event, place, index, came, read_object(redacted, "functionCall"))
        return redacted

    def _arguments(
        self, event: Leaving, place: Place, index: int, came: JsonObject, call: JsonObject
    ) -> None:
        """The strings of a call's arguments that come in pieces. `call` has all else redacted."""
        if "tool_arguments" not in self._redaction.scopes:
            return
        pairs = zip(read_list(came, "partialArgs"), read_list(call, "partialArgs"), strict=True)
        for number, (piece, new) in enumerate(pairs):
            if not isinstance(piece, dict) or read(piece, "numberValue") is not read(new, "numberValue"):
                continue  # no piece, or a mask has taken the place of its number
            if isinstance(value := read(piece, "stringValue"), str):
                path = f"{_ARGUMENT}{read(piece, 'jsonPath')}"
                self._feed(event, place._replace(piece=number), (index, path), value)
        if not read(came, "willContinue"):
            self._finish([each for each in self._strands if each[0] == index and _is_argument(each)])

    def _besides(self, candidate: JsonObject) -> JsonObject:
        """All beside the content; probabilities of the tokens that it is made of are left out."""
        if "answers" in self._redaction.scopes and not self._logprobs:
            candidate = without(candidate, "logprobsResult")
        redacted: JsonObject = redacted_fields(self._redaction, candidate, "answers", _CANDIDATE)
        return redacted

    def _feed(self, event: Leaving, place: Place, thread: Thread, text: str) -> None:
        if thread not in self._strands:
            self._strands[thread] = self._redaction.strand(self._outbox.put)
        self._outbox.note(event, place, thread)
        self._strands[thread].feed(place, text)

    def _outlast(self, silent: Thread, speaking: Thread, size: int) -> None:
        """So many characters have come of one text of a candidate, and none of its other one."""
        self._silent[speaking] = 0
        self._silent[silent] += size
        if self._silent[silent] >= _SILENCE and silent in self._strands:
            self._finish([silent])

    def _waits(self, place: Place, thread: Thread) -> bool:
        return thread in self._strands and self._strands[thread].waits(place)

    def _finish(self, threads: Sequence[Thread], *, cut_off: bool = False) -> None:
        for thread in threads:
            strand = self._strands.pop(thread)
            if cut_off:
                strand.cut_off()
            else:
                strand.finish()


def _grounding(redaction: Redaction, value: Any, scope: Scope) -> Any:
    return redacted_fields(redaction, value, scope, {"searchEntryPoint": _entry_point})


def _entry_point(redaction: Redaction, value: Any, scope: Scope) -> Any:
    return redacted_fields(redaction, value, scope, {"sdkBlob": opaque})


_CANDIDATE: Mapping[str, Handler] = {
    "content": elsewhere,
    "groundingMetadata": _grounding,
    "continuationToken": opaque,
}
"""The fields of a candidate that are not simply strings."""


def _is_argument(thread: Thread) -> bool:
    return thread[1].startswith(_ARGUMENT)
