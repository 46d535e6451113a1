"""Pairing of collectives by their ends: gaps on either side, clock offsets and drift."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccltui.metrics.collectives.matching.align_calls import (
    ClockDifference,
    difference_between,
    fit,
    pair,
)
from ccltui.metrics.collectives.matching.lineup import Merged, grouped, runs
from ccltui.parsers.array_types import I64


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
