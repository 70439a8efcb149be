"""Chat completions, OpenAI's dialect: shows bodies as those of generateContent, and applies edits to them.

Hooks, policies and the gateway work on GenerateContentRequests and GenerateContentResponses. Each object of
a chat completion is therefore shown as the corresponding object of generateContent, with its other fields in
place, so that it can be converted back after hooks have edited it. Objects that no hook edited are
returned unchanged.
"""

from hookgate.translator.chat.answer import (
    completion_sources,
    decode_completion,
    encode_completion,
    new_completion,
)
from hookgate.translator.chat.framing import CompletionChunks
from hookgate.translator.chat.request import ChatRequest, with_usage

__all__ = [
    "ChatRequest",
    "CompletionChunks",
    "completion_sources",
    "decode_completion",
    "encode_completion",
    "new_completion",
    "with_usage",
]
