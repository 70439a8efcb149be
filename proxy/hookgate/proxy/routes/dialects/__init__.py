"""The dialects of the APIs: how to read and write their requests, answers and streams. It does no I/O.

An adapter shows the bodies of its dialect as those of generateContent, on which hooks and the gateway work.
A further dialect needs a package of the translator that converts its bodies in both directions, an adapter
here, and rows in the table of routes that name it.
"""

from collections.abc import Callable, Mapping

from hookgate.proxy.routes.dialects.adapter import DialectAdapter
from hookgate.proxy.routes.dialects.generate_content import CodeAssist, GenerateContent
from hookgate.proxy.routes.dialects.interactions import Interactions
from hookgate.proxy.routes.dialects.openai import ChatCompletions, Responses
from hookgate.proxy.routes.table import Dialect

ADAPTERS: Mapping[Dialect, Callable[[], DialectAdapter]] = {
    "generate_content": GenerateContent,
    "code_assist": CodeAssist,
    "interactions": Interactions,
    "chat": ChatCompletions,
    "responses": Responses,
}
"""Creates the adapter for one call, by dialect."""
