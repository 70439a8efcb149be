"""The memory of what hooks changed in a conversation, which the agent sends again with every call.

The agent does not know of edits made by the gateway, so what a hook hid from the model, or added for it, has
to be hidden or added again in every later call. Results are recognized by content, not by position, because
agents compress their history. A result that was forgotten is judged again before the model sees it.
"""

import logging
from collections import Counter, OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256

from hookgate.hooks.policies.speakers import is_model_turn, last_model_turn
from hookgate.translator import BodyError, declared_names
from hookgate.translator.fields import (
    JsonObject,
    has_part,
    joined_text,
    read,
    read_list,
    read_object,
    texts_of,
)
from hookgate.translator.request import requires_json
from hookgate.translator.strictjson import MAX_DEPTH, dumps, loads

KEPT_RESULTS = 1000
"""The maximum number of results and turns to remember for one session; the oldest are forgotten first."""


@dataclass(frozen=True, slots=True)
class Result:
    """A tool's result in a conversation: the part, the call that it answers, and an ID for the pair."""

    part: JsonObject
    call: JsonObject
    response: JsonObject
    trailing: bool
    """Whether it follows the model's last turn, so that the agent sends it for the first time."""
    identity: str


@dataclass(frozen=True, slots=True)
class HookEffect:
    """The effect of hooks on a result or a turn: the functionResponse that replaces it, and added context."""

    response: JsonObject | None = None
    contexts: tuple[str, ...] = ()
    withheld: bool = False
    """Whether a hook denied the result, so that nothing else of it may be left."""
    judged_by: str = ""
    """A digest of what decided which hooks judged the result; others judge it again. Empty for a turn."""


CLAIM_SECONDS = 150.0
"""Seconds after which a claim to judge SessionStart lapses, because the process that made it has died.

It is longer than the default deadline of an event's hooks.
"""


@dataclass(frozen=True, slots=True)
class StartClaim:
    """The right of one call to judge SessionStart. `until` is in seconds since 1970."""

    claimant: str
    until: float


@dataclass(slots=True)
class ConversationMemory:
    """What the gateway derives from the calls of a session."""

    started: bool = False
    """Whether SessionStart has been judged."""
    claim: StartClaim | None = None
    """The call that judges SessionStart now, if there is one: no other call may overtake it."""
    turn: str = ""
    """The turn that was judged last, and a digest of what decided which hooks judged it.

    A repeated call is not a new turn, but other hooks judge it again.
    """
    question: str = ""
    """The same for calls that ask for JSON, which agents make for themselves during a user's turn."""
    waiting: tuple[str, ...] = ()
    """The context that SessionStart hooks added, until a call takes it."""
    effects: OrderedDict[str, HookEffect] = field(default_factory=OrderedDict)
    """What hooks did to results and turns, by their identities, the oldest first."""

    def claim_start(self, claimant: str, now: float) -> bool:
        """Claim the right to judge SessionStart, unless it has been judged.

        Returns False if another call has that right; `now` is in seconds since 1970.
        """
        if self.started:
            return True
        if self.claim is not None and self.claim.claimant != claimant and now < self.claim.until:
            return False
        self.claim = StartClaim(claimant, now + CLAIM_SECONDS)
        return True

    def release_start(self, claimant: str) -> None:
        """Give up a claim: SessionStart was refused, and is judged again with the next call."""
        if self.claim is not None and self.claim.claimant == claimant:
            self.claim = None

    def start(self, contexts: tuple[str, ...]) -> None:
        """Note that SessionStart has been judged, and the context that its hooks added."""
        self.started, self.claim, self.waiting = True, None, contexts

    def deliver_waiting(self, turn: str) -> None:
        """Add the context of SessionStart hooks to a turn, unless another call has done so."""
        if self.waiting:
            self.remember(turn, HookEffect(None, self.waiting))
            self.waiting = ()

    def effect_on(self, identity: str) -> HookEffect | None:
        """Return what hooks did to a result or a turn, or None if it is unknown."""
        return self.effects.get(identity)

    def remember(self, identity: str, effect: HookEffect) -> None:
        """Remember the edits of hooks to a result or a turn, in addition to earlier ones."""
        before = self.effects.get(identity, HookEffect())
        contexts = (*before.contexts, *effect.contexts)
        response = effect.response or before.response
        withheld = effect.withheld or before.withheld
        self.effects[identity] = HookEffect(response, contexts, withheld, effect.judged_by)
        if len(self.effects) > KEPT_RESULTS:
            self.effects.popitem(last=False)

    def remember_results(self, effects: Mapping[str, HookEffect]) -> None:
        """Remember what hooks did to results, except for those that the same hooks have judged since."""
        for identity, effect in effects.items():
            before = self.effects.get(identity)
            if before is None or before.judged_by != effect.judged_by:
                self.effects.pop(identity, None)
                self.remember(identity, effect)

    def note_turn(self, turn: str, judged_turn: str, contexts: tuple[str, ...], *, is_question: bool) -> None:
        """Note that a turn was judged, and the context that its hooks added. `judged_turn` is as in `turn`.

        If another call has judged it since, that call's context stays; so does what other hooks have added.
        """
        before = (self.effects.get(turn) or HookEffect()).contexts
        contexts = tuple(text for text in contexts if text not in before)
        if contexts and judged_turn not in (self.turn, self.question):
            self.remember(turn, HookEffect(None, contexts))
        if is_question:
            self.question = judged_turn
        else:
            self.turn = judged_turn


def tool_results(contents: list[JsonObject]) -> list[Result]:
    """Return all tool results in order, each matched to its call by ID, or else by name and order."""
    open_calls = _OpenCalls()
    seen: Counter[str] = Counter()
    last = last_model_turn(contents)
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


