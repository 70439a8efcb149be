"""The language of queries: its words, values, times and errors."""

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgate.proxy.audit.index.facts import facts_of
from hookgate.proxy.audit.index.query import MARKS, NAMES, WORDS, Amount, parse_query
from hookgate.proxy.audit.index.times import moment, time_range

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 5, 6, 9, 30, tzinfo=UTC)  # a Wednesday, 11:30 in Berlin


def text(at: int | None, zone: Any = BERLIN) -> str:
    assert at is not None
    return f"{datetime.fromtimestamp(at / 1000, zone):%Y-%m-%d %H:%M}"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("now", "2026-05-06 11:30"),
        ("90m", "2026-05-06 10:00"),
        ("12h", "2026-05-05 23:30"),
        ("7d", "2026-04-29 11:30"),
        ("2w", "2026-04-22 11:30"),
        ("today", "2026-05-06 00:00"),
        ("yesterday", "2026-05-05 00:00"),
        ("yesterday 22:00", "2026-05-05 22:00"),
        ("6:05", "2026-05-06 06:05"),
        ("monday", "2026-05-04 00:00"),
        ("Wednesday 08:00", "2026-05-06 08:00"),
        ("2026-05-04", "2026-05-04 00:00"),
        ("2026-05-04 18:30", "2026-05-04 18:30"),
        ("2026-05-04T10:00Z", "2026-05-04 12:00"),
        ("2026-05-04T10:00-02:00", "2026-05-04 14:00"),
    ],
)
def test_a_moment(given: str, expected: str) -> None:
    assert text(moment(given, BERLIN, NOW)) == expected


@pytest.mark.parametrize("given", ["", "soon", "24:00", "yesterday 25:00", "7", "7y", "2026-13-01", "later"])
def test_what_is_no_moment(given: str) -> None:
    with pytest.raises(ValueError, match="is not a time; write one such as 2026-05-04"):
        moment(given, BERLIN, NOW)


