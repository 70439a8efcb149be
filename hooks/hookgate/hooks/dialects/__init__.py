"""The dialects in which agents post the events of their own hooks, and read the answers."""

from collections.abc import Mapping
from types import MappingProxyType

from hookgate.hooks.dialects.antigravity import ANTIGRAVITY
from hookgate.hooks.dialects.claude_code import CLAUDE_CODE
from hookgate.hooks.dialects.codex import CODEX
from hookgate.hooks.dialects.copilot import COPILOT
from hookgate.hooks.dialects.cursor import CURSOR
from hookgate.hooks.dialects.dialect import AgentAnswer, Dialect, EventRow

DIALECTS: Mapping[str, Dialect] = MappingProxyType(
    {dialect.name: dialect for dialect in (CLAUDE_CODE, CODEX, CURSOR, COPILOT, ANTIGRAVITY)}
)
"""All dialects, by the names of their agents."""

__all__ = ["DIALECTS", "AgentAnswer", "Dialect", "EventRow"]
