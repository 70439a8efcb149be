"""Queries find exactly the calls that they describe, in their order, page by page, on both databases."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.gateway.databases import postgres
from support.gateway.indexed import BEGAN, PAUSE, Indexed, indexed_audit

from hookgate.proxy.audit.chain import audit_entry
from hookgate.proxy.audit.index import searching
from hookgate.proxy.audit.index.query import Query, parse_query
from hookgate.proxy.audit.index.searching import parse_place

CALLS = 160
NOW = datetime.fromtimestamp((BEGAN + CALLS * PAUSE) / 1000, UTC)


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def audit(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Indexed]:
    state = tmp_path_factory.mktemp("state")
    if request.param == "sqlite":
        with indexed_audit(state, CALLS) as audit:
            assert audit.index.update(60)
            yield audit
        return
    with postgres() as url, indexed_audit(state, CALLS, url) as audit:
        assert audit.index.update(60)
        yield audit


def found_without_index(audit: Indexed, query: Query) -> list[str]:
    """The calls that a query describes, found without the index."""
    found = [(call.amounts[query.sort], id_) for id_, call in audit.facts.items() if query.matches(call)]
    return [id_ for _, id_ in sorted(found, reverse=not query.ascending)]


FILTERS = {
    "key": ["ada", "bob", "K123", "b*", "nobody"],
    "owner": ["eve", "ada,bob", "*o*"],
    "team": ["a", "b,e", '""', '"",a'],
    "session": ["s003", "s00*", "s*"],
    "model": ["flash", "GEMINI", "100%", "_odd", '"*"', "none", "=gemini-2.5-flash", '=""'],
    "asked": ["pro", "gemini-3"],
    "agent": ["claude"],
    "outcome": ["denied", "denied,failed", "unanswered", "guarded", "stopped"],
    "hook": ["secrets", "tools", "t*", "secrets,tone"],
    "event": ["BeforeModel", "aftermodel"],
    "failing": ["tone", "*", "secrets"],
    "cause": ["timeout", "exit code*"],
    "found": ["EMAIL", "EMAIL,IBAN", "email*"],
    "tool": ["run_shell", "run*"],
    "reason": ["rule 3", "100%:", "secrets"],
    "cost": [">0.5", "0.25..1", "<=0.3", "..0.1"],
    "tokens": [">=500", "0.2k..", "1k.."],
    "duration": [">30s", "500ms..0.5m", "..2000ms"],
    "since": ["2026-05-02T05:00Z", "1d"],
    "until": ["2026-05-02T21:30Z"],
    "sort": ["cost", "tokens-asc", "duration", "time", "time-asc"],
}


@given(
    st.dictionaries(st.sampled_from(sorted(FILTERS)), st.integers(0, 9), max_size=4),
    st.sampled_from([1, 50]),
    st.sampled_from([0, 20_000]),
    st.sampled_from([1, 1000]),
)
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_a_query_finds_what_it_describes(
    audit: Indexed, words: dict[str, int], names: int, sorted_calls: int, numbers: int
) -> None:
    """Whichever way is chosen to read the index."""
    values = {word: FILTERS[word][choice % len(FILTERS[word])] for word, choice in words.items()}
    query = parse_query([], values, at=NOW)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(searching, "_MAX_NAMES", names)
        patched.setattr(searching, "_MAX_SORTED", sorted_calls)
        patched.setattr(searching, "_MAX_NUMBERS", numbers)
        assert audit.find(query) == found_without_index(audit, query), values


@pytest.mark.parametrize(
    "words",
    ["", "team:b", "outcome:guarded", "found:EMAIL,IBAN hook:tone", "sort:cost", "sort:time-asc key:bob"],
)
@pytest.mark.parametrize("limit", [1, 7, 50])
def test_pages_follow_each_other_and_miss_nothing(words: str, limit: int, audit: Indexed) -> None:
    query = parse_query([words])
    found: list[str] = []
    place = None
    while places := audit.search.places(query, limit, place):
        assert len(places) <= limit
        place = parse_place(str(places[-1]))
        found += [call.id for call in audit.reader.at_positions([each.position for each in places])]
    assert found == found_without_index(audit, query)
    assert found


@pytest.mark.parametrize("text", ["", "1", "x-1", "1-", f"1-{2**63}", f"{2**63}-1", "1-1'", "nan-1", "9e9-x"])
def test_a_place_is_one_of_a_page(text: str) -> None:
    with pytest.raises(ValueError, match="must be the `older` value of a page"):
        parse_place(text)


def test_changes_are_found_the_newest_first_and_are_no_calls(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with indexed_audit(tmp_path_factory.mktemp("state"), 3) as audit:
        for number, name in enumerate(("policy", "change", "retention", "change")):
            audit.add(audit_entry(name, number=number)._replace(at=BEGAN + number))
        assert audit.index.update(60)
        changes = audit.reader.changes_at(audit.search.changes(None, 10))
        assert [each.body["number"] for each in changes] == [3, 1, 0]
        assert [each.at for each in changes] == [BEGAN + 3, BEGAN + 1, BEGAN]
        assert len(audit.search.changes(BEGAN + 1, 10)) == 2
        assert len(audit.search.changes(None, 1)) == 1
        assert len(audit.find(parse_query([]))) == 3
