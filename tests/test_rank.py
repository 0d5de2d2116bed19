"""Fusion and the choice of passages: pure functions, so tables and properties."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpvectordb.rank import RRF_K, choose, fuse

LEG = st.lists(st.sampled_from("abcdefghij"), unique=True).flatmap(
    lambda keys: st.lists(st.floats(0.01, 1), min_size=len(keys), max_size=len(keys)).map(
        lambda parts: dict(zip(keys, sorted(parts, reverse=True), strict=True))
    )
)
DEPTH = st.integers(1, 12)
RANKED = st.lists(
    st.tuples(st.text("abcdefgh", min_size=1, max_size=3), st.floats(0, 1)), unique_by=lambda p: p[0]
)


def share(rank: int) -> float:
    """What a place gives in a leg, where the first gives 1."""
    return (RRF_K + 1) / (RRF_K + rank)


def even(keys: str) -> dict[str, float]:
    """A leg of which only the order counts."""
    return dict.fromkeys(keys, 1.0)


@pytest.mark.parametrize(
    ("legs", "expected"),
    [
        ([], []),
        ([{}], []),
        ([even("ab")], [("a", 1.0), ("b", share(2))]),
        ([even("a"), even("a")], [("a", 1.0)]),
        ([even("a"), even("b")], [("a", 0.5), ("b", 0.5)]),
        ([even("b"), even("a")], [("b", 0.5), ("a", 0.5)]),
        ([even("ab"), even("b")], [("b", (1 + share(2)) / 2), ("a", 0.5)]),
        ([{}, even("a")], [("a", 0.5)]),
        ([{"a": 1.0, "b": 0.4}], [("a", 1.0), ("b", 0.4 * share(2))]),
        ([even("bca"), {"a": 1.0, "b": 0.4}], [("a", (share(3) + 1) / 2), ("b", (1 + 0.4 * share(2)) / 2)]),
    ],
)
def test_places_in_the_legs_become_one_score(
    legs: list[dict[str, float]], expected: list[tuple[str, float]]
) -> None:
    found = [pair for pair in fuse(legs, {}, depth=9) if pair[0] != "c"]
    assert found == [(key, pytest.approx(score)) for key, score in expected]


def test_what_a_cut_off_leg_lacks_stands_behind_its_last() -> None:
    """The one passage that has a rare word, and stands too far down by meaning to be named."""
    meaning, words = even("xyz"), {"rare": 1.0}
    assert [key for key, _ in fuse([meaning, words], {}, depth=9)][:2] == ["x", "rare"]
    cut = fuse([meaning, words], {}, depth=3)
    assert cut[:2] == [("rare", pytest.approx((1 + share(4)) / 2)), ("x", 0.5)]
    assert [key for key, _ in cut] == ["rare", "x", "y", "z"]


@given(st.lists(LEG, max_size=3), DEPTH)
def test_every_id_is_fused_once_with_falling_scores_between_0_and_1(
    legs: list[dict[str, float]], depth: int
) -> None:
    fused = fuse(legs, {}, depth=depth)
    scores = [score for _, score in fused]
    assert sorted(key for key, _ in fused) == sorted({key for leg in legs for key in leg})
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score <= 1.0000001 for score in scores)


@given(LEG, DEPTH)
def test_one_leg_keeps_its_order(leg: dict[str, float], depth: int) -> None:
    assert [key for key, _ in fuse([leg], {}, depth=depth)] == list(leg)


@given(LEG, LEG, DEPTH)
def test_an_id_ahead_in_both_legs_is_ahead_in_the_answer(
    first: dict[str, float], second: dict[str, float], depth: int
) -> None:
    order = [key for key, _ in fuse([first, second], {}, depth=depth)]
    places = [list(first), list(second)]
    both = [key for key in first if key in second]
    for a in both:
        for b in both:
            if all(leg.index(a) < leg.index(b) for leg in places):
                assert order.index(a) < order.index(b)


def test_copies_share_a_place_and_push_nothing_down() -> None:
    same_as = {"a": "x", "b": "x"}
    assert fuse([even("abc")], same_as, depth=9) == [("a", 1.0), ("b", 1.0), ("c", share(2))]
    cut = dict(fuse([even("ab"), even("c")], same_as, depth=2))
    assert cut == {"a": 0.5, "b": 0.5, "c": pytest.approx((1 + share(2)) / 2)}


@pytest.mark.parametrize(
    ("same_as", "top_k", "expected"),
    [
        ({}, 2, "ab"),
        ({}, 9, "abcd"),
        ({"a": "x", "b": "x"}, 2, "ac"),
        ({"a": "x", "b": "x"}, 3, "abc"),  # the copy is better than d even so
        ({"a": "x", "b": "x", "c": "x"}, 3, "abd"),
        ({"a": "x", "b": "x", "c": "x", "d": "x"}, 3, "abc"),
        ({"b": "x", "c": "x"}, 3, "abd"),
    ],
)
def test_a_copy_is_chosen_behind_what_is_nearly_as_good_and_ahead_of_what_is_not(
    same_as: dict[str, str], top_k: int, expected: str
) -> None:
    ranked = [("a", 0.9), ("b", 0.8), ("c", 0.7), ("d", 0.5)]
    assert choose(ranked, same_as, top_k) == [pair for pair in ranked if pair[0] in expected]


@given(
    RANKED,
    st.dictionaries(st.text("abcdefgh", min_size=1, max_size=3), st.sampled_from("xyz")),
    st.integers(1, 9),
)
def test_the_choice_is_full_and_ordered_and_has_no_copy_without_what_is_better(
    pairs: list[tuple[str, float]], same_as: dict[str, str], top_k: int
) -> None:
    ranked = sorted(pairs, key=lambda pair: -pair[1])
    chosen = choose(ranked, same_as, top_k)
    scores = [score for _, score in chosen]
    assert len(chosen) == min(top_k, len(ranked))
    assert set(chosen) <= set(ranked)
    assert scores == sorted(scores, reverse=True)
    left = [pair for pair in ranked if pair not in chosen]
    of_same = [
        (had, missed) for had in chosen for missed in left if same_as.get(had[0]) == same_as.get(missed[0])
    ]
    assert all(had[1] >= missed[1] for had, missed in of_same if same_as.get(had[0]))
