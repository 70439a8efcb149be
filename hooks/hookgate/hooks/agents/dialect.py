"""What the dialects of agents share: how events are read, and how decisions become answers. It does no I/O.

A dialect is a table: for each of the agent's events, the event of the contract, how its input is read, how an
answer is written, and what an answer can express. What an answer cannot express becomes a denial where that
is possible, since nothing that a hook has changed or decided may be lost, and is otherwise named.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from hookgate.hooks.settings import ADVISORY

Json = dict[str, Any]

Aspect = Literal["deny", "stop", "ask", "arguments", "result", "context", "message"]
"""An aspect of what hooks decide."""


def aspects(*names: Aspect) -> frozenset[Aspect]:
    """Return a set of aspects."""
    return frozenset(names)


ASPECTS: Mapping[Aspect, str] = {
    "deny": "the denial",
    "stop": "the stop",
    "ask": "the question to the user",
    "arguments": "the changed arguments",
    "result": "the changed result",
    "context": "the additional context",
    "message": "the message to the user",
}
"""What an answer to an agent may express, in words for messages."""

_NO_REASON = "A hook of the gateway denied this without giving a reason."
_NO_ARGUMENTS = (
    "The gateway's hooks changed the arguments of this call, which {agent} cannot apply here; call the tool "
    "with arguments that need no change."
)
_NO_RESULT = "The gateway's hooks changed this result, which {agent} cannot apply here, so it is withheld."
_NO_QUESTION = (
    "The gateway's hooks require that the user agrees to this call, for which {agent} cannot ask here."
)


@dataclass(frozen=True, slots=True)
class Decided:
    """What hooks have decided about an event. `arguments` and `result` are whole, and None if unchanged."""

    denied: bool = False
    stopped: bool = False
    asks: bool = False
    reason: str = ""
    arguments: Json | None = None
    result: Json | None = None
    context: str = ""
    message: str = ""
    quiet: bool = False
    """Whether a hook wants its output not to be shown."""
    others: tuple[str, ...] = ()
    """Further keys of the output, which no agent but Gemini CLI can apply."""

    @classmethod
    def from_output(cls, output: Json) -> Self:
        """Return what a combined output of hooks has decided."""
        specific = output.get("hookSpecificOutput") or {}
        stopped = output.get("continue") is False
        reason = output.get("stopReason") if stopped else output.get("reason")
        return cls(
            denied=output.get("decision") in ("deny", "block") and not stopped,
            stopped=stopped,
            asks=output.get("decision") == "ask" and not stopped,
            reason=reason or "",
            arguments=specific.get("tool_input"),
            result=specific.get("tool_result"),
            context=specific.get("additionalContext") or "",
            message=output.get("systemMessage") or "",
            quiet=output.get("suppressOutput") is True,
            others=tuple(key for key in ("tailToolCallRequest", "clearContext") if key in specific),
        )

    @property
    def ends(self) -> bool:
        """Whether what the event is about does not happen."""
        return self.denied or self.stopped

    @property
    def decided_aspects(self) -> set[Aspect]:
        """The aspects that were decided. What was changed does not matter if it does not happen."""
        values: Mapping[Aspect, Any] = {
            "deny": self.denied,
            "stop": self.stopped,
            "ask": self.asks,
            "arguments": self.arguments is not None and not self.ends,
            "result": self.result is not None and not self.ends,
            "context": self.context,
            "message": self.message,
        }
        return {aspect for aspect, value in values.items() if value}


@dataclass(frozen=True, slots=True)
class EventRow:
    """One event of an agent."""

    event: str | None
    """The event of the contract. None for an event that no hook judges, and which can only end a session."""
    read: Callable[[Json], Json]
    """Returns the fields of the contract's input. Raises ValueError for an input that cannot be read."""
    write: Callable[[str, Json, Decided], Json]
    """Returns the answer, given the event's name, its input, and what was decided."""
    expressible: frozenset[Aspect] = frozenset()
    """What the answer can express."""
    applies: Callable[[Json], bool] = lambda document: True
    """Whether an input is one of the contract's event; if not, no hook judges it."""
    also_expressible: frozenset[Aspect] = frozenset()
    """What else the answers to some inputs can express."""
    has_more: Callable[[Json], bool] = lambda document: False
    """Whether an input is one of these."""

    def expressible_for(self, document: Json) -> frozenset[Aspect]:
        """Return what the answer to an input can express."""
        return self.expressible | (self.also_expressible if self.has_more(document) else frozenset())


@dataclass(frozen=True, slots=True)
class AgentAnswer:
    """An agent's answer, and what of the hooks' decision it cannot express."""

    document: Json
    not_applied: tuple[str, ...] = ()
    denied_instead: str | None = None
    """The reason of a denial in place of another decision, which the answer cannot express."""


