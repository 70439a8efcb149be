"""A model's answer redacted as it streams: texts as threads over many events, all else at once."""

from collections.abc import Sequence

from hookgate.hooks.policies.redact.outbox import Leaving, Outbox, Place, Thread
from hookgate.hooks.policies.redact.redaction import Redaction
from hookgate.hooks.policies.redact.requests import redacted_part
from hookgate.hooks.policies.redact.strands import Strand
from hookgate.translator.fields import JsonObject, read, read_list, read_object, without, write
from hookgate.translator.texts import is_text


class AnswerScreen:
    """One answer before a redaction. A Screen."""

    def __init__(self, redaction: Redaction) -> None:
        self._redaction = redaction
        self._strands: dict[Thread, Strand[Place]] = {}
        self._outbox = Outbox(self._waits)

    @property
    def slow(self) -> bool:
        return self._redaction.slow

    def judge(self, events: Sequence[JsonObject], *, last: bool) -> list[tuple[int, JsonObject]]:
        for event in events:
            self._take(event)
        if last:
            self._finish(list(self._strands))
        return self._outbox.released()

    def told(self) -> JsonObject:
        found = {kind: count for kind, count in self._redaction.findings.items() if count}
        if not found:
            return {}
        return {"hookSpecificOutput": {"redacted": True, "findings": found, "llm_response": {"raw": {}}}}

    def _take(self, body: JsonObject) -> None:
        event = self._outbox.begin(body)
        candidates = read_list(body, "candidates")
        event.complete([self._candidate(event, at, candidate) for at, candidate in enumerate(candidates)])

    def _candidate(self, event: Leaving, at: int, candidate: JsonObject) -> JsonObject:
        index = read(candidate, "index")
        index = at if index is None else index
        content = read_object(candidate, "content")
        parts = read_list(content, "parts")
        new = [self._part(event, Place(event.number, at, k), index, part) for k, part in enumerate(parts)]
        if any(a is not b for a, b in zip(new, parts, strict=True)):
            candidate = write(candidate, "content", write(content, "parts", new))
        if read(candidate, "finishReason") is not None:
            event.plain = False
            self._finish([thread for thread in self._strands if thread[0] == index])
        return self._besides(candidate)

    def _part(self, event: Leaving, place: Place, index: int, part: JsonObject) -> JsonObject:
        if is_text(part):
            thinks = bool(part.get("thought"))
            if ("thoughts" if thinks else "answers") in self._redaction.scopes:
                self._feed(event, place, (index, "thought" if thinks else "text"), part["text"])
            return part
        event.plain = False
        call = read_object(part, "functionCall")
        if call and "tool_arguments" in self._redaction.scopes:
            for number, piece in enumerate(read_list(call, "partialArgs")):
                value = read(piece, "stringValue")
                if isinstance(value, str):
                    path = f"args {read(piece, 'jsonPath')}"
                    self._feed(event, place._replace(piece=number), (index, path), value)
            if not read(call, "willContinue"):
                self._finish([each for each in self._strands if each[0] == index and _is_argument(each)])
        return redacted_part(self._redaction, part, "answers")

    def _besides(self, candidate: JsonObject) -> JsonObject:
        """What repeats the text beside it: sources are redacted, probabilities of its tokens are left out."""
        if "answers" not in self._redaction.scopes:
            return candidate
        candidate = without(candidate, "logprobsResult")
        grounding = read(candidate, "groundingMetadata")
        new = self._redaction.value(grounding)
        return candidate if new is grounding else write(candidate, "groundingMetadata", new)

    def _feed(self, event: Leaving, place: Place, thread: Thread, text: str) -> None:
        if thread not in self._strands:
            self._strands[thread] = self._redaction.strand(self._outbox.put)
        self._outbox.note(event, place, thread)
        self._strands[thread].feed(place, text)

    def _waits(self, place: Place, thread: Thread) -> bool:
        return thread in self._strands and self._strands[thread].waits(place)

    def _finish(self, threads: Sequence[Thread]) -> None:
        for thread in threads:
            self._strands.pop(thread).finish()


def _is_argument(thread: Thread) -> bool:
    return thread[1].startswith("args ")
