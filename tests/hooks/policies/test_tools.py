"""The policy `tools`: what may be offered, and what may be called with which arguments."""

import inspect
import threading
from dataclasses import replace
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from support.hooks.builtins import ANNA, make_policy
from support.hooks.settings import write_file

from hookgate.hooks import BeforeToolSelection, load_settings
from hookgate.hooks.policies import tools
from hookgate.hooks.policies.tools import tools_policy
from hookgate.hooks.session import CallState, Steps
from hookgate.translator import VIEWS

Json = dict[str, Any]


def denied(options: Json, name: str, **arguments: Any) -> str | None:
    """The reason of a denial; None for a call that may be made."""
    event = {"hook_event_name": "BeforeTool", "tool_name": name, "tool_input": arguments}
    said: Any = make_policy(tools_policy, options)(event)
    return said["reason"] if said else None


def offered(options: Json, *names: str, view: str = "text", **hosted: Any) -> Any:
    tools = [{"functionDeclarations": [{"name": name} for name in names]}, hosted]
    event = {
        "hook_event_name": "BeforeToolSelection",
        **BeforeToolSelection("m", {"tools": tools}).fields(view),
    }
    said: Any = make_policy(tools_policy, options)(event)
    return said["hookSpecificOutput"]["tools"] if said else None


def test_only_listed_tools_may_be_called_and_are_offered() -> None:
    options = {"allow": ["read_*", "glob"]}
    assert denied(options, "read_file") is None
    reported = "The tool 'write_file' is not on the list of tools that are allowed here."
    assert denied(options, "write_file") == reported
    assert offered(options, "read_file", "write_file", "glob") == ["read_file", "glob"]
    assert offered(options, "read_file") is None


def test_calls_are_asked_about_by_name_and_arguments_unless_they_are_denied() -> None:
    shell = {"tool": "run_*", "when": {"/command": {"runs": {"program": "git"}}}}
    options = {
        "deny": [{"tool": "send_fax", "reason": "no fax"}],
        "ask": [{"tool": "send_*", "reason": "a person reads it"}, shell],
    }

    def judged_call(name: str, **arguments: Any) -> Any:
        event = {"hook_event_name": "BeforeTool", "tool_name": name, "tool_input": arguments}
        return make_policy(tools_policy, options)(event)

    assert judged_call("send_mail", to="ann") == {"decision": "ask", "reason": "a person reads it"}
    assert judged_call("send_fax") == {"decision": "deny", "reason": "no fax"}
    asked = {"decision": "ask", "reason": "The tool 'run_command' may be called if a person agrees."}
    assert judged_call("run_command", command="git push") == asked
    assert judged_call("run_command", command="ls") is None
    assert judged_call("read_mail") is None
    assert offered(options, "send_mail", "send_fax") == ["send_mail"], "what is asked about is offered"
    unreadable = judged_call("run_command", command="$(")
    assert (unreadable["decision"], "cannot be read in full" in unreadable["reason"]) == ("ask", True)


HOSTED: Json = {
    "mcpServers": [{"name": "read_file", "streamableHttpTransport": {"url": "https://evil.example"}}],
    "urlContext": {},
    "codeExecution": {},
    "google_search": {},
    "notKnownYet": {},
}


@pytest.mark.parametrize("view", VIEWS)
def test_a_tool_that_the_api_runs_is_offered_only_if_its_kind_is_listed(view: str) -> None:
    assert offered({"allow": ["read_file"]}, "read_file", view=view, **HOSTED) == ["read_file"]
    for listed in ("googleSearch", "google_search"):
        assert offered({"allow": [listed]}, "read_file", view=view, **HOSTED) == ["googleSearch"]
    assert offered({"allow": ["*"]}, "read_file", view=view, **HOSTED) is None


@pytest.mark.parametrize("listed", ["mcpServers", "mcp_servers", "mcp*"])
def test_a_tool_that_the_api_runs_is_denied_by_its_kind(listed: str) -> None:
    denies = {"deny": [{"tool": listed}]}
    kept = ["read_file", "urlContext", "codeExecution", "googleSearch", "notKnownYet"]
    assert offered(denies, "read_file", **HOSTED) == kept
    assert offered({"deny": [{"pattern": "mcp.ervers|mcp_servers"}]}, "read_file", **HOSTED) == kept


