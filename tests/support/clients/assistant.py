"""A pretend assistant: an agent with the hooks of examples/assistant, and the events of two sessions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.places import EXAMPLES

from hookgate.hooks import (
    AfterAgent,
    AfterModel,
    AfterTool,
    BeforeAgent,
    BeforeModel,
    BeforeTool,
    BeforeToolSelection,
    Engine,
    Event,
    Notification,
    Outcome,
    PreCompress,
    SessionContext,
    SessionEnd,
    SessionStart,
)
from hookgate.hooks.events.base import SharedValue
from hookgate.hooks.settings import Configuration, load_sources, project_sources

Json = dict[str, Any]
Outcomes = dict[str, Outcome[Any]]

EXAMPLE = EXAMPLES / "assistant"
MODEL = "gemini-2.5-flash"
ADDRESS = "jo@example.com"
PROMPT = "Find where the total is rounded, fix it and run the tests."

TOOLS = (
    "read_file",
    "glob",
    "search_file_content",
    "write_file",
    "replace",
    "run_shell_command",
    "web_fetch",
)
CALL = {"functionCall": {"name": "glob", "args": {"pattern": "*"}}, "thoughtSignature": "c2ln"}
REQUEST: Json = {
    "systemInstruction": {"parts": [{"text": "You write code."}]},
    "contents": [{"role": "user", "parts": [{"text": PROMPT}]}],
    "tools": [{"functionDeclarations": [{"name": name} for name in TOOLS]}],
    "generationConfig": {"temperature": 1.0, "maxOutputTokens": 2000},
}
RESULT = {"functionResponse": {"name": "glob", "response": {"output": "total.py"}}}
LATER_REQUEST: Json = {
    **REQUEST,
    "contents": [
        *REQUEST["contents"],
        {"role": "model", "parts": [CALL]},
        {"role": "user", "parts": [RESULT, {"text": f"Go on. {PROMPT}"}]},
    ],
}


def answer(*parts: Json, **candidate: Any) -> AfterModel:
    content = {"role": "model", "parts": list(parts)}
    return AfterModel(
        SharedValue({"model": MODEL}), {"candidates": [{"content": content, **candidate}]}, MODEL
    )


def writes(content: str) -> BeforeTool:
    return BeforeTool("write_file", {"file_path": "total.py", "content": content})


def wrote(content: str) -> AfterTool:
    return AfterTool("write_file", {"file_path": "total.py", "content": content}, {"llmContent": "written"})


def shell(command: str) -> BeforeTool:
    return BeforeTool("run_shell_command", {"command": command, "description": "as asked"})


MONDAY: dict[str, Event] = {
    "the first start": SessionStart("startup"),
    "the prompt": BeforeAgent(PROMPT),
    "the request": BeforeModel(MODEL, REQUEST),
    "the choice of tools": BeforeToolSelection(MODEL, REQUEST),
    "a call": answer({"text": "I look. ", "thought": True}, CALL, finishReason="STOP"),
    "the next choice": BeforeToolSelection(MODEL, LATER_REQUEST),
    "a secret": writes("key = 'AKIA" + "A" * 16),
    "a secret edit": BeforeTool("replace", {"file_path": "a.py", "new_string": 'token = "0123456789"'}),
    "a file": writes("def total(:"),
    "the broken file": wrote("def total(:\n"),
    "the sound file": wrote("total = round\n"),
    "a removal": shell("cd build && rm -fr cache && ls /tmp"),
    "a removal elsewhere": shell("rm -r --force '/srv/data'"),
    "a command": shell("ls -r rm /srv"),
    "a piece": answer({"text": "Fixed.\n**Decision:** Totals are rounded to <even>"}),
    "the answer": answer({"text": f" cents.\nAsk {ADDRESS}."}, finishReason="STOP", index=0),
    "the untested end": AfterAgent(PROMPT, "Fixed."),
    "the second try's end": AfterAgent(PROMPT, "Fixed.", stop_hook_active=True),
    "the tested end": AfterAgent(PROMPT, "Fixed. All 12 tests pass."),
    "the compression": PreCompress("auto", 90_000, 100_000),
    "a later answer": answer({"text": "Decision: Prices stay integers."}, finishReason="STOP"),
    "a question": Notification("ToolPermission", "May\nit?", {"type": "exec"}),
    "the end": SessionEnd("exit"),
}
"""A session that decides something; its steps in their order, each by the name that the tests use."""

TUESDAY: dict[str, Event] = {
    "the second start": SessionStart("startup"),
    "a prompt on prices": BeforeAgent("How is a price kept?"),
    "the second end": SessionEnd("exit"),
}


# ---- the one that takes part in them


@dataclass
class Assistant:
    """The agent, in a copy of the example; it keeps what came of each step."""

    project: Path
    home: Path
    outcomes: Outcomes = field(default_factory=dict)
    recorded: str = ""
    """The record of the first session's answers, as it was before they were consolidated."""

    def configuration(self) -> Configuration:
        return load_sources(project_sources(self.project, self.home, self.home / "etc"))

    def state(self) -> dict[str, str]:
        """The files of the state folder, by their names in it."""
        folder = self.project / ".assistant"
        return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.*")}

    async def take_part(self, session_id: str, steps: Mapping[str, Event]) -> None:
        """One session, with an engine of its own: nothing but files leads from one to the next."""
        engine = Engine(self.configuration())
        try:
            for label, event in steps.items():
                self._happens(event)
                self.outcomes[label] = await engine.fire(event, SessionContext(session_id))
        finally:
            await engine.close()

    def _happens(self, event: Event) -> None:
        """What an event tells of: a tool has written its file, or a record is about to be consolidated."""
        if isinstance(event, AfterTool):
            (self.project / event.tool_input["file_path"]).write_text(event.tool_input["content"])
        if isinstance(event, PreCompress):
            self.recorded = self.state().get("answers/---monday.jsonl", "")
