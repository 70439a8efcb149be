"""Rego hooks: what rules decide, how they fail, and that no event can harm the gateway or other callers."""

import asyncio
import json
import math
import os
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies
from support.hooks.kinds import GREETING, KEPT_HERE, KEY, ask, documented, hook_of, running
from support.hooks.settings import SESSION, write_file
from support.programs.processes import children, eventually

from hookgate.hooks import (
    AfterModel,
    BeforeModel,
    Engine,
    HookError,
    SessionContext,
    SettingsError,
    load_settings,
)
from hookgate.hooks.errors import HookUnavailableError
from hookgate.hooks.events.base import Document
from hookgate.hooks.runners import Runner
from hookgate.hooks.runners.rego_worker import output_of
from hookgate.hooks.settings import RegoConfig


def rego(folder: Path, *policies: str, **more: Any) -> AbstractAsyncContextManager[Runner]:
    """A hook with these policies, each in a file of its own."""
    for number, text in enumerate(policies):
        (folder / f"{number}.rego").write_text(text)
    files = more.pop("files", [f"{number}.rego" for number in range(len(policies))])
    return running(hook_of(RegoConfig(type="rego", files=files, **more), folder))


def call(command: str = "", **fields: Any) -> dict[str, Any]:
    return {"tool_name": "run_shell_command", "tool_input": {"command": command}, **fields}


def decided(output: Any) -> tuple[str, str]:
    return output.get("decision", "allow"), output.get("reason", "")


# ---- what rules decide


async def test_the_documented_rules_decide_by_tool_and_arguments(tmp_path: Path) -> None:
    async with rego(tmp_path, documented("tools.rego")) as runner:
        write = {"tool_name": "write_file", "tool_input": {"file_path": "/etc/hosts", "content": ""}}
        assert decided(await ask(runner, "BeforeTool", **write)) == ("deny", "/etc/hosts is a system file")
        write["tool_input"]["file_path"] = "notes.txt"
        assert decided(await ask(runner, "BeforeTool", **write)) == ("allow", "")
        push = call("git  push --force origin main")
        assert decided(await ask(runner, "BeforeTool", **push)) == ("ask", "this rewrites history")


async def test_the_documented_rules_judge_requests_and_edit_answers(tmp_path: Path) -> None:
    async with rego(tmp_path, documented("model.rego")) as runner:
        assert await ask(runner, llm_request=KEY) == KEPT_HERE
        assert await ask(runner, llm_request=GREETING) == {}
        answer = {"llm_response": {"text": "Ask ada@example.com."}}
        edited = await ask(runner, "AfterModel", hook_event_name="AfterModel", **answer)
        assert edited["hookSpecificOutput"]["llm_response"]["text"] == "Ask [EMAIL]."


RULES = """
package hookgate

import data.limits

deny contains "no shell" if input.tool_name == "bash"
deny contains {"msg": sprintf("%s is secret", [path])} if {
    path := input.tool_input.path
    glob.match("**/*.pem", ["/"], path)
}
deny contains "too many" if count(input.tool_input.items) > limits.items
deny contains "root" if regex.match(`(?i)\\bSUDO\\b`, input.tool_input.command)
ask contains "this costs money" if input.tool_input.amount > 1000
warn contains "old name" if input.tool_name in {"edit", "replace"}
deny contains "hidden" if {
    some key, value in input.tool_input
    startswith(key, "x-")
    value != null
}
"""

TWENTY = [
    ("bash", {}, "deny", "no shell"),
    ("sh", {}, "allow", ""),
    ("bash", {"amount": 2000}, "deny", "no shell"),
    ("read", {"path": "keys/a.pem"}, "deny", "keys/a.pem is secret"),
    ("read", {"path": "keys/a.pem.txt"}, "allow", ""),
    ("bash", {"path": "b/a.pem"}, "deny", "no shell\nb/a.pem is secret"),
    ("add", {"items": [1, 2, 3]}, "allow", ""),
    ("add", {"items": [1, 2, 3, 4]}, "deny", "too many"),
    ("add", {"items": {"a": 1}}, "allow", ""),
    ("run", {"command": "sudo ls"}, "deny", "root"),
    ("run", {"command": "a\nSudo ls"}, "deny", "root"),
    ("run", {"command": "pseudo"}, "allow", ""),
    ("pay", {"amount": 1000}, "allow", ""),
    ("pay", {"amount": 1000.01}, "ask", "this costs money"),
    ("pay", {"amount": 2**63 + 1}, "ask", "this costs money"),
    ("pay", {"amount": -0.0}, "allow", ""),
    ("edit", {}, "allow", ""),
    ("set", {"x-": None}, "allow", ""),
    ("set", {"x-y": 0}, "deny", "hidden"),
    ("set", {"y-x": 0}, "allow", ""),
]


