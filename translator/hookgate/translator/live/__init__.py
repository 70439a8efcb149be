"""Messages of the Live API, by which a client and a model talk over a WebSocket.

Each message of a client is shown to hooks as a request, and each kind of content in the messages of a server
as a candidate of a response. Hooks would not see messages and fields of other kinds: they are refused from a
client, and removed from a server's messages.
"""

from hookgate.translator.live.client import (
    ClientMessage,
    blocked_calls,
    one_turn,
    with_transcriptions,
)
from hookgate.translator.live.sent import ClientText, ModelTurn
from hookgate.translator.live.server import Segment, ServerMessage

__all__ = [
    "ClientMessage",
    "ClientText",
    "ModelTurn",
    "Segment",
    "ServerMessage",
    "blocked_calls",
    "one_turn",
    "with_transcriptions",
]
