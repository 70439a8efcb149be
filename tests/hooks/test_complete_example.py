"""examples/assistant in two sessions, as an agent fires their events: what a user of it relies on."""

import asyncio
import json
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from support.node import need_node

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
    Session,
    SessionEnd,
    SessionStart,
    Verdict,
)
from hookgate.hooks.document import Encoded
from hookgate.hooks.settings import EVENTS, Configuration, load_places, project_places
from hookgate.translator import apply_tool_config

Json = dict[str, Any]

EXAMPLE = Path(__file__).parents[2] / "examples" / "assistant"
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
    return AfterModel(Encoded({"model": MODEL}), {"candidates": [{"content": content, **candidate}]}, MODEL)


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


# ---- a project in which both sessions took place


@dataclass
class Workspace:
    """The example in a folder of its own, and what came of each step there."""

    project: Path
    home: Path
    outcomes: dict[str, Outcome[Any]] = field(default_factory=dict)
    recorded: str = ""
    """The record of the first session's answers, as it was before they were consolidated."""

    def configuration(self) -> Configuration:
        return load_places(project_places(self.project, self.home, self.home / "etc"))

    def state(self) -> dict[str, str]:
        """The files of the state folder, by their names in it."""
        folder = self.project / ".assistant"
        return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.*")}

    async def take_place(self, session_id: str, steps: Mapping[str, Event]) -> None:
        """One session, with an engine of its own: nothing but files leads from one to the next."""
        engine = Engine(self.configuration())
        try:
            for label, event in steps.items():
                self._happens(event)
                self.outcomes[label] = await engine.fire(event, Session(session_id))
        finally:
            await engine.close()

    def _happens(self, event: Event) -> None:
        """What an event tells of: a tool has written its file, or a record is about to be consolidated."""
        if isinstance(event, AfterTool):
            (self.project / event.tool_input["file_path"]).write_text(event.tool_input["content"])
        if isinstance(event, PreCompress):
            self.recorded = self.state().get("answers/---monday.jsonl", "")


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    folder = tmp_path_factory.mktemp("people")
    project = folder / "my project"  # a path that a shell would split
    shutil.copytree(EXAMPLE, project)
    workspace = Workspace(project, folder / "home")
    with pytest.MonkeyPatch.context() as patch:
        # The python3 that runs the tests, not one that a version manager looks up for every start.
        patch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
        patch.delenv("GEMINI_CLI_SYSTEM_SETTINGS_PATH", raising=False)
        asyncio.run(workspace.take_place("../monday", MONDAY))
        asyncio.run(workspace.take_place("tuesday", TUESDAY))
    return workspace


@pytest.fixture
def outcomes(workspace: Workspace) -> dict[str, Outcome[Any]]:
    return workspace.outcomes


# ---- the folder itself


def test_each_of_the_eleven_events_has_a_hook_and_is_fired(workspace: Workspace) -> None:
    assert set(workspace.configuration().groups) == set(EVENTS)
    assert {outcome.event.name for outcome in workspace.outcomes.values()} == set(EVENTS)


def test_every_script_is_a_hook_s_and_every_hook_s_script_is_there(workspace: Workspace) -> None:
    targets = [hook.target for hook in workspace.configuration().hooks()]
    named = {match for target in targets for match in re.findall(r"\$GEMINI_PROJECT_DIR/hooks/(\S+)", target)}
    assert named == {path.name for path in (EXAMPLE / "hooks").iterdir()}


def test_no_hook_fails_and_each_one_runs(workspace: Workspace) -> None:
    need_node(packages=False)
    runs = [run for outcome in workspace.outcomes.values() for run in outcome.runs]
    assert [(run.hook.name, run.error) for run in runs if run.error] == []
    assert {run.hook.name for run in runs} == {hook.name for hook in workspace.configuration().hooks()}


def test_what_the_hooks_keep_is_in_the_folder_that_git_ignores(workspace: Workspace) -> None:
    [ignored] = (EXAMPLE / ".gitignore").read_text().split()
    before = {path.relative_to(EXAMPLE) for path in EXAMPLE.rglob("*")} | {Path("total.py")}
    after = {path.relative_to(workspace.project) for path in workspace.project.rglob("*")}
    assert {path.parts[0] + "/" for path in after - before} == {ignored}


