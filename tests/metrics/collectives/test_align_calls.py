"""Alignment by key, and by the one gap of a shorter sequence."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccltui.metrics.collectives.matching.align_calls import ordinals, place_gap, tabulate
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
