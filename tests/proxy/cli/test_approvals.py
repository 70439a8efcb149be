"""`hookgate approvals`: lists the calls that wait for a person, shows them, and decides."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.gateway.approving import asked_call, now
from support.programs.program import Ended, run

from hookgate.proxy.approvals.requests import AskedCall
from hookgate.proxy.approvals.table import ApprovalTable, Standing
from hookgate.proxy.store.database import open_approvals

HOUR = 3_600_000


@pytest.fixture
def table(tmp_path: Path) -> Iterator[ApprovalTable]:
    opened = ApprovalTable(open_approvals(None, tmp_path))
    yield opened
    opened.close()


def ask(table: ApprovalTable, call: AskedCall | None = None, persons: int = 1) -> Standing:
    return table.ask([call or asked_call(to="ann")], now(), HOUR, persons)[0]


def id_of(standing: Standing) -> str:
    assert standing.request
    return standing.request.id


async def approvals(folder: Path, *words: str) -> Ended:
    return await run("approvals", *words, "--state", str(folder))


async def changes(folder: Path) -> list[Any]:
    ended = await run("audit", "changes", "--json", "--state", str(folder))
    return [json.loads(line) for line in reversed(ended.out.splitlines())]


async def test_a_call_is_listed_shown_and_approved(tmp_path: Path, table: ApprovalTable) -> None:
    assert (await approvals(tmp_path, "list")).out == "No call waits for a decision.\n"
    id_ = id_of(ask(table))
    [head, row] = (await approvals(tmp_path, "list")).out.splitlines()
    assert head.split()[:4] == ["id", "state", "tool", "key"]
    assert row.split()[:4] == [id_[:8], "pending", "send_mail", "alice"]
    [listed] = [json.loads(line) for line in (await approvals(tmp_path, "list", "--json")).out.splitlines()]
    assert (listed["id"], listed["arguments"]) == (id_, {"to": "ann"})
    shown = (await approvals(tmp_path, "show", id_[:6])).out
    assert '"to": "ann"' in shown
    assert "A person decides." in shown
    ended = await approvals(tmp_path, "approve", id_[:8], "--yes", "--by", "ada", "--reason", "fine")
    assert (ended.code, ended.err) == (0, "")
    assert f"{id_[:8]} is approved: the tool send_mail, once, for alice" in ended.out
    assert ask(table).result == "approved"
    [change] = [each for each in await changes(tmp_path) if each["change"].startswith("approvals.")]
    assert (change["change"], change["by"], change["way"]) == ("approvals.approve", "ada", "command")
    assert (change["request"], change["reason"]) == (id_, "fine")
    assert [
        json.loads(line)["state"]
        for line in (await approvals(tmp_path, "list", "--all", "--json")).out.splitlines()
    ] == ["used"]


async def test_tools_are_approved_for_a_time_and_that_is_withdrawn(
    tmp_path: Path, table: ApprovalTable
) -> None:
    id_ = id_of(ask(table))
    ended = await approvals(tmp_path, "approve", id_, "--tool", "send_*", "--for", "8h", "--yes")
    assert "is approved: tools send_*, for alice, until 20" in ended.out
    assert ask(table, asked_call("send_post", session="s-2")).result == "approved"
    assert (await approvals(tmp_path, "deny", id_, "--json")).code == 0
    assert ask(table, asked_call("send_post", session="s-2")).result == "pending"


async def test_a_session_is_approved_and_two_persons_are_counted(
    tmp_path: Path, table: ApprovalTable
) -> None:
    id_ = id_of(ask(table, persons=2))
    words = ("approve", id_, "--scope", "session", "--yes")
    assert "another person must" in (await approvals(tmp_path, *words, "--by", "ada")).out
    again = await approvals(tmp_path, *words, "--by", "Ada")
    assert (again.code, "another person must" in again.err) == (1, True)
    assert (await approvals(tmp_path, *words, "--by", "bob")).code == 0
    assert [ask(table).result for _ in range(3)] == ["approved"] * 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("show", "zzzz"), "there is no request 'zzzz'"),
        (("approve", "ID", "--tool", "send_*"), "--tool and --for belong together"),
        (("approve", "ID", "--for", "8h"), "--tool and --for belong together"),
        (("approve", "ID", "--tool", "a", "--for", "8h", "--scope", "once"), "replace --scope"),
        (("approve", "ID", "--tool", "a", "--for", "8x"), "--for: '8x' must be a time"),
        (("approve", "ID", "--tool", "a", "--for", "400d"), "of up to 30 days"),
        (("approve", "ID", "--tool", "read_*", "--for", "1h", "--yes"), "do not include the tool"),
        (("deny", "ID", "--reason", "a\x1bb"), "--reason: must be"),
        (("approve", "ID", "--yes", "--by", ""), "--by: must be"),
    ],
)
async def test_mistakes_are_explained_and_decide_nothing(
    words: tuple[str, ...], message: str, tmp_path: Path, table: ApprovalTable
) -> None:
    id_ = id_of(ask(table))
    ended = await approvals(tmp_path, *(id_ if each == "ID" else each for each in words))
    assert ended.code == 1
    assert message in ended.err
    assert table.pending(now()) == 1


async def test_without_a_terminal_an_approval_needs_a_flag(tmp_path: Path, table: ApprovalTable) -> None:
    ended = await approvals(tmp_path, "approve", id_of(ask(table)))
    assert (ended.code, "pass --yes" in ended.out) == (1, True)
    assert table.pending(now()) == 1


async def test_what_a_model_has_written_cannot_control_the_terminal(
    tmp_path: Path, table: ApprovalTable
) -> None:
    evil = "\x1b[2J\u202e\u200b\nstate:      approved"
    id_ = id_of(ask(table, asked_call("send_\x1b[31m\n" + "x" * 300, session="s", to=evil)))
    for words in (("list",), ("show", id_), ("deny", id_)):
        out = (await approvals(tmp_path, *words)).out
        assert all(each.isprintable() for each in out.replace("\n", ""))
        assert "\nstate:      approved" not in out


async def test_requests_are_data_about_a_person(tmp_path: Path, table: ApprovalTable) -> None:
    ask(table)
    ask(table, asked_call(key="bob"))
    found = json.loads(
        (await run("data", "find", "--person", "alice", "--json", "--state", str(tmp_path))).out
    )
    assert found["stored"]["approvals"] == 1
    exported = (await run("data", "export", "--person", "alice", "--state", str(tmp_path))).out
    assert '\\"to\\": \\"ann\\"' in exported
    await run("data", "erase", "--person", "alice", "--yes", "--state", str(tmp_path))
    assert [each.key for each in table.latest(9)] == ["bob"]
