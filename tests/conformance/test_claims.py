"""The table of claims of the hook documents: each claim has a test, and the page is up to date."""

import ast
from functools import cache

from generators.claims_table import Claim, claims_table, read_claims
from support.places import DOCS, PROJECT

CLAIMS = [claim for group in read_claims().values() for claim in group]


@cache
def names_in(file: str) -> frozenset[str]:
    """The names of the tests that a file defines."""
    tree = ast.parse((PROJECT / file).read_text(encoding="utf-8"))
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(function.name for function in functions if function.name.startswith("test_"))


def missing(claims: list[Claim]) -> list[str]:
    return [f"{each.file}::{each.test}" for each in claims if each.test not in names_in(each.file)]


def test_the_page_is_what_the_claims_say() -> None:
    assert (DOCS / "claims.md").read_text(encoding="utf-8") == claims_table(), (
        "docs/claims.md is out of date; renew it with: "
        ".venv/bin/python docs/generators/claims_table.py > docs/claims.md"
    )


def test_every_claim_names_a_test_that_there_is() -> None:
    assert missing(CLAIMS) == []
    assert missing([Claim("t", CLAIMS[0].file, "test_that_nobody_wrote")])


def test_claims_are_many_different_and_reasons_are_given() -> None:
    texts = [claim.text for claim in CLAIMS]
    assert len(set(texts)) == len(texts) > 120
    assert all(len(claim.differs.split()) > 4 for claim in CLAIMS if claim.differs)
    assert not any("|" in claim.differs or claim.text.count("|") > claim.text.count("`") for claim in CLAIMS)
