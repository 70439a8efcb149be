"""A memory that owners share: bounded, and nobody is crowded out by who holds more."""

from hypothesis import given
from hypothesis import strategies as st

from hookgate.proxy.identity.callers import FairMapping

STEPS = st.lists(
    st.tuples(st.sampled_from(["keep", "get", "drop"]), st.sampled_from("abc"), st.integers(0, 9)),
    max_size=60,
)


@given(st.integers(1, 8), STEPS)
def test_it_forgets_what_the_largest_owner_used_longest_ago(
    most: int, steps: list[tuple[str, str, int]]
) -> None:
    shares: FairMapping[int, int] = FairMapping(most)
    expected: dict[str, list[int]] = {owner: [] for owner in "abc"}  # the keys, longest unused first
    for step, owner, key in steps:
        known = expected[owner]
        if step == "keep" or (step == "get" and key in known):
            known[:] = [each for each in known if each != key] + [key]
        if step == "keep":
            shares.store(owner, key, key)
        elif step == "get":
            assert shares.get(owner, key) == (key if key in known else None)
        else:
            assert shares.drop(owner, key) == (key if key in known else None)
            expected[owner] = [each for each in known if each != key]
        before = {each: len(keys) for each, keys in expected.items()}
        if sum(before.values()) > most:
            [loser] = [each for each in expected if shares.held_by(each) < before[each]]
            assert before[loser] == max(before.values())
            del expected[loser][0]
        assert {each: shares.held_by(each) for each in "abc"} == {e: len(k) for e, k in expected.items()}
        assert len(shares) == sum(map(len, expected.values())) <= most
        assert (oldest := shares.oldest()) is None or oldest[1] == expected[oldest[0]][0]


@given(st.integers(2, 50), st.integers(0, 500))
def test_an_owner_with_its_fair_share_loses_nothing_to_a_flood(most: int, flood: int) -> None:
    shares: FairMapping[int, str] = FairMapping(most)
    for key in range(most // 2):
        shares.store("quiet", key, "kept")
    for key in range(flood):
        shares.store("loud", key, "")
    assert all(shares.get("quiet", key) == "kept" for key in range(most // 2))
