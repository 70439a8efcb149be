"""Laws of all dialects, for any input: nothing fails, and nothing that hooks deny is lost."""

import json
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.bodies.jsontext import json_values

from hookgate.hooks.agents import AGENT_DIALECTS, antigravity, copilot, cursor
from hookgate.hooks.agents.tools import Tools

Json = dict[str, Any]
KEYS = [
    *(
        "session_id",
        "sessionId",
        "conversationId",
        "conversation_id",
        "cwd",
        "workspace_roots",
        "workspacePaths",
    ),
    *("tool_name", "toolName", "tool_input", "toolArgs", "toolCall", "name", "args", "command", "file_path"),
    *("tool_response", "toolResult", "textResultForLlm", "tool_output", "content", "error", "prompt"),
    *("last_assistant_message", "stop_hook_active", "source", "trigger", "invocationNum", "hook_event_name"),
]
NAMES = st.sampled_from(
    ["Bash", "run_command", "bash", "view", "MCP:a:b", "mcp__a__b", "Shell", "{}", '{"a": 1}']
)
INPUTS = st.dictionaries(
    st.sampled_from(KEYS),
    NAMES | json_values | st.dictionaries(st.sampled_from(KEYS), NAMES | json_values, max_size=4),
    max_size=8,
)
DIALECTS: Iterable[Any] = AGENT_DIALECTS.values()
ROWS = [(dialect, name) for dialect in DIALECTS for name in dialect.rows]
MORE = settings(max_examples=settings().max_examples * 3)
"""Each example, which takes long to draw, is tried with all rows."""

OUTPUTS = st.fixed_dictionaries(
    {},
    optional={
        "decision": st.sampled_from(["allow", "ask", "deny"]),
        "reason": st.text(max_size=5),
        "continue": st.booleans(),
        "stopReason": st.text(max_size=5),
        "systemMessage": st.text(max_size=5),
        "suppressOutput": st.booleans(),
        "hookSpecificOutput": st.fixed_dictionaries(
            {},
            optional={
                "tool_input": st.dictionaries(st.sampled_from(KEYS), json_values, max_size=3),
                "tool_result": st.dictionaries(st.just("llmContent"), json_values, max_size=1),
                "additionalContext": st.text(max_size=5),
            },
        ),
    },
)


@MORE
@given(document=INPUTS)
def test_any_input_is_read_or_refused(document: Json) -> None:
    for dialect, name in ROWS:
        with suppress(ValueError):
            read = dialect.read(name, document)
            texts = [read[key] for key in ("session_id", "transcript_path", "cwd")]
            assert all(isinstance(text, str) for text in texts), (dialect.name, name)


@MORE
@given(document=INPUTS, output=OUTPUTS)
def test_denial_and_stop_are_in_every_answer_or_named(document: Json, output: Json) -> None:
    denies, stops = output.get("decision") == "deny", output.get("continue") is False
    for dialect, name in ROWS:
        answer = dialect.answer(name, document, output)
        json.dumps(answer.document)
        if denies or stops:
            named = {"the denial", "the stop"} & {*answer.not_applied}
            changed = answer.document != dialect.answer(name, document, {}).document
            ends_anyway = stops and dialect.rows[name].event == "AfterAgent"
            assert named or changed or ends_anyway, (dialect.name, name)


@pytest.mark.parametrize(
    "tools", [antigravity.TOOLS, cursor._TOOLS, copilot._TOOLS], ids=["antigravity", "cursor", "copilot"]
)
@given(data=st.data())
def test_arguments_come_back_under_their_own_names(tools: Tools, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(tools._tools)))
    keys = [key for pair in tools._arguments(name).items() for key in pair]
    arguments = data.draw(st.dictionaries(st.sampled_from([*keys, "other"]), json_values, max_size=4))
    own = {renamed: key for key, renamed in tools._arguments(name).items()}
    with suppress(ValueError):  # if both names of an argument are given
        read = tools.read(name, arguments)["tool_input"]
        assert tools.agent_arguments(name, read) == {
            own.get(key, key): value for key, value in arguments.items()
        }
