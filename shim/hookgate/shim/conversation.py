"""What happens in a session, as steps without I/O: the contract's rules for those who fire its events."""

from dataclasses import dataclass
from typing import Any

from hookgate.shim.decisions import Decision, Json, Question
from hookgate.shim.errors import Denied, Stopped, ToolDenied
from hookgate.shim.steps import Ask, Fire, Step
from hookgate.shim.values import edited, extended, retold, shown, text_of

_ADVISORY = frozenset({"SessionEnd", "PreCompress", "Notification"})
_NOBODY = "a hook wants the user to be asked, and there is nobody to ask"


@dataclass(slots=True)
class Attempt:
    """One try at answering a prompt.

    `prompt` is what to ask the model now: the user's words at first, a hook's `feedback` on a retry.
    `clear_context` says that the hook wants the conversation so far forgotten.
    """

    asked: str
    prompt: str
    context: str = ""
    number: int = 1
    feedback: str = ""
    clear_context: bool = False
    text: str | None = None
    decision: Decision | None = None
    """What hooks said to the answer, once they were asked."""

    def answer(self, text: str) -> None:
        """Note the final answer; hooks are asked about it when the loop goes on."""
        self.text = text


@dataclass(slots=True)
class ToolRun:
    """A tool that may run, with the arguments that hooks left it, and then what they said to its result."""

    name: str
    args: Json
    after: Decision | None = None


class Conversation:
    """One session. `context` is what its start gave for the model; `stopped` holds until the next turn."""

    def __init__(self, session_id: str, attempts: int) -> None:
        self.session_id = session_id
        self.context = ""
        self.stopped: Decision | None = None
        self._attempts = attempts

    # ---- the session

    def start(self, source: str) -> Step[None]:
        self.stopped = None
        decision = yield from self._fire("SessionStart", source=source)
        if decision.denied:
            raise Denied(decision.reason, decision)
        self.context = decision.context

    def end(self, reason: str) -> Step[Decision]:
        return (yield from self._fire("SessionEnd", reason=reason))

    def notify(self, kind: str, message: str, details: Json | None) -> Step[Decision]:
        fields = {"notification_type": kind, "message": message, "details": details or {}}
        return (yield from self._fire("Notification", **fields))

    def compress(self, trigger: str, size: int | None, max_size: int | None) -> Step[Decision]:
        sizes = {"context_size": size, "max_context_size": max_size}
        known = {key: size for key, size in sizes.items() if size is not None}
        return (yield from self._fire("PreCompress", trigger=trigger, **known))

    # ---- turns

    def begin(self, prompt: str, history: list[Any] | None = None) -> Step[Attempt]:
        """A turn: it lifts a stop. Raises Denied or Stopped."""
        self.stopped = None
        known = {} if history is None else {"conversation_history": history}
        decision = yield from self._fire("BeforeAgent", prompt=prompt, **known)
        if decision.denied:
            raise Denied(decision.reason, decision)
        return Attempt(prompt, prompt, decision.context)

    def judge(self, attempt: Attempt, text: str) -> Step[Decision]:
        """What hooks say to a final answer. Raises Stopped."""
        decision = yield from self._fire(
            "AfterAgent",
            prompt=attempt.asked,
            prompt_response=text,
            stop_hook_active=attempt.number > 1,
        )
        attempt.decision = decision
        return decision

    def following(self, attempt: Attempt) -> Step[Attempt | None]:
        """The next try where hooks deny the answer, None where they do not or none was given.

        Raises Denied when they deny the last one that may be made.
        """
        if attempt.text is None:
            return None
        decision = yield from self.judge(attempt, attempt.text)
        if not decision.denied:
            return None
        if attempt.number >= self._attempts:
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
        """Raises ToolDenied, or Stopped: also at once when the turn was stopped before."""
        if self.stopped:
            raise Stopped(self.stopped.reason, self.stopped)
        told = {} if description is None else {"tool_description": description}
        decision = yield from self._fire("BeforeTool", tool_name=name, tool_input=shown(args), **told)
        new = decision.tool_input or {}
        left = {key: edited(args[key], value) if key in args else value for key, value in new.items()}
        if decision.decision == "ask":
            yield from self._permit(name, {**args, **left}, decision)
        if decision.denied:
            raise ToolDenied(decision.reason, decision)
        return ToolRun(name, {**args, **left})

    def _permit(self, name: str, args: Json, decision: Decision) -> Step[None]:
        question = Question(self.session_id, name, shown(args), decision.reason)
        agreed = yield Ask(question)
        if agreed is None:
            raise ToolDenied(f"{decision.reason} ({_NOBODY})" if decision.reason else _NOBODY, decision)
        if not agreed:
            raise ToolDenied(decision.reason or "the user said no", decision)

    def after_tool(self, run: ToolRun, value: Any) -> Step[Any]:
        """What the model shall see of a result. Raises Stopped."""
        text = text_of(value)
        decision = yield from self._after(run, {"llmContent": text, "returnDisplay": ""})
        if decision.denied:
            return extended(decision.reason, decision.context)
        content = (decision.tool_result or {}).get("llmContent", text)
        return extended(value if content == text else retold(value, content), decision.context)

    def after_failure(self, run: ToolRun, error: Exception) -> Step[str | None]:
        """What the model shall see of a failure; None where that is the error as it is. Raises Stopped."""
        text = str(error) or type(error).__name__
        failure = {"llmContent": text, "returnDisplay": "", "error": {"message": text}}
        decision = yield from self._after(run, failure)
        content = text_of((decision.tool_result or {}).get("llmContent", text))
        told: str = extended(decision.reason if decision.denied else content, decision.context)
        return None if told == text else told

    def _after(self, run: ToolRun, response: Json) -> Step[Decision]:
        fields = {"tool_name": run.name, "tool_input": shown(run.args), "tool_response": response}
        run.after = yield from self._fire("AfterTool", **fields)
        return run.after

    # ---- any event

    def _fire(self, event: str, **fields: Any) -> Step[Decision]:
        decision: Decision = yield Fire(event, fields)
        if decision.stopped and event not in _ADVISORY:
            self.stopped = decision
            raise Stopped(decision.reason, decision)
        return decision
