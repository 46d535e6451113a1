"""Rows and medians of arrays whose columns lie side by side."""

from __future__ import annotations

import numpy as np
import pytest

from ccltui.metrics.arrays import by_column
from ccltui.metrics.arrays.compiled import available
from ccltui.parsers.array_types import I32, I64


def test_rows_are_those_of_numpy_with_each_column_side_by_side() -> None:
    values = np.arange(12).reshape(4, 3)
    rows = np.array([3, 0, 0])

    assert by_column.take_rows(values, rows).tolist() == values[rows].tolist()
    assert by_column.take_rows(values, rows).T.flags.c_contiguous
    assert by_column.take_rows(values[:, 0], rows).tolist() == [9, 0, 0]
    assert by_column.take_columns(values, [2, 0]).tolist() == values[:, [2, 0]].tolist()
    assert by_column.take_columns(values, [1, 0, 2]).tolist() == values[:, [1, 0, 2]].tolist()
    assert by_column.take_columns(values, [0, 1, 2]) is values
    assert by_column.zeros((4, 3)).tolist() == [[0] * 3] * 4
    assert by_column.zeros((4, 3))[:, 1].flags.c_contiguous


def test_median_of_two_numbers_whose_sum_takes_more_bytes() -> None:
    largest = np.iinfo(np.int32).max
    both: I32 = np.full((1, 2), largest, np.int32)

    assert by_column.marked_median(both, np.ones((1, 2), np.bool_)).tolist() == [largest]


@pytest.mark.parametrize("columns", [1, 2, 3, 8, 33])
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float64])
def test_median_of_marked_numbers(columns: int, dtype: type) -> None:
    random = np.random.default_rng(columns)
    values: I64 = random.integers(-5, 50, (21, columns)).astype(dtype)
    marks = random.random((21, columns)) < 0.4

    found = by_column.marked_median(values, marks)

    for row, expected in enumerate(found.tolist()):
        chosen = values[row][marks[row]]
        assert np.array_equal([expected], [np.median(chosen)] if len(chosen) else [np.nan], True)


@pytest.mark.skipif(not available(), reason="the compiled modules are not built")
@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (9, 4), (17, 130)])
def test_compiled_medians_are_equal_to_those_of_sorting(shape: tuple[int, int]) -> None:
    random = np.random.default_rng(7)
    values = random.integers(0, 40, shape) * 1_000_000_007
    marks = random.random(shape) < 0.5
    for given in (values, values.T.copy().T, values / 3):
        compiled = by_column._marked_median_compiled(given, marks)
        assert np.array_equal(compiled, by_column._marked_median(given, marks), equal_nan=True)


@pytest.mark.parametrize("rows", [[0, 1, 2], [2, 3], [4], [], [1, 3], [3, 2], [1, 1], [0, 2, 2]])
def test_rows_are_those_that_numpy_takes(rows: list[int]) -> None:
    values = np.arange(20).reshape(5, 4)

    of_one = np.broadcast_to(values[:, :1], values.shape)
    for given in (values, np.asfortranarray(values), values[:, 0], of_one):
        found = by_column.take_rows(given, np.array(rows, np.int64))
        assert found.tolist() == given[rows].tolist()


@pytest.mark.parametrize("columns", [2, 3, 9])
def test_columns_with_the_lowest_numbers(columns: int) -> None:
    values = np.random.default_rng(columns).integers(0, 6, (200, columns))
    ordered = np.argsort(values, axis=1, kind="stable")  # the first of equal ones comes first

    first, second = by_column.two_lowest(values)
    stated = by_column._two_lowest(values, most=2)
    assert [first.tolist(), second.tolist()] == [column.tolist() for column in stated]

    assert first.tolist() == by_column.lowest(values).tolist() == ordered[:, 0].tolist()
    assert first.tolist() == by_column.highest(-values).tolist()
    assert second.tolist() == ordered[:, 1].tolist()


@pytest.mark.parametrize("columns", [[], [0], [2], [3, 1], [0, 1, 2, 3]])
def test_some_columns(columns: list[int]) -> None:
    values = np.arange(24).reshape(6, 4)

    for given in (values, np.asfortranarray(values), np.broadcast_to(values[:, :1], (6, 4))):
        assert by_column.take_columns(given, columns).tolist() == given[:, columns].tolist()