def turn_of(contents: list[JsonObject], end: int | None = None) -> tuple[str, list[str]]:
    """Return the ID and the texts of the user's turn that the model is to answer, without tool results.

    With `end`, only the turns before that index count.
    """
    end = len(contents) if end is None else end
    trailing = contents[last_model_turn(contents, end) + 1 : end]
    texts = [
        text
        for content in trailing
        if content.get("role") != "model"
        for part in read_list(content, "parts")
        if isinstance(text := part.get("text"), str)
    ]
    return sha256(dumps([end, trailing])).hexdigest(), texts


def user_turns(contents: list[JsonObject]) -> list[tuple[str, int]]:
    """Return the ID of each turn of the user that ends with a content of the user, and that content's index.

    A turn extends to the next turn that the model wrote, so that no content is in the IDs of several turns.
    """
    return [
        (turn_of(contents, at + 1)[0], at)
        for at, content in enumerate(contents)
        if content.get("role") != "model" and (at + 1 == len(contents) or is_model_turn(contents[at + 1]))
    ]


def asked_turn(body: JsonObject, contents: list[JsonObject]) -> tuple[str, list[str]]:
    """Return the ID and the texts of what a request asks the model.

    That is the user's turn. If no turn of the user has text, it is the text of the model's turns, or else of
    the system instruction.
    """
    if any(turn.get("role") != "model" and joined_text(turn) for turn in contents):
        return turn_of(contents)
    instruction = read_object(body, "systemInstruction")
    turn_texts = [text for content in contents for text in texts_of(content)]
    texts = turn_texts if any(turn_texts) else texts_of(instruction)
    return sha256(dumps([contents, instruction])).hexdigest(), texts


def user_text(body: JsonObject, contents: list[JsonObject]) -> str:
    """Return what the user certainly wrote of the turn that the model is to answer.

    Texts beside a tool's result may belong to it, as some agents send parts of results so. A request that
    offers no tools, or requires JSON, is a question of the agent itself, which may quote anything.
    """
    has_tools = declared_names(body) or read(body, "cachedContent")  # which may contain tools
    if not has_tools or requires_json(read_object(body, "generationConfig")):
        return ""
    said = [
        joined_text(content)
        for content in contents[last_model_turn(contents) + 1 :]
        if content.get("role", "user") == "user" and not has_part(content, "functionResponse")
    ]
    return "\n".join(said)


def history_of(contents: list[JsonObject]) -> list[JsonObject]:
    """Return the turns up to the model's last one, each as `{"role", "content"}` with its text."""
    earlier = contents[: last_model_turn(contents) + 1]
    return [{"role": turn.get("role", "user"), "content": joined_text(turn)} for turn in earlier]


def prompt_of(contents: list[JsonObject]) -> str:
    """Return the text of the user's last turn that has any; tool results may follow it."""
    for content in reversed(contents):
        texts = [] if content.get("role") == "model" else texts_of(content)
        if texts:
            return "\n".join(texts)
    return ""


class _OpenCalls:
    """The tool calls that no result has answered yet, indexed by ID and by name."""

    def __init__(self) -> None:
        self._positions: dict[tuple[str, str], deque[int]] = {}
        self._calls: list[JsonObject | None] = []

    def add(self, call: JsonObject) -> None:
        for key in ("id", "name"):
            if isinstance(value := call.get(key), str):
                self._positions.setdefault((key, value), deque()).append(len(self._calls))
        self._calls.append(call)

    def take(self, response: JsonObject) -> JsonObject:
        """Remove and return the call that a response answers, or an empty object."""
        for key in ("id", "name"):
            value = response.get(key)
            waiting = self._positions.get((key, value)) if isinstance(value, str) else None
            while waiting:
                index = waiting.popleft()
                call, self._calls[index] = self._calls[index], None
                if call is not None:
                    return call
        return {}


log = logging.getLogger("hookgate")

MAX_EFFECT_BYTES = 1024 * 1024
"""Bytes of an effect that is kept. The result of a larger one is judged again in each call."""


def take_new_effects(before: Mapping[str, HookEffect], after: ConversationMemory) -> dict[str, bytes]:
    """Return the documents of the effects that were not in a session before, by their identities.

    Effects that cannot be kept are removed from the memory, and logged.
    """
    documents: dict[str, bytes] = {}
    for identity, effect in list(after.effects.items()):
        if before.get(identity) is effect:
            continue
        try:
            documents[identity] = _document_of(effect)
        except ValueError as error:
            del after.effects[identity]
            log.warning(
                "a hook's edit of a tool result could not be stored, so the result will be judged again: %s",
                error,
            )
    return documents


def effect_of(document: bytes) -> HookEffect:
    """Return the effect in a document."""
    fields = loads(document)
    withheld, judged_by = fields.get("withheld") is True, str(fields.get("judged_by", ""))
    return HookEffect(fields["response"], tuple(fields["contexts"]), withheld, judged_by)


def _document_of(effect: HookEffect) -> bytes:
    """Return an effect in JSON. Raises ValueError if it is too large, or could not be read again."""
    try:
        fields: JsonObject = {"response": effect.response, "contexts": list(effect.contexts)}
        fields |= {"withheld": True} if effect.withheld else {}
        data = dumps(fields | ({"judged_by": effect.judged_by} if effect.judged_by else {}))
        if len(data) <= MAX_EFFECT_BYTES:
            effect_of(data)
            return data
    except (BodyError, RecursionError):
        raise ValueError(f"it nests deeper than {MAX_DEPTH} levels") from None
    raise ValueError(f"it takes more than {MAX_EFFECT_BYTES} bytes")
