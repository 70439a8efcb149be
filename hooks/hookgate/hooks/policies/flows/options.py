"""The options of the policy `flows`."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from hookgate.hooks.policies.conditions import ConditionFinding, Conditions, PlaceOrAll, check_all
from hookgate.hooks.policies.flows.words import addresses_in
from hookgate.hooks.policies.hosts import host_of, is_allowed
from hookgate.hooks.policies.options import Globs, Names, Options, is_named
from hookgate.translator.fields import strings_in


def _label(value: str) -> str:
    if not (value.isascii() and value.replace("-", "a").replace("_", "a").isalnum()):
        raise PydanticCustomError("label", "must consist of letters, digits, - and _")
    return value


Label = Annotated[str, AfterValidator(_label)]
"""The name of a label or of a group of sinks."""


class ToolUse(Options):
    """Which calls are meant. All keys that are set must match."""

    tool: Names
    """Names of tools, with wildcards. Case is ignored."""

    when: Conditions = Field(default={}, strict=False)
    """Conditions on the arguments, by JSON Pointer, as in the policy `tools`."""

    except_hosts: Globs = ()
    """Calls whose addresses are all URLs of these hosts, with wildcards, are not meant; those without are."""

    def check(self, name: str, arguments: Any) -> ConditionFinding:
        """Return whether a call is meant."""
        if not is_named(self.tool, name):
            return ConditionFinding(False)
        if self.except_hosts:
            hosts = [host_of(address) for text in strings_in(arguments) for address in addresses_in(text)]
            if hosts and all(is_allowed(host, self.except_hosts) for host in hosts):
                return ConditionFinding(False)
        return check_all(self.when, arguments)


class Trusted(ToolUse):
    """Tools whose results are as good as the user's own words."""

    fields: Names | None = None
    """Names of fields, with wildcards: only the values of these are trusted. Default: the whole result."""


class Source(ToolUse):
    """Tools whose results get a label."""

    fields: Names = ()
    """Names of fields whose whole values are data of the tool, and may be targets. Default: none.
    `items` is the name for the items of a result that is a list."""

    asked: bool = False
    """Whether addresses in a result are given if the user wrote all arguments, such as the URL of a page.
    Those that its text asks to act on are not."""

    pieces: bool = False
    """Whether to note pieces of the results, for rules with `carrying`."""


class Sink(ToolUse):
    """Tools that send or change something."""

    targets: tuple[PlaceOrAll, ...] = Field(default=(), strict=False)
    """The arguments that choose whom or what the call affects, by JSON Pointer."""

    texts: tuple[PlaceOrAll, ...] = Field(default=(), strict=False)
    """Arguments whose addresses, URLs and account numbers are targets. Without `targets` and `texts`, those
    of all arguments are."""

    named: tuple[PlaceOrAll, ...] = Field(default=(), strict=False)
    """Arguments that are targets for `ordered_by` only, such as a title."""


class FlowRule(Options):
    """A rule about the calls of a group of sinks. It applies if all conditions that are set hold."""

    to: Label
    """The group of sinks."""

    after: Label | None = None
    """A result with this label came earlier in the session."""

    within: Literal["turn"] | None = None
    """With `after`: since the user's last words."""

    carrying: Label | None = None
    """An argument contains a piece of a result with this label: 23 letters and digits in a row, a code, or a
    short text. Case, spaces and punctuation do not count; base64, hex, percent signs and reversed texts are
    read."""

    chosen_by: Label | None = None
    """A target was given neither by the user, a trusted tool nor a field, after a result with this label."""

    ordered_by: Label | None = None
    """A text with this label names a target, which the user did not write, near words for the action."""

    unless_asked: bool = False
    """Whether the rule does not apply if the user speaks of such an action, such as of a page to visit."""

    then: Literal["deny", "ask", "observe"] = "deny"
    """What happens to the call. `observe` only counts it as a finding. With `ask`, the agent's user decides
    or, about calls that the gateway derives, a person with approvals; without these, the tool then runs."""

    reason: str = ""
    """The reason that is given to the model and the user; a sentence about the target is added."""

    @model_validator(mode="after")
    def _check_conditions(self) -> Self:
        if self.within and not self.after:
            raise PydanticCustomError("within", "within needs after, the label of the results that it limits")
        return self

    @property
    def name(self) -> str:
        """The name under which calls to which the rule applies are counted, such as `after mail to send`."""
        conditions = ("after", "carrying", "chosen_by", "ordered_by")
        named = [f"{each} {getattr(self, each)}" for each in conditions if getattr(self, each)]
        return " ".join([*named, f"to {self.to}"])

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels on which the rule depends."""
        return tuple(label for label in (self.after, self.carrying, self.chosen_by, self.ordered_by) if label)

    @property
    def needs_user(self) -> bool:
        """Whether the rule depends on what the user says."""
        return bool(self.chosen_by or self.ordered_by or self.within or self.unless_asked)


class FlowsOptions(Options):
    """The options of the policy `flows`. A BeforeAgent hook needs none."""

    sources: Mapping[Label, Annotated[tuple[Source, ...], Field(strict=False)]] = Field(
        default={}, strict=False
    )
    """For AfterTool: tools whose results get a label, by the label."""

    trusted: tuple[Trusted, ...] = Field(default=(), strict=False)
    """For AfterTool: tools whose results are as good as the user's own words, such as a list of contacts."""

    sinks: Mapping[Label, Annotated[tuple[Sink, ...], Field(strict=False)]] = Field(default={}, strict=False)
    """For BeforeTool: tools that send or change something, in groups."""

    rules: tuple[FlowRule, ...] = Field(default=(), strict=False)
    """For BeforeTool: which calls of sinks are not made. The first rule that applies and denies decides."""

    @model_validator(mode="after")
    def _check_sinks(self) -> Self:
        for rule in self.rules:
            if rule.to not in self.sinks:
                known = ", ".join(sorted(self.sinks)) or "none"
                raise PydanticCustomError(
                    "sink",
                    "the rule's sinks {name} are not among sinks: {known}",
                    {"name": repr(rule.to), "known": known},
                )
        return self
