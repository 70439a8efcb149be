"""`hookgate policy`: pushes, refusals, and their records in the audit."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from support.gateway.loopback import running_upstream
from support.gateway.pushed import allowing, document, hook, push
from support.hooks.settings import command
from support.programs.program import Ended, run, serving
from support.wire import HI, UNARY, ask, connected, post

GEMINI_2, GEMINI_3 = allowing("gemini-2.5-*"), allowing("gemini-3-*")


async def hookgate(*words: str, state: Path, url: str | None = None, code: int = 0, **env: str) -> Ended:
    """A command with this state folder, or the database's URL."""
    given = {"HOOKGATE_STORE__URL": url or "", "HOOKGATE_HOOKS__DATABASE": "true", **env}
    ended = await run(*words, "--state", str(state), env=given)
    assert ended.code == code, ended.err
    return ended


def written(folder: Path, text: str, name: str = "policy.json") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


async def changes(state: Path, url: str | None = None) -> list[Any]:
    ended = await hookgate("audit", "changes", "--json", state=state, url=url)
    return [json.loads(line) for line in ended.out.splitlines()]


async def test_revisions_are_pushed_compared_and_rolled_back_on_record(
    url: str | None, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    first, second = written(tmp_path, GEMINI_2, "a.json"), written(tmp_path, GEMINI_3, "b.json")

    async def policy(*words: str, code: int = 0) -> Ended:
        return await hookgate("policy", *words, state=state, url=url, code=code)

    told = await policy("push", first, "--message", "for all", "--by", "alice", "--expect", "0")
    assert re.fullmatch(r"Revision 1 \([0-9a-f]{12}\) was pushed; gateways use it .*\.\n", told.out)
    assert told.err == "hookgate: hooks: BeforeModel 1\n"
    assert "nothing was pushed" in (await policy("push", first)).out
    stale = await policy("push", second, "--expect", "0", code=1)
    assert stale.complaint.startswith("hookgate: --expect: revision 1 is the newest one, not 0")
    await policy("push", second, "--expect", "1")
    assert f"-{GEMINI_2}\n+{GEMINI_3}\n" in (await policy("diff")).out
    assert f"-{GEMINI_3}\n+{GEMINI_2}\n" in (await policy("diff", first)).out
    await policy("rollback", "1", "--message", "too strict")
    assert (await policy("show")).out == GEMINI_2
    listed = [json.loads(line) for line in (await policy("history", "--json")).out.splitlines()]
    fields = [[each[name] for name in ("number", "parent", "restores", "message")] for each in listed]
    assert fields == [[3, 2, 1, "too strict"], [2, 1, None, ""], [1, 0, None, "for all"]]
    assert listed[2]["pushed_by"] == "alice"
    assert re.fullmatch(r".+@.+", listed[0]["pushed_by"])
    assert listed[0]["sha256"] == listed[2]["sha256"] != listed[1]["sha256"]

    recorded = await changes(state, url)
    assert [(each["change"], each["number"]) for each in recorded] == [
        ("policy.rollback", 3),
        ("policy.push", 2),
        ("policy.push", 1),
    ]
    assert [recorded[2][name] for name in ("by", "message", "sha256")] == [
        "alice",
        "for all",
        listed[2]["sha256"],
    ]
    shown = (await hookgate("audit", "show", recorded[2]["id"], state=state, url=url)).out
    assert shown.startswith("change:  policy.push, by alice\n")
    assert "of 3 writers: nothing is missing" in (await hookgate("audit", "verify", state=state, url=url)).out


async def test_a_policy_that_cannot_be_used_is_refused_with_every_problem(tmp_path: Path) -> None:
    hooks = [
        hook("models", alow=["*"]),
        command("./guard.sh", name="relative"),
        command("python3 /nowhere/guard.py", name="missing"),
        {"type": "http", "url": "http://example.com/", "name": "far"},
    ]
    text = json.dumps({"hooks": {"BeforeModel": [{"hooks": hooks}], "BeforModel": []}, "hookConfig": {}})
    path = written(tmp_path, text)
    refused = await hookgate("policy", "push", path, state=tmp_path / "state", code=1)
    problems = [
        f"{path}:1: 'hookConfig' is not known here",
        f"{path}:1: hooks.BeforeModel: the hook 'relative': ./guard.sh does not exist in /; "
        "the hook runs in /, so use an absolute path",
        f"{path}:1: hooks.BeforeModel: the hook 'missing': /nowhere/guard.py, which python3 would run, does",
        f"{path}:1: hooks.BeforModel: there is no such event; did you mean BeforeModel?",
        f"{path}:1: the BeforeModel hook 'models': options: alow: is not known here; did you mean allow?",
        "http://example.com/ is neither on this machine nor allowed",
    ]
    assert [each for each in problems if each not in refused.err] == []
    nothing = await hookgate("policy", "history", state=tmp_path / "state", code=1)
    assert "no policy was pushed in" in nothing.complaint


async def test_scripts_may_exist_on_the_gateways_only(tmp_path: Path) -> None:
    function = {"type": "runtime", "action": "/nowhere/guard.py:check", "name": "function"}
    rules = {"type": "rego", "files": ["/nowhere/guard.rego"]}
    text = document(BeforeModel=command("/nowhere/guard.sh"), AfterModel=function, BeforeTool=rules)
    path, state = written(tmp_path, text), tmp_path / "state"
    refused = await hookgate("policy", "push", path, state=state, code=1)
    assert "/nowhere/guard.sh does not exist" in refused.err
    assert "/nowhere/guard.py" in refused.err
    assert "/nowhere/guard.rego" in refused.err
    told = await hookgate("policy", "push", path, "--scripts-elsewhere", state=state)
    assert told.out.startswith("Revision 1")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("push", "none.json"), "hookgate: none.json: cannot be read: No such file or directory"),
        (("show", "9"), "hookgate: there is no revision 9; `hookgate policy history` lists them"),
        (("show", "first"), "hookgate: 'first' is not a revision; use a number, or at least 12 digits"),
        (("rollback", "abcdefabcdef"), "hookgate: there is no revision abcdefabcdef;"),
        (("rollback", "1", "--expect", "x"), "hookgate: --expect: 'x' is not a revision"),
    ],
)
async def test_what_is_not_there_is_reported(words: tuple[str, ...], complaint: str, tmp_path: Path) -> None:
    push(tmp_path, None, GEMINI_2)
    push(tmp_path, None, GEMINI_3)
    ended = await hookgate("policy", *words, state=tmp_path, code=1)
    assert ended.complaint.startswith(complaint)


