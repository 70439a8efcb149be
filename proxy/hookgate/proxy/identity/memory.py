"""The memory of what hooks changed in a conversation, which the agent sends again with every call.

The agent does not know of edits made by the gateway, so what a hook hid from the model, or added for it, has
to be hidden or added again in every later call. Results are recognized by content, not by position, because
agents compress their history. A result that is forgotten is judged again, never shown unjudged.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256

from hookgate.translator.fields import JsonObject, joined_text, read, read_list, read_object, texts_of
from hookgate.translator.strictjson import dumps

KEPT_RESULTS = 1000
"""Results and turns that are remembered for one session; the oldest are forgotten first."""


@dataclass(frozen=True, slots=True)
class Result:
    """A tool's result in a conversation: the part, the call that it answers, and an id for the pair."""

    part: JsonObject
    call: JsonObject
    response: JsonObject
    trailing: bool
    """Whether it follows the model's last turn, so that the agent sends it for the first time."""
    identity: str


@dataclass(frozen=True, slots=True)
class HookEffect:
    """What hooks did to a result or a turn: the functionResponse that replaces it, and added context."""

    response: JsonObject | None = None
    contexts: tuple[str, ...] = ()


@dataclass(slots=True)
class ConversationMemory:
    """What the gateway derives from the calls of a session."""

    started: bool = False
    starting: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while SessionStart is judged, so that no other call overtakes it."""
    turn: str = ""
    """The id of the turn that was judged last: a repeated call is not a new turn."""
    question: str = ""
    """The same for calls that ask for JSON, which agents make for themselves during a user's turn."""
    waiting: HookEffect = HookEffect()
    """The context that SessionStart hooks added, until a call takes it."""
    _known: OrderedDict[str, HookEffect] = field(default_factory=OrderedDict)

    def effect_on(self, identity: str) -> HookEffect | None:
        """Return what hooks did to a result or a turn, or None if it is unknown."""
        return self._known.get(identity)

    def remember(self, identity: str, effect: HookEffect) -> None:
        """Remember what hooks did to a result or a turn, in addition to what is known of it."""
        before = self._known.get(identity, HookEffect())
        contexts = (*before.contexts, *effect.contexts)
        self._known[identity] = HookEffect(effect.response or before.response, contexts)
        if len(self._known) > KEPT_RESULTS:
            self._known.popitem(last=False)


def tool_results(contents: list[JsonObject]) -> list[Result]:
    """Return all results of tools in order, each matched to its call by id, or else by name and order."""
    open_calls = _OpenCalls()
    seen: Counter[str] = Counter()
    last = last_of_model(contents)
    results = []
    for index, content in enumerate(contents):
        for part in read_list(content, "parts"):
            call, response = read(part, "functionCall"), read(part, "functionResponse")
            if isinstance(call, dict):
                open_calls.add(call)
            if isinstance(response, dict):
                answered = open_calls.take(response)
                digest = sha256(dumps([answered, part])).hexdigest()
                seen[digest] += 1
                identity = f"{digest}-{seen[digest]}"
                results.append(Result(part, answered, response, index > last, identity))
    return results


def last_of_model(contents: list[JsonObject], end: int | None = None) -> int:
    """Return the index of the model's last turn before the turn to answer, or -1 if there is none.

    With `end`, only the turns before that index count.
    """
    return next((index for index, turn in _backwards(contents, end) if turn.get("role") == "model"), -1)


def turn_of(contents: list[JsonObject], end: int | None = None) -> tuple[str, list[str]]:
    """Return the id and the texts of the user's turn that the model is to answer, without tool results.

    With `end`, only the turns before that index count.
    """
    end = len(contents) if end is None else end
    trailing = contents[last_of_model(contents, end) + 1 : end]
    texts = [
        text
        for content in trailing
        if content.get("role") != "model"
        for part in read_list(content, "parts")
        if isinstance(text := part.get("text"), str)
    ]
    return sha256(dumps([end, trailing])).hexdigest(), texts


def asked_turn(body: JsonObject, contents: list[JsonObject]) -> tuple[str, list[str]]:
    """Return the id and the texts of what a request asks the model.

    That is the user's turn. If no turn of the user has text, it is the text of the model's turns, or else of
    the system instruction.
    """
    if any(turn.get("role") != "model" and joined_text(turn) for turn in contents):
        return turn_of(contents)
    instruction = read_object(body, "systemInstruction")
    spoken = [text for content in contents for text in texts_of(content)]
    texts = spoken if any(spoken) else texts_of(instruction)
    return sha256(dumps([contents, instruction])).hexdigest(), texts


def history_of(contents: list[JsonObject]) -> list[JsonObject]:
    """Return the turns up to the model's last one, each as `{"role", "content"}` with its text."""
    earlier = contents[: last_of_model(contents) + 1]
    return [{"role": turn.get("role", "user"), "content": joined_text(turn)} for turn in earlier]


def prompt_of(contents: list[JsonObject]) -> str:
    """Return the text of the user's last turn that has any; results of tools may follow it."""
    for content in reversed(contents):
        texts = [] if content.get("role") == "model" else texts_of(content)
        if texts:
            return "\n".join(texts)
    return ""


def _backwards(contents: list[JsonObject], end: int | None) -> Iterator[tuple[int, JsonObject]]:
    """Iterate backwards from the last turn that is not the model's.

    Model turns at the end are a prefilled answer, not a turn of the model's own.
    """
    end = len(contents) if end is None else end
    while end and contents[end - 1].get("role") == "model":
        end -= 1
    return ((at, contents[at]) for at in reversed(range(end)))


class _OpenCalls:
    """The tool calls that no result has answered yet, indexed by id and by name."""

    def __init__(self) -> None:
        self._by: dict[tuple[str, str], deque[int]] = {}
        self._calls: list[JsonObject | None] = []

    def add(self, call: JsonObject) -> None:
        for key in ("id", "name"):
            if isinstance(value := call.get(key), str):
                self._by.setdefault((key, value), deque()).append(len(self._calls))
        self._calls.append(call)

    def take(self, response: JsonObject) -> JsonObject:
        """Remove and return the call that a response answers, or an empty object."""
        for key in ("id", "name"):
            value = response.get(key)
            waiting = self._by.get((key, value)) if isinstance(value, str) else None
            while waiting:
                index = waiting.popleft()
                call, self._calls[index] = self._calls[index], None
                if call is not None:
                    return call
        return {}