def test_a_denied_tool_outranks_the_list() -> None:
    options = {
        "allow": ["*"],
        "deny": [{"tool": "run_*", "reason": "no shell"}, {"pattern": "mcp_.+_delete"}],
    }
    assert denied(options, "run_shell_command") == "no shell"
    assert denied(options, "mcp_db_delete") == "The tool 'mcp_db_delete' is not allowed here."
    assert denied(options, "mcp_db_delete_all") is None
    assert offered(options, "run_shell_command", "glob") == ["glob"]


NO_RM = {
    "deny": [{"tool": "run_shell_command", "when": {"/command": {"runs": {"program": "rm", "flags": "rf"}}}}]
}


@pytest.mark.parametrize(
    "arguments",
    [
        {"CommandLine": "rm x"},
        {"commandline": "rm x"},
        {"COMMANDLINE": "rm x", "CommandLine": "ls"},
        {"commandLine": "ls", "CommandLine": "rm x"},
    ],
)
def test_argument_is_found_in_any_case(arguments: Json) -> None:
    rule = {"tool": "run_command", "when": {"/CommandLine": {"runs": {"program": "rm"}}}, "reason": "No."}
    assert denied({"deny": [rule]}, "run_command", **arguments) == "No."
    assert denied({"deny": [rule]}, "run_command", **dict.fromkeys(arguments, "ls")) is None


@pytest.mark.parametrize("rule", [{"tool": "Send_*"}, {"pattern": "sEnd_.+"}], ids=["glob", "pattern"])
@pytest.mark.parametrize("name", ["send_mail", "Send_Mail", "SEND_MAIL", "\u017fend_mail"])
def test_rules_ignore_the_case_of_names_and_the_list_does_not(rule: Json, name: str) -> None:
    """Some agents run a tool whose name the model has spelled in another case."""
    assert denied({"deny": [rule]}, name) is not None
    assert denied({"ask": [rule]}, name) is not None
    assert (denied({"allow": ["send_mail"]}, name) is None) is (name == "send_mail")


def test_a_tool_that_is_denied_for_some_arguments_is_offered_all_the_same() -> None:
    assert denied(NO_RM, "run_shell_command", command="ls") is None
    assert denied(NO_RM, "run_shell_command", command="rm -rf x") is not None
    assert denied(NO_RM, "run_shell_command") is None
    assert offered(NO_RM, "run_shell_command") is None


@pytest.mark.parametrize(
    ("condition", "value", "holds"),
    [
        ({"equals": 1}, 1, True),
        ({"equals": 1}, 1.0, True),
        ({"equals": 1}, True, False),
        ({"equals": 1}, "1", False),
        ({"equals": {"a": 1}}, {"a": 1.0}, True),
        ({"equals": None}, None, True),
        ({"one_of": ["a", "b"]}, "b", True),
        ({"glob": "/etc/*"}, "/etc/passwd", True),
        ({"glob": ["*.py", "*.md"]}, "x.txt", False),
        ({"matches": "pass(wd|word)"}, "my password", True),
        ({"matches": "b"}, ["a", "b"], True),
        ({"above": 10}, 11, True),
        ({"one_of": [1, 2]}, 2.0, True),
        ({"one_of": [1, 2]}, True, False),
        ({"above": 10}, "11", True),
        ({"above": 10}, " 1_1.0e0\n", True),
        ({"above": 10}, "1e999", True),
        ({"above": 10}, "eleven", False),
        ({"above": 0}, True, False),
        ({"below": 10}, "9", True),
        ({"above": 1, "below": 5}, 5, False),
    ],
)
def test_a_condition_is_met_only_by_existing_values(condition: Json, value: Any, holds: bool) -> None:
    options = {"deny": [{"when": {"/a~1b/0/x": condition}}]}
    assert (denied(options, "t", **{"a/b": [{"x": value}]}) is not None) is holds
    assert denied(options, "t", **{"a/b": []}) is None


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"alow": []}, "alow"),
        ({"deny": [{"pattern": "(?=a)"}]}, "deny.0.pattern: is not a valid RE2 pattern"),
        ({"deny": [{"when": {"/x": {"equal": 1}}}]}, "deny.0.when./x.equal"),
        ({"deny": [{"when": {"x": {"equals": 1}}}]}, "must be a JSON Pointer, which begins with /"),
        ({"allow": 5}, "allow"),
    ],
)
def test_wrong_options_are_reported_with_their_place(options: Json, place: str) -> None:
    with pytest.raises(ValueError, match=place.replace(".", r"\.")):
        make_policy(tools_policy, options)


