"""Redacts a model's answer while it streams: each text across all its events, everything else per event."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from hookgate.hooks.policies.redact.fields import (
    CONTENT,
    Handler,
    elsewhere,
    opaque,
    redacted_fields,
    redacted_part,
)
from hookgate.hooks.policies.redact.outbox import Leaving, Outbox, PartPlace, Thread
from hookgate.hooks.policies.redact.redaction import Redaction, Scope
from hookgate.hooks.policies.redact.strands import ChunkedText
from hookgate.translator.fields import (
    JsonObject,
    indexes,
    is_text,
    read,
    read_list,
    read_object,
    same_items,
    without,
    write,
)

_MAX_SILENCE = 256
"""After so many characters of the answer, the thought before it is considered complete; and vice versa.

A model thinks before it answers: its last thought must not hold back the answer after it.
"""

_ARGUMENT = "args "
"""The prefix of threads of arguments; the argument's path follows."""


class AnswerScreen:
    """Redacts one answer. Implements Screen."""

    def __init__(self, redaction: Redaction, *, logprobs: bool = False) -> None:
        """If `logprobs` is true, the log probabilities of the answer's tokens are kept."""
        self._redaction, self._logprobs = redaction, logprobs
        self._texts: dict[Thread, ChunkedText[PartPlace]] = {}
        self._silent: Counter[Thread] = Counter()  # characters of the other text since its last chunk
        self._outbox = Outbox(self._waits)

    @property
    def slow(self) -> bool:
        """Whether a search may block the event loop for too long."""
        return self._redaction.slow

    def judge(
        self, events: Sequence[JsonObject], *, last: bool, cut_off: bool = False
    ) -> list[tuple[int, JsonObject]]:
        """Add events and return those that can be released now, by number. Raises Withheld."""
        for event in events:
            self._add(event, whole=last)
        if last:
            self._finish(list(self._texts), cut_off=cut_off)
        return self._outbox.released()

    def redact(self, value: Any) -> Any:
        """Redact a JSON value besides the answer's events. Raises Withheld."""
        return self._redaction.value(value)

    def findings_output(self) -> JsonObject:
        """Return the hook output that reports the findings, or an empty object if there are none."""
        counts = {kind: count for kind, count in self._redaction.findings.items() if count}
        if not counts:
            return {}
        return {"hookSpecificOutput": {"redacted": True, "findings": counts, "llm_response": {"raw": {}}}}

    def _add(self, body: JsonObject, *, whole: bool) -> None:
        """Add the next event. If `whole` is true, it is a complete answer and is not split or dropped."""
        rest = redacted_fields(self._redaction, body, "answers", {"candidates": elsewhere})
        event = self._outbox.begin(body, rest)
        candidates = read_list(body, "candidates")
        event.plain = not whole
        numbered = enumerate(zip(indexes(candidates), candidates, strict=True))
        event.complete([self._candidate(event, at, index, item) for at, (index, item) in numbered])

    def _candidate(self, event: Leaving, position: int, index: int, candidate: JsonObject) -> JsonObject:
        content = read_object(candidate, "content")
        parts = read_list(content, "parts")
        new = [
            self._part(event, PartPlace(event.number, position, k), index, part)
            for k, part in enumerate(parts)
        ]
        with_rest = redacted_fields(self._redaction, content, "answers", CONTENT)
        if not same_items(new, parts):
            with_rest = write(with_rest, "parts", new)
        if with_rest is not content:
            candidate = write(candidate, "content", with_rest)
        if read(candidate, "finishReason") is not None:
            event.plain = False  # its texts are not finished: some upstreams send a reason in every event
        return self._redact_rest(candidate)

    def _part(self, event: Leaving, place: PartPlace, index: int, part: JsonObject) -> JsonObject:
        if is_text(part):
            is_thought = bool(part.get("thought"))
            if ("thoughts" if is_thought else "answers") in self._redaction.scopes:
                thread = (index, "thought" if is_thought else "text")
                self._feed(event, place, thread, part["text"])
                self._finish_silent((index, "text" if is_thought else "thought"), thread, len(part["text"]))
            if len(part) == 1:
                return part
        else:
            event.plain = False
        redacted = redacted_part(self._redaction, part, "answers")
        if isinstance(original := read(part, "functionCall"), dict):
            event.plain = False
            self._arguments(event, place, index, original, read_object(redacted, "functionCall"))
        return redacted

    def _arguments(
        self, event: Leaving, place: PartPlace, index: int, original: JsonObject, call: JsonObject
    ) -> None:
        """Feed the strings of a call's partial arguments. `call` has everything else redacted."""
        if "tool_arguments" not in self._redaction.scopes:
            return
        pairs = zip(read_list(original, "partialArgs"), read_list(call, "partialArgs"), strict=True)
        for number, (piece, new) in enumerate(pairs):
            if not isinstance(piece, dict) or read(piece, "numberValue") is not read(new, "numberValue"):
                continue  # not an object, or its number was masked
            if isinstance(value := read(piece, "stringValue"), str):
                path = f"{_ARGUMENT}{read(piece, 'jsonPath')}"
                self._feed(event, place._replace(piece=number), (index, path), value)
        if not read(original, "willContinue"):
            self._finish([key for key in self._texts if key[0] == index and _is_argument(key)])

    def _redact_rest(self, candidate: JsonObject) -> JsonObject:
        """Redact everything but the content, and remove the log probabilities of its tokens."""
        if "answers" in self._redaction.scopes and not self._logprobs:
            candidate = without(candidate, "logprobsResult")
        redacted: JsonObject = redacted_fields(self._redaction, candidate, "answers", _CANDIDATE)
        return redacted

    def _feed(self, event: Leaving, place: PartPlace, thread: Thread, text: str) -> None:
        if thread not in self._texts:
            self._texts[thread] = self._redaction.strand(self._outbox.put)
        self._outbox.note(event, place, thread)
        self._texts[thread].feed(place, text)

    def _finish_silent(self, silent: Thread, speaking: Thread, size: int) -> None:
        """Count the characters of one text of a candidate, and finish the other one after too many."""
        self._silent[speaking] = 0
        self._silent[silent] += size
        if self._silent[silent] >= _MAX_SILENCE and silent in self._texts:
            self._finish([silent])

    def _waits(self, place: PartPlace, thread: Thread) -> bool:
        return thread in self._texts and self._texts[thread].waits(place)

    def _finish(self, threads: Sequence[Thread], *, cut_off: bool = False) -> None:
        for thread in threads:
            text = self._texts.pop(thread)
            if cut_off:
                text.cut_off()
            else:
                text.finish()


def _grounding(redaction: Redaction, value: Any, scope: Scope) -> Any:
    return redacted_fields(redaction, value, scope, {"searchEntryPoint": _entry_point})


def _entry_point(redaction: Redaction, value: Any, scope: Scope) -> Any:
    return redacted_fields(redaction, value, scope, {"sdkBlob": opaque})


_CANDIDATE: Mapping[str, Handler] = {
    "content": elsewhere,
    "groundingMetadata": _grounding,
    "continuationToken": opaque,
}
"""The fields of a candidate that need their own handler."""


def _is_argument(thread: Thread) -> bool:
    return thread[1].startswith(_ARGUMENT)
