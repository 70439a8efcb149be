"""The dialects in which agents post the events of their own hooks, and read the answers."""

from collections.abc import Mapping
from types import MappingProxyType

from hookgate.hooks.agents.antigravity import ANTIGRAVITY
from hookgate.hooks.agents.claude_code import CLAUDE_CODE
from hookgate.hooks.agents.codex import CODEX
from hookgate.hooks.agents.copilot import COPILOT
from hookgate.hooks.agents.cursor import CURSOR
from hookgate.hooks.agents.dialect import AgentAnswer, AgentDialect, EventRow

AGENT_DIALECTS: Mapping[str, AgentDialect] = MappingProxyType(
    {dialect.name: dialect for dialect in (CLAUDE_CODE, CODEX, CURSOR, COPILOT, ANTIGRAVITY)}
)
"""All dialects, by the names of their agents."""

__all__ = ["AGENT_DIALECTS", "AgentAnswer", "AgentDialect", "EventRow"]
