"""first_rows: the first row of each id, whether ids are consecutive or far apart."""

from __future__ import annotations

import numpy as np
import pytest

from ccltui.metrics.arrays.reductions import first_rows


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