# ---- before the model


def test_the_first_session_has_nothing_to_remember(outcomes: dict[str, Outcome[Any]]) -> None:
    assert outcomes["the first start"].verdict == Verdict()
    assert outcomes["the prompt"].verdict == Verdict()


def test_the_house_rules_follow_the_agent_s_own_instruction(outcomes: dict[str, Outcome[Any]]) -> None:
    rules = (EXAMPLE / "house-rules.md").read_text()
    body = outcomes["the request"].event.body
    assert body["systemInstruction"] == {"parts": [{"text": f"You write code.\n\n{rules}"}]}
    assert body["contents"] == REQUEST["contents"]
    assert body["tools"] == REQUEST["tools"]


def test_the_temperature_is_lowered_and_the_rest_of_the_configuration_stays(
    outcomes: dict[str, Outcome[Any]],
) -> None:
    need_node(packages=False)
    assert outcomes["the request"].event.body["generationConfig"] == {
        "temperature": 0.2,
        "maxOutputTokens": 2000,
    }


def test_a_question_of_where_makes_the_model_call_one_of_both_hooks_tools(
    outcomes: dict[str, Outcome[Any]],
) -> None:
    need_node(packages=False)
    outcome = outcomes["the choice of tools"]
    sent = apply_tool_config(outcome.event.body, outcome.verdict.tool_config)
    config = sent["toolConfig"]["functionCallingConfig"]
    assert config["mode"] == "ANY"
    assert set(config["allowedFunctionNames"]) == set(TOOLS) - {"web_fetch"}
    assert sent["tools"] == REQUEST["tools"]


def test_once_a_tool_has_answered_the_model_may_answer_too(outcomes: dict[str, Outcome[Any]]) -> None:
    need_node(packages=False)
    outcome = outcomes["the next choice"]
    assert outcome.verdict.tool_config is not None
    assert outcome.verdict.tool_config["mode"] == "AUTO"
    [tool] = apply_tool_config(outcome.event.body, outcome.verdict.tool_config)["tools"]
    offered = [declaration["name"] for declaration in tool["functionDeclarations"]]
    assert offered == [name for name in TOOLS if name != "web_fetch"]


# ---- around tools


@pytest.mark.parametrize(
    ("label", "kind"),
    [
        pytest.param("a secret", "an AWS access key", id="write_file"),
        pytest.param("a secret edit", "a password or token", id="replace"),
    ],
)
def test_a_secret_is_not_written_and_the_reason_does_not_repeat_it(
    outcomes: dict[str, Outcome[Any]], label: str, kind: str
) -> None:
    verdict = outcomes[label].verdict
    assert verdict.denied
    assert verdict.reason == f"This would write {kind}. Read it from the environment instead."


def test_a_file_is_written_with_a_newline_at_its_end(outcomes: dict[str, Outcome[Any]]) -> None:
    need_node(packages=False)
    outcome = outcomes["a file"]
    assert outcome.verdict.decision == "allow"
    assert outcome.event.tool_input == {"file_path": "total.py", "content": "def total(:\n"}


def test_the_model_hears_at_once_of_a_file_that_does_not_parse(outcomes: dict[str, Outcome[Any]]) -> None:
    outcome = outcomes["the broken file"]
    assert outcome.verdict.decision == "allow"
    assert (outcome.verdict.context or "").startswith("total.py does not parse: line 1: ")
    assert outcome.event.tool_response == {"llmContent": "written"}
    assert outcomes["the sound file"].verdict == Verdict()


def test_a_folder_is_removed_only_when_the_user_agrees(outcomes: dict[str, Outcome[Any]]) -> None:
    verdict = outcomes["a removal"].verdict
    assert (verdict.decision, verdict.denied) == ("ask", False)
    assert verdict.reason == "This removes a folder with all that is in it."


