"""A bounded memory in shares: no share is displaced by a larger one."""

from hypothesis import given
from hypothesis import strategies as st

from hookgate.proxy.fair_mapping import FairMapping

STEPS = st.lists(
    st.tuples(st.sampled_from(["keep", "get", "drop"]), st.sampled_from("abc"), st.integers(0, 9)),
    max_size=60,
)


@given(st.integers(1, 8), STEPS)
def test_it_forgets_what_the_largest_share_used_longest_ago(
    most: int, steps: list[tuple[str, str, int]]
) -> None:
    mapping: FairMapping[int, int] = FairMapping(most)
    expected: dict[str, list[int]] = {share: [] for share in "abc"}  # the keys, longest unused first
    for step, share, key in steps:
        known = expected[share]
        if step == "keep" or (step == "get" and key in known):
            known[:] = [each for each in known if each != key] + [key]
        if step == "keep":
            mapping.store(share, key, key)
        elif step == "get":
            assert mapping.get(share, key) == (key if key in known else None)
        else:
            assert mapping.drop(share, key) == (key if key in known else None)
            expected[share] = [each for each in known if each != key]
        before = {each: len(keys) for each, keys in expected.items()}
        if sum(before.values()) > most:
            [loser] = [each for each in expected if mapping.size_of(each) < before[each]]
            assert before[loser] == max(before.values())
            del expected[loser][0]
        assert {each: mapping.size_of(each) for each in "abc"} == {e: len(k) for e, k in expected.items()}
        assert len(mapping) == sum(map(len, expected.values())) <= most
        assert (oldest := mapping.oldest()) is None or oldest[1] == expected[oldest[0]][0]


@given(st.integers(2, 50), st.integers(0, 500))
def test_a_fair_share_loses_nothing_to_a_flood(most: int, flood: int) -> None:
    mapping: FairMapping[int, str] = FairMapping(most)
    for key in range(most // 2):
        mapping.store("quiet", key, "kept")
    for key in range(flood):
        mapping.store("loud", key, "")
    assert all(mapping.get("quiet", key) == "kept" for key in range(most // 2))
