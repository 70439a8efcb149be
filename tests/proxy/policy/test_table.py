"""The table of policy revisions: each one follows the newest one, in both kinds of databases."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from support.gateway.pushed import change_table, policy_table, revision_after

from hookgate.proxy.errors import StoreError
from hookgate.proxy.policy.table import StaleRevisionError


def test_revisions_are_found_by_number_and_listed_from_the_newest(url: str | None, tmp_path: Path) -> None:
    first = revision_after(0, "{}", message="first")
    second = revision_after(1, '{"hooks": {}}', restores=1)
    with policy_table(tmp_path, url) as table:
        assert (table.newest(), table.find(1)) == (None, None)
        table.add(first)
        table.add(second)
        assert table.newest() == second.name
        assert (table.find(1), table.find(2), table.find(3)) == (first, second, None)
        assert table.all() == [second, first]


@pytest.mark.parametrize("parent", [0, 2])
def test_a_revision_that_does_not_follow_the_newest_one_is_refused(
    parent: int, url: str | None, tmp_path: Path
) -> None:
    with policy_table(tmp_path, url) as table:
        table.add(revision_after(0, "{}"))
        with pytest.raises(StaleRevisionError, match="revision 1 is the newest one, but this push is based"):
            table.add(revision_after(parent, "{ }"))
        assert len(table.all()) == 1


def test_one_of_several_simultaneous_pushes_succeeds(url: str | None, tmp_path: Path) -> None:
    count = 4
    ready = Barrier(count)
    with policy_table(tmp_path, url) as table:
        table.add(revision_after(0, "{}"))

    def pushed(number: int) -> bool:
        with policy_table(tmp_path, url) as table:
            ready.wait(20)
            try:
                table.add(revision_after(1, f'{{"number": {number}}}'))
            except StaleRevisionError:
                return False
            return True

    with ThreadPoolExecutor(count) as threads:
        assert sorted(threads.map(pushed, range(count))) == [False, False, False, True]
    with policy_table(tmp_path, url) as table:
        assert [each.number for each in table.all()] == [2, 1]


def test_a_changed_document_is_not_read(tmp_path: Path) -> None:
    with policy_table(tmp_path) as table:
        table.add(revision_after(0, "{}"))
    change_table(tmp_path, None, "UPDATE policy_revisions SET document = '[]'")
    with (
        policy_table(tmp_path) as table,
        pytest.raises(StoreError, match=r"revision 1 of the policy in .* is "),
    ):
        table.find(1)
