"""The dialects of the APIs: how to read and write their requests, answers and streams. It does no I/O.

A dialect shows its bodies as those of generateContent, on which hooks and the gateway work. A further one
needs a package of the translator that converts its bodies in both directions, a class here, and rows in the
table of routes that name it.
"""

from collections.abc import Callable, Mapping

from hookgate.proxy.routing.dialects.chat import ChatCompletions
from hookgate.proxy.routing.dialects.code_assist import CodeAssist
from hookgate.proxy.routing.dialects.envelope import Envelope
from hookgate.proxy.routing.dialects.generate_content import Bare
from hookgate.proxy.routing.dialects.interactions import Interactions
from hookgate.proxy.routing.dialects.responses import Responses
from hookgate.proxy.routing.table import Dialect

ENVELOPES: Mapping[Dialect, Callable[[], Envelope]] = {
    "generate_content": Bare,
    "code_assist": CodeAssist,
    "interactions": Interactions,
    "chat": ChatCompletions,
    "responses": Responses,
}
"""Makes the envelope of one call, by its dialect."""
