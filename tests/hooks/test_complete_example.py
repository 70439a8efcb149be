"""examples/assistant in two sessions, with the events that an agent would fire."""

import asyncio
import json
import re
import shutil
import sys
from pathlib import Path

import pytest
from support.clients.assistant import (
    ADDRESS,
    CALL,
    EXAMPLE,
    MONDAY,
    REQUEST,
    TOOLS,
    TUESDAY,
    Assistant,
    Outcomes,
)
from support.clients.node import need_node

from hookgate.hooks import Verdict
from hookgate.hooks.settings import EVENTS
from hookgate.translator import apply_tool_config


@pytest.fixture(scope="module")
def assistant(tmp_path_factory: pytest.TempPathFactory) -> Assistant:
    """The assistant after both sessions."""
    folder = tmp_path_factory.mktemp("people")
    project = folder / "my project"  # a path that a shell would split
    shutil.copytree(EXAMPLE, project)
    assistant = Assistant(project, folder / "home")
    with pytest.MonkeyPatch.context() as patch:
        # The python3 that runs the tests, not one that a version manager looks up for every start.
        patch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
        patch.delenv("GEMINI_CLI_SYSTEM_SETTINGS_PATH", raising=False)
        asyncio.run(assistant.take_part("../monday", MONDAY))
        asyncio.run(assistant.take_part("tuesday", TUESDAY))
    return assistant


@pytest.fixture
def outcomes(assistant: Assistant) -> Outcomes:
    return assistant.outcomes


# ---- the folder itself


def test_each_of_the_eleven_events_has_a_hook_and_is_fired(assistant: Assistant) -> None:
    assert set(assistant.configuration().groups) == set(EVENTS)
    assert {outcome.event.name for outcome in assistant.outcomes.values()} == set(EVENTS)


def test_every_script_is_a_hook_s_and_every_hook_s_script_is_there(assistant: Assistant) -> None:
    targets = [hook.target for hook in assistant.configuration().hooks()]
    named = {match for target in targets for match in re.findall(r"\$GEMINI_PROJECT_DIR/hooks/(\S+)", target)}
    assert named == {path.name for path in (EXAMPLE / "hooks").iterdir()}


def test_no_hook_fails_and_each_one_runs(assistant: Assistant) -> None:
    need_node(packages=False)
    runs = [run for outcome in assistant.outcomes.values() for run in outcome.runs]
    assert [(run.hook.name, run.error) for run in runs if run.error] == []
    assert {run.hook.name for run in runs} == {hook.name for hook in assistant.configuration().hooks()}


def test_what_the_hooks_keep_is_in_the_folder_that_git_ignores(assistant: Assistant) -> None:
    [ignored] = (EXAMPLE / ".gitignore").read_text().split()
    before = {path.relative_to(EXAMPLE) for path in EXAMPLE.rglob("*")} | {Path("total.py")}
    after = {path.relative_to(assistant.project) for path in assistant.project.rglob("*")}
    assert {path.parts[0] + "/" for path in after - before} == {ignored}


# ---- before the model


def test_the_first_session_has_nothing_to_remember(outcomes: Outcomes) -> None:
    assert outcomes["the first start"].verdict == Verdict()
    assert outcomes["the prompt"].verdict == Verdict()


def test_the_house_rules_follow_the_agent_s_own_instruction(outcomes: Outcomes) -> None:
    rules = (EXAMPLE / "house-rules.md").read_text()
    body = outcomes["the request"].event.body
    assert body["systemInstruction"] == {"parts": [{"text": f"You write code.\n\n{rules}"}]}
    assert body["contents"] == REQUEST["contents"]
    assert body["tools"] == REQUEST["tools"]


def test_the_temperature_is_lowered_and_the_rest_of_the_configuration_stays(
    outcomes: Outcomes,
) -> None:
    need_node(packages=False)
    assert outcomes["the request"].event.body["generationConfig"] == {
        "temperature": 0.2,
        "maxOutputTokens": 2000,
    }


def test_a_question_of_where_makes_the_model_call_one_of_both_hooks_tools(
    outcomes: Outcomes,
) -> None:
    need_node(packages=False)
    outcome = outcomes["the choice of tools"]
    sent = apply_tool_config(outcome.event.body, outcome.verdict.tool_config)
    config = sent["toolConfig"]["functionCallingConfig"]
    assert config["mode"] == "ANY"
    assert set(config["allowedFunctionNames"]) == set(TOOLS) - {"web_fetch"}
    assert sent["tools"] == REQUEST["tools"]


def test_once_a_tool_has_answered_the_model_may_answer_too(outcomes: Outcomes) -> None:
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
    outcomes: Outcomes, label: str, kind: str
) -> None:
    verdict = outcomes[label].verdict
    assert verdict.denied
    assert verdict.reason == f"This would write {kind}. Read it from the environment instead."


