"""The values that occur in an array."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccltui.metrics.arrays.distinct import counted, distinct_values, numbered


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.float64, np.bool_])
@given(values=st.lists(st.integers(-3, 100), max_size=30))
def test_as_numpy_has_them(dtype: type, values: list[int]) -> None:
    array: npt.NDArray[np.generic] = np.array(values).astype(dtype)

    found = distinct_values(array)

    assert found.dtype == array.dtype
    assert found.tolist() == np.unique(array).tolist()


@given(values=st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-9, 9), max_size=30))
def test_numbers_near_and_far_apart(values: list[int]) -> None:
    assert distinct_values(np.array(values, np.int64)).tolist() == sorted(set(values))
    large = np.array([value % 2**64 for value in values], np.uint64)
    assert distinct_values(large).tolist() == sorted({value % 2**64 for value in values})


@pytest.mark.parametrize("dtype", ["U4", object])
def test_texts(dtype: str | type) -> None:
    found = distinct_values(np.array(["b", "", "abc", "b"], dtype))

    assert found.tolist() == ["", "abc", "b"]
    assert distinct_values(np.array([], dtype)).tolist() == []


@given(values=st.lists(st.integers(-3, 100) | st.integers(-(2**63), 2**63 - 1), max_size=30))
def test_where_each_is_and_how_often(values: list[int]) -> None:
    array = np.array(values, np.int64)

    for found, expected in (
        (numbered(array), np.unique(array, return_inverse=True)),
        (counted(array), np.unique(array, return_counts=True)),
    ):
        assert [column.tolist() for column in found] == [column.tolist() for column in expected]
        assert {column.dtype for column in found} == {np.dtype(np.int64)}


def test_where_each_text_is() -> None:
    names, place = numbered(np.array(["b", "", "abc", "b"]))

    assert names[place].tolist() == ["b", "", "abc", "b"]


def test_two_dimensions_are_one() -> None:
    assert distinct_values(np.array([[2, 1], [1, 7]])).tolist() == [1, 2, 7]


def test_masked_arrays_stay_out() -> None:
    code = (
        "import sys, numpy as np\n"
        "from ccltui.metrics.arrays.distinct import distinct_values\n"
        "distinct_values(np.array([2, 1]))\n"
        "print('numpy.ma' in sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"
