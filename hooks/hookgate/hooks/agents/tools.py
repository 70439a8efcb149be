"""The tools of agents by the names of Gemini CLI's, so that one policy holds for the tools of all agents."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hookgate.translator.fields import JsonObject
from hookgate.translator.openai.calls import check_argument_values
from hookgate.translator.strictjson import dumps, loads

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class AgentTool:
    """A tool: its name in Gemini CLI, and the names of its arguments there, by the agent's."""

    name: str
    arguments: Mapping[str, str]


class Tools:
    """The tools of one agent, by its names for them. Other tools keep their names and arguments."""

    def __init__(self, tools: Mapping[str, AgentTool | str], mcp: tuple[str, str] = ("mcp__", "__")) -> None:
        """`mcp` is how names of MCP servers' tools begin, and what stands between server and tool."""
        self._tools = {
            name: AgentTool(tool, {}) if isinstance(tool, str) else tool for name, tool in tools.items()
        }
        self._mcp, self._separator = mcp

    def name(self, name: str) -> str:
        """Return the name of a tool in Gemini CLI: `Bash` is `run_shell_command`, for example."""
        if tool := self._tools.get(name):
            return tool.name
        if name.startswith(self._mcp):
            return f"mcp_{name.removeprefix(self._mcp).replace(self._separator, '_', 1)}"
        return name

    def read(self, name: Any, arguments: Any) -> Json:
        """Return `tool_name` and `tool_input` of a call. Raises ValueError if it cannot be read.

        Some agents send the arguments as a JSON text.
        """
        if not isinstance(name, str) or not name:
            raise ValueError("the input has no tool name")
        sent = as_object(arguments)
        if sent is None:
            raise ValueError(f"the arguments of the tool {name[:64]!r} are not a JSON object")
        names = self._arguments(name)
        if both := [key for key, renamed in names.items() if key in sent and renamed in sent]:
            # Hooks would see one of them, and the tool would use the other.
            raise ValueError(f"the tool {name[:64]!r} has the arguments {both[0]!r} and {names[both[0]]!r}")
        spelled = {key.lower(): key for key in (*names.values(), *names)}
        if other := [key for key in sent if spelled.get(key.lower(), key) not in (key, names.get(key))]:
            # An agent whose parser ignores case would use it.
            meant = spelled[other[0].lower()]
            raise ValueError(f"the tool {name[:64]!r} has the argument {other[0]!r}; write {meant!r}")
        return {
            "tool_name": self.name(name),
            "tool_input": {names.get(key, key): value for key, value in sent.items()},
        }

    def agent_arguments(self, name: Any, arguments: Json) -> Json:
        """Return arguments of Gemini CLI's tool as those of the agent's."""
        names = {renamed: key for key, renamed in self._arguments(str(name)).items()}
        return {names.get(key, key): value for key, value in arguments.items()}

    def _arguments(self, name: str) -> Mapping[str, str]:
        tool = self._tools.get(name)
        return tool.arguments if tool else {}


def as_object(value: Any) -> JsonObject | None:
    """Return an object, also one that is a JSON text; empty for null. Returns None for anything else.

    Raises TooLargeError, a ValueError, for a text with too many values.
    """
    if isinstance(value, str):
        check_argument_values([value], "arguments")
        try:
            value = loads(value.encode())
        except ValueError:
            return None
    if value is None:
        return {}
    return value if isinstance(value, dict) else None


def failed_result(error: str) -> Json:
    """Return the result of a tool that has failed."""
    return {"llmContent": error, "error": error}


def result_text(result: Json) -> str:
    """Return the text of a result for the model, as JSON if it is not a text."""
    content = result.get("llmContent", "")
    return content if isinstance(content, str) else dumps(content).decode()
