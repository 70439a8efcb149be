"""What the engine needs to know of an event."""

from typing import Any, ClassVar, Self

from hookgate.hooks.settings.matching import Subject
from hookgate.translator import EditError, TranslatorError
from hookgate.translator.fields import JsonObject


class Event:
    """Something that hooks are asked about. Immutable; everything here is pure."""

    name: ClassVar[str]

    def fields(self, view: str) -> JsonObject:
        """The input fields of this event, built anew for each caller; `view` names how requests are shown."""
        raise NotImplementedError

    def subject(self) -> Subject:
        """What the event is about: what matchers and `when` look at, as far as the event itself knows it."""
        return Subject()

    def changed(self, specific: JsonObject, view: str) -> JsonObject:
        """The part of a hookSpecificOutput that edits what the hook was shown; an echo edits nothing.

        Raises EditError when something in the output, edit or not, is not what it should be.
        """
        return {}

    def edited(self, edit: JsonObject, view: str) -> Self:
        """The event with an edit that `changed` gave applied. Raises TranslatorError."""
        return self

    def sequel(self, specific: JsonObject) -> Self:
        """The event as the next hook of a sequential group is shown it, besides edits."""
        return self


def object_in(specific: JsonObject, key: str) -> JsonObject:
    """The object under `key`, empty when there is none. Raises EditError for anything else."""
    value = specific.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise EditError(key, "an object", value)
    return value


def named(key: str, apply: Any, *args: Any) -> Any:
    """Apply, with the path of an error told from the hook's side of things."""
    try:
        return apply(*args)
    except TranslatorError as error:
        error.path = f"{key}.{error.path}" if error.path else key
        raise
