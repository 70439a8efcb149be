"""If captures and vectors are missing, tests skip, or fail if `.ci/run` started them."""

import re
from pathlib import Path

import pytest
from support.places import PROJECT
from support.upstream import captured


@pytest.fixture
def _emptied(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One of the folders holds nothing."""
    monkeypatch.setattr(captured, "NEEDED", (PROJECT, tmp_path))


@pytest.mark.usefixtures("_emptied")
def test_a_test_is_skipped_unless_they_are_required(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SHARED_REQUIRED", raising=False)
    with pytest.raises(pytest.skip.Exception, match=re.escape(str(tmp_path))):
        captured.require_shared()


@pytest.mark.usefixtures("_emptied")
def test_where_they_are_required_it_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SHARED_REQUIRED", "1")
    with pytest.raises(pytest.fail.Exception, match=re.escape(str(tmp_path))):
        captured.require_shared()


def test_ci_requires_them_and_runs_what_the_readers_of_contributing_run() -> None:
    lines = (PROJECT / ".ci" / "run").read_text().splitlines()
    assert lines[-2:] == ["export SHARED_REQUIRED=1", "make lint test e2e bench-quick"]
    assert "`make lint test`" in (PROJECT / "CONTRIBUTING.md").read_text()
