"""The rules of a session: which events it fires and what their decisions mean. No I/O.

Each operation is a generator, a step, that yields the events to fire and the questions to ask.
"""

import dataclasses
import json
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from hookgate.shim.decisions import Decision, Denied, Json, Question, Stopped, ToolDenied


def plain_data(value: Any) -> Any:
    """Return a value as plain JSON data: models and dataclasses as objects, anything else with `str`."""
    return json.loads(_dumps(value))


def edited(value: Any, new: Any) -> Any:
    """Return `value` changed to `new`.

    Returns `value` itself if nothing changed. If it is a Pydantic model, `new` is validated as its class.
    """
    if plain_data(value) == new:
        return value
    validate = getattr(type(value), "model_validate", None)
    return new if validate is None else validate(new)


def text_of(value: Any) -> str:
    """Return a tool's result as text: a string unchanged, any other value as JSON."""
    return value if isinstance(value, str) else _dumps(value)


def with_edited_text(value: Any, content: Any) -> Any:
    """Return a tool's result after its text was edited.

    If the result was not a string, hooks saw it as JSON, so the edited text is parsed as JSON if possible.
    """
    if isinstance(value, str) or not isinstance(content, str):
        return content
    try:
        return json.loads(content)
    except ValueError:
        return content


def with_hook_context(value: Any, context: str) -> Any:
    """Return a tool's result with context for the model, appended to text or added to an object."""
    if not context:
        return value
    if isinstance(value, dict):
        return {**value, "additionalContext": context}
    text = text_of(value)
    return f"{text}\n\n{context}" if text else context


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    if dump is not None:
        return dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return str(value)


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Fire:
    """A request to fire an event with these event-specific fields; the reply is its Decision."""

    event: str
    fields: Json


@dataclass(frozen=True, slots=True)
class Ask:
    """A request to ask the user; the reply is whether they agree, or None if nobody can be asked."""

    question: Question


Step = Generator[Fire | Ask, Any, T]
"""A generator that yields requests, receives their replies, and returns a T."""


_ADVISORY = frozenset({"SessionEnd", "PreCompress", "Notification"})
_NO_ASKER = "a hook requires the user's permission, but the agent cannot ask the user"


@dataclass(slots=True)
class Attempt:
    """One attempt at answering a prompt.

    `prompt` is what to send to the model: the user's prompt (`asked`) at first, a hook's `feedback` on a
    retry. If `clear_context` is true, the hook wants the conversation so far to be dropped.
    """

    asked: str
    prompt: str
    context: str = ""
    number: int = 1
    feedback: str = ""
    clear_context: bool = False
    text: str | None = None
    decision: Decision | None = None
    """The hooks' decision about the answer, once it is known."""

    def answer(self, text: str) -> None:
        """Set the final answer. Hooks judge it when the loop continues."""
        self.text = text


@dataclass(slots=True)
class ToolRun:
    """A tool that may run: its arguments after the hooks, and later their decision about its result."""

    name: str
    args: Json
    after: Decision | None = None


