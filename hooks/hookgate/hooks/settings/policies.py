"""What is known of each policy that comes with hookgate before it is imported."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class KnownPolicy:
    """A policy."""

    factory: str
    """The function in `hookgate.hooks.policies` that makes it, as `module:function`."""
    events: tuple[str, ...]
    """The events that it judges. Under any other event it would let everything pass, or always fail."""
    view: str = ""
    """The only view that shows what it checks; empty for that of other hooks."""
    stream: str = ""
    """Its stream mode; empty for that of other hooks."""
    reads_text: bool = True
    """Whether it reads the text of answers, and may therefore miss what is split between two events."""
    counts: bool = False
    """Whether it uses `PolicyEnvironment.counters`."""
    pins: bool = False
    """Whether it uses `PolicyEnvironment.pins` if it has the option `pin`."""

    @property
    def defaults(self) -> dict[str, str]:
        """The keys of its hooks whose defaults differ from those of other hooks."""
        return {name: value for name in ("view", "stream") if (value := getattr(self, name))}


_MODEL_AND_TOOLS = ("BeforeModel", "AfterModel", "BeforeTool", "AfterTool")

POLICIES: Mapping[str, KnownPolicy] = MappingProxyType(
    {
        "cassette": KnownPolicy(
            "cassette:cassette_policy", ("BeforeModel", "AfterModel"), view="raw", stream="complete"
        ),
        "flows": KnownPolicy("flows.policy:flows_policy", ("BeforeAgent", "AfterTool", "BeforeTool")),
        "guardrail": KnownPolicy(
            "services.guardrail:guardrail_policy", _MODEL_AND_TOOLS, view="body", stream="window"
        ),
        "injections": KnownPolicy(
            "injections.policy:injections_policy", ("AfterTool", "BeforeModel"), view="raw", stream="event"
        ),
        "limits": KnownPolicy("limits:limits_policy", ("BeforeModel",), counts=True),
        "model_armor": KnownPolicy(
            "services.model_armor:model_armor_policy", _MODEL_AND_TOOLS, view="body", stream="window"
        ),
        "models": KnownPolicy(
            "models:models_policy", ("BeforeModel", "AfterModel"), view="raw", stream="event"
        ),
        "redact": KnownPolicy("redact.policy:redact_policy", _MODEL_AND_TOOLS, view="body", stream="held"),
        "tools": KnownPolicy(
            "tools:tools_policy",
            ("BeforeToolSelection", "BeforeTool", "AfterModel"),
            view="raw",
            stream="event",
            reads_text=False,
            pins=True,
        ),
    }
)
"""The policies, by name."""