async def test_nothing_is_pushed_or_issued_if_it_cannot_be_recorded(tmp_path: Path) -> None:
    (tmp_path / "audit.db").mkdir()
    refused = await hookgate("policy", "push", written(tmp_path, GEMINI_2), state=tmp_path, code=1)
    assert "audit.db cannot be opened: Is a directory" in refused.complaint
    refused = await hookgate("keys", "create", "alice", state=tmp_path, code=1)
    assert "audit.db cannot be opened: Is a directory" in refused.complaint
    (tmp_path / "audit.db").rmdir()
    assert (await hookgate("policy", "history", "--json", state=tmp_path)).out == ""
    assert (await hookgate("keys", "list", "--json", state=tmp_path)).out == ""


async def test_changes_of_keys_are_on_record_without_the_keys(tmp_path: Path) -> None:
    commands = (("create", "alice", "--team", "search", "--by", "bob"), ("rotate", "alice"))
    issued = [(await hookgate("keys", *words, state=tmp_path)).out.strip() for words in commands]
    await hookgate("keys", "revoke", "alice", state=tmp_path)
    recorded = await changes(tmp_path)
    assert [each["change"] for each in recorded] == ["keys.revoke", "keys.rotate", "keys.create"]
    assert {(each["key"], each["owner"], each["team"]) for each in recorded} == {
        (issued[0].split("_")[1], "alice", "search")
    }
    assert recorded[2]["by"] == "bob"
    export = (await hookgate("audit", "export", state=tmp_path)).out
    assert [key for key in issued if key.split("_")[2] in export] == []


async def test_commands_about_hooks_include_the_pushed_policy(tmp_path: Path) -> None:
    push(tmp_path, None, GEMINI_2)
    listed = json.loads((await hookgate("hooks", "list", "--json", state=tmp_path)).out)
    assert [(each["name"], each["source"]) for each in listed] == [("models", "policy")]
    kept = await hookgate("hooks", "disable", "models", state=tmp_path, code=1)
    assert "'models' stays on: it is in the policy file <policy revision 1>" in kept.complaint
    checked = (await hookgate("config", "check", state=tmp_path)).out
    assert re.search(r"hooks: BeforeModel 1; revision 1-[0-9a-f]{12}", checked)


async def test_every_worker_follows_a_push_and_the_panel_shows_it(tmp_path: Path) -> None:
    state = tmp_path / "state"
    await hookgate("policy", "push", written(tmp_path, GEMINI_2), "--by", "alice", state=state)
    env = {
        "HOOKGATE_HOOKS__DATABASE": "true",
        "HOOKGATE_ADMIN__ADDRESS": "127.0.0.1:0",
        "HOOKGATE_ADMIN__TOKEN": "a-token-of-the-test",
        "HOOKGATE_STATE": str(state),
    }
    async with running_upstream() as (upstream, _):
        words = ("serve", "--workers", "2", "--listen", "127.0.0.1:0", "--upstream", upstream)
        async with serving(*words, env=env, patience=60) as server:
            [admin] = re.findall(r"admin listener on (\S+)", server.log)
            reading = asyncio.create_task(server.ended())  # a full pipe would hold up the gateway
            assert (await post(server.url, UNARY, HI)).status == 200
            push(state, None, GEMINI_3, message="no older ones")
            async with asyncio.timeout(5):
                while (await ask(admin, "GET", "/readyz")).json["policy"]["number"] != 2:
                    pass
            assert await statuses(server.url, 12) == {403}
            page = (await ask(admin, "GET", "/metrics")).body.decode()
            numbers = re.findall(r'hookgate_policy_info\{worker="(\d)",number="(\d)"', page)
            assert numbers == [("1", "2"), ("2", "2")]
            bearer = {"Authorization": "Bearer a-token-of-the-test"}
            async with asyncio.timeout(5):  # the supervisor follows it as well, by itself
                while True:
                    shown = (await ask(admin, "GET", "/api/policy", bearer)).json["policy"]["pushed"]
                    if shown["number"] == 2:
                        break
            assert [shown[name] for name in ("number", "pushed_by", "message", "state")] == [
                *(2, "alice", "no older ones", "current")
            ]
            reading.cancel()
    recorded = await changes(state)
    in_use = [each["revision"].partition("-")[0] for each in recorded if each["event"] == "policy"]
    assert in_use == ["2", "2"]  # each worker records when it is in use


async def statuses(url: str, count: int) -> set[int]:
    """The statuses of calls on connections of their own, which both workers accept."""
    found = set()
    for _ in range(count):
        async with connected(url) as wire:
            await wire.post(UNARY, HI)
            found.add((await wire.answer()).status)
    return found


async def test_a_comment_that_no_database_could_store_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "// a \0 b\n{}")
    refused = await hookgate("policy", "push", path, state=tmp_path / "state", code=1)
    assert refused.complaint == f"hookgate: {path}: contains a null character; remove it"
