"""Reductions along rows, distinct values and medians equal those of numpy."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from ccltui.metrics.arrays import reductions
from ccltui.metrics.arrays.reductions import (
    MAX_COLUMNS,
    counts_up,
    distinct_rows,
    distinct_values,
    is_one_value,
    joined,
    median_along,
    quantile,
    repeated,
    row_all,
    row_any,
    row_count,
    row_max,
    row_min,
    row_sum,
    stable_order,
    taken,
    unique_counts,
    unique_inverse,
    values_at,
)

SHAPES = array_shapes(min_dims=2, max_dims=2, max_side=6)
NUMBERS = arrays(np.int64, SHAPES, elements=st.integers(-(1 << 40), 1 << 40))
FLAGS = arrays(np.bool_, SHAPES)
FLOATS = st.floats(-1e18, 1e18, allow_subnormal=False)


@given(NUMBERS)
def test_reductions_of_numbers(values: np.ndarray) -> None:
    assert row_min(values).tolist() == values.min(axis=1).tolist()
    assert row_max(values).tolist() == values.max(axis=1).tolist()
    assert row_sum(values).tolist() == values.sum(axis=1).tolist()
    assert row_min(values, 0).tolist() == values.min(axis=1, initial=0).tolist()
    assert row_max(values, 0).tolist() == values.max(axis=1, initial=0).tolist()


@given(FLAGS)
def test_reductions_of_flags(flags: np.ndarray) -> None:
    assert row_all(flags).tolist() == flags.all(axis=1).tolist()
    assert row_any(flags).tolist() == flags.any(axis=1).tolist()
    assert row_count(flags).tolist() == flags.sum(axis=1).tolist()


@pytest.mark.parametrize("columns", [0, 1, 2, MAX_COLUMNS, MAX_COLUMNS + 1])
def test_any_number_of_columns(columns: int) -> None:
    values = np.arange(3 * columns).reshape(3, columns)

    assert row_max(values, -1).tolist() == values.max(axis=1, initial=-1).tolist()
    assert row_all(values >= 0).tolist() == [True] * 3
    assert row_any(values < 0).tolist() == [False] * 3
    assert row_count(values >= 0).tolist() == [columns] * 3
    assert row_max(values, -1).dtype == np.int64


def test_result_of_a_reduction_shares_no_memory() -> None:
    for columns in (1, 2):
        values = np.ones((3, columns), np.int64)
        row_min(values)[:] = 7

        assert values.tolist() == [[1] * columns] * 3


def test_minimum_without_a_column_is_an_error() -> None:
    with pytest.raises(ValueError, match="zero-size"):
        row_min(np.empty((3, 0), np.int64))


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.float64, np.bool_])
@given(values=st.lists(st.integers(-3, 100), max_size=30))
def test_distinct_values_equal_those_of_numpy(dtype: type, values: list[int]) -> None:
    array: npt.NDArray[np.generic] = np.array(values).astype(dtype)

    found = distinct_values(array)

    assert found.dtype == array.dtype
    assert found.tolist() == np.unique(array).tolist()


@given(values=st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-9, 9), max_size=30))
def test_distinct_values_near_and_far_apart(values: list[int]) -> None:
    assert distinct_values(np.array(values, np.int64)).tolist() == sorted(set(values))
    large = np.array([value % 2**64 for value in values], np.uint64)
    assert distinct_values(large).tolist() == sorted({value % 2**64 for value in values})


@pytest.mark.parametrize("dtype", ["U4", object])
def test_distinct_strings(dtype: str | type) -> None:
    found = distinct_values(np.array(["b", "", "abc", "b"], dtype))

    assert found.tolist() == ["", "abc", "b"]
    assert distinct_values(np.array([], dtype)).tolist() == []


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@given(values=st.lists(st.integers(-3, 100) | st.integers(-(2**31), 2**31 - 1), max_size=30))
def test_inverse_and_counts_equal_those_of_numpy(dtype: type, values: list[int]) -> None:
    array: npt.NDArray[np.generic] = np.array(values, dtype)

    for found, expected in (
        (unique_inverse(array), np.unique(array, return_inverse=True)),
        (unique_counts(array), np.unique(array, return_counts=True)),
    ):
        assert [column.tolist() for column in found] == [column.tolist() for column in expected]
        assert [column.dtype for column in found] == [array.dtype, np.dtype(np.int64)]


@given(values=st.lists(st.integers(-(2**63), 2**63 - 1), max_size=30))
def test_inverse_of_large_numbers(values: list[int]) -> None:
    found, inverse = unique_inverse(np.array(values, np.int64))

    assert found.tolist() == sorted(set(values))
    assert found[inverse].tolist() == values


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.float64])
@given(st.lists(st.integers(-100, 100)))
def test_stable_order_is_that_of_numpy(dtype: type, values: list[int]) -> None:
    array: npt.NDArray[Any] = np.array(values, dtype)

    assert stable_order(array).tolist() == np.argsort(array, kind="stable").tolist()


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_stable_order_of_large_numbers(values: list[int]) -> None:
    array = np.array(values, np.int64)

    assert stable_order(array).tolist() == np.argsort(array, kind="stable").tolist()


def test_inverse_of_strings() -> None:
    names, place = unique_inverse(np.array(["b", "", "abc", "b"]))

    assert names[place].tolist() == ["b", "", "abc", "b"]


def test_distinct_values_of_two_dimensions() -> None:
    assert distinct_values(np.array([[2, 1], [1, 7]])).tolist() == [1, 2, 7]


@pytest.mark.parametrize(
    "call", ["distinct_values(a)", "unique_inverse(a)", "unique_counts(a)", "median_along(a[:2])"]
)
def test_masked_arrays_are_not_imported(call: str) -> None:
    code = (
        "import sys, numpy as np\n"
        "from ccltui.metrics.arrays.reductions import *\n"
        "a = np.array([2, 1, 1])\n"
        f"{call}\n"
        "print('numpy.ma' in sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"


@given(arrays(np.float64, array_shapes(min_dims=2, max_dims=3, max_side=6), elements=FLOATS))
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_median_has_the_same_bits(axis: int, array: npt.NDArray[np.float64]) -> None:
    expected = np.median(array, axis=axis)

    # 0.0 is added because the mean of two negative zeros is a positive one in numpy.
    assert (median_along(array, axis) + 0.0).tobytes() == (expected + 0.0).tobytes()


def test_median_of_two_has_the_shape_of_the_others() -> None:
    for count in (1, 2, 3):
        assert median_along(np.zeros((count, 4))).shape == (4,)
        assert median_along(np.zeros(count)).shape == ()


@pytest.mark.parametrize("shape", [(300, 20), (301, 1), (256, 9), (400, 0)])
def test_medians_of_long_columns_have_the_same_bits(shape: tuple[int, int]) -> None:
    table = np.random.default_rng(3).integers(0, 1 << 40, shape)
    with_nan = np.where(table % 977 == 0, np.nan, table)

    for values in (table, with_nan, np.asfortranarray(table)):
        assert median_along(values).tobytes() == np.median(values, axis=0).tobytes()


def test_median_with_nan_is_nan() -> None:
    assert np.isnan(median_along([1.0, np.nan, 3.0]))
    assert np.isnan(median_along([np.nan, 3.0]))
    assert median_along([[1.0, np.nan], [2.0, 0.0]]).tolist()[0] == 1.5


def test_median_of_integers() -> None:
    assert float(median_along([4, 1, 3, 2])) == 2.5
    assert float(median_along([7])) == 7.0


@given(
    arrays(np.int64, st.integers(1, 30), elements=st.integers(-(1 << 40), 1 << 40)),
    st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9, 1.0]),
)
def test_quantiles_are_those_of_numpy(values: np.ndarray, share: float) -> None:
    assert quantile(values, share) == np.quantile(values, share)
    assert quantile(values.astype(np.float64), share) == np.quantile(values, share)


@given(st.lists(st.tuples(st.integers(-2, 1 << 40), st.integers(0, 3), st.integers(-1, 1))))
def test_distinct_rows_are_those_of_numpy(rows: list[tuple[int, int, int]]) -> None:
    columns = np.array(rows, np.int64).reshape(-1, 3).T

    found, number = distinct_rows(columns[0], columns[1].astype(np.int8), columns[2])

    expected, inverse = np.unique(columns, axis=1, return_inverse=True)
    assert found.tolist() == expected.tolist()
    assert number.tolist() == inverse.reshape(-1).tolist()


@pytest.mark.parametrize("values", [np.arange(3, 8), np.full(5, 7), repeated(np.array([7]), 5)])
def test_columns_of_one_value_are_taken_like_others(values: np.ndarray) -> None:
    rows = np.array([4, 0, -1, 4])
    assert taken(values, rows).tolist() == np.array(values)[rows].tolist()
    assert distinct_values(values).tolist() == sorted(set(values.tolist()))


def test_a_column_of_one_value_is_a_view_of_a_copy() -> None:
    given = np.array([7, 8])
    found = repeated(given, 3)
    given[0] = 9
    assert is_one_value(found)
    assert found.tolist() == [7, 7, 7]
    assert not is_one_value(np.full(3, 7))


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], True),
        ([0], True),
        ([0, 1, 2], True),
        ([1, 2], False),
        ([0, 0, 2], False),
        ([0, 2, 1, 3], False),
    ],
)
def test_rows_that_count_up(rows: list[int], expected: bool) -> None:
    assert counts_up(np.array(rows, np.int32)) == expected


@pytest.mark.parametrize("spread", [1, 3, 1000, 2**20, 2**40, 2**62])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_values_at_places_of_their_order(spread: int, dtype: type[np.signedinteger]) -> None:
    random = np.random.default_rng(spread % 97)
    most = min(spread, np.iinfo(dtype).max)
    values = random.integers(-most, most, reductions._FEW_VALUES + 7).astype(dtype)
    values[::3] = values[0]  # many are the same
    places = [0, 1, len(values) // 3, len(values) // 2, len(values) - 1]

    ordered = np.sort(values)

    assert values_at(values, places) == [float(ordered[place]) for place in places]
    assert values_at(values[:50], [49, 0]) == [values[:50].max(), values[:50].min()]
    assert float(median_along(values)) == float(np.median(values.astype(np.float64)))


def test_arrays_are_joined_in_four_bytes_where_all_numbers_fit() -> None:
    small, large = np.array([-1, 2**31 - 1]), np.array([2**31])

    assert joined([]).tolist() == []
    assert joined([small, small]).dtype == np.int32
    both = joined([small, large])
    assert both.dtype == np.int64
    assert both.tolist() == [-1, 2**31 - 1, 2**31]
