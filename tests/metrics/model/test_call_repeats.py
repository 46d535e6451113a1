"""Records of one call are brought together by their numbers."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ccltui.metrics.model.call_families import _by_pair

FAR = st.integers(-(1 << 62), 1 << 62)
PAIRS = st.tuples(st.integers(0, 3) | FAR, st.integers(-2, 5) | FAR)


@given(st.lists(PAIRS, max_size=40))
def test_order_is_that_of_pairs(pairs: list[tuple[int, int]]) -> None:
    code, sequence = np.array(pairs, np.int64).reshape(-1, 2).T

    found = _by_pair(code, sequence).tolist()

    assert found == sorted(range(len(pairs)), key=lambda i: pairs[i])


def test_order_of_close_numbers() -> None:
    code, sequence = np.array([7, 7, 9, 7, 9]), np.array([1, 2, 1, 1, -1])

    assert _by_pair(code, sequence).tolist() == [0, 3, 1, 4, 2]
