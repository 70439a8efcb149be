"""The Responses API, OpenAI's dialect: shows bodies as those of generateContent, and applies edits to them.

Hooks, policies and the gateway work on GenerateContentRequests and GenerateContentResponses. Each object of a
response is therefore shown as the corresponding object of generateContent, with its other fields in place, so
that it can be converted back after hooks have edited it. Objects that no hook edited are returned unchanged.
"""

from hookgate.translator.responses.answer import decode_response, encode_response, new_response
from hookgate.translator.responses.events import (
    decode_response_event,
    encode_response_event,
    response_sources,
)
from hookgate.translator.responses.framing import ResponseEvents
from hookgate.translator.responses.request import ResponseRequest, held_content

__all__ = [
    "ResponseEvents",
    "ResponseRequest",
    "decode_response",
    "decode_response_event",
    "encode_response",
    "encode_response_event",
    "held_content",
    "new_response",
    "response_sources",
]
