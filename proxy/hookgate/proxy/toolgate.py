"""The tools that hooks allowed, enforced on what the model answers. Pure."""

from typing import Any

from hookgate.translator import CallGate
from hookgate.translator.fields import JsonObject, read, read_list, read_object, write

NOT_ALLOWED = "Tool execution blocked: this tool is not allowed here."
NOT_RUN = "Tool execution blocked: another tool of this turn is not allowed here."


class AskAgain(Exception):  # noqa: N818  # a turn of the conversation, not an error
    """The model called a tool that was not allowed, and shall be told before the agent learns of it."""

    def __init__(self, turns: list[JsonObject]) -> None:
        self.turns = turns
        """What the model said and what it is told, to be added to the contents."""


class Telling:
    """Puts a text in the place of each call that was not allowed."""

    def __init__(self, allowed: frozenset[str]) -> None:
        self._gate = CallGate(allowed)

    def judged(self, body: JsonObject) -> JsonObject:
        """The response, or event of one; the same object when all its calls may pass."""
        return self._gate.judged(body)


class Asking:
    """Asks the model again, as long as nothing that the agent has seen stands against it."""

    def __init__(self, allowed: frozenset[str]) -> None:
        self._allowed = allowed
        self._gate = CallGate(allowed)
        self._said: list[JsonObject] = []

    def judged(self, body: JsonObject) -> JsonObject:
        """The response, or event of one. Raises AskAgain."""
        seen = self._gate.passed
        judged = self._gate.judged(body)
        candidates = read_list(body, "candidates")
        if len(candidates) == 1:
            self._said += read_list(read_object(candidates[0], "content"), "parts")
            if judged is not body and not seen:
                raise AskAgain(_turns(self._said, self._allowed))
        return judged


def with_turns(body: JsonObject, turns: list[JsonObject]) -> JsonObject:
    """The request with further turns at its end."""
    return write(body, "contents", [*read_list(body, "contents"), *turns])


def _turns(said: list[JsonObject], allowed: frozenset[str]) -> list[JsonObject]:
    calls = [call for part in said if isinstance(call := read(part, "functionCall"), dict)]
    answers = [{"functionResponse": _refusal(call, allowed)} for call in calls]
    return [{"role": "model", "parts": said}, {"role": "user", "parts": answers}]


def _refusal(call: JsonObject, allowed: frozenset[str]) -> dict[str, Any]:
    name = call.get("name")
    error = NOT_RUN if name in allowed else NOT_ALLOWED
    return {**({"id": call["id"]} if "id" in call else {}), "name": name, "response": {"error": error}}
