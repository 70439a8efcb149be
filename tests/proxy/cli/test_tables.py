"""Lines of tables, as `hookgate audit` prints them."""

import pytest

from hookgate.proxy.audit.reading import RecordedChange
from hookgate.proxy.cli.tables import _shortened, print_changes


def test_values_of_changes_are_printed_as_json_and_texts_as_they_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    body = {"event": "change", "change": "hooks.switch", "by": "alice", "hook": "guard", "on": False}
    print_changes([RecordedChange("a" * 32, 0, {**body, "scope": {"models": ["m"]}})], as_json=False)
    printed = capsys.readouterr().out
    assert printed.endswith('hooks.switch by alice; hook: guard, on: false, scope: {"models": ["m"]}\n')


def test_a_list_of_a_change_is_printed_without_brackets(capsys: pytest.CaptureFixture[str]) -> None:
    body = {"event": "change", "change": "keys.create", "by": "alice", "models": ["a", "b"], "notes": []}
    print_changes([RecordedChange("a" * 32, 0, body)], as_json=False)
    assert capsys.readouterr().out.endswith("keys.create by alice; models: a, b\n")


def test_a_long_reason_ends_with_an_ellipsis() -> None:
    assert _shortened("x" * 100) == "x" * 100
    assert _shortened("x" * 101) == "x" * 99 + "…"
