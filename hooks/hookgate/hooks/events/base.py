"""The base classes of events, and of the input and output documents of hooks."""

import marshal
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from types import NoneType
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar, get_args

import orjson
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

from hookgate.hooks.settings.configs import StreamMode
from hookgate.translator import EditError, TranslatorError
from hookgate.translator.fields import JsonObject
from hookgate.translator.strictjson import dumps


class SharedValue:
    """A JSON value that several hooks receive, such as the request in all events of a streamed answer.

    It is serialized, and copied for hooks that may modify it, when this is first needed.
    """

    def __init__(self, value: Any) -> None:
        self.value = value
        """The value itself, which must not be modified."""
        self.returned: dict[object, Any] = {}
        """The copies that hooks have borrowed and returned, by hook. They may have been modified."""

    @cached_property
    def json(self) -> bytes:
        """The value as JSON."""
        return dumps(self.value)


@dataclass(eq=False, slots=True)
class Document:
    """The input document of a hook. It is serialized or copied when a runner needs it."""

    fields: dict[str, Any]
    borrower: object = None
    """The hook that borrows copies of shared values."""
    _json: bytes | None = field(default=None, init=False)
    _value: dict[str, Any] | None = field(default=None, init=False)
    _borrowed: list[tuple[SharedValue, Any]] = field(default_factory=list, init=False)

    @property
    def json(self) -> bytes:
        """The document as one line of JSON."""
        if self._json is None:
            fields = (
                dumps(key) + b":" + (value.json if isinstance(value, SharedValue) else dumps(value))
                for key, value in self.fields.items()
            )
            self._json = b"{" + b",".join(fields) + b"}"
        return self._json

    def value(self) -> dict[str, Any]:
        """Return a copy of the document, which its hook may modify."""
        prepared, self._value = self._value, None
        if prepared is not None:
            return prepared
        copy = dict(self.fields)
        for key, value in self.fields.items():
            if type(value) is SharedValue:
                # Comparing a returned copy is quick, because it shares all strings with the value.
                lent = value.returned.pop(self.borrower, None)
                if lent is None or lent != value.value:
                    lent = _copied_containers(value.value)
                copy[key] = lent
                self._borrowed.append((value, lent))
            elif type(value) is dict or type(value) is list:
                copy[key] = _deep_copy(value)
        return copy

    def return_copies(self) -> None:
        """Return borrowed copies of shared values for the next run of the hook.

        Do not call it after a failure: the function may still be running in its thread.
        """
        for shared, lent in self._borrowed:
            shared.returned[self.borrower] = lent

    def view(self) -> dict[str, Any]:
        """Return the document without copying it. The caller must not modify it."""
        fields = self.fields.items()
        return {key: value.value if type(value) is SharedValue else value for key, value in fields}

    def prepare(self, *, value: bool) -> None:
        """Create the value (if `value` is true) or the JSON in advance, to do so off the event loop."""
        if value:
            self._value = self.value()
        else:
            _ = self.json


def _copied_containers(value: Any) -> Any:
    """Return a copy of a JSON value that shares its strings and other values that cannot be modified."""
    if type(value) is dict:
        return {
            key: _copied_containers(item) if type(item) is dict or type(item) is list else item
            for key, item in value.items()
        }
    if type(value) is list:
        return [
            _copied_containers(item) if type(item) is dict or type(item) is list else item for item in value
        ]
    return value


def _deep_copy(value: Any) -> Any:
    """Return a copy of a JSON value. `marshal` takes a twentieth of the time of a recursion in Python."""
    try:
        return marshal.loads(marshal.dumps(value))  # noqa: S302  # our own
    except ValueError:  # a hook in this process has put an enum or a date into it
        return orjson.loads(dumps(value))


T = TypeVar("T")

Specific = Annotated[T | None, Field(alias="hookSpecificOutput")]
"""The type of the field `hook_specific_output`, given the class of the event's own part."""

Unchecked = Annotated[Any, WithJsonSchema({"type": "object"})]
"""An object that the translator validates, with errors that name the field within it."""


def first(*spellings: T | None) -> T | None:
    """Return the first argument that is not None, or None."""
    return next((value for value in spellings if value is not None), None)