@dataclass(frozen=True)
class AgentDialect:
    """How one agent posts the events of its hooks, and what it reads as an answer."""

    name: str
    title: str
    rows: Mapping[str, EventRow]
    base: Callable[[Json], Json]
    """Returns `session_id`, `transcript_path` and `cwd` of an input."""
    unjudged: Collection[str] = ()
    """Further events of the agent, which no hook judges."""

    def event_of(self, document: Json, named: str) -> str:
        """Return the name of a posted event: that in its input, or else `named`. Raises ValueError."""
        own = document.get("hook_event_name")
        name = own if isinstance(own, str) and own else named
        if not name:
            raise ValueError("the input does not name its event; append ?event=NAME to the URL")
        if name not in self.rows:
            why = "is not judged" if name in self.unjudged else "is unknown"
            known = ", ".join(self.rows)
            raise ValueError(f"the event {name[:64]!r} of {self.title} {why}; judged events are: {known}")
        return name

    def contract_event(self, name: str, document: Json) -> str | None:
        """Return the event of the contract, or None if no hook judges this one."""
        row = self.rows[name]
        return row.event if row.applies(document) else None

    def read(self, name: str, document: Json) -> Json:
        """Return the contract's input for a posted one. Raises ValueError."""
        return {**self.base(document), **self.rows[name].read(document)}

    def answer(self, name: str, document: Json, output: Json) -> AgentAnswer:
        """Return the answer for the combined output of all hooks."""
        row = self.rows[name]
        expressible = row.expressible_for(document)
        decided_by_hooks = Decided.from_output(output)
        decided = self._with_denials(row.event, expressible, decided_by_hooks)
        instead = decided.reason if decided.ends and not decided_by_hooks.ends else None
        inexpressible = decided.decided_aspects - expressible
        not_applied = [shown for aspect, shown in ASPECTS.items() if aspect in inexpressible]
        return AgentAnswer(row.write(name, document, decided), (*not_applied, *decided.others), instead)

    def can_ask(self, name: str, document: Json) -> bool:
        """Return whether the agent asks its user about an event if it is told to."""
        return "ask" in self.rows[name].expressible_for(document)

    def denial(self, name: str, document: Json, reason: str) -> Json | None:
        """Return the answer that denies an event that was not judged; None if the event cannot be denied."""
        row = self.rows.get(name)
        if row is None or row.event in ADVISORY or not row.expressible_for(document) & {"deny", "stop"}:
            return None
        # After a denial of the answer, the agent would answer again, and that could not be judged either.
        stop = {"continue": False, "stopReason": reason}
        output = stop if row.event == "AfterAgent" else {"decision": "deny", "reason": reason}
        return self.answer(name, document, output).document

    def _with_denials(self, event: str | None, expressible: frozenset[Aspect], decided: Decided) -> Decided:
        """Return what was decided, with denials in place of what the answer cannot express."""
        denial = replace(decided, denied=True, stopped=False, asks=False)
        if decided.ends:
            if decided.stopped and "stop" not in expressible:
                return replace(denial, reason=decided.reason or _NO_REASON)
            return replace(decided, reason=decided.reason or _NO_REASON)
        if event == "BeforeTool":
            if decided.arguments is not None and "arguments" not in expressible:
                return replace(denial, reason=_NO_ARGUMENTS.format(agent=self.title))
            if decided.asks and "ask" not in expressible:
                return replace(denial, reason=decided.reason or _NO_QUESTION.format(agent=self.title))
        if decided.result is not None and "result" not in expressible and "deny" in expressible:
            return replace(denial, reason=_NO_RESULT.format(agent=self.title))
        # Elsewhere, a question lets the agent continue.
        return decided if event == "BeforeTool" else replace(decided, asks=False)


def text(document: Json, *keys: str) -> str:
    """Return the string under the first of the keys that has one, or an empty string."""
    return next((value for key in keys if isinstance(value := document.get(key), str)), "")


def first_path(document: Json, key: str) -> str:
    """Return the first path of a list of paths, or an empty string."""
    paths = document.get(key)
    return paths[0] if isinstance(paths, list) and paths and isinstance(paths[0], str) else ""


def fields(**values: Any) -> Json:
    """Return the fields that are neither None nor empty."""
    return {key: value for key, value in values.items() if value not in (None, "")}


def read_nothing(document: Json) -> Json:
    """Return no fields: the event has none of its own."""
    return {}


def read_reason(document: Json) -> Json:
    """Return why a session ends."""
    return fields(reason=text(document, "reason"))


def read_trigger(document: Json) -> Json:
    """Return what triggers a compression."""
    return fields(trigger=text(document, "trigger"))


def read_prompt(document: Json) -> Json:
    """Return the prompt. Raises ValueError."""
    if not isinstance(document.get("prompt"), str):
        raise ValueError("prompt: must be a string")
    return {"prompt": document["prompt"]}


def read_notification(document: Json) -> Json:
    """Return the type and the text of a notification."""
    kind = text(document, "notification_type")
    return {
        "notification_type": {"permission_prompt": "ToolPermission"}.get(kind, kind),
        "message": text(document, "message"),
    }


def write_nothing(name: str, document: Json, decided: Decided) -> Json:
    """Return an empty answer."""
    return {}
