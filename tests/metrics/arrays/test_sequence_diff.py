"""Sequences compared, and rows found by their id."""

from __future__ import annotations

import difflib
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccltui.metrics.arrays.reductions import _first_rows, first_rows
from ccltui.metrics.arrays.sequence_diff import TooDifferentError, difference


def pairs(one: str, other: str, most: int = 1000) -> list[tuple[int, int]]:
    left, right = (np.array([ord(item) for item in text], np.int64) for text in (one, other))
    found = difference(left, right, most=most)
    return list(zip(found.one.tolist(), found.other.tolist(), strict=True))


def test_by_hand() -> None:
    assert pairs("abc", "abc") == [(0, 0), (1, 1), (2, 2)]
    assert pairs("abXc", "abc") == [(0, 0), (1, 1), (3, 2)]
    assert pairs("abc", "aYbc") == [(0, 0), (1, 2), (2, 3)]
    assert pairs("", "abc") == pairs("abc", "") == pairs("", "") == []
    assert pairs("xyz", "abc") == []


def test_myers_own_example() -> None:
    assert len(pairs("abcabba", "cbabac")) == 4  # 5 differences: 7 + 6 - 2 * 4


def test_long_repeats() -> None:
    layer = "nggaggd" * 500
    found = pairs(layer + "X" + layer, layer + layer)

    assert len(found) == 7000
    assert (3499, 3499) in found
    assert (3501, 3500) in found


def test_too_many_differences_raise_an_error() -> None:
    with pytest.raises(TooDifferentError, match="more than 4 kernels differ"):
        pairs("aaaa", "bbbb", most=4)
    assert pairs("aa", "bb", most=4) == []


ITEMS = st.text(alphabet="abc", max_size=14)


def longest_common(one: str, other: str) -> int:
    table = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for i, left in enumerate(one):
        for j, right in enumerate(other):
            same = table[i][j] + 1 if left == right else 0
            table[i + 1][j + 1] = max(table[i][j + 1], table[i + 1][j], same)
    return table[-1][-1]


@given(ITEMS, ITEMS)
def test_the_common_sequence_is_the_longest(one: str, other: str) -> None:
    found = pairs(one, other)

    assert all(one[i] == other[j] for i, j in found)
    assert all(a < b and c < d for (a, c), (b, d) in itertools.pairwise(found))
    assert len(found) == longest_common(one, other)


@given(st.lists(st.integers(0, 5), max_size=300), st.integers(0, 2**32 - 1))
def test_edits_of_a_sequence_are_found(items: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    kept = [item for item in items if rng.random() > 0.1]
    found = difference(np.array(items, np.int64), np.array(kept, np.int64))

    assert len(found) == len(kept)  # only deletions: everything kept is matched
    blocks = difflib.SequenceMatcher(None, items, kept, autojunk=False).get_matching_blocks()
    assert len(found) >= sum(block.size for block in blocks)


@pytest.mark.parametrize("scale", [1, 10**12])
def test_the_first_of_several_rows_with_an_id(scale: int) -> None:
    keys = np.array([-1, 4, 2, 4, 9], np.int64)
    keys[keys > 0] *= scale
    wanted = np.array([4, 9, 3, 2], np.int64) * scale

    assert first_rows(keys, wanted).tolist() == [1, 4, -1, 2]


def test_without_ids_nothing_is_found() -> None:
    wanted = np.array([1, 2], np.int64)

    assert first_rows(np.empty(0, np.int64), wanted).tolist() == [-1, -1]
    assert first_rows(np.array([-1, -1], np.int64), wanted).tolist() == [-1, -1]


@given(
    st.lists(st.integers(-1, 40), max_size=60),
    st.lists(st.integers(-2, 45), max_size=60),
    st.sampled_from([1, 10**12]),
)
def test_rows_of_ids_are_the_same_from_compiled_code_and_from_arrays(
    keys: list[int], wanted: list[int], scale: int
) -> None:
    known, sought = (np.array(ids, np.int64) * scale for ids in (keys, wanted))

    found, in_arrays = first_rows(known, sought), _first_rows(known, sought)

    assert (found.dtype, found.tolist()) == (in_arrays.dtype, in_arrays.tolist())
    assert found.tolist() == [keys.index(one) if one >= 0 and one in keys else -1 for one in wanted]
