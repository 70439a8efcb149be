"""docs/injections.md lists what the policy `injections` finds."""

from support.places import DOCS

from hookgate.hooks.policies.injections.rules import KINDS

PAGE = (DOCS / "injections.md").read_text(encoding="utf-8")


def test_the_page_has_each_kind_with_its_points() -> None:
    shown = PAGE.partition("<!-- begin: kinds -->\n\n")[2].partition("\n\n<!-- end: kinds -->")[0]
    rows = [f"| `{name}` | {kind.points} | {kind.about} |" for name, kind in KINDS.items()]
    table = "\n".join(["| kind | points | what it means |", "|---|---|---|", *rows])
    assert shown == table, f"put this between the marks:\n{table}"
