"""docs/injection-marks.md has the figures of the template's hook, which no tool result can stall."""

import pytest
from support.places import DOCS
from support.texts.injections import ATTACKS, ORDINARY, labelled_table, marker

PAGE = (DOCS / "injection-marks.md").read_text(encoding="utf-8")


def test_the_page_has_the_measured_figures() -> None:
    shown = PAGE.partition("<!-- begin: figures -->\n\n")[2].partition("\n\n<!-- end: figures -->")[0]
    assert shown == labelled_table(), "print them with: .venv/bin/python -m benchmarks.injections"


def test_the_page_says_how_many_texts_there_are() -> None:
    texts = [text for group in (ATTACKS, ORDINARY) for kind in group.values() for text in kind]
    assert len(texts) == len(set(texts))
    assert f"figures are of {len(texts)} short texts" in PAGE


@pytest.mark.parametrize(
    "text",
    [
        "<" + " " * 300_000,
        "ignore " + "all " * 100_000,
        "new" + " " * 300_000,
        "</ " * 100_000,
        "do not " * 50_000,
    ],
    ids=lambda text: text[:8],
)
def test_a_crafted_result_does_not_occupy_the_event_loop(text: str) -> None:
    """A search in quadratic time would take hours, and the time limit of tests would end it."""
    assert marker()(text) is False
