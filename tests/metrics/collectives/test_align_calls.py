"""Calls of ranks lined up, by key and by time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccltui.metrics.collectives.matching.align_calls import (
    ClockDifference,
    CodedCalls,
    coded,
    difference_between,
    fit,
    ordinals,
    pair,
    place_gap,
    tabulate,
)
from ccltui.metrics.collectives.matching.lineup import Merged, grouped, runs
from ccltui.parsers.array_types import I64


def array(*values: int) -> I64:
    return np.array(values, np.int64)


def same(count: int) -> I64:
    return np.zeros(count, np.int64)


def test_members_are_lined_up_by_key() -> None:
    table = tabulate([array(3, 4, 5), array(4, 5, 6), array(5)])

    assert table.tolist() == [[0, -1, -1], [1, 0, -1], [2, 1, 0], [-1, 2, -1]]


def test_repeats_of_a_key_are_distinguished_by_ordinal() -> None:
    table = tabulate([array(7, 7, 8), array(7, 8, 8)])

    assert table.tolist() == [[0, 0], [1, -1], [2, 1], [-1, 2]]


def test_keys_far_apart_need_no_table_of_their_span() -> None:
    huge = 2**62

    assert tabulate([array(-5, huge), array(huge)]).tolist() == [[0, -1], [1, 0]]


def test_without_keys_there_are_no_lines() -> None:
    assert tabulate([array(), array()]).shape == (0, 2)


def test_ordinals_count_equal_keys_in_order() -> None:
    assert ordinals(array(5, 1, 5, 5, 1)).tolist() == [0, 0, 1, 2, 1]
    assert ordinals(array(1, 2, 3)).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("ends", "longer", "places"),
    [
        ((20, 50, 60), (10, 20, 50, 60), (1, 2, 3)),  # the head is missing
        ((10, 20, 50), (10, 20, 50, 60), (0, 1, 2)),  # the tail is missing
        ((10, 20, 60), (10, 20, 50, 60), (0, 1, 3)),  # one in the middle is missing
        ((1010, 1020, 1060), (10, 20, 50, 60), (0, 1, 3)),  # the same on another clock
        ((10, 20, 30), (10, 20, 30, 40), (1, 2, 3)),  # regular: either end fits, from the end
        ((50,), (10, 20, 50), (2,)),  # nothing to tell: from the end
        ((), (10, 20), ()),
    ],
)
def test_ends_determine_the_place_of_the_gap(
    ends: tuple[int, ...], longer: tuple[int, ...], places: tuple[int, ...]
) -> None:
    found = place_gap(same(len(ends)), array(*ends), same(len(longer)), array(*longer))

    assert found.tolist() == list(places)


def test_tokens_take_precedence_over_ends() -> None:
    fewer, more = array(1, 3, 4), array(1, 2, 3, 4)

    found = place_gap(fewer, array(20, 50, 60), more, array(10, 20, 50, 60))

    assert found.tolist() == [0, 2, 3]


@pytest.mark.parametrize(("end", "place"), [(1009, 0), (1031, 2)])
def test_known_clocks_place_even_a_single_call(end: int, place: int) -> None:
    found = place_gap(same(1), array(end), same(3), array(10, 20, 30), ahead_ns=1000)

    assert found.tolist() == [place]


@given(
    gaps=st.lists(st.integers(1, 1000), min_size=3, max_size=40, unique=True),
    data=st.data(),
    offset=st.integers(-(10**9), 10**9),
)
def test_any_one_gap_is_found_when_no_two_pauses_are_equal(
    gaps: list[int], data: st.DataObject, offset: int
) -> None:
    ends = np.cumsum(np.array(gaps, np.int64) * 1_000_003)
    first = data.draw(st.integers(0, len(ends) - 2))
    width = data.draw(st.integers(1, len(ends) - 1 - first))
    kept = np.delete(np.arange(len(ends)), np.arange(first, first + width))

    found = place_gap(same(len(kept)), ends[kept] + offset, same(len(ends)), ends)

    if len(kept) > 1:  # a single call fits anywhere
        assert found.tolist() == kept.tolist()


def ends(count: int) -> I64:
    """Ends at irregular times, ns: nothing repeats, so that only one way of pairing fits."""
    return np.cumsum(np.random.default_rng(7).integers(250_000, 2_500_000, count))


def without(values: I64, *places: int) -> I64:
    return np.delete(values, places)


def paired(
    mine: Sequence[int],
    theirs: Sequence[int],
    offset_ns: int = 0,
    ahead: ClockDifference | None = None,
) -> list[int] | None:
    """Positions found for calls numbered in one sequence of 40, of one kind."""
    whole = ends(40)
    own, other = whole[list(mine)] + offset_ns, whole[list(theirs)]
    found = pair(np.zeros(len(own), np.int64), own, np.zeros(len(other), np.int64), other, ahead)
    return None if found is None else found.positions.tolist()


def test_several_gaps_on_both_sides() -> None:
    mine = [n for n in range(40) if n not in (3, 17, 18)]
    theirs = [n for n in range(40) if n not in (9, 30)]

    found = paired(mine, theirs, offset_ns=777_000_000)

    assert found == [theirs.index(n) if n in theirs else -1 for n in mine]


def test_a_known_clock_needs_no_estimate() -> None:
    assert paired([5], [4, 5, 6], offset_ns=50_000, ahead=ClockDifference(50_000.0, 0.0, 0)) == [1]


def test_too_few_calls_give_no_clock_difference() -> None:
    assert paired([5, 6], [5, 6], offset_ns=123_456) is None


def test_sequences_that_share_nothing_do_not_pair() -> None:
    rng = np.random.default_rng(1)
    own = np.sort(rng.integers(0, 10**10, 50))
    other = np.sort(rng.integers(0, 10**10, 50))
    none = np.zeros(50, np.int64)

    assert pair(none, own, none, other) is None


def test_unlike_calls_are_never_paired() -> None:
    whole = ends(30)
    tokens = np.arange(30) % 3
    mine, theirs = without(np.arange(30), 4, 5), without(np.arange(30), 20)

    found = pair(tokens[mine], whole[mine] + 5_000_000, tokens[theirs], whole[theirs])

    assert found is not None
    held = found.positions >= 0
    assert (theirs[found.positions[held]] == mine[held]).all()
    assert held.sum() == 27


def test_a_drifting_clock_is_fitted() -> None:
    whole = ends(600)
    fast = whole + 3_000_000 + whole // 20_000  # 50 ppm

    found = pair(np.zeros(598, np.int64), without(fast, 100, 400), np.zeros(600, np.int64), whole)

    assert found is not None
    assert found.positions.tolist() == without(np.arange(600), 100, 400).tolist()
    assert found.ahead.rate == pytest.approx(50e-6, rel=0.02)


def test_clock_difference_from_ends() -> None:
    whole = ends(100)

    known = fit(whole + 2_500_000, whole)

    assert known.of(np.array([0, 10**9])).tolist() == [2_500_000, 2_500_000]
    apart = difference_between(ClockDifference(700.0, 0.0, 0), ClockDifference(200.0, 0.0, 0))
    assert apart.of(np.array([5])).tolist() == [500]


@given(st.data())
def test_any_gaps_are_found(data: st.DataObject) -> None:
    mine = data.draw(st.sets(st.integers(0, 39), min_size=30))
    theirs = data.draw(st.sets(st.integers(0, 39), min_size=30))
    offset = data.draw(st.integers(-(10**9), 10**9))

    found = paired(sorted(mine), sorted(theirs), offset_ns=offset)

    ordered = sorted(theirs)
    assert found == [ordered.index(n) if n in theirs else -1 for n in sorted(mine)]


def test_a_call_that_the_longest_member_lacks_is_inserted() -> None:
    whole = ends(12)
    longest, other = without(np.arange(12), 4), without(np.arange(12), 7, 8)
    none = np.zeros(12, np.int64)
    ahead = ClockDifference(0.0, 0.0, 0)

    merged = Merged.of(none[longest], whole[longest], 2, 0)
    merged = merged.merged(1, none[other], whole[other], ahead)

    assert merged.places.tolist() == [
        [
            longest.tolist().index(n) if n != 4 else -1,
            other.tolist().index(n) if n not in (7, 8) else -1,
        ]
        for n in range(12)
    ]
    assert merged.end_ns.tolist() == whole.tolist()


def test_runs_of_one_number_and_kind() -> None:
    keys, tokens = np.array([4, 4, 5, 5, 5, 6]), np.array([1, 1, 2, 2, 3, 3])

    first, last = runs(keys, tokens)

    assert first.tolist() == [0, 2, 4, 5]
    assert last.tolist() == [1, 3, 4, 5]
    assert runs(keys[:0], tokens[:0])[0].tolist() == []


def test_grouped_calls_add_up() -> None:
    positions = np.array([[0, 0], [-1, 1], [-1, 2], [1, 3]])
    elements = np.array([[60, 20], [-1, 20], [-1, 20], [5, 5]])

    last, keep, joined = grouped(positions, elements)

    assert last[keep].tolist() == [[0, 2], [1, 3]]
    assert keep.tolist() == [True, False, False, True]
    assert joined[keep].tolist() == [True, False]


@pytest.mark.parametrize(
    "elements",
    [
        [[60, 20], [-1, 20], [-1, 21], [5, 5]],  # do not add up
        [[60, 20], [-1, -1], [-1, 40], [5, 5]],  # a size is not stated
        [[60, 20], [40, 40], [5, 5], [5, 5]],  # the other rank has the next call too
    ],
)
def test_calls_that_do_not_add_up_are_not_joined(elements: list[list[int]]) -> None:
    positions = np.where(np.array(elements) >= 0, np.arange(4)[:, np.newaxis], -1)

    _, keep, joined = grouped(positions, np.array(elements))

    assert keep.all()
    assert not joined.any()


def test_the_difference_of_two_clocks_that_drift_far_apart() -> None:
    # Both against a third: half a second ahead with 60 ppm, and a quarter behind with -40 ppm.
    def local(third_ns: float, offset_ns: float, rate: float) -> int:
        return round(third_ns + offset_ns + rate * third_ns)

    leads = {}
    for offset, rate in ((500e6, 60e-6), (-250e6, -40e-6)):
        at = local(2e9, offset, rate)
        leads[offset] = ClockDifference(at - 2e9, rate, at)
    between = difference_between(leads[500e6], leads[-250e6])

    for third_ns in (0.0, 2e9, 5e9):
        own, other = local(third_ns, 500e6, 60e-6), local(third_ns, -250e6, -40e-6)
        assert int(between.of(np.array([own]))[0]) == pytest.approx(own - other, abs=200)


FAR = 1 << 61


def nearest(own: list[tuple[int, int]], other: list[tuple[int, int]], near_ns: int) -> list[int]:
    """Places found; calls are given as (token, end)."""
    columns = [np.array(part, np.int64).reshape(-1, 2) for part in (own, other)]
    (tokens, ends), (other_tokens, other_ends) = (part.T.copy() for part in columns)
    found: list[int] = (
        CodedCalls.of(tokens, other_tokens).nearest(ends, other_ends, near_ns).tolist()
    )
    return found


def test_each_call_has_the_nearest_of_its_kind() -> None:
    own = [(7, 10), (9, 20), (7, 30)]
    other = [(9, 11), (7, 12), (7, 33)]

    assert nearest(own, other, 5) == [1, -1, 2]
    assert nearest(own, other, 9) == [1, 0, 2]


def test_a_call_is_paired_with_one_other_at_most() -> None:
    assert nearest([(1, 10), (1, 12)], [(1, 13)], 100) == [-1, 0]


def test_nothing_on_either_side_pairs_with_nothing() -> None:
    assert nearest([], [(1, 5)], 9) == []
    assert nearest([(1, 5)], [], 9) == [-1]


def test_ends_as_far_apart_as_integers_allow() -> None:
    own = [(1, 0), (2, 5), (1, FAR)]

    assert nearest(own, [(1, 3), (2, 9), (1, FAR + 4)], 10) == [0, 1, 2]


def test_tokens_are_numbered_alike_in_all_sequences() -> None:
    one, two, three = (
        part.tolist()
        for part in coded([np.array([50, 10]), np.array([10, 99, 50]), np.array([], np.int64)])
    )

    assert (one, two, three) == ([1, 0], [0, 2, 1], [])


CALLS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 60)), max_size=12)


@given(CALLS, CALLS, st.integers(0, 20))
def test_the_result_equals_that_of_all_pairs(
    own: list[tuple[int, int]], other: list[tuple[int, int]], near_ns: int
) -> None:
    own.sort(key=lambda call: call[1])
    other.sort(key=lambda call: call[1])

    found = nearest(own, other, near_ns)

    for (token, end), place in zip(own, found, strict=True):
        apart = [abs(end - their) for what, their in other if what == token]
        if place >= 0:
            assert other[place][0] == token
            assert abs(end - other[place][1]) == min(apart) <= near_ns
    held = [place for place in found if place >= 0]
    assert len(held) == len(set(held))


def test_many_tokens() -> None:
    tokens: I64 = np.arange(40_000)

    assert CodedCalls.of(tokens, tokens[::-1].copy()).code.tolist() == tokens.tolist()
