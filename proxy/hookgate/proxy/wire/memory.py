"""What hooks have made of a conversation: the agent sends the whole of it again with each call.

The agent knows nothing of an edit on the wire, so what a hook hid from the model, or added for it, has to be
hidden and added in every later call as well. What is known of a result is found by the result itself,
wherever it stands: agents compress their history. What was forgotten is judged anew, never shown unjudged.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256

from hookgate.translator.fields import JsonObject, read, read_list, read_object
from hookgate.translator.strictjson import dumps
from hookgate.translator.texts import joined_text, texts_of

KEPT = 1000
"""Results and turns of one session that are remembered; of more the earliest are forgotten."""


@dataclass(frozen=True, slots=True)
class Result:
    """A tool's result in a conversation: the part, the call that it answers, and a name for the pair."""

    part: JsonObject
    call: JsonObject
    response: JsonObject
    trailing: bool
    """Whether it came after the model's last turn: the agent sends it for the first time."""
    identity: str


@dataclass(frozen=True, slots=True)
class Treatment:
    """What hooks made of a result or a turn: another functionResponse, if any, and what they added."""

    response: JsonObject | None = None
    contexts: tuple[str, ...] = ()


@dataclass(slots=True)
class Memory:
    """A session as its calls show it."""

    started: bool = False
    starting: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while SessionStart is judged: no other call goes ahead of it."""
    turn: str = ""
    """The turn that was judged last: a call that is made again is no new turn."""
    question: str = ""
    """The same of calls that ask for JSON, which agents make for themselves beside the user's turn."""
    waiting: Treatment = Treatment()
    """What the session's start added, until a call comes that takes it."""
    _known: OrderedDict[str, Treatment] = field(default_factory=OrderedDict)

    def of(self, identity: str) -> Treatment | None:
        """What was made of it; None for what has not been judged, or is forgotten."""
        return self._known.get(identity)

    def keep(self, identity: str, treatment: Treatment) -> None:
        """Remember what was made of a result or a turn; what was added to it before stays."""
        before = self._known.get(identity, Treatment())
        contexts = (*before.contexts, *treatment.contexts)
        self._known[identity] = Treatment(treatment.response or before.response, contexts)
        if len(self._known) > KEPT:
            self._known.popitem(last=False)


def results_of(contents: list[JsonObject]) -> list[Result]:
    """All results of tools, in order, each with the call that it answers: by id, else by name in order."""
    open_calls = _OpenCalls()
    seen: Counter[str] = Counter()
    last = last_of_model(contents)
    found = []
    for place, content in enumerate(contents):
        for part in read_list(content, "parts"):
            call, response = read(part, "functionCall"), read(part, "functionResponse")
            if isinstance(call, dict):
                open_calls.add(call)
            if isinstance(response, dict):
                answered = open_calls.take(response)
                digest = sha256(dumps([answered, part])).hexdigest()
                seen[digest] += 1
                identity = f"{digest}-{seen[digest]}"
                found.append(Result(part, answered, response, place > last, identity))
    return found


def last_of_model(contents: list[JsonObject], end: int | None = None) -> int:
    """The place of the model's last turn before what was sent to it; -1 when it has said nothing.

    With an `end`, of the turns before that place.
    """
    return next((at for at, each in _backwards(contents, end) if each.get("role") == "model"), -1)


def turn_of(contents: list[JsonObject], end: int | None = None) -> tuple[str, list[str]]:
    """The user's turn that the model is to answer: a name for it, and its texts beside results of tools.

    With an `end`, in the conversation as it was before that place.
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


def asked_in(body: JsonObject, contents: list[JsonObject]) -> tuple[str, list[str]]:
    """What a request asks: a name for it, and its texts.

    That is the user's turn. Where the user says nothing in any turn, it is what is put into the model's
    mouth, or else the system instruction.
    """
    if any(each.get("role") != "model" and joined_text(each) for each in contents):
        return turn_of(contents)
    instruction = read_object(body, "systemInstruction")
    spoken = [text for content in contents for text in texts_of(content)]
    texts = spoken if any(spoken) else texts_of(instruction)
    return sha256(dumps([contents, instruction])).hexdigest(), texts


def history_of(contents: list[JsonObject]) -> list[JsonObject]:
    """The turns up to the model's last, each as `{"role", "content"}` with its text."""
    earlier = contents[: last_of_model(contents) + 1]
    return [{"role": each.get("role", "user"), "content": joined_text(each)} for each in earlier]


def prompt_of(contents: list[JsonObject]) -> str:
    """What the user said last; results of tools may have come since."""
    for content in reversed(contents):
        texts = [] if content.get("role") == "model" else texts_of(content)
        if texts:
            return "\n".join(texts)
    return ""


def _backwards(contents: list[JsonObject], end: int | None) -> Iterator[tuple[int, JsonObject]]:
    """From the last turn that is not the model's: words put into its mouth are no turn of its own."""
    end = len(contents) if end is None else end
    while end and contents[end - 1].get("role") == "model":
        end -= 1
    return ((at, contents[at]) for at in reversed(range(end)))


class _OpenCalls:
    """Calls that no result has answered yet, found by id or by name without a look at the others."""

    def __init__(self) -> None:
        self._by: dict[tuple[str, str], deque[int]] = {}
        self._calls: list[JsonObject | None] = []

    def add(self, call: JsonObject) -> None:
        for key in ("id", "name"):
            if isinstance(value := call.get(key), str):
                self._by.setdefault((key, value), deque()).append(len(self._calls))
        self._calls.append(call)

    def take(self, response: JsonObject) -> JsonObject:
        """The call that a response answers; each is taken once."""
        for key in ("id", "name"):
            value = response.get(key)
            waiting = self._by.get((key, value)) if isinstance(value, str) else None
            while waiting:
                place = waiting.popleft()
                call, self._calls[place] = self._calls[place], None
                if call is not None:
                    return call
        return {}
