"""Sums of the values of each line, from compiled code and from arrays."""

from __future__ import annotations

import numpy as np
import pytest

from ccltui.metrics.arrays.compiled import available
from ccltui.metrics.findings.replay.lines.call_table import _sums_in_arrays, sums_by_line


@pytest.mark.skipif(not available(), reason="the compiled modules are not built")
@pytest.mark.parametrize("seed", range(10))
def test_compiled_sums_are_equal_to_those_of_arrays(seed: int) -> None:
    random = np.random.default_rng(seed)
    first = np.append(0, np.cumsum(random.integers(0, 9, seed)))
    values = random.random(int(first[-1]))
    columns = random.integers(0, 1 << 40, (int(first[-1]), 2))

    for one in (values, columns[:, 0]):
        assert sums_by_line(one, first).tolist() == _sums_in_arrays(one, first).tolist()