class HookInput(BaseModel):
    """The document that a hook reads: base fields, then the event's own fields.

    Unknown keys are preserved, because newer agents may send more. In Python, an input is a pydantic model;
    its `model_dump(exclude_unset=True)` equals the parsed document, including the order of keys.
    """

    model_config = ConfigDict(strict=True, extra="allow", defer_build=True)

    _keys: tuple[str, ...] = PrivateAttr(())

    session_id: str
    """The session's identifier."""

    transcript_path: str
    """The path of the session's transcript, or an empty string if there is none."""

    cwd: str
    """The agent's working directory if a shim has reported it, otherwise the hook's project folder."""

    hook_event_name: str
    """The event's name."""

    timestamp: str
    """The time of the event: ISO 8601, UTC."""

    operation: str | None = None
    """The API method that the call uses, such as `generateContent`, `countTokens` or `embedContent`. It is
    missing in events that an agent reports."""

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


def _canonical_decision(decision: Any) -> Any:
    return _ALIASES.get(decision, decision) if isinstance(decision, str) else decision


Decision = Literal["allow", "deny", "ask"]

DECISIONS = "allow (or approve), deny (or block) or ask"
"""All decisions in all spellings, for messages."""

DecisionField = Annotated[
    Decision | None,
    BeforeValidator(_canonical_decision),
    WithJsonSchema({"enum": ["allow", "approve", "deny", "block", "ask"]}),
]

DecisionAndReason = tuple[Decision | None, str | None]
"""A decision and its reason."""

_STRICTEST_FIRST: tuple[Decision, ...] = ("deny", "ask", "allow")


def keys_of(model: type[BaseModel]) -> frozenset[str]:
    """Return the keys that documents of a pydantic model may have."""
    return frozenset(field.alias or name for name, field in model.model_fields.items())


class SpecificOutput(BaseModel):
    """The fields of hookSpecificOutput that all events accept."""

    model_config = ConfigDict(strict=True, extra="allow", defer_build=True)

    spellings: ClassVar[dict[str, str]] = {}
    """Alternative spellings of keys, and the canonical spelling of each."""

    hook_event_name: str | None = Field(None, alias="hookEventName")
    """The event's name. It has no effect."""

    permission_decision: DecisionField = Field(None, alias="permissionDecision")
    """Alias of `decision`. If both are given, the stricter one takes precedence."""

    permission_decision_reason: str | None = Field(None, alias="permissionDecisionReason")
    """Alias of `reason`."""

    def decisions(self) -> Iterable[DecisionAndReason]:
        """Return the decisions in the event's own part, with their reasons."""
        return ((self.permission_decision, self.permission_decision_reason),)


def _texts_only(value: Any) -> Any:
    return value if isinstance(value, str) else None


class ContextOutput(SpecificOutput):
    """The fields of events whose hooks can add context for the model."""

    additional_context: Annotated[str | None, BeforeValidator(_texts_only)] = Field(
        None, alias="additionalContext"
    )
    """Text for the model, in which `<` and `>` are escaped. A value that is not a string is ignored."""


class HookOutput(BaseModel):
    """The document that a hook may return. Every key is optional; `null` has the same meaning as no key.

    If a key has the wrong type, the hook fails with an error that names the key. Unknown keys are ignored.
    """

    model_config = ConfigDict(strict=True, extra="allow", defer_build=True)

    decision: DecisionField = None
    """`approve` means `allow`; `block` means `deny`. If hooks disagree, the strictest decision applies."""

    reason: str | None = None
    """The reason for the decision, for the agent."""

    continue_: bool | None = Field(None, alias="continue")
    """`false` stops the agent, regardless of the decision."""

    stop_reason: str | None = Field(None, alias="stopReason")
    """The reason for stopping, for the user. The default is `reason`."""

    system_message: str | None = Field(None, alias="systemMessage")
    """A message for the user or, in a model event, for the gateway's log."""

    suppress_output: bool | None = Field(None, alias="suppressOutput")
    """If true, `systemMessage` is not logged, and not written to transcripts."""

    hook_specific_output: Specific[SpecificOutput] = None
    """The fields that are specific to the event. The event's section lists them."""

    permission_decision: DecisionField = Field(None, alias="permissionDecision")
    """Alias of `decision`. If both are given, the stricter one takes precedence."""

    permission_decision_reason: str | None = Field(None, alias="permissionDecisionReason")
    """Alias of `reason`."""

    @classmethod
    def specific_keys(cls) -> frozenset[str]:
        """Return the keys of hookSpecificOutput that have an effect, in all of their spellings."""
        kinds = get_args(cls.model_fields["hook_specific_output"].annotation)
        return frozenset(key for kind in kinds if kind is not NoneType for key in keys_of(kind))

    def canonical(self) -> JsonObject:
        """Return the document in canonical spelling, with all decisions merged into `decision`."""
        output = self.model_dump(by_alias=True, exclude_none=True)
        further = [(self.permission_decision, self.permission_decision_reason)]
        if (specific := self.hook_specific_output) is not None:
            _rename_keys(output["hookSpecificOutput"], specific.spellings)
            further += specific.decisions()
        _merge_decisions(output, further)
        return output


