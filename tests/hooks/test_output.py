"""The meaning of exit code, stdout and stderr in the hook contract."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgate.hooks import HookError
from hookgate.hooks.errors import UnreadDecisionError
from hookgate.hooks.output import (
    Output,
    ProcessResult,
    describe_unread,
    ignored_keys,
    read_output,
    read_process,
)
from hookgate.hooks.settings import EVENTS

DENY = '{"decision": "deny", "reason": "no"}'
NAMING = "BeforeToolSelection"


def read(
    stdout: str | bytes = "", stderr: str | bytes = "", code: int = 0, event: str = "BeforeModel"
) -> Output | None:
    out, err = (text.encode() if isinstance(text, str) else text for text in (stdout, stderr))
    return read_process(event, "guard", ProcessResult(code, out, err))


def message(text: str) -> Output:
    return {"decision": "allow", "systemMessage": text}


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        ({"decision": "no"}, 'output.decision: must be allow (or approve), deny (or block) or ask, not "no"'),
        ({"continue": "false"}, 'output.continue: must be true or false, not "false"'),
        ({"hookSpecificOutput": []}, "output.hookSpecificOutput: must be an object, not a list"),
        ({"reason": {"text": "secret"}}, "output.reason: must be a string, not an object"),
        ({"decision": "a" * 50}, f'or ask, not "{"a" * 39}…'),
    ],
)
def test_a_wrong_value_is_named_with_what_it_must_be(output: Output, problem: str) -> None:
    with pytest.raises(HookError) as failure:
        read_output(output, "BeforeModel")
    assert str(failure.value).endswith(problem)


@pytest.mark.parametrize("text", [DENY, '{"continue": false}', '{"permissionDecision": "deny"}'])
def test_a_decision_on_stderr_is_reported(text: str) -> None:
    with pytest.raises(UnreadDecisionError, match="wrote a decision to stderr, where it is not read"):
        read(stderr=text)


@pytest.mark.parametrize(
    "text", ["decision: deny", '{"level": "info", "decision": "deny"}', f"x {DENY}", "{}"]
)
def test_logs_on_stderr_have_no_effect(text: str) -> None:
    assert read(stderr=text) is None
    assert read('{"decision": "allow"}', text) == {"decision": "allow"}


def test_a_decision_on_stderr_has_no_effect_beside_one_on_stdout() -> None:
    assert read('{"decision": "allow"}', DENY) == {"decision": "allow"}
    assert read(DENY, DENY) == {"decision": "deny", "reason": "no"}


# ---- exit code 0: stdout is the output


@pytest.mark.parametrize("stdout", ["", "  \n\t ", "null", "42", "true", "[1]", "-0.5e3"])
def test_a_hook_that_prints_nothing_or_no_object_says_nothing(stdout: str) -> None:
    assert read(stdout) is None


@pytest.mark.parametrize("stdout", [DENY, f"\n\n  {DENY} \r\n", DENY.replace(" ", "\n"), json.dumps(DENY)])
def test_json_is_the_output_however_it_is_laid_out_or_encoded_twice(stdout: str) -> None:
    assert read(stdout) == {"decision": "deny", "reason": "no"}


@pytest.mark.parametrize(
    "stdout",
    [
        "hello there",
        '"just words"',
        '"{no json"',
        "{'decision': 'deny'}",
        '{"decision": "deny"',
        f"log\n{DENY}",
    ],
)
def test_anything_else_is_a_message_to_the_user(stdout: str) -> None:
    assert read(stdout) == message(stdout)


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_constants_that_json_does_not_have_make_it_a_text(constant: str) -> None:
    text = f'{{"decision": "deny", "v": {constant}}}'
    assert read(text) == message(text)
    assert read(json.dumps(text)) == message(json.dumps(text))


def test_control_characters_within_a_string_make_it_a_text() -> None:
    text = '{"systemMessage": "a\x01b"}'
    assert read(text) == message(text)


def test_thousands_of_digits_do_not_get_in_the_way() -> None:
    output = read('{"decision": "deny", "n": ' + "9" * 5000 + "}")
    assert output is not None
    assert output["decision"] == "deny"


def test_integers_beyond_64_bits_stay_exact() -> None:
    config = {"seed": 2**70}
    assert read(json.dumps({"hookSpecificOutput": {"llm_request": {"config": config}}})) == {
        "hookSpecificOutput": {"llm_request": {"config": config}}
    }


def test_brackets_without_end_are_a_text() -> None:
    assert read("[" * 200_000) == message("[" * 200_000)


def test_bytes_that_are_not_utf_8_are_replaced() -> None:
    assert read(b'{"systemMessage": "a\xffb"}') == {"systemMessage": "a\N{REPLACEMENT CHARACTER}b"}
    assert read(b"a\xffb") == message("a\N{REPLACEMENT CHARACTER}b")


def test_half_an_emoji_is_replaced_and_the_verdict_stays() -> None:
    output = read('{"decision": "deny", "reason": "cut \\ud83d", "x": "\\ud83d\\ude00"}')
    assert output == {"decision": "deny", "reason": "cut \N{REPLACEMENT CHARACTER}", "x": "😀"}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig"])
def test_denial_is_read_in_every_unicode_encoding(encoding: str) -> None:
    output = read('{"decision": "deny", "reason": "für alle"}'.encode(encoding))
    assert output == {"decision": "deny", "reason": "für alle"}
    assert read(b"", "für alle".encode(encoding), 2) == {"decision": "deny", "reason": "für alle"}


def test_text_in_encoding_that_cannot_be_read_is_failure() -> None:
    with pytest.raises(HookError, match="printed null characters, so its output cannot be read; print UTF-8"):
        read(b"log\n" + DENY.encode("utf-16-le"))


VERDICTS = [
    f"Processing...\n{DENY}",
    f"{DENY}\n{DENY}",
    f"{DENY} done",
    "{'decision': 'deny'}",
    '{"decision": "deny"',
    '[{"decision": "deny"}]',
    '{"continue": false,}',
    'x {"hookSpecificOutput": {}}',
]


@pytest.mark.parametrize("stdout", VERDICTS)
@pytest.mark.parametrize("event", EVENTS)
def test_a_verdict_that_is_only_a_message_is_warned_of(stdout: str, event: str) -> None:
    output = read(stdout, event=event)
    assert output is not None
    assert output["systemMessage"] == stdout
    assert "so it is not read; print one JSON object" in describe_unread(output)


@pytest.mark.parametrize("stdout", [DENY, "Processing...", "a decision: deny", '{"systemMessage": "x"}'])
def test_a_verdict_that_counts_and_a_message_without_one_are_not(stdout: str) -> None:
    assert describe_unread(read(stdout) or {}) == ""
    assert describe_unread(read(f"x {DENY}", code=2) or {}) == ""


# ---- exit code 0 and plain tool names


@pytest.mark.parametrize(
    ("stdout", "names"),
    [
        ("read_file", ["read_file"]),
        ("read_file,write_file\n", ["read_file", "write_file"]),
        ("b , a.b:c-d", ["b", "a.b:c-d"]),
    ],
)
def test_tool_names_on_stdout_select_those_tools(stdout: str, names: list[str]) -> None:
    selection = {"mode": "ANY", "allowedFunctionNames": names}
    assert read(stdout, event=NAMING) == {
        "hookSpecificOutput": {"hookEventName": NAMING, "toolConfig": selection}
    }


@pytest.mark.parametrize("event", ["BeforeModel", "AfterModel"])
def test_tool_names_are_a_message_on_other_events(event: str) -> None:
    assert read("read_file", event=event) == message("read_file")


@pytest.mark.parametrize("stdout", ["two words", "a,,b", ",a", "all fine!"])
def test_words_that_are_not_a_list_of_names_are_a_message_there_too(stdout: str) -> None:
    assert read(stdout, event=NAMING) == message(stdout)


# ---- exit code 2: a denial, always


@pytest.mark.parametrize(
    ("stdout", "stderr", "reason"),
    [
        ("", "no way\n", "no way"),
        ("chatter", "line 1\nline 2\n", "line 1\nline 2"),
        ('{"decision": "allow", "reason": "fine"}', "no way", "no way"),
        ("because", "", "because"),
        (DENY, "", "no"),
        (json.dumps(DENY), "", "no"),
        ("", "", "Blocked by the hook 'guard'."),
        ('{"reason": 7}', " \n", "Blocked by the hook 'guard'."),
    ],
)
def test_exit_2_denies_with_stderr_else_stdout_else_the_hook_s_name(
    stdout: str, stderr: str, reason: str
) -> None:
    assert read(stdout, stderr, code=2) == {"decision": "deny", "reason": reason}


@pytest.mark.parametrize("event", ["BeforeModel", NAMING, "AfterModel"])
def test_json_on_stderr_is_no_more_than_the_reason_s_text(event: str) -> None:
    assert read("", '{"decision": "allow"}', 2, event) == {
        "decision": "deny",
        "reason": '{"decision": "allow"}',
    }


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["continue", "reason", "a"]), inner),
)


@given(JSON.map(json.dumps) | st.text() | st.binary(), st.text() | st.binary())
def test_exit_2_denies_with_some_reason_whatever_was_printed(stdout: Any, stderr: Any) -> None:
    if isinstance(stdout, str):
        stdout = stdout.encode("utf-8", "surrogatepass")
    if isinstance(stderr, str):
        stderr = stderr.encode("utf-8", "surrogatepass")
    output = read(stdout, stderr, code=2)
    assert output is not None
    assert output["decision"] == "deny"
    assert output["reason"]


def test_exit_2_may_stop_the_agent_and_tell_the_user_as_well() -> None:
    said = {"continue": False, "stopReason": "stop", "systemMessage": "m"}
    edit = {"hookSpecificOutput": {"llm_response": {"text": "fine"}}}
    assert read(json.dumps({**said, **edit}), "no", 2) == {**said, "decision": "deny", "reason": "no"}


@pytest.mark.parametrize("key", ["continue", "stopReason", "systemMessage"])
def test_exit_2_denies_even_beside_a_key_of_the_wrong_type(key: str) -> None:
    assert read(json.dumps({key: 5}), "no", 2) == {"decision": "deny", "reason": "no"}


# ---- any other end: a failed hook


@pytest.mark.parametrize("code", [1, 3, 64, 100, 126, 127, 128, 130, 255])
@pytest.mark.parametrize("stdout", ["", DENY, "words"])
def test_any_other_code_is_a_failed_hook_whatever_was_printed(code: int, stdout: str) -> None:
    with pytest.raises(HookError, match=rf"^exited with code {code}$"):
        read(stdout, "", code)


def test_a_failed_hook_is_reported_with_the_start_and_the_end_of_its_stderr() -> None:
    traceback = f"Traceback: {'x' * 5000}\nKeyError: 'text'\n"
    with pytest.raises(HookError, match=r"^exited with code 1: Traceback: x{89} … x{83}\nKeyError: 'text'$"):
        read("", traceback, 1)
    with pytest.raises(HookError, match=r"^exited with code 1: x{200}$"):
        read("", "x" * 200, 1)


def test_a_signal_is_a_failed_hook() -> None:
    with pytest.raises(HookError, match=r"^was killed by signal 11: boom$"):
        read(DENY, "boom", -11)


# ---- the fields of an output


@pytest.mark.parametrize(
    ("said", "meant"),
    [("allow", "allow"), ("approve", "allow"), ("deny", "deny"), ("block", "deny"), ("ask", "ask")],
)
def test_a_decision_has_several_words(said: str, meant: str) -> None:
    assert read_output({"decision": said}) == {"decision": meant}
    output = read_output(
        {"hookSpecificOutput": {"permissionDecision": said, "permissionDecisionReason": "r"}}
    )
    assert output is not None
    assert (output["decision"], output["reason"]) == (meant, "r")


WORDS = ["allow", "approve", "ask", "deny", "block"]
STRICTNESS = [{"allow", "approve"}, {"ask"}, {"deny", "block"}]


def strictness(said: str) -> int:
    return next(rank for rank, words in enumerate(STRICTNESS) if said in words)


@pytest.mark.parametrize("permission", WORDS)
@pytest.mark.parametrize("own", WORDS)
def test_the_stricter_of_two_decisions_in_one_output_counts_with_its_own_reason(
    own: str, permission: str
) -> None:
    specific = {"permissionDecision": permission, "permissionDecisionReason": "permission's"}
    output = read_output({"decision": own, "reason": "own", "hookSpecificOutput": specific})
    assert output is not None
    stricter = max(own, permission, key=strictness)
    assert strictness(output["decision"]) == strictness(stricter)
    assert output["reason"] == ("own" if strictness(own) == strictness(stricter) else "permission's")


@pytest.mark.parametrize("permission", WORDS)
@pytest.mark.parametrize("own", [None, *WORDS])
def test_permission_decision_at_top_level_is_a_decision(own: str | None, permission: str) -> None:
    fields = {"permissionDecision": permission, "permissionDecisionReason": "r"}
    output = read_output({"decision": own, **fields}, "BeforeTool")
    assert output is not None
    assert strictness(output["decision"]) == max(map(strictness, filter(None, [own, permission])))
    assert output["reason"] == "r"


def test_a_reason_in_one_spelling_tells_a_decision_in_the_other() -> None:
    decided = [
        {"decision": "deny", "hookSpecificOutput": {"permissionDecisionReason": "r"}},
        {"reason": "r", "hookSpecificOutput": {"permissionDecision": "deny"}},
        {"decision": "deny", "reason": "", "hookSpecificOutput": {"permissionDecisionReason": "r"}},
    ]
    for said in decided:
        output = read_output(said)
        assert output is not None
        assert (output["decision"], output["reason"]) == ("deny", "r")


@pytest.mark.parametrize(
    ("key", "wrong"),
    [
        ("decision", "perhaps"),
        ("decision", ["deny"]),
        ("reason", 5),
        ("continue", "false"),
        ("continue", 0),
        ("stopReason", {}),
        ("systemMessage", []),
        ("suppressOutput", "yes"),
        ("hookSpecificOutput", "x"),
        ("hookSpecificOutput.permissionDecision", "perhaps"),
    ],
)
def test_a_known_key_of_the_wrong_type_is_a_failure_that_names_it(key: str, wrong: Any) -> None:
    head, _, inner = key.partition(".")
    with pytest.raises(HookError, match=rf"^output\.{key}: "):
        read(json.dumps({head: {inner: wrong} if inner else wrong}))


@pytest.mark.parametrize("key", ["decision", "reason", "continue", "stopReason", "hookSpecificOutput"])
def test_null_is_the_same_as_a_missing_key(key: str) -> None:
    assert read_output({key: None}) == {}


def test_unknown_keys_are_ignored_and_kept() -> None:
    output = {"x-custom": {"a": [1, 2.5, None]}, "continue_": False}
    assert read(json.dumps(output)) == output


def test_null_within_an_edit_stays_since_it_removes_a_setting() -> None:
    output = {"hookSpecificOutput": {"llm_request": {"config": {"temperature": None}}}}
    assert read(json.dumps(output)) == output


@pytest.mark.parametrize("value", ["deny", 5, [], [{"decision": "deny"}], True, object])
def test_a_value_that_is_not_an_object_is_a_failure(value: Any) -> None:
    with pytest.raises(HookError, match="return an object or nothing"):
        read_output(value)


def test_a_value_that_is_not_json_is_a_failure() -> None:
    circle: Output = {}
    circle["hookSpecificOutput"] = {"llm_request": circle}
    for value in ({"hookSpecificOutput": {"llm_request": {"config": {"stop": {"a", "b"}}}}}, circle):
        with pytest.raises(HookError, match="cannot be encoded as JSON"):
            read_output(value)


# ---- what an event alone has


def specific(event: str, **said: Any) -> Any:
    """What remains of a hookSpecificOutput."""
    output = read_output({"hookSpecificOutput": said}, event)
    assert output is not None
    return output["hookSpecificOutput"]


@pytest.mark.parametrize(
    ("event", "key", "wrong"),
    [
        ("BeforeTool", "tool_input", "x"),
        ("BeforeTool", "tool_args", ["x"]),
        ("AfterTool", "tool_result", 5),
        ("AfterTool", "tailToolCallRequest", "read_file"),
        ("AfterTool", "tailToolCallRequest.name", 5),
        ("AfterTool", "tailToolCallRequest.args", []),
        ("AfterModel", "redacted", "yes"),
        ("AfterAgent", "retry", 1),
        ("AfterAgent", "retryReason", {}),
        ("AfterAgent", "clearContext", "no"),
        ("SessionEnd", "hookEventName", 5),
    ],
)
def test_a_key_of_the_event_s_own_that_has_the_wrong_type_is_a_failure_that_names_it(
    event: str, key: str, wrong: Any
) -> None:
    head, _, inner = key.partition(".")
    said = {head: {"name": "t", inner: wrong} if inner else wrong}
    with pytest.raises(HookError, match=rf"^output\.hookSpecificOutput\.{key}: "):
        read(json.dumps({"hookSpecificOutput": said}), event=event)
    assert read_output({"hookSpecificOutput": {"redacted": "yes"}}, "BeforeTool"), "of no concern there"


def test_a_tail_call_needs_a_tool_and_no_arguments() -> None:
    with pytest.raises(
        HookError, match=r"^output\.hookSpecificOutput\.tailToolCallRequest\.name: is missing$"
    ):
        specific("AfterTool", tailToolCallRequest={"args": {}})
    assert specific("AfterTool", tailToolCallRequest={"name": "t", "x": 1}) == {
        "tailToolCallRequest": {"name": "t", "args": {}, "x": 1}
    }


@pytest.mark.parametrize("event", ["SessionStart", "BeforeAgent", "AfterTool"])
def test_additional_context_that_is_not_a_string_is_ignored(event: str) -> None:
    for wrong in (7, ["a"], {}, True, None):
        assert specific(event, additionalContext=wrong, x=1) == {"x": 1}
    for text in ("", "a\nb\n", "<b>"):
        assert specific(event, additionalContext=text) == {"additionalContext": text}


@pytest.mark.parametrize("key", ["llm_request", "llm_response", "toolConfig", "tools"])
@pytest.mark.parametrize("value", [5, "x", [1], {"a": 1}])
def test_edits_of_a_model_call_are_left_for_the_translator_to_check(key: str, value: Any) -> None:
    for event in ("BeforeModel", "BeforeToolSelection", "AfterModel"):
        assert specific(event, **{key: value}) == {key: value}


@pytest.mark.parametrize(
    ("event", "key", "other"),
    [("BeforeTool", "tool_input", "tool_args"), ("BeforeToolSelection", "toolConfig", "tool_config")],
)
def test_a_second_spelling_is_read_as_the_first(event: str, key: str, other: str) -> None:
    assert specific(event, **{other: {"a": 1}}) == {key: {"a": 1}}
    assert specific(event, **{key: None, other: {"a": 1}}) == {key: {"a": 1}}
    assert specific(event, **{other: {"a": 1}, key: {"b": 2}}) == {key: {"b": 2}}
    assert specific("AfterAgent", **{other: {"a": 1}}) == {other: {"a": 1}}


@pytest.mark.parametrize("said", [{}, {"decision": "allow", "reason": "fine"}, {"decision": "deny"}])
def test_a_retry_is_a_denial_with_its_reason(said: Output) -> None:
    retry = {"retry": True, "retryReason": "too short"}
    output = read_output({**said, "hookSpecificOutput": retry}, "AfterAgent")
    assert output == {"decision": "deny", "reason": "too short", "hookSpecificOutput": retry}


@pytest.mark.parametrize("event", ["AfterAgent", "BeforeAgent"])
def test_no_retry_denies_nothing(event: str) -> None:
    for retry in ({"retry": False}, {"retry": None}, {}) if event == "AfterAgent" else ({"retry": True},):
        output = read_output({"hookSpecificOutput": retry}, event)
        assert output is not None
        assert "decision" not in output


ADVISORY = ["SessionEnd", "PreCompress", "Notification"]


@pytest.mark.parametrize("event", ADVISORY)
def test_flow_control_of_an_advisory_event_is_ignored(event: str) -> None:
    said = {"decision": "deny", "continue": False, "hookSpecificOutput": {"permissionDecision": "deny"}}
    output = read_output({**said, "systemMessage": "m", "x": 1}, event)
    assert output == {"systemMessage": "m", "x": 1, "hookSpecificOutput": {"permissionDecision": "deny"}}
    with pytest.raises(HookError, match=r"^output\.continue: "):
        read_output({"continue": "no"}, event)


@pytest.mark.parametrize("event", ADVISORY)
def test_a_program_can_only_tell_the_user_something_of_an_advisory_event(event: str) -> None:
    assert read("done", event=event) == {"systemMessage": "done"}
    assert read(DENY, "no way", 2, event) == {"systemMessage": "no way"}
    assert read(DENY, "", 2, event) == {"systemMessage": "no"}
    assert read('{"systemMessage": "m", "continue": false}', "no", 2, event) == {"systemMessage": "m"}
    assert read("", "", 2, event) == {}


SAID = st.fixed_dictionaries(
    {},
    optional={
        "decision": st.sampled_from(WORDS),
        "reason": st.text(max_size=3),
        "continue": st.booleans(),
        "x": JSON,
        "hookSpecificOutput": st.fixed_dictionaries(
            {},
            optional={
                "permissionDecision": st.sampled_from(WORDS),
                "permissionDecisionReason": st.text(max_size=3),
                "retry": st.booleans(),
                "retryReason": st.text(max_size=3),
                "tool_input": st.dictionaries(st.text(max_size=3), JSON),
                "tool_args": st.dictionaries(st.text(max_size=3), JSON),
                "tool_config": JSON,
                "additionalContext": JSON,
            },
        ),
    },
)


@given(SAID, st.sampled_from(EVENTS))
def test_an_output_in_one_spelling_is_read_as_it_is(said: Output, event: str) -> None:
    once = read_output(said, event)
    assert read_output(once, event) == once


def test_a_hook_that_writes_into_what_it_gave_changes_nothing_any_more() -> None:
    given_away: Output = {"hookSpecificOutput": {"llm_request": {"messages": [{"content": "a"}]}}}
    output = read_output(given_away, "BeforeModel")
    given_away["hookSpecificOutput"]["llm_request"]["messages"][0]["content"] = "b"
    assert output == {"hookSpecificOutput": {"llm_request": {"messages": [{"content": "a"}]}}}


# ---- keys without effect


@pytest.mark.parametrize(
    ("event", "output", "path", "remedy"),
    [
        ("BeforeModel", {"decison": "deny"}, "decison", "did you mean 'decision'?"),
        ("BeforeModel", {"decision": "deny", "Reason": "x"}, "Reason", "did you mean 'reason'?"),
        ("BeforeModel", {"stop_reason": "x"}, "stop_reason", "did you mean 'stopReason'?"),
        (
            "BeforeTool",
            {"hookSpecificOutputs": {}},
            "hookSpecificOutputs",
            "did you mean 'hookSpecificOutput'?",
        ),
        ("AfterModel", {"llm_response": {}}, "llm_response", "put it into hookSpecificOutput"),
        ("BeforeTool", {"tool_input": {}}, "tool_input", "put it into hookSpecificOutput"),
        ("BeforeTool", {"updatedInput": {}}, "updatedInput", "put it into hookSpecificOutput"),
        (
            "AfterTool",
            {"hookSpecificOutput": {"updatedInput": {}}},
            "hookSpecificOutput.updatedInput",
            "it belongs to hookSpecificOutput of BeforeTool",
        ),
        ("BeforeTool", {"hook_event_name": "x", "permission": "deny"}, "permission", "return `decision`"),
        (
            "BeforeTool",
            {**dict.fromkeys(map(str, range(9))), "modifiedArgs": {}},
            "modifiedArgs",
            "return the arguments as hookSpecificOutput.tool_input",
        ),
        ("SessionStart", {"additionalContext": "x"}, "additionalContext", "put it into hookSpecificOutput"),
        ("AfterModel", {"response": "x"}, "response", "did you mean 'hookSpecificOutput.llm_response'?"),
        (
            "BeforeTool",
            {"hookSpecificOutput": {"decision": "deny"}},
            "hookSpecificOutput.decision",
            "put it at the top level of the output",
        ),
        (
            "BeforeTool",
            {"hookSpecificOutput": {"tool_inputs": {}}},
            "hookSpecificOutput.tool_inputs",
            "did you mean 'tool_input'?",
        ),
        (
            "BeforeTool",
            {"hookSpecificOutput": {"llm_response": {}}},
            "hookSpecificOutput.llm_response",
            "it belongs to hookSpecificOutput of BeforeModel and AfterModel",
        ),
        (
            "AfterModel",
            {"hookSpecificOutput": {"llm_response": {"txt": "x"}}},
            "hookSpecificOutput.llm_response.txt",
            "did you mean 'text'?",
        ),
        (
            "BeforeModel",
            {"hookSpecificOutput": {"llm_request": {"model": "m", "tool_config": {}}}},
            "hookSpecificOutput.llm_request.tool_config",
            "did you mean 'toolConfig'?",
        ),
    ],
)
def test_a_key_that_is_misspelled_or_misplaced_is_found(
    event: str, output: Output, path: str, remedy: str
) -> None:
    [key] = ignored_keys(read_output(output, event) or {}, event)
    assert (key.path, key.remedy) == (path, remedy)


def test_a_request_that_is_returned_with_what_cannot_be_edited_has_no_misspelled_keys() -> None:
    shown = dict.fromkeys(
        ("tools", "cachedContent", "history", "previousInteractionId", "previousRevision", "previousMessages")
    )
    assert ignored_keys({"hookSpecificOutput": {"llm_request": shown}}, "BeforeModel") == ()


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize(
    "output",
    [
        {"decision": "deny", "reason": "r", "continue": False, "stopReason": "s", "systemMessage": "m"},
        {
            "hookSpecificOutput": {
                "hookEventName": "x",
                "permissionDecision": "deny",
                "additionalContext": "y",
            }
        },
        {"version": 2, "debug": {"decison": 1}, "x": 1},
        {"hook_event_name": "x", "session_id": "s", "tool_input": {}, "llm_request": {}},
        {"decision" * 100: 1},
        {"hookSpecificOutput": {"hookEventName": "x", "unknown": {"txt": 1}}},
    ],
)
def test_other_keys_are_those_of_newer_agents(event: str, output: Output) -> None:
    assert ignored_keys(read_output(output, event) or {}, event) == ()


def test_keys_of_any_number_are_compared_in_bounded_time() -> None:
    output = {f"decison{number}": 1 for number in range(100_000)}
    assert len(ignored_keys(output, "BeforeModel")) == 8
