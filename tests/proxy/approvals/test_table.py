"""Requests in the database, as gateways that share it see them."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.gateway.approving import asked_call, decision, now
from support.gateway.databases import postgres

from hookgate.proxy.approvals.requests import AskedCall, DecisionError, Scope
from hookgate.proxy.approvals.table import MAX_OPEN, MAX_OPEN_OF_ALL, ApprovalTable, Standing
from hookgate.proxy.store.database import open_approvals

HOUR = 3_600_000
Tables = list[ApprovalTable]


@pytest.fixture(params=["sqlite", "postgresql"])
def tables(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Tables]:
    """The table of each of three gateways that share a database."""
    with ExitStack() as stack:
        url = stack.enter_context(postgres()) if request.param == "postgresql" else None
        opened = [ApprovalTable(open_approvals(url, tmp_path)) for _ in range(3)]
        for each in opened:
            stack.callback(each.close)
        yield opened


def ask(
    table: ApprovalTable, call: AskedCall | None = None, at: int | None = None, persons: int = 1
) -> Standing:
    [standing] = table.ask([call or asked_call(to="ann")], at or now(), HOUR, persons)
    return standing


def approve(table: ApprovalTable, standing: Standing, **more: object) -> None:
    assert standing.request
    table.decide(standing.request.id, decision(**more))  # type: ignore[arg-type]  # of `decision`


def at_once(count: int, step: Callable[[int], Standing]) -> list[Standing]:
    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(step, range(count)))


def test_a_call_is_asked_about_once_by_all_gateways(tables: Tables) -> None:
    found = at_once(12, lambda i: ask(tables[i % 3]))
    assert {each.result for each in found} == {"pending"}
    assert [each.is_new for each in found].count(True) == 1
    assert len({each.request.id for each in found if each.request}) == 1
    assert tables[0].pending(now()) == 1


def test_an_approval_for_one_call_is_used_once_by_all_gateways(tables: Tables) -> None:
    for _ in range(5):
        approve(tables[0], ask(tables[0]))
        results = Counter(each.result for each in at_once(12, lambda i: ask(tables[i % 3])))
        assert results == {"approved": 1, "pending": 11}
        pending = tables[0].latest(1, ("pending",))
        tables[1].decide(pending[0].id, decision("eve"))
        assert ask(tables[2]).result == "approved"


@pytest.mark.parametrize(
    "other",
    [
        asked_call(to="ann", key="bob"),
        asked_call(to="ann", session="s-2"),
        asked_call(to="ann", key=""),
        asked_call("send_post", to="ann"),
        asked_call(to="bob"),
        asked_call(to="ann", cc=None),
    ],
)
def test_nobody_else_and_no_other_call_uses_an_approval(tables: Tables, other: AskedCall) -> None:
    approve(tables[0], ask(tables[0]))
    assert ask(tables[1], other).result == "pending"
    assert ask(tables[1]).result == "approved"


def test_the_calls_of_one_answer_use_their_approvals_together_or_not_at_all(tables: Tables) -> None:
    def ask_both() -> list[str]:
        both = [asked_call(to="ann"), asked_call(to="bob")]
        return [each.result for each in tables[0].ask(both, now(), HOUR, 1)]

    assert ask_both() == ["pending", "pending"]
    by_name = {json.loads(each.arguments)["to"]: each.id for each in tables[1].latest(2, ("pending",))}
    tables[1].decide(by_name["ann"], decision())
    for _ in range(2):
        assert ask_both() == ["approved", "pending"]
    tables[1].decide(by_name["bob"], decision())
    assert ask_both() == ["approved", "approved"]
    assert ask_both() == ["pending", "pending"], "both are used up"


def test_two_equal_calls_of_one_answer_need_two_approvals(tables: Tables) -> None:
    twice = [asked_call(to="ann")] * 2
    found = [tables[0].ask(twice, now(), HOUR, 1)]
    assert len(tables[0].latest(5, ("pending",))) == 1, "the same request twice"
    for _ in range(2):
        approve(tables[0], found[-1][1])
        found.append(tables[0].ask(twice, now(), HOUR, 1))
    assert [[each.result for each in both] for both in found[1:]] == [
        ["approved", "pending"],
        ["approved"] * 2,
    ]


def test_a_denied_call_stays_denied_without_another_request(tables: Tables) -> None:
    approve(tables[0], ask(tables[0]), approves=False, reason="no")
    again = ask(tables[1])
    assert (again.result, again.is_new) == ("denied", False)
    assert again.request
    assert again.request.decisions[-1].reason == "no"
    approve(tables[2], again)  # somebody has thought better of it
    assert ask(tables[0]).result == "approved"


def test_an_approval_for_the_session_is_used_again_until_it_expires(tables: Tables) -> None:
    approve(tables[0], ask(tables[0]), scope=Scope("session"))
    assert [ask(each).result for each in (*tables, *tables)] == ["approved"] * 6
    assert ask(tables[0], asked_call(to="ann", session="s-2")).result == "pending"
    assert ask(tables[0], at=now() + HOUR).result == "pending"


def test_tools_are_approved_for_a_key_and_a_time(tables: Tables) -> None:
    approve(tables[0], ask(tables[0]), scope=Scope("tools", "send_*", 60))
    assert ask(tables[1], asked_call("send_post", session="s-9", x=1)).result == "approved"
    assert ask(tables[1], asked_call("delete", session="s-9")).result == "pending"
    assert ask(tables[1], asked_call("Send_post")).result == "pending"
    assert ask(tables[1], asked_call("send_post", key="bob")).result == "pending"
    assert ask(tables[1], asked_call("send_post", session="s-7"), at=now() + 61_000).result == "pending"


def test_a_withdrawn_approval_is_not_used(tables: Tables) -> None:
    first = ask(tables[0])
    approve(tables[0], first, scope=Scope("tools", "send_*", 60))
    approve(tables[0], first, approves=False)
    assert ask(tables[1]).result == "denied"
    assert ask(tables[1], asked_call(to="bob")).result == "pending"


def test_an_approval_of_one_of_two_persons_is_none(tables: Tables) -> None:
    first = ask(tables[0], persons=2)
    approve(tables[0], first, by="ada")
    assert ask(tables[1]).result == "pending"
    approve(tables[1], first, by="bob")
    assert ask(tables[2]).result == "approved"


def test_two_persons_at_the_same_moment_are_both_counted(tables: Tables) -> None:
    for number in range(10):
        first = ask(tables[0], asked_call(n=number), persons=2)
        with ThreadPoolExecutor(2) as threads:
            each = [threads.submit(approve, tables[i], first, by=by) for i, by in enumerate(("ada", "bob"))]
            assert [future.result() for future in each] == [None, None]
        assert ask(tables[2], asked_call(n=number)).result == "approved"


def test_an_expired_request_is_asked_about_again(tables: Tables) -> None:
    first = ask(tables[0], at=now() - 2 * HOUR)
    with pytest.raises(DecisionError, match="expired"):
        approve(tables[0], first)
    second = ask(tables[1])
    assert second.is_new
    assert tables[0].pending(now()) == 1


def test_an_approval_expires(tables: Tables) -> None:
    approve(tables[0], ask(tables[0]))
    assert ask(tables[0], at=now() + HOUR + 1).result == "pending"


def test_a_key_cannot_flood_people(tables: Tables) -> None:
    found = at_once(60, lambda i: ask(tables[i % 3], asked_call(n=i)))
    opened = Counter(each.result for each in found)
    assert opened == {"pending": MAX_OPEN, "full": 60 - MAX_OPEN}
    assert ask(tables[0], asked_call(n=-1)).result == "full"
    assert ask(tables[0], asked_call(n=-1, key="bob")).result == "pending"
    for each in tables[0].latest(100, ("pending",)):
        if each.key == "alice":
            tables[0].decide(each.id, decision(approves=False))
    assert ask(tables[0], asked_call(n=-1)).result == "full", "to be denied makes no room"


def test_invented_keys_share_a_bound(tables: Tables) -> None:
    results = [ask(tables[0], asked_call(key=f"{n:024x}")).result for n in range(MAX_OPEN + 5)]
    assert results == ["pending"] * MAX_OPEN + ["full"] * 5
    assert ask(tables[0], asked_call(key="")).result == "full"
    assert ask(tables[0], asked_call(key="bob")).result == "pending"


def test_all_keys_together_are_bounded(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hookgate.proxy.approvals.table.MAX_OPEN_OF_ALL", 5)
    assert MAX_OPEN_OF_ALL == 1000
    results = [ask(tables[0], asked_call(key=f"key-{n}")).result for n in range(7)]
    assert results == ["pending"] * 5 + ["full"] * 2


def test_what_has_been_over_for_days_is_removed_with_its_arguments(tables: Tables) -> None:
    old, new = ask(tables[0], at=now() - 8 * 24 * HOUR), ask(tables[0], asked_call(to="bob"))
    assert old.request
    assert new.request
    assert tables[0].sweep(now(), 7) == 1
    assert tables[1].find(old.request.id) is None
    assert tables[1].find(new.request.id)


def test_the_first_digits_lead_to_a_request(tables: Tables) -> None:
    made = ask(tables[0]).request
    assert made
    assert tables[1].find(made.id[:8]) == tables[1].find(made.id) == made
    for wrong in ("", made.id[:3], "x" * 8, "%", made.id + "0", "____"):
        assert tables[1].find(wrong) is None


def test_odd_names_are_stored(tables: Tables) -> None:
    odd = asked_call("send_\u0000\U0001f600\u202e" + "x" * 5000, to="\u0000\ud800"[:1])
    assert ask(tables[0], odd).is_new
    assert ask(tables[1], odd).result == "pending"