async def test_twenty_decisions_are_those_that_opa_would_make(tmp_path: Path) -> None:
    (tmp_path / "limits.json").write_text('{"limits": {"items": 3}}')
    async with rego(tmp_path, RULES, files=["0.rego", "limits.json"]) as runner:
        for tool, arguments, decision, reason in TWENTY:
            output = await ask(runner, "BeforeTool", tool_name=tool, tool_input=arguments)
            assert decided(output) == (decision, reason), (tool, arguments)
            assert output.get("systemMessage") == ("old name" if tool == "edit" else None)


MODEL_RULES = """
package hookgate

models := {"gemini-2.5-flash", "gemini-2.5-pro"}

deny contains sprintf("the model %s is not used here", [input.llm_request.model]) if {
    input.hook_event_name == "BeforeModel"
    not input.llm_request.model in models
}

deny contains sprintf("message %d contains a key", [index + 1]) if {
    some index, message in input.llm_request.messages
    regex.match(`-----BEGIN [A-Z ]*PRIVATE KEY-----`, message.content)
}

deny contains "too long" if sum([count(each.content) | some each in input.llm_request.messages]) > 1000

deny contains "the answer names a customer" if {
    input.hook_event_name == "AfterModel"
    some name in {"Initech", "Hooli"}
    contains(lower(input.llm_response.text), lower(name))
}

warn contains "a hot answer" if input.llm_request.config.temperature > 1.5
"""

KEY_TEXT = "-----BEGIN RSA PRIVATE KEY-----"


def request(*texts: str, model: str = "gemini-2.5-pro", **config: Any) -> BeforeModel:
    turns = [{"role": "user", "parts": [{"text": text}]} for text in texts]
    return BeforeModel(model, {"contents": turns, "generationConfig": config})


def answer(text: str) -> AfterModel:
    candidate = {"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP"}
    return AfterModel({"model": "m", "messages": [], "config": {}}, {"candidates": [candidate]})


TWENTY_ON_MODELS: list[tuple[BeforeModel | AfterModel, str]] = [
    (request("hi"), ""),
    (request("hi", model="gemini-2.5-flash"), ""),
    (request("hi", model="gemini-2.0-pro"), "the model gemini-2.0-pro is not used here"),
    (request("hi", model="gemini-2.5-pro "), "the model gemini-2.5-pro  is not used here"),
    (request(KEY_TEXT), "message 1 contains a key"),
    (request("hi", "hello", f"a\n{KEY_TEXT}\nb"), "message 3 contains a key"),
    (request("hi", KEY_TEXT, KEY_TEXT), "message 2 contains a key\nmessage 3 contains a key"),
    (request("-----BEGIN PUBLIC KEY-----"), ""),
    (request("x" * 1000), ""),
    (request("x" * 1001), "too long"),
    (request("x" * 600, "y" * 401), "too long"),
    (request("\N{GRINNING FACE}" * 500), ""),
    (request("hi", temperature=1.5), ""),
    (request("hi", temperature=1.9), ""),
    (request('"', "\\", "\0"), ""),
    (answer("We met at INITECH."), "the answer names a customer"),
    (answer("We met at hooli's office."), "the answer names a customer"),
    (answer("We met at Hoo li."), ""),
    (answer(""), ""),
    (answer("Initech" * 10_000), "the answer names a customer"),
]


async def test_twenty_decisions_about_requests_and_answers(tmp_path: Path) -> None:
    write_file(tmp_path, MODEL_RULES, "model.rego")
    groups = [{"hooks": [{"type": "rego", "files": ["model.rego"]}]}]
    path = write_file(tmp_path, {"hooks": {"BeforeModel": groups, "AfterModel": groups}})
    engine = Engine(load_settings([path]))
    try:
        for event, reason in TWENTY_ON_MODELS:
            outcome = await engine.fire(event, SESSION)
            assert [run.error for run in outcome.runs] == [""]
            assert (outcome.verdict.decision == "deny", outcome.verdict.reason) == (bool(reason), reason)
    finally:
        await engine.close()


@pytest.mark.parametrize(
    ("value", "rules", "expected"),
    [
        ({"deny": []}, ["deny"], {}),
        ({"deny": True}, ["deny"], {"decision": "deny", "reason": "The rule deny applies."}),
        ({"deny": "no"}, ["deny"], {"decision": "deny", "reason": "no"}),
        ({"deny": ["a", {"msg": "b"}]}, ["deny"], {"decision": "deny", "reason": "a\nb"}),
        ({"deny": ["a"], "ask": ["b"]}, ["deny", "ask"], {"decision": "deny", "reason": "a"}),
        ({"deny": ["a"], "decision": "allow"}, ["deny"], {"decision": "deny", "reason": "a"}),
        ({"ask": ["a"], "decision": "deny"}, ["ask"], {"decision": "deny"}),
        ({"allow": True}, ["allow"], {}),
        ({"allow": False}, ["allow"], {"decision": "deny", "reason": "The policy does not allow this."}),
        ({}, ["allow"], {"decision": "deny", "reason": "The policy does not allow this."}),
        ({"allow": "yes"}, ["allow"], {"decision": "deny", "reason": "The policy does not allow this."}),
        ({"warn": ["a"], "systemMessage": "b"}, ["warn"], {"systemMessage": "b\na"}),
        ({"helper": 1, "continue": False}, ["continue"], {"continue": False}),
    ],
)
def test_rules_become_an_output_and_the_strictest_one_decides(value: Any, rules: Any, expected: Any) -> None:
    assert output_of(value, rules) == expected


