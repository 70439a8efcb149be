"""What the documents of all events have in common: the base input, the base output, its one spelling.

The text under a field says what the field means, and is printed in docs/reference.md. A class is built when
it is first used, and its texts are read when the page is made: a gateway that starts needs neither.
"""

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    WithJsonSchema,
    model_serializer,
    model_validator,
)

JsonObject = dict[str, Any]

T = TypeVar("T")

Specific = Annotated[T | None, Field(alias="hookSpecificOutput")]
"""The type of `hook_specific_output`: the class of the event's own part."""

Unchecked = Annotated[Any, WithJsonSchema({"type": "object"})]
"""An object of the stable model: the translator checks it, whose errors name the place within it."""


def first(*spellings: T | None) -> T | None:
    """The first spelling that is given."""
    return next((value for value in spellings if value is not None), None)


class HookInput(BaseModel):
    """The document that a hook reads: base fields, then the event's own.

    A key that is not listed here is kept: newer agents send more. What `model_dump(exclude_unset=True)` gives
    equals the document that was parsed, order of keys included.
    """

    model_config = ConfigDict(strict=True, extra="allow", defer_build=True)

    _keys: tuple[str, ...] = PrivateAttr(())

    session_id: str
    """Names the session."""

    transcript_path: str
    """The file of the session's transcript; empty where there is none."""

    cwd: str
    """The project folder."""

    hook_event_name: str
    """The event's name."""

    timestamp: str
    """When the event fired: ISO 8601, UTC."""

    @model_validator(mode="wrap")
    @classmethod
    def _keep_order(cls, document: Any, parse: ModelWrapValidatorHandler[Self]) -> Self:
        parsed = parse(document)
        if isinstance(document, dict):
            parsed._keys = tuple(document)
        return parsed

    @model_serializer(mode="wrap")
    def _in_order(self, serialize: SerializerFunctionWrapHandler) -> JsonObject:
        fields: JsonObject = serialize(self)
        return {key: fields.pop(key) for key in self._keys if key in fields} | fields


_ALIASES = {"approve": "allow", "block": "deny"}


def _in_one_spelling(decision: Any) -> Any:
    return _ALIASES.get(decision, decision) if isinstance(decision, str) else decision


Decision = Literal["allow", "deny", "ask"]

DecisionField = Annotated[
    Decision | None,
    BeforeValidator(_in_one_spelling),
    WithJsonSchema({"enum": ["allow", "approve", "deny", "block", "ask"]}),
]

Verdict = tuple[Decision | None, str | None]
"""A decision and its reason."""

_STRICTEST_FIRST: tuple[Decision, ...] = ("deny", "ask", "allow")


class SpecificOutput(BaseModel):
    """What every event takes within hookSpecificOutput."""

    model_config = ConfigDict(strict=True, extra="allow", defer_build=True)

    spellings: ClassVar[dict[str, str]] = {}
    """Further spellings of keys, each with the one that stands for it."""

    hook_event_name: str | None = Field(None, alias="hookEventName")
    """The event's name again, for people who read the output."""

    permission_decision: DecisionField = Field(None, alias="permissionDecision")
    """Another spelling of `decision`; of two the stricter counts."""

    permission_decision_reason: str | None = Field(None, alias="permissionDecisionReason")
    """Another spelling of `reason`."""

    def verdicts(self) -> Iterable[Verdict]:
        """What the event's own part decides."""
        return ((self.permission_decision, self.permission_decision_reason),)


def _texts_only(value: Any) -> Any:
    return value if isinstance(value, str) else None


class ContextOutput(SpecificOutput):
    """Events that can tell the model more."""

    additional_context: Annotated[str | None, BeforeValidator(_texts_only)] = Field(
        None, alias="additionalContext"
    )
    """Text for the model, in which `<` and `>` are made harmless. What is not a string is ignored."""


class HookOutput(BaseModel):
    """The document that a hook may answer with; every key may be left out, and `null` stands for that.

    A key of the wrong type fails the hook, and the error names the key. A key that is not listed is ignored.
    """

    model_config = ConfigDict(strict=True, extra="allow", defer_build=True)

    decision: DecisionField = None
    """`approve` means `allow`, `block` means `deny`. Of several hooks the strictest counts."""

    reason: str | None = None
    """Why, for the agent."""

    continue_: bool | None = Field(None, alias="continue")
    """`false` stops the agent, whatever was decided."""

    stop_reason: str | None = Field(None, alias="stopReason")
    """Why it stops, for the user; `reason` if left out."""

    system_message: str | None = Field(None, alias="systemMessage")
    """A message for the user; of a model event, for the gateway's log."""

    suppress_output: bool | None = Field(None, alias="suppressOutput")
    """Keeps `systemMessage` out of the log."""

    hook_specific_output: Specific[SpecificOutput] = None
    """What is the event's own: each event's chapter lists it."""

    def canonical(self) -> JsonObject:
        """The document in one spelling, with every decision lifted into `decision` and `reason`."""
        output = self.model_dump(by_alias=True, exclude_none=True)
        if (specific := self.hook_specific_output) is not None:
            _respell(output["hookSpecificOutput"], specific.spellings)
            _decide(output, specific.verdicts())
        return output


class AdvisoryOutput(HookOutput):
    """The output of an event that nothing can stop: `decision` and `continue` are ignored."""

    def canonical(self) -> JsonObject:
        output = self.model_dump(by_alias=True, exclude_none=True)
        return {key: value for key, value in output.items() if key not in ("decision", "continue")}


def _respell(specific: JsonObject, spellings: dict[str, str]) -> None:
    for other, key in spellings.items():
        if other in specific:
            value = specific.pop(other)
            specific.setdefault(key, value)


def _decide(output: JsonObject, verdicts: Iterable[Verdict]) -> None:
    """Write the strictest of all decisions into the output, with a reason of its own if there is one."""
    given = [verdict for verdict in verdicts if verdict != (None, None)]
    if not given:
        return
    given.insert(0, (output.get("decision"), output.get("reason")))
    decisions = [decision for decision, _ in given]
    strictest = next((each for each in _STRICTEST_FIRST if each in decisions), None)
    reasons = [reason for decision, reason in given if decision == strictest and reason]
    reasons += [reason for _, reason in given if reason]
    told = {"decision": strictest, "reason": reasons[0] if reasons else None}
    output.update({key: value for key, value in told.items() if value is not None})