class Conversation:
    """One session.

    `context` is what SessionStart hooks added for the model. `stopped` is the decision that stopped the
    agent, until its next turn. `attempts` is how many answers to one prompt hooks may deny.
    """

    def __init__(self, session_id: str, attempts: int) -> None:
        self.session_id = session_id
        self.context = ""
        self.stopped: Decision | None = None
        self.attempts = attempts

    # ---- the session

    def start(self, source: str) -> Step[None]:
        """Fire SessionStart. Raises Denied or Stopped."""
        self.stopped = None
        decision = yield from self._fire("SessionStart", source=source)
        if decision.denied:
            raise Denied(decision.reason, decision)
        self.context = decision.context

    def end(self, reason: str) -> Step[Decision]:
        """Fire SessionEnd."""
        return (yield from self._fire("SessionEnd", reason=reason))

    def notify(self, kind: str, message: str, details: Json | None) -> Step[Decision]:
        """Fire Notification."""
        fields = {"notification_type": kind, "message": message, "details": details or {}}
        return (yield from self._fire("Notification", **fields))

    def compress(self, trigger: str, size: int | None, max_size: int | None) -> Step[Decision]:
        """Fire PreCompress. Sizes are in tokens."""
        fields = {"context_size": size, "max_context_size": max_size}
        sizes = {key: value for key, value in fields.items() if value is not None}
        return (yield from self._fire("PreCompress", trigger=trigger, **sizes))

    # ---- turns

    def begin(self, prompt: str, history: list[Any] | None = None) -> Step[Attempt]:
        """Begin a turn, which lifts a stop, and fire BeforeAgent. Raises Denied or Stopped."""
        self.stopped = None
        optional = {} if history is None else {"conversation_history": history}
        decision = yield from self._fire("BeforeAgent", prompt=prompt, **optional)
        if decision.denied:
            raise Denied(decision.reason, decision)
        return Attempt(prompt, prompt, decision.context)

    def judge(self, attempt: Attempt, text: str) -> Step[Decision]:
        """Fire AfterAgent for a final answer and return the decision. Raises Stopped."""
        decision = yield from self._fire(
            "AfterAgent",
            prompt=attempt.asked,
            prompt_response=text,
            stop_hook_active=attempt.number > 1,
        )
        attempt.decision = decision
        return decision

    def following(self, attempt: Attempt) -> Step[Attempt | None]:
        """Return the next attempt if hooks deny the answer.

        Returns None if they accept it, or if the attempt has no answer. Raises Denied if they deny the last
        attempt, and Stopped.
        """
        if attempt.text is None:
            return None
        decision = yield from self.judge(attempt, attempt.text)
        if not decision.denied:
            return None
        if attempt.number >= self.attempts:
            raise Denied(decision.reason, decision)
        return Attempt(
            attempt.asked,
            decision.reason,
            attempt.context,
            attempt.number + 1,
            decision.reason,
            decision.clear_context,
        )

    # ---- tools

    def before_tool(self, name: str, args: Json, description: str | None) -> Step[ToolRun]:
        """Fire BeforeTool, and ask the user if a hook requires it.

        Raises ToolDenied, and Stopped; the latter even if the turn was stopped before.
        """
        if self.stopped:
            raise Stopped(self.stopped.reason, self.stopped)
        optional = {} if description is None else {"tool_description": description}
        decision = yield from self._fire(
            "BeforeTool", tool_name=name, tool_input=plain_data(args), **optional
        )
        changes = decision.tool_input or {}
        edits = {key: edited(args[key], value) if key in args else value for key, value in changes.items()}
        if decision.decision == "ask":
            yield from self._require_permission(name, {**args, **edits}, decision)
        if decision.denied:
            raise ToolDenied(decision.reason, decision)
        return ToolRun(name, {**args, **edits})

    def _require_permission(self, name: str, args: Json, decision: Decision) -> Step[None]:
        question = Question(self.session_id, name, plain_data(args), decision.reason)
        permitted = yield Ask(question)
        if permitted is None:
            raise ToolDenied(f"{decision.reason} ({_NO_ASKER})" if decision.reason else _NO_ASKER, decision)
        if not permitted:
            raise ToolDenied(decision.reason or "the user denied permission", decision)

    def after_tool(self, run: ToolRun, value: Any) -> Step[Any]:
        """Fire AfterTool and return the result that the model may see. Raises Stopped."""
        text = text_of(value)
        decision = yield from self._after(run, {"llmContent": text, "returnDisplay": ""})
        if decision.denied:
            return with_hook_context(decision.reason, decision.context)
        content = (decision.tool_result or {}).get("llmContent", text)
        return with_hook_context(
            value if content == text else with_edited_text(value, content), decision.context
        )

    def after_failure(self, run: ToolRun, error: Exception) -> Step[str | None]:
        """Fire AfterTool for a failed tool and return the error message that the model may see.

        Returns None if hooks did not change it. Raises Stopped.
        """
        text = str(error) or type(error).__name__
        failure = {"llmContent": text, "returnDisplay": "", "error": {"message": text}}
        decision = yield from self._after(run, failure)
        content = text_of((decision.tool_result or {}).get("llmContent", text))
        message: str = with_hook_context(decision.reason if decision.denied else content, decision.context)
        return None if message == text else message

    def _after(self, run: ToolRun, response: Json) -> Step[Decision]:
        fields = {"tool_name": run.name, "tool_input": plain_data(run.args), "tool_response": response}
        run.after = yield from self._fire("AfterTool", **fields)
        return run.after

    # ---- any event

    def _fire(self, event: str, **fields: Any) -> Step[Decision]:
        decision: Decision = yield Fire(event, fields)
        if decision.stopped and event not in _ADVISORY:
            self.stopped = decision
            raise Stopped(decision.reason, decision)
        return decision
