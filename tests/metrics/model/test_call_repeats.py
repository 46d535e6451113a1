"""Calls that are recorded twice are found by a table of pairs, or by a sort."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ccltui.metrics.model.call_families import _occur_again

FAR = st.integers(-(1 << 62), 1 << 62)
PAIRS = st.tuples(st.integers(0, 3) | FAR, st.integers(-2, 5) | FAR)


@given(st.lists(PAIRS, max_size=40))
def test_all_repeated_pairs_are_found(pairs: list[tuple[int, int]]) -> None:
    code, sequence = np.array(pairs, np.int64).reshape(-1, 2).T

    found = _occur_again(code, sequence).tolist()

    truth = [Counter(pairs)[pair] > 1 for pair in pairs]
    assert found == truth or all(found)


def test_only_repeated_pairs_are_found_for_close_numbers() -> None:
    code, sequence = np.array([7, 7, 9, 7, 9]), np.array([1, 2, 1, 1, -1])

    assert _occur_again(code, sequence).tolist() == [True, False, False, True, False]