class AdvisoryOutput(HookOutput):
    """The output of an event that hooks cannot stop: decisions, stops and their reasons are ignored."""

    def canonical(self) -> JsonObject:
        output = self.model_dump(by_alias=True, exclude_none=True)
        return {key: value for key, value in output.items() if key not in _FLOW_CONTROL}


_FLOW_CONTROL = frozenset(
    {"decision", "reason", "continue", "stopReason", "permissionDecision", "permissionDecisionReason"}
)


def _rename_keys(specific: JsonObject, spellings: dict[str, str]) -> None:
    for alternative, key in spellings.items():
        if alternative in specific:
            value = specific.pop(alternative)
            specific.setdefault(key, value)


def _merge_decisions(output: JsonObject, further: Iterable[DecisionAndReason]) -> None:
    """Set the strictest of all decisions, preferably with a reason that came with this decision."""
    given = [pair for pair in further if pair != (None, None)]
    if not given:
        return
    given.insert(0, (output.get("decision"), output.get("reason")))
    decisions = [decision for decision, _ in given]
    strictest = next((decision for decision in _STRICTEST_FIRST if decision in decisions), None)
    reasons = [reason for decision, reason in given if decision == strictest and reason]
    reasons += [reason for _, reason in given if reason]
    merged = {"decision": strictest, "reason": reasons[0] if reasons else None}
    output.update({key: value for key, value in merged.items() if value is not None})


class Event:
    """An event that hooks can react to. Events are immutable, and their methods are pure."""

    name: ClassVar[str]
    stream: StreamMode | None = None
    """If set, the event is about a piece of a streamed answer, and only the hooks of this mode run."""

    def fields(self, view: str) -> JsonObject:
        """Return new input fields for a hook. `view` is the form in which requests are presented."""
        raise NotImplementedError

    def subject_property(self, name: str) -> str | tuple[str, ...]:
        """Return the event's `model`, `tools` or `trigger` for matchers and `when`; empty if it has none."""
        return () if name == "tools" else ""

    def extract_edit(self, specific: JsonObject, view: str) -> JsonObject:
        """Return the part of a hookSpecificOutput that differs from the hook's input.

        Raises EditError if the output is invalid, in its edits or elsewhere.
        """
        return {}

    def edited(self, edit: JsonObject, view: str) -> Self:
        """Return the event with an edit from `extract_edit` applied. Raises TranslatorError."""
        return self

    def takes_long_to_edit(self, edit: JsonObject) -> bool:
        """Return whether to apply an edit may take so long that it must run in a thread."""
        return False

    def edit_warning(self, specific: JsonObject, edit: JsonObject, view: str) -> str:
        """Return a warning if a valid output probably does not do what its author intended, or "".

        `edit` is its edit from `extract_edit`. The warning continues the name of the hook.
        """
        return ""

    def for_next_hook(self, specific: JsonObject) -> Self:
        """Return the event for the next hook of a sequential group, given this hook's output."""
        return self


def object_in(specific: JsonObject, key: str) -> JsonObject:
    """Return the object under `key`, or an empty one if it is missing. Raises EditError for other types."""
    value = specific.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise EditError(key, "an object", value)
    return value


def with_hook_path(key: str, apply: Any, *args: Any) -> Any:
    """Call `apply`, and prefix the path of a TranslatorError with `key`, for the author of the hook."""
    try:
        return apply(*args)
    except TranslatorError as error:
        error.path = f"{key}.{error.path}" if error.path else key
        raise
