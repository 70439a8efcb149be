"""The table of issued keys, in both kinds of databases."""

from pathlib import Path

from support.gateway.keys import issue, key_table


def test_keys_are_listed_by_age_and_those_of_one_second_by_owner(url: str | None, tmp_path: Path) -> None:
    for owner, created in (("dora", 2), ("bob", 2), ("carol", 2), ("erin", 1), ("alice", 2)):
        issue(tmp_path, url, owner=owner, created=created)
    with key_table(tmp_path, url) as table:
        assert [key.owner for key in table.all()] == ["erin", "alice", "bob", "carol", "dora"]
