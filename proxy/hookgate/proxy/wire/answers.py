"""What an answer gives away: tools that are about to run, and the end of a turn."""

from dataclasses import dataclass

from hookgate.hooks import AfterAgent, BeforeTool
from hookgate.proxy.call import Call, end_with, told
from hookgate.proxy.records import Firing
from hookgate.proxy.toolgate import AskAgain, Refusal
from hookgate.translator.fields import JsonObject, read, read_object

_SHOWN = "The tool {name!r} was not called: {reason}"
_NO_REASON = "a hook denied it"
_IN_PIECES = "its arguments come in pieces, which no hook can judge"


@dataclass(frozen=True, slots=True)
class WireCalls:
    """Fires BeforeTool for each call in an answer."""

    firing: Firing
    call: Call

    async def judge(self, call: JsonObject) -> Refusal | JsonObject:
        """The arguments as hooks leave them, or why they refuse. Raises Answered and ApiError for a stop."""
        name, arguments = str(call.get("name") or ""), read_object(call, "args")
        if not name or read(call, "willContinue") or read(call, "partialArgs") is not None:
            return Refusal(_SHOWN.format(name=name, reason=_IN_PIECES), _IN_PIECES, asks=True)
        outcome = await self.firing.fire(BeforeTool(name, arguments), self.call.session)
        verdict = outcome.verdict
        if verdict.stop:
            end_with(told(verdict, BeforeTool.name, self.call))
        if verdict.denied:
            reason = verdict.reason or _NO_REASON
            return Refusal(_SHOWN.format(name=name, reason=reason), reason, asks=True)
        return outcome.event.tool_input


@dataclass(frozen=True, slots=True)
class WireAnswers:
    """Fires AfterAgent for an answer that ends the turn."""

    firing: Firing
    call: Call
    prompt: str
    """The user's turn that is answered."""
    again: bool
    """Whether the answer is already one that a hook of this event asked for."""
    asks: bool
    """Whether the model may be asked once more."""

    async def ended(self, text: str) -> None:
        """The turn's last words. Raises AskAgain when a hook refuses them, with its reason for the model."""
        event = AfterAgent(self.prompt, text, self.again)
        outcome = await self.firing.fire(event, self.call.session)
        verdict = outcome.verdict
        if outcome.failed_closed:  # to ask the model again would not make the hook judge this answer
            end_with(told(verdict, AfterAgent.name, self.call))
        if verdict.denied and self.asks:
            reason = {"role": "user", "parts": [{"text": verdict.reason or _NO_REASON}]}
            said = [{"role": "model", "parts": [{"text": text}]}] if text else []
            raise AskAgain([*said, reason], final=True)
