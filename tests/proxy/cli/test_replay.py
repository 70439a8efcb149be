"""`hookgate replay`: recorded calls with another policy."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest
from support.gateway.audits import audited_gateway
from support.gateway.loopback import running_upstream, write_settings
from support.hooks.builtins import SENSITIVE
from support.programs.program import run
from support.wire import KEY, SSE, UNARY, post, prompt

from hookgate.proxy.cli.audit import export_records as export_audit
from hookgate.proxy.store.database import open_audit

Json = dict[str, Any]
MAIL = "anna.berg@example.org"


def call(name: str, text: str, answer: Any = None, hooks: Any = (), outcome: str = "answered") -> list[Json]:
    """A call as an export tells it."""
    who = {"id": "s-1", "client": "GeminiCLI", "key": "anna", "team": "search"}
    request = prompt(text)
    start = {"type": "start", "id": name, "body": {"session": who, "model": "gemini-2.5-pro"}}
    end = {"type": "end", "id": name, "body": {"outcome": outcome, "hooks": list(hooks)}}
    given = {"answer": answer} if answer else {}
    return [{**start, "content": {"request": request}}, {**end, "content": given}]


def masked(records: list[Json]) -> list[Json]:
    """A call of which the audit has stored less than hooks saw."""
    start, end = records
    return [start, {**end, "content": {**end["content"], "masked": True}}]


def answer_of(*parts: Json) -> Json:
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}}]}


def builtin(name: str, policy: str, **options: Any) -> Json:
    asked = SENSITIVE if policy == "redact" else {}
    return {"type": "builtin", "name": name, "builtin": policy, "options": asked | options}


def export(folder: Path, *records: Json) -> Path:
    file = folder / "audit.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    return file


async def report(folder: Path, hooks: Json, *records: Json) -> Any:
    policy = write_settings(folder, hooks)
    ran = await run("replay", "--json", "--policy", str(policy), str(export(folder, *records)))
    assert ran.code == 0, ran
    return json.loads(ran.out)


async def test_what_a_new_rule_would_do_is_reported_by_rule_with_samples(tmp_path: Path) -> None:
    hooks = {
        "BeforeModel": [builtin("models", "models", deny=["*-pro"])],
        "AfterModel": [builtin("no-mail", "redact")],
    }
    reported = await report(tmp_path, hooks, *call("1", "hi", answer_of({"text": "hello"})))
    assert reported["replayed"] == 1
    assert reported["outcomes"] == [
        {"change": "answered → denied", "calls": 1, "receipts": ["1"], "reasons": ANY}
    ]
    assert reported["rules"] == [
        {
            "event": "BeforeModel",
            "hook": "models",
            "changes": [{"change": "did not run → deny", "calls": 1, "receipts": ["1"], "reasons": ANY}],
        }
    ]


async def test_edits_and_findings_of_answers_and_calls_in_them_are_judged(tmp_path: Path) -> None:
    removes = {"functionCall": {"name": "sh", "args": {"command": "rm -rf x"}}}
    deny = [{"tool": "sh", "when": {"/command": {"runs": {"program": "rm"}}}}]
    hooks = {
        "AfterModel": [builtin("no-mail", "redact")],
        "BeforeTool": [builtin("no-rm", "tools", deny=deny)],
    }
    records = [*call("1", "hi", answer_of({"text": f"mail {MAIL}"})), *call("2", "go", answer_of(removes))]
    reported = await report(tmp_path, hooks, *records, *call("3", "hi", answer_of({"text": "hello"})))
    changes = {(rule["event"], rule["hook"]): rule["changes"] for rule in reported["rules"]}
    assert changes["AfterModel", "no-mail"] == [
        {"change": "did not run → edit (EMAIL 1)", "calls": 1, "receipts": ["1"], "reasons": ANY}
    ]
    assert changes["BeforeTool", "no-rm"] == [
        {"change": "did not run → deny", "calls": 1, "receipts": ["2"], "reasons": ANY}
    ]
    assert reported["unchanged"] == 1


async def test_decisions_that_were_observed_and_would_be_enforced_are_not_changes(tmp_path: Path) -> None:
    observed = {
        "event": "BeforeModel",
        "hook": "no-mail",
        "mode": "observe",
        "decisions": {"allow": 1},
        "edits": ["contents"],
        "findings": {"EMAIL": 1},
    }
    hooks = {"BeforeModel": [builtin("no-mail", "redact")]}
    reported = await report(tmp_path, hooks, *call("1", f"mail {MAIL}", hooks=[observed]))
    assert (reported["unchanged"], reported["rules"], reported["outcomes"]) == (1, [], [])


def mails(decision: str, **more: Any) -> Json:
    """What a receipt says of a hook that finds addresses."""
    return {
        "event": "BeforeModel",
        "hook": "no-mail",
        "type": "builtin:redact",
        "decisions": {decision: 1},
        "findings": {"EMAIL": 1},
        **more,
    }


async def test_stricter_policy_is_not_reported_as_weaker_on_masked_content(tmp_path: Path) -> None:
    records = masked(call("1", "mail [EMAIL]", hooks=[mails("allow", edits=["contents"])]))
    hooks = {"BeforeModel": [builtin("no-mail", "redact", action="block")]}
    reported = await report(tmp_path, hooks, *records, *call("2", "hi"))
    assert reported["cannot_say"] == {"calls": 1, "receipts": ["1"]}
    assert (reported["replayed"], reported["unchanged"]) == (2, 1)
    assert (reported["rules"], reported["outcomes"]) == ([], [])


async def test_masked_call_that_was_denied_is_not_reported_as_answered(tmp_path: Path) -> None:
    records = masked(call("1", "mail [EMAIL]", hooks=[mails("deny")], outcome="denied"))
    reported = await report(tmp_path, {"BeforeModel": [builtin("no-mail", "redact")]}, *records)
    assert (reported["cannot_say"]["calls"], reported["rules"], reported["outcomes"]) == (1, [], [])


async def test_a_denied_call_whose_request_is_not_stored_is_without_content(tmp_path: Path) -> None:
    start, end = call("1", "hi", hooks=[mails("deny")], outcome="denied")
    records = [{**start, "content": {"request": None}}, end]
    reported = await report(tmp_path, {"BeforeModel": [builtin("no-mail", "redact")]}, *records)
    assert (reported["without_content"], reported["rules"], reported["outcomes"]) == (1, [], [])


async def test_hooks_are_those_of_a_policy_file_so_that_a_failure_denies(tmp_path: Path) -> None:
    failed = {
        "event": "BeforeModel",
        "hook": "flaky",
        "type": "command",
        "decisions": {"deny": 1},
        "failures": 1,
    }
    hooks = {"BeforeModel": [{"type": "command", "name": "flaky", "command": "exit 1"}]}
    reported = await report(tmp_path, hooks, *call("1", "hi", hooks=[failed], outcome="denied"))
    assert (reported["unchanged"], reported["rules"], reported["outcomes"]) == (1, [], [])


async def test_stricter_decision_on_masked_content_is_reported(tmp_path: Path) -> None:
    hooks = {"BeforeModel": [builtin("models", "models", deny=["*-pro"])]}
    reported = await report(tmp_path, hooks, *masked(call("1", "mail [EMAIL]", hooks=[mails("allow")])))
    assert reported["outcomes"][0]["change"] == "answered → denied"
    assert reported["rules"][0]["changes"][0]["change"] == "did not run → deny"
    assert reported["cannot_say"]["calls"] == 0


async def test_rules_that_read_no_content_are_compared_on_masked_content(tmp_path: Path) -> None:
    denied = {"event": "BeforeModel", "hook": "models", "type": "builtin:models", "decisions": {"deny": 1}}
    records = masked(call("1", "mail [EMAIL]", hooks=[denied], outcome="denied"))
    reported = await report(tmp_path, {"BeforeModel": [builtin("models", "models", deny=["x-*"])]}, *records)
    assert reported["outcomes"][0]["change"] == "denied → answered"
    assert reported["cannot_say"]["calls"] == 0


async def test_a_rule_that_is_gone_and_a_call_that_would_pass_are_reported(tmp_path: Path) -> None:
    denied = {"event": "BeforeModel", "hook": "old", "decisions": {"deny": 1}}
    reported = await report(tmp_path, {}, *call("1", "hi", hooks=[denied], outcome="denied"))
    assert reported["outcomes"][0]["change"] == "denied → answered"
    assert reported["rules"][0]["changes"][0]["change"] == "deny → does not run"


async def test_events_of_shims_are_replayed_and_calls_without_content_counted(tmp_path: Path) -> None:
    event = {
        "type": "event",
        "id": "e-1",
        "body": {"event": "BeforeTool", "session": {"id": "s-1"}, "hooks": []},
        "content": {"input": {"tool_name": "sh", "tool_input": {"command": "ls"}}},
    }
    bare = [{key: value for key, value in record.items() if key != "content"} for record in call("1", "hi")]
    hooks = {"BeforeTool": [builtin("none", "tools", allow=[])]}
    reported = await report(tmp_path, hooks, event, *bare)
    assert (reported["replayed"], reported["without_content"]) == (1, 1)
    assert reported["rules"][0]["changes"] == [
        {"change": "did not run → deny", "calls": 1, "receipts": ["e-1"], "reasons": ANY}
    ]


async def test_a_rule_for_calls_that_require_json_is_replayed_for_those(tmp_path: Path) -> None:
    start, end = call("1", "which model?")
    start["content"]["request"]["generation_config"] = {"response_mime_type": "application/json"}
    rule = builtin("models", "models", deny=["*-pro"]) | {"when": {"json": True}}
    reported = await report(tmp_path, {"BeforeModel": [rule]}, start, end, *call("2", "hi"))
    assert reported["outcomes"] == [
        {"change": "answered → denied", "calls": 1, "receipts": ["1"], "reasons": ANY}
    ]


async def test_calls_in_code_assists_envelope_are_replayed(tmp_path: Path) -> None:
    start, end = call("1", f"write to {MAIL}")
    envelope = {"model": "gemini-2.5-pro", "project": "p", "request": start["content"]["request"]}
    route = {"kind": "judged", "path": "/v1internal:generateContent"}
    start = {**start, "body": {**start["body"], "route": route}, "content": {"request": envelope}}
    reported = await report(tmp_path, {"BeforeModel": [builtin("no-mail", "redact")]}, start, end)
    [rule] = reported["rules"]
    assert rule["changes"] == [
        {"change": "did not run → edit (EMAIL 1)", "calls": 1, "receipts": ["1"], "reasons": ANY}
    ]


@pytest.mark.parametrize(
    "odd",
    [{"session": "s"}, {"hooks": [{"event": 1, "decisions": "x", "findings": [1]}]}, {"hooks": "x"}],
    ids=["session", "hook", "hooks"],
)
async def test_odd_records_are_replayed_as_far_as_they_tell(odd: Json, tmp_path: Path) -> None:
    start, end = call("1", f"write to {MAIL}")
    hooks = {"BeforeModel": [builtin("no-mail", "redact")]}
    reported = await report(tmp_path, hooks, start, {**end, "body": {**end["body"], **odd}})
    assert reported["replayed"] == 1
    assert [rule["hook"] for rule in reported["rules"]] == ["no-mail"]


async def test_a_call_that_was_refused_before_any_hook_is_counted_separately(tmp_path: Path) -> None:
    start, end = (
        {key: value for key, value in record.items() if key != "content"}
        for record in call("1", "hi", outcome="refused")
    )
    reported = await report(tmp_path, {}, start, end)
    assert (reported["replayed"], reported["without_content"], reported["refused"]) == (0, 0, 1)
    policy = write_settings(tmp_path, {})
    ran = await run("replay", "--policy", str(policy), str(export(tmp_path, start, end)))
    assert "1 left out: refused before any hook ran." in ran.out
    assert "without content" not in ran.out


async def test_findings_of_a_denial_are_reported_beside_it(tmp_path: Path) -> None:
    hooks = {"BeforeModel": [builtin("no-mail", "redact", action="block")]}
    reported = await report(tmp_path, hooks, *call("1", f"mail {MAIL}"))
    assert reported["rules"][0]["changes"][0]["change"] == "did not run → deny (EMAIL 1)"


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["--policy", "{a}", "{b}", "{audit}"], id="one flag"),
        pytest.param(["--policy", "{a}", "--policy", "{b}", "{audit}"], id="two flags"),
        pytest.param(["{audit}", "--policy", "{a}", "{b}"], id="export first"),
        pytest.param(["--policy", "{a}", "{b}", "--json", "{audit}"], id="another flag between"),
        pytest.param(["--policy", "{a}", "{b}", "{audit}", "{audit}"], id="two exports"),
    ],
)
async def test_a_policy_may_be_of_several_files(tmp_path: Path, words: list[str]) -> None:
    files = {"audit": export(tmp_path, *call("1", "hi"))}
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        settings = {
            "BeforeModel": [builtin(name, "models", cap={"maxOutputTokens": 9 if name == "a" else 8})]
        }
        files[name] = write_settings(tmp_path / name, settings)
    ran = await run("replay", "--json", *(word.format_map(files) for word in words))
    assert [rule["hook"] for rule in json.loads(ran.out)["rules"]] == ["a", "b"]


async def test_a_replay_without_an_export_says_so(tmp_path: Path) -> None:
    ran = await run("replay", "--policy", str(write_settings(tmp_path, {})))
    assert (ran.code, "an export are missing" in ran.complaint) == (1, True)


async def test_people_read_a_table(tmp_path: Path) -> None:
    policy = write_settings(tmp_path, {"BeforeModel": [builtin("models", "models", deny=["*"])]})
    ran = await run("replay", "--policy", str(policy), str(export(tmp_path, *call("abc", "hi"))))
    assert "1 call or event replayed, 0 unchanged." in ran.out
    assert (
        "did not run → deny    e.g. abc\n          The model 'gemini-2.5-pro' is not allowed here." in ran.out
    )
    assert ran.err == ""


async def test_without_a_policy_the_hooks_of_the_gateway_are_tried(tmp_path: Path) -> None:
    """As its configuration names them, with its prices."""
    write_settings(tmp_path, {"BeforeModel": [builtin("models", "models", deny=["*"])]})
    toml = tmp_path / "hookgate.toml"
    toml.write_text('[hooks]\npolicy = ["settings.json"]\n')
    ran = await run("replay", "--json", "--config", str(toml), str(export(tmp_path, *call("abc", "hi"))))
    assert ran.code == 0, ran
    [change] = json.loads(ran.out)["outcomes"]
    assert change["change"] == "answered → denied"
    assert "gemini-2.5-pro" in change["reasons"][0]


async def test_a_change_says_why_it_was_denied_before(tmp_path: Path) -> None:
    was = {"event": "BeforeModel", "hook": "old", "decisions": {"deny": 1}, "mode": "enforce"}
    records = call("1", "hi", answer_of({"text": "hello"}), [was], "denied")
    records[1]["body"]["reasons"] = {"BeforeModel": "too strict"}
    reported = await report(tmp_path, {}, *records)
    assert reported["outcomes"][0]["reasons"] == ["too strict"]
    assert reported["rules"][0]["changes"][0]["reasons"] == ["too strict"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param("{", "audit.jsonl: line 1: is not JSON", id="no JSON"),
        pytest.param("{}", "audit.jsonl: line 1: is not an audit record", id="no record"),
        pytest.param(None, "audit.jsonl: cannot be read", id="no file"),
    ],
)
async def test_a_file_that_is_not_an_export_is_reported(
    tmp_path: Path, content: str | None, expected: str
) -> None:
    if content is not None:
        (tmp_path / "audit.jsonl").write_text(content)
    policy = write_settings(tmp_path, {})
    ran = await run("replay", "--policy", str(policy), str(tmp_path / "audit.jsonl"))
    assert ran.code == 1
    assert expected in ran.err
    assert "Traceback" not in ran.err


def exported_from(state: Path) -> Path:
    """What `hookgate audit export` writes of an audit."""
    file = state / "exported.jsonl"
    with closing(open_audit(None, state, writes=False)) as database, file.open("wb") as out:
        export_audit(database, None, None, out)
    return file


EVENT = "/s/s1/hookgate/v1/events/BeforeTool"


def policies(mode: str) -> Json:
    """A policy to try: redaction both ways, no models of one sort, no removing."""
    deny = [{"tool": "sh", "when": {"/command": {"runs": {"program": "rm"}}}}]
    hooks = {
        "BeforeModel": [builtin("no-mail", "redact"), builtin("models", "models", deny=["*-pro"])],
        "AfterModel": [builtin("no-mail", "redact")],
        "BeforeTool": [builtin("no-rm", "tools", deny=deny)],
    }
    return {event: [{**hook, "mode": mode} for hook in listed] for event, listed in hooks.items()}


async def test_a_policy_that_was_observed_decides_the_same_when_it_is_replayed_as_enforced(
    tmp_path: Path,
) -> None:
    script = {"rules": [{"answer": {"parts": [{"text": f"ask {MAIL}"}, {"functionCall": REMOVES}]}}]}
    async with (
        running_upstream(script) as (upstream, _),
        audited_gateway(upstream, tmp_path, policies("observe"), content="full") as gateway,
    ):
        for target in (UNARY, SSE, UNARY.replace("flash", "pro")):
            assert (await post(gateway.url, target, prompt(f"mail {MAIL}"), KEY)).status == 200
        event = {"tool_name": "sh", "tool_input": {"command": "rm x"}}
        assert (await post(gateway.url, EVENT, event, KEY)).status == 200
    exported = exported_from(tmp_path)
    policy = write_settings(tmp_path, policies("enforce"))
    ran = await run("replay", "--json", "--policy", str(policy), str(exported))
    reported = json.loads(ran.out)
    assert (reported["replayed"], reported["without_content"], reported["rules"]) == (4, 0, [])
    assert reported["outcomes"] == [
        {"change": "answered → blocked", "calls": 2, "receipts": [ANY, ANY], "reasons": ANY},
        {"change": "answered → denied", "calls": 1, "receipts": [ANY], "reasons": ANY},
    ]


REMOVES = {"name": "sh", "args": {"command": "rm -rf x"}}


async def test_a_policy_that_asks_a_service_elsewhere_is_replayed_if_its_settings_allow_that(
    tmp_path: Path,
) -> None:
    guard = builtin("guard", "guardrail", url="https://guard.example.invalid")
    content = {
        "hooks": {"SessionStart": [], "AfterModel": [{"hooks": [guard]}]},
        "hooksConfig": {"http_targets": ["https://guard.example.invalid/"]},
    }
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps(content))
    ran = await run("replay", "--json", "--policy", str(policy), str(export(tmp_path)))
    assert ran.code == 0, ran
