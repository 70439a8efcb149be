"""Finds answers that Google's SDKs continue by themselves, by a further request with a token."""

from hookgate.translator.fields import JsonObject, read, read_list

_REASON, _STATUS = "CONTINUATION", "requires_continuation"
_COMPLETED = "interaction.completed"


class Continuation:
    """Notes the events of one answer, or a whole one, in which SDKs look for a token to continue with.

    They forget a token only if the answer ends without one. Some read reasons in small letters, too, take an
    empty one for none, and look at the first candidate of an event, whatever its index.
    """

    def __init__(self) -> None:
        self._is_announced = self._has_token = False

    @property
    def is_expected(self) -> bool:
        """Whether clients may join the next answer to this one."""
        return self._is_announced or self._has_token

    def note(self, body: JsonObject) -> None:
        """Note an event, or events of an interaction that were joined, or a whole answer."""
        for position, candidate in enumerate(read_list(body, "candidates")):
            reason = str(read(candidate, "finishReason") or "").upper()
            self._is_announced = self._is_announced or reason == _REASON
            if position == 0 and reason:
                self._has_token = False
            self._note_token(candidate)
        for event in (body, *read_list(body, "events")):
            self._note_interaction(event)

    def _note_interaction(self, event: JsonObject) -> None:
        interaction = event.get("interaction")
        holders = (interaction, event) if isinstance(interaction, dict) else (event,)
        if len(holders) > 1 and event.get("event_type") == _COMPLETED:
            self._has_token = False
        for holder in holders:
            self._is_announced = self._is_announced or holder.get("status") == _STATUS
            self._note_token(holder)

    def _note_token(self, holder: JsonObject) -> None:
        self._has_token = self._has_token or bool(read(holder, "continuationToken"))