def test_a_policy_that_cannot_judge_lets_nothing_pass(tmp_path: Path) -> None:
    hook = {"type": "builtin", "builtin": "tools"}
    for config, means in ((hook, "deny"), ({**hook, "on_error": "allow"}, "allow")):
        file = write_file(tmp_path, {"hooks": {"BeforeTool": [{"hooks": [config]}]}})
        [read] = load_settings([file]).hooks()
        assert read.on_error == means


MANY = {
    "many texts": ["ls"] * 3_000,
    "many parts": ["a | b"] * 2_000,
}


@pytest.mark.parametrize("texts", MANY.values(), ids=MANY)
@pytest.mark.parametrize("as_lists", [False, True], ids=["texts", "lists of words"])
async def test_texts_that_exceed_the_limits_of_one_command_together_are_unreadable(
    texts: list[str], as_lists: bool
) -> None:
    """Otherwise, a request could make hookgate parse any number of crafted commands."""
    lines = {str(number): [text, "-x"] if as_lists else text for number, text in enumerate(texts)}
    reason = await read_in_a_thread(NO_RM, lines)
    assert reason is not None
    assert "it has more than 5000 parts or 524288 characters" in reason
    assert await read_in_a_thread(NO_RM, {number: lines[number] for number in "012"}) is None


async def test_a_long_here_document_in_a_list_of_words_is_readable() -> None:
    """Some agents edit files like this."""
    script = "cat > f <<'END'\n{}\nEND\n{}".format("(x)\n" * 2_500, "{} -rf x")
    for program, denies in (("ls", False), ("rm", True)):
        reason = await read_in_a_thread(NO_RM, ["bash", "-lc", script.format(program)])
        assert (reason is not None) == denies


async def read_in_a_thread(options: Json, command: Any) -> str | None:
    event = {"hook_event_name": "BeforeTool", "tool_name": "run_shell_command"}
    said: Any = make_policy(tools_policy, options)({**event, "tool_input": {"command": command}})
    said = await said if inspect.isawaitable(said) else said
    return said["reason"] if said else None


async def test_long_commands_are_read_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[threading.Thread] = []
    monkeypatch.setattr(tools, "refusal", lambda *_: used.append(threading.current_thread()))
    for command in ("ls", "ls " * 100):
        assert await read_in_a_thread(NO_RM, command) is None
    assert used[0] is threading.main_thread()
    assert used[1] is not threading.main_thread()


async def test_the_tools_of_a_large_request_are_read_in_a_thread() -> None:
    class Large(Steps):
        is_large = True
        ran = 0

        async def run(self, step: Any, /, *args: Any) -> Any:
            self.ran += 1
            return step(*args)

    event = {
        "hook_event_name": "BeforeToolSelection",
        **BeforeToolSelection("m", {"tools": [HOSTED]}).fields("text"),
    }
    for options, ran in ({"allow": ["read_file"]}, 1), ({"allow": ["read_file"], "pin": "flag"}, 2):
        steps = Large()
        session = replace(ANNA, call_state=CallState(steps=steps))
        output = await make_policy(tools_policy, options, session=session)(event)
        assert (output["hookSpecificOutput"]["tools"], steps.ran) == ([], ran)


def test_tools_that_a_selection_names_are_compared_in_linear_time() -> None:
    kinds = [f"k{number}" for number in range(20_000)]
    event = BeforeToolSelection("m", {"tools": [{kind: {} for kind in kinds}]})
    began = process_time()
    assert event.undeclared_names({"tools": kinds}) == []
    assert process_time() - began < 1
