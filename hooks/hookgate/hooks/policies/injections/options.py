"""The options of the policy `injections`."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from hookgate.hooks.policies.injections.rules import KINDS
from hookgate.hooks.policies.injections.spotlight import Way
from hookgate.hooks.policies.options import Options

Action = Literal["deny", "mark", "observe"]
_STRICTEST_FIRST: tuple[Action, ...] = ("deny", "mark")


def _known(kind: str) -> str:
    if not any(fnmatchcase(name, kind) for name in KINDS):
        raise PydanticCustomError(
            "kind", "is no kind of findings; known are {known}", {"known": ", ".join(KINDS)}
        )
    return kind


class InjectionsOptions(Options):
    """The options of the policy `injections`. As a BeforeModel hook it needs only `spotlight`."""

    actions: Mapping[Annotated[str, AfterValidator(_known)], Action] = Field(default={}, strict=False)
    """What findings do, by their kinds, with wildcards: `deny` withholds the result, `mark` adds a note for
    the model, `observe` only counts. The first match applies; default: `mark`."""

    threshold: int = Field(default=2, ge=1)
    """The points from which something is done. Findings that are only observed have none."""

    spotlight: Way | None = None
    """How results are marked as data: `delimit` encloses their texts in marks that nobody can guess,
    `datamark` also puts a sign between their words. Default: not at all."""

    reason: str = ""
    """The text of the note, and the reason for a denial."""

    def action_on(self, kind: str) -> Action:
        """Return what a finding of a kind does."""
        return next((action for names, action in self.actions.items() if fnmatchcase(kind, names)), "mark")

    def acts_on(self, kind: str) -> bool:
        """Return whether a finding of a kind does more than count."""
        return self.action_on(kind) != "observe"

    def strictest_action(self, kinds: Mapping[str, int]) -> Action:
        """Return the strictest action of some kinds."""
        actions = {self.action_on(kind) for kind in kinds}
        return next((action for action in _STRICTEST_FIRST if action in actions), "observe")