async def test_a_rule_that_returns_an_output_can_be_the_query(tmp_path: Path) -> None:
    policy = 'package a.b\nresult := {"hookSpecificOutput": {"tool_input": {"n": input.tool_input.n + 1}}}'
    async with rego(tmp_path, policy, query="data.a.b.result") as runner:
        output = await ask(runner, "BeforeTool", tool_name="t", tool_input={"n": 1})
        assert output["hookSpecificOutput"]["tool_input"] == {"n": 2}


# ---- mistakes in policies


MISTAKES = [
    (
        "package hookgate\n\ndeny contains msg if {\n  msg := \n}",
        "0.rego:4:7: the rego hook 'guard': expecting `}`",
    ),
    ("package hookgate\ndeny[msg] { msg := 1 }", "0.rego:2:"),
    ("package hookgate\ndeny contains x if { not y }", "0.rego:2:"),
    ("package hookgate\ndeny contains 1 if nofunction(1)", "0.rego:2:"),
    ("package hookgate\n{}", "0.rego"),
    ("package other\ndeny contains 1 if true", "data.hookgate is no rule, and no package"),
    ("package hookgate\ndenial contains 1 if true", "data.hookgate is no rule, and no package"),
]


@pytest.mark.parametrize(("policy", "message"), MISTAKES)
async def test_a_mistake_is_reported_with_its_file_and_line_when_settings_are_loaded(
    policy: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError) as caught:
        async with rego(tmp_path, policy):
            pass
    assert message in str(caught.value)
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_files_that_cannot_be_read_are_reported(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.rego")
    (tmp_path / "large.rego").write_text("#" * (1 << 20) + "\n")
    (tmp_path / "latin.rego").write_bytes(b"package \xe9")
    for name, message in (
        ("none.rego", "No such file"),
        ("pipe.rego", "not a regular file"),
        ("large.rego", "split it"),
        ("latin.rego", "UTF-8"),
    ):
        with pytest.raises(SettingsError, match=message):
            async with rego(tmp_path, files=[name]):
                pass


async def test_without_the_extra_the_message_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SettingsError, match=r"install hookgate with its extra rego"):
        async with rego(tmp_path, "package hookgate\ndeny := false"):
            pass


ANOTHER_BUILD = """
class Engine:
    def add_policy(self, name, text): ...
    def add_extension(self, name, arguments, function): ...
    def eval_rule(self, rule): ...
    def set_input_json(self, text): ...
    def eval_query_as_json(self, query):
        return '{"result": [{"expressions": [{"value": {"deny": ["another build"]}}]}]}'
"""


async def test_any_build_of_the_engine_that_python_finds_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_file(tmp_path, ANOTHER_BUILD, "elsewhere/regorus.py")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "elsewhere"))
    async with rego(tmp_path, "package hookgate\ndeny := false") as runner:
        assert decided(await ask(runner)) == ("deny", "another build")


# ---- failures


FAILURES = [
    ("result := 1 if input.n == 1", "data.hookgate.result is undefined for this event"),
    ("result := {} if input.n\nresult := {1: 1} if input.n", "rule conflicts with rule at 0.rego:2"),
    ("result := [] if input.n", "must be an object"),
    ('result := {"deny": [1]} if input.n', "each message must be a string"),
    ('result := {"warn": ["a"], "systemMessage": 1} if input.n', "expected str"),
    ('result := {"ask": ["a"], "decision": {}} if input.n', "unhashable"),
    ('result := {"a": http.send({"url": "http://127.0.0.1/", "method": "get"})} if input.n', "http.send"),
    ("result := {to_number(input.s): 1}", "0.rego:2:"),
]


@pytest.mark.parametrize(("rule", "message"), FAILURES)
async def test_a_rule_that_cannot_decide_is_a_failure_of_the_hook(
    rule: str, message: str, tmp_path: Path
) -> None:
    async with rego(tmp_path, f"package hookgate\n{rule}", query="data.hookgate.result") as runner:
        for _ in range(2):  # the process survives
            with pytest.raises(HookError, match=message) as caught:
                await ask(runner, n=2, s="x")
            assert not isinstance(caught.value, HookUnavailableError)
            assert "\n" not in str(caught.value)