def test_nothing_outside_of_the_project_is_removed(outcomes: dict[str, Outcome[Any]]) -> None:
    verdict = outcomes["a removal elsewhere"].verdict
    assert verdict.denied
    assert verdict.reason == "Only what lies within the project may be removed."


def test_other_commands_run_as_they_are(outcomes: dict[str, Outcome[Any]]) -> None:
    outcome = outcomes["a command"]
    assert outcome.verdict == Verdict()
    assert outcome.event == MONDAY["a command"]


# ---- after the model


def test_a_call_passes_unchanged(outcomes: dict[str, Outcome[Any]]) -> None:
    outcome = outcomes["a call"]
    assert outcome.verdict == Verdict()
    [candidate] = outcome.event.body["candidates"]
    assert candidate["content"]["parts"] == [{"text": "I look. ", "thought": True}, CALL]


def test_a_mail_address_reaches_neither_the_agent_nor_the_record(workspace: Workspace) -> None:
    [candidate] = workspace.outcomes["the answer"].event.body["candidates"]
    assert candidate == {
        "content": {"role": "model", "parts": [{"text": " cents.\nAsk [mail address]."}]},
        "finishReason": "STOP",
        "index": 0,
    }
    assert ADDRESS not in workspace.recorded
    assert not any(ADDRESS in text for text in workspace.state().values())


def test_the_answers_are_recorded_piece_by_piece(workspace: Workspace) -> None:
    lines = [json.loads(line) for line in workspace.recorded.splitlines()]
    assert [(line["text"], line["is_end"]) for line in lines] == [
        ("", True),
        ("Fixed.\n**Decision:** Totals are rounded to <even>", False),
        (" cents.\nAsk [mail address].", True),
    ]


def test_a_change_without_tests_is_sent_back_once(outcomes: dict[str, Outcome[Any]]) -> None:
    need_node(packages=False)
    verdict = outcomes["the untested end"].verdict
    assert (verdict.denied, verdict.stop) == (True, False)
    assert verdict.reason == "Run the tests, and say what they showed."
    assert outcomes["the second try's end"].verdict == Verdict()
    assert outcomes["the tested end"].verdict == Verdict()


# ---- a session's end, and the next one


def test_decisions_are_remembered_before_the_context_is_compressed(
    outcomes: dict[str, Outcome[Any]],
) -> None:
    assert outcomes["the compression"].verdict == Verdict(system_messages=("Decisions remembered: 1",))


def test_a_notification_is_logged_on_one_line(workspace: Workspace) -> None:
    assert workspace.outcomes["a question"].verdict == Verdict()
    [line] = workspace.state()["notifications.jsonl"].splitlines()
    logged = json.loads(line)
    assert (logged["notification_type"], logged["message"]) == ("ToolPermission", "May\nit?")
    assert logged["details"] == {"type": "exec"}


def test_the_end_of_a_session_leaves_its_decisions_and_not_its_record(workspace: Workspace) -> None:
    assert workspace.outcomes["the end"].verdict == Verdict(system_messages=("Decisions remembered: 1",))
    assert workspace.outcomes["the second end"].verdict == Verdict()
    state = workspace.state()
    assert set(state) == {"memory.md", "notifications.jsonl"}
    assert state["memory.md"] == "- Totals are rounded to <even> cents.\n- Prices stay integers.\n"


def test_the_next_session_begins_with_what_was_decided(outcomes: dict[str, Outcome[Any]]) -> None:
    verdict = outcomes["the second start"].verdict
    assert verdict.decision == "allow"
    assert verdict.context == (
        "Decided in earlier sessions:\n- Totals are rounded to &lt;even&gt; cents.\n- Prices stay integers."
    )


def test_a_prompt_is_reminded_of_the_decisions_it_touches_and_of_no_others(
    outcomes: dict[str, Outcome[Any]],
) -> None:
    need_node(packages=False)
    outcome = outcomes["a prompt on prices"]
    assert outcome.verdict.context == "Keep to what was decided:\n- Prices stay integers."
    assert outcome.event == TUESDAY["a prompt on prices"]