@pytest.mark.parametrize(
    ("given", "begin", "end"),
    [
        ("yesterday", "2026-05-05 00:00", "2026-05-06 00:00"),
        ("2026-03-29", "2026-03-29 00:00", "2026-03-30 00:00"),  # a day of 23 hours
        ("yesterday 22:00 to 06:00", "2026-05-05 22:00", "2026-05-06 06:00"),
        ("yesterday 02:00 to 06:00", "2026-05-05 02:00", "2026-05-05 06:00"),
        ("monday to yesterday 12:00", "2026-05-04 00:00", "2026-05-05 12:00"),
        ("2h to now", "2026-05-06 09:30", "2026-05-06 11:30"),
    ],
)
def test_a_range(given: str, begin: str, end: str) -> None:
    assert tuple(map(text, time_range(given, BERLIN, NOW))) == (begin, end)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("yesterday 22:00", "is not a range; write a day, or two times"),
        ("today to yesterday", "ends before it begins"),
        ("yesterday to soon", "is not a time"),
    ],
)
def test_what_is_no_range(given: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        time_range(given, BERLIN, NOW)


def test_words_are_given_in_one_text_in_several_or_as_flags() -> None:
    one = parse_query(["team:web outcome:denied,failed since:yesterday 22:00 zone:Europe/Berlin"], at=NOW)
    several = parse_query(
        ["team:web", "outcome:denied,failed"], {"since": "yesterday 22:00"}, zone=BERLIN, at=NOW
    )
    assert (one.names, one.since) == (several.names, several.since)
    assert text(one.since) == "2026-05-05 22:00"


def test_quotation_marks_keep_text_together() -> None:
    query = parse_query(['reason:"http: broke, again" key:"a b",c'])
    assert query.names["reason"].patterns == ("%http: broke, again%",)
    assert query.names["key"].whole == ("a b", "c")
    assert parse_query(["reason:two words, three", "team:web"]).names["reason"].patterns == (
        "%two words, three%",
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("cost:>0.5", Amount(0.5, above=True)),
        ("cost:<=.5", Amount(high=0.5)),
        ("tokens:>=100k", Amount(100_000)),
        ("tokens:<1.5M", Amount(high=1_500_000, below=True)),
        ("duration:500ms..2s", Amount(500, 2000)),
        ("duration:1m..", Amount(60_000)),
        ("duration:..1h", Amount(high=3_600_000)),
    ],
)
def test_an_amount_is_a_range_with_units(given: str, expected: Amount) -> None:
    word = given.partition(":")[0]
    assert parse_query([given]).amounts == {word: expected}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("tem:web", r"'tem:web': there is no word 'tem'; did you mean team\? The words are key, owner, team"),
        ("denied", "'denied' is not a filter; write WORD:VALUE, such as outcome:denied"),
        ("team:web http://x", "there is no word 'http'; put text with a colon into quotation marks"),
        ("team:", "team: has no value; write team:VALUE"),
        ('hook:""', "hook: must have a name"),
        ('reason:"open', "has a quotation mark without another; close it"),
        ("team:a team:b", "team is given twice; separate several values by commas"),
        ("outcome:denid", r"outcome: 'denid' is not an outcome; use one of .*; did you mean denied\?"),
        ("event:Before", "event: 'Before' is not an event; use one of SessionStart"),
        ("since:soon", "since: 'soon' is not a time"),
        ("during:today since:1h", "since: cannot be given together with during"),
        ("since:1h during:today", "during: cannot be given together with since or until"),
        ("zone:Berlin", "'Berlin' is no time zone; write a name such as Europe/Berlin"),
        ("zone:../../etc/passwd", "is no time zone"),
        ("cost:5", "cost: '5' is not a range; write one such as '>0.5'"),
        ("cost:>5k", "cost: 'k' is not expected"),
        ("duration:>5", "duration: 5 has no known unit; use ms, s, m, min, h"),
        ("tokens:9..1", "tokens: '9..1' begins above its end"),
        ("sort:price", "sort: 'price' is not an order; write time, cost, tokens, duration"),
    ],
)
def test_a_mistake_names_its_place_and_the_remedy(given: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_query([given], at=NOW)


@given(st.text(st.characters(exclude_categories=()), max_size=60))
def test_no_text_is_more_than_a_mistake(given: str) -> None:
    for prefix in ("", *(f"{word}:" for word in WORDS)):
        try:
            query = parse_query([prefix + given], at=NOW)
        except ValueError:
            continue
        query.matches(facts_of(0, {"outcome": "denied"}))


def quoted(name: str) -> str:
    """The name as the panel writes it into a query."""
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


STRANGE = st.text('ab%_\\*A", :=', max_size=6)


@given(STRANGE, STRANGE)
def test_a_part_of_a_name_is_its_text_whatever_it_contains(part: str, name: str) -> None:
    query = parse_query([f"key:*{quoted(part)}*"])
    call = facts_of(0, {"session": {"key": name}})
    assert query.matches(call) == (part.lower() in name.lower())


@given(st.sampled_from(sorted({*NAMES} - {"outcome", "event"})), STRANGE, STRANGE)
def test_a_whole_name_finds_only_calls_with_this_name_or_without_one(
    word: str, name: str, other: str
) -> None:
    value = f"={quoted(name)}" if NAMES[word].matching == "part" else quoted(name)
    if word in MARKS and not name:
        with pytest.raises(ValueError, match="must have a name"):
            parse_query([f"{word}:{value}"])
        return
    query = parse_query([f"{word}:{value} since:7d"], at=NOW)
    assert query.names[word].whole == (name,)
    assert query.names[word].matches(other) == (other == name)


def test_reasons_and_blocked_tools_are_content() -> None:
    assert parse_query(["reason:x"]).asks_content
    assert parse_query(["tool:x team:y"]).asks_content
    assert not parse_query(
        [f"{name}:denied" for name in NAMES if name not in ("reason", "tool", "event")]
    ).asks_content