def test_a_file_is_written_with_a_newline_at_its_end(outcomes: Outcomes) -> None:
    need_node(packages=False)
    outcome = outcomes["a file"]
    assert outcome.verdict.decision == "allow"
    assert outcome.event.tool_input == {"file_path": "total.py", "content": "def total(:\n"}


def test_the_model_hears_at_once_of_a_file_that_does_not_parse(outcomes: Outcomes) -> None:
    outcome = outcomes["the broken file"]
    assert outcome.verdict.decision == "allow"
    assert (outcome.verdict.context or "").startswith("total.py does not parse: line 1: ")
    assert outcome.event.tool_response == {"llmContent": "written"}
    assert outcomes["the sound file"].verdict == Verdict()


def test_a_folder_is_removed_only_when_the_user_agrees(outcomes: Outcomes) -> None:
    verdict = outcomes["a removal"].verdict
    assert (verdict.decision, verdict.denied) == ("ask", False)
    assert verdict.reason == "This removes a folder with all that is in it."


def test_nothing_outside_of_the_project_is_removed(outcomes: Outcomes) -> None:
    verdict = outcomes["a removal elsewhere"].verdict
    assert verdict.denied
    assert verdict.reason == "Only what lies within the project may be removed."


def test_other_commands_run_as_they_are(outcomes: Outcomes) -> None:
    outcome = outcomes["a command"]
    assert outcome.verdict == Verdict()
    assert outcome.event == MONDAY["a command"]


# ---- after the model


def test_a_call_passes_unchanged(outcomes: Outcomes) -> None:
    outcome = outcomes["a call"]
    assert outcome.verdict == Verdict()
    [candidate] = outcome.event.body["candidates"]
    assert candidate["content"]["parts"] == [{"text": "I look. ", "thought": True}, CALL]


def test_a_mail_address_reaches_neither_the_agent_nor_the_record(assistant: Assistant) -> None:
    [candidate] = assistant.outcomes["the answer"].event.body["candidates"]
    assert candidate == {
        "content": {"role": "model", "parts": [{"text": " cents.\nAsk [mail address]."}]},
        "finishReason": "STOP",
        "index": 0,
    }
    assert ADDRESS not in assistant.recorded
    assert not any(ADDRESS in text for text in assistant.state().values())


def test_the_answers_are_recorded_piece_by_piece(assistant: Assistant) -> None:
    lines = [json.loads(line) for line in assistant.recorded.splitlines()]
    assert [(line["text"], line["is_end"]) for line in lines] == [
        ("", True),
        ("Fixed.\n**Decision:** Totals are rounded to <even>", False),
        (" cents.\nAsk [mail address].", True),
    ]


def test_a_change_without_tests_is_sent_back_once(outcomes: Outcomes) -> None:
    need_node(packages=False)
    verdict = outcomes["the untested end"].verdict
    assert (verdict.denied, verdict.stop) == (True, False)
    assert verdict.reason == "Run the tests, and say what they showed."
    assert outcomes["the second try's end"].verdict == Verdict()
    assert outcomes["the tested end"].verdict == Verdict()


# ---- a session's end, and the next one


def test_decisions_are_remembered_before_the_context_is_compressed(
    outcomes: Outcomes,
) -> None:
    assert outcomes["the compression"].verdict == Verdict(system_messages=("Decisions remembered: 1",))


def test_a_notification_is_logged_on_one_line(assistant: Assistant) -> None:
    assert assistant.outcomes["a question"].verdict == Verdict()
    [line] = assistant.state()["notifications.jsonl"].splitlines()
    logged = json.loads(line)
    assert (logged["notification_type"], logged["message"]) == ("ToolPermission", "May\nit?")
    assert logged["details"] == {"type": "exec"}


def test_the_end_of_a_session_leaves_its_decisions_and_not_its_record(assistant: Assistant) -> None:
    assert assistant.outcomes["the end"].verdict == Verdict(system_messages=("Decisions remembered: 1",))
    assert assistant.outcomes["the second end"].verdict == Verdict()
    state = assistant.state()
    assert set(state) == {"memory.md", "notifications.jsonl"}
    assert state["memory.md"] == "- Totals are rounded to <even> cents.\n- Prices stay integers.\n"


def test_the_next_session_begins_with_what_was_decided(outcomes: Outcomes) -> None:
    verdict = outcomes["the second start"].verdict
    assert verdict.decision == "allow"
    assert verdict.context == (
        "Decided in earlier sessions:\n- Totals are rounded to &lt;even&gt; cents.\n- Prices stay integers."
    )


def test_a_prompt_is_reminded_of_the_decisions_it_touches_and_of_no_others(
    outcomes: Outcomes,
) -> None:
    need_node(packages=False)
    outcome = outcomes["a prompt on prices"]
    assert outcome.verdict.context == "Keep to what was decided:\n- Prices stay integers."
    assert outcome.event == TUESDAY["a prompt on prices"]