HARMS = [
    "deny contains 1 if count(numbers.range(1, input.n)) == 0",
    "deny contains 1 if {\n some a in numbers.range(1, input.n)\n some b in numbers.range(1, input.n)\n"
    " a * b == -1\n}",
    'deny contains 1 if count(regex.find_n("(a|aa)+$", input.long, -1)) < 0',
    "deny contains 1 if count(strings.replace_n({input.long: input.long}, input.long)) < 0",
]


@pytest.mark.parametrize("rule", HARMS)
async def test_an_event_that_makes_rules_run_forever_harms_no_other_caller(rule: str, tmp_path: Path) -> None:
    async with rego(tmp_path, f"package hookgate\n{rule}", timeout=4000, workers=2) as runner:
        harm = asyncio.create_task(ask(runner, session="bad", n=10**9, long="a" * 100_000))
        await asyncio.sleep(0)
        others = await asyncio.gather(*(ask(runner, session="good", n=1, long="a") for _ in range(20)))
        assert others == [{}] * 20
        [outcome] = await asyncio.gather(harm, return_exceptions=True)
        assert outcome == {} or isinstance(outcome, HookError)


async def test_a_caller_whose_events_make_rules_slow_leaves_a_process_to_others(tmp_path: Path) -> None:
    async with rego(tmp_path, f"package hookgate\n{HARMS[1]}", timeout=60_000, workers=2) as runner:

        def judged(key: str, n: int) -> asyncio.Task[Any]:
            return asyncio.create_task(
                runner.run("BeforeTool", SessionContext("s", key=key), Document({"n": n}))
            )

        slow = [judged("slow", 100_000) for _ in range(4)]
        await eventually(lambda: len(children()) > 0)
        assert await judged("other", 1) == {}
        assert [task.done() for task in slow] == [False] * 4
        for task in slow:
            task.cancel()


async def test_an_endless_evaluation_is_ended_with_its_process(tmp_path: Path) -> None:
    before = children()
    async with rego(tmp_path, f"package hookgate\n{HARMS[1]}", timeout=3000, workers=1) as runner:
        with pytest.raises(HookError, match="timed out after 3000 ms"):
            await ask(runner, n=100_000)
        await eventually(lambda: children() == before)
        assert await ask(runner, n=1) == {}
    await eventually(lambda: children() == before)


async def test_no_variable_of_the_gateway_is_visible_to_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOKGATE_ADMIN__TOKEN", "only-for-admins")
    policy = "package hookgate\nsystemMessage := json.marshal(opa.runtime())"
    async with rego(tmp_path, policy) as runner:
        message = (await ask(runner))["systemMessage"]
    assert "version" in message
    assert "only-for-admins" not in message
    assert "env" not in json.loads(message)


# ---- inputs of all kinds


TEXTS = strategies.text(strategies.characters(codec="utf-8"), max_size=40)
NUMBERS = strategies.integers(-(2**70), 2**70) | strategies.floats(allow_nan=False, allow_infinity=False)


async def test_every_text_and_number_reaches_the_rules_unchanged(tmp_path: Path) -> None:
    policy = """
package hookgate
result := {"systemMessage": input.text, "continue": input.number > input.bound}
"""
    async with rego(tmp_path, policy, query="data.hookgate.result") as runner:
        loop = asyncio.get_running_loop()

        @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
        @given(TEXTS, NUMBERS, NUMBERS)
        def law(text: str, number: float, bound: float) -> None:
            asked = ask(runner, text=text, number=number, bound=bound)
            output = asyncio.run_coroutine_threadsafe(asked, loop).result()
            assert output["systemMessage"] == text
            assert output["continue"] is (number > bound)

        await asyncio.to_thread(law)


async def test_odd_inputs_are_judged_or_fail_and_never_end_the_process(tmp_path: Path) -> None:
    deep: Any = "x"
    for _ in range(95):
        deep = [deep]
    odd = ["a\0b", "\u2028", 2**63 + 1, 10**300, -0.0, 5e-324, math.pi, {"": {"": []}}, deep, "\\u0000"]
    policy = 'package hookgate\ndeny contains "seen" if input.value == input.same'
    before = children()
    async with rego(tmp_path, policy, workers=1) as runner:
        await ask(runner, value=1, same=1)
        started = children() - before
        for value in odd:
            output = await ask(runner, value=value, same=value)
            assert decided(output) == ("deny", "seen"), value
        assert children() - before == started


async def test_a_large_event_is_judged(tmp_path: Path) -> None:
    policy = 'package hookgate\ndeny contains "end" if endswith(input.text, "END")'
    async with rego(tmp_path, policy) as runner:
        assert decided(await ask(runner, text="x" * 8_000_000 + "END")) == ("deny", "end")
