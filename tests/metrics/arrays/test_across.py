"""Reductions along short rows: as numpy has them, whatever the number of columns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from ccltui.metrics.arrays import across
from ccltui.metrics.arrays.across import (
    FEW,
    row_all,
    row_any,
    row_count,
    row_max,
    row_min,
    row_sum,
)

SHAPES = array_shapes(min_dims=2, max_dims=2, max_side=6)
NUMBERS = arrays(np.int64, SHAPES, elements=st.integers(-(1 << 40), 1 << 40))
FLAGS = arrays(np.bool_, SHAPES)


@given(NUMBERS)
def test_numbers(values: np.ndarray) -> None:
    assert row_min(values).tolist() == values.min(axis=1).tolist()
    assert row_max(values).tolist() == values.max(axis=1).tolist()
    assert row_sum(values).tolist() == values.sum(axis=1).tolist()
    assert row_min(values, 0).tolist() == values.min(axis=1, initial=0).tolist()
    assert row_max(values, 0).tolist() == values.max(axis=1, initial=0).tolist()


@given(FLAGS)
def test_flags(flags: np.ndarray) -> None:
    assert row_all(flags).tolist() == flags.all(axis=1).tolist()
    assert row_any(flags).tolist() == flags.any(axis=1).tolist()
    assert row_count(flags).tolist() == flags.sum(axis=1).tolist()


@pytest.mark.parametrize("columns", [0, 1, 2, FEW, FEW + 1])
def test_any_number_of_columns(columns: int) -> None:
    values = np.arange(3 * columns).reshape(3, columns)

    assert row_max(values, -1).tolist() == values.max(axis=1, initial=-1).tolist()
    assert row_all(values >= 0).tolist() == [True] * 3
    assert row_any(values < 0).tolist() == [False] * 3
    assert row_count(values >= 0).tolist() == [columns] * 3
    assert row_max(values, -1).dtype == np.int64


def test_what_is_reduced_is_not_shared() -> None:
    for columns in (1, 2):
        values = np.ones((3, columns), np.int64)
        row_min(values)[:] = 7

        assert values.tolist() == [[1] * columns] * 3


def test_of_no_column_there_is_no_least() -> None:
    with pytest.raises(ValueError, match="zero-size"):
        across.row_min(np.empty((3, 0), np.int64))
