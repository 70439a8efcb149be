"""The Interactions API: shows its bodies as those of generateContent, and applies edits of these to them.

Hooks, policies and the gateway work on GenerateContentRequests and GenerateContentResponses. Each object of
an interaction is therefore shown as the corresponding object of generateContent, with its other fields in
place, so that it can be converted back after hooks have edited it. Objects that no hook edited are
returned unchanged.
"""

from hookgate.translator.interactions.answer import (
    check_steps_of_user,
    decode_interaction,
    encode_interaction,
    has_ended,
    new_interaction,
    without_unfinished,
)
from hookgate.translator.interactions.contents import check_names
from hookgate.translator.interactions.events import InteractionSources, decode_event, encode_event
from hookgate.translator.interactions.framing import InteractionEvents, first_event
from hookgate.translator.interactions.request import InteractionRequest

__all__ = [
    "InteractionEvents",
    "InteractionRequest",
    "InteractionSources",
    "check_names",
    "check_steps_of_user",
    "decode_event",
    "decode_interaction",
    "encode_event",
    "encode_interaction",
    "first_event",
    "has_ended",
    "new_interaction",
    "without_unfinished",
]
