"""Medians of float arrays, as numpy has them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from ccltui.metrics.arrays.middle import middle_of

values = st.floats(-1e18, 1e18, allow_subnormal=False)


@given(arrays(np.float64, array_shapes(min_dims=2, max_dims=3, max_side=6), elements=values))
@pytest.mark.parametrize("axis", [0, 1])
def test_the_same_bits(axis: int, array: npt.NDArray[np.float64]) -> None:
    assert middle_of(array, axis).tolist() == np.median(array, axis=axis).tolist()


def test_what_is_no_number_has_no_middle() -> None:
    assert np.isnan(middle_of([1.0, np.nan, 3.0]))
    assert middle_of([[1.0, np.nan], [2.0, 0.0]]).tolist()[0] == 1.5


def test_whole_numbers() -> None:
    assert float(middle_of([4, 1, 3, 2])) == 2.5
    assert float(middle_of([7])) == 7.0
