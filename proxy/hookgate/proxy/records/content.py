"""What was said in one call, kept as it passes where the audit wants it."""

from dataclasses import dataclass, field

from hookgate.hooks import Run
from hookgate.proxy.routes import Route
from hookgate.translator.fields import JsonObject

MOST_BYTES = 64 * 1024 * 1024
"""Of an answer; nothing is kept of one that is larger."""

MOST_EDITS = 200
"""Of one call: a hook that edits each event of a stream may make thousands."""


@dataclass(slots=True)
class Kept:
    """The bytes of one answer."""

    data: bytearray = field(default_factory=bytearray)
    too_large: bool = False

    def add(self, chunk: bytes) -> None:
        """The next bytes."""
        if len(self.data) + len(chunk) > MOST_BYTES:
            self.data, self.too_large = bytearray(), True
        if not self.too_large:
            self.data += chunk


@dataclass(slots=True)
class Content:
    """The bodies of one call, and what hooks changed in them."""

    route: Route
    request: JsonObject | None = None
    """As the client sent it; of an event its input."""
    sent: JsonObject | None = None
    """As it went upstream; of an event what its shim was told."""
    answer: Kept = field(default_factory=Kept)
    """As the upstream gave it, the last time it was asked."""
    given: Kept = field(default_factory=Kept)
    """As the client got it."""
    edits: list[JsonObject] = field(default_factory=list)

    def note_run(self, event: str, run: Run) -> None:
        """A hook has run."""
        if run.edit and len(self.edits) < MOST_EDITS:
            hook = run.hook
            told = {"event": event, "hook": hook.name, "mode": hook.config.mode, "edit": run.edit}
            self.edits.append(told)
