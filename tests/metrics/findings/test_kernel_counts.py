"""Totals by kernel name from compiled code equal those of arrays."""

from __future__ import annotations

import numpy as np
import pytest

from ccltui.metrics.arrays.compiled import available
from ccltui.metrics.findings.causes import segments


@pytest.mark.skipif(not available(), reason="the compiled modules are not built")
@pytest.mark.parametrize("timed", [True, False])
def test_totals_of_segments(timed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(3)
    name, dur = random.integers(-1, 5, 400), random.integers(1, 90_000, 400)
    begin = random.integers(0, 380, 30)
    length = random.integers(0, 20, 30)
    rows = random.permutation(40)[:30]
    weights = dur if timed else None

    found, expected = np.zeros((40, 5)), np.zeros((40, 5))
    segments._add_compiled(found, rows, (begin, length), name, weights)
    monkeypatch.setattr(segments, "_MAX_COUNTS", 50)  # several portions
    segments._add(expected, rows, (begin, length), name, weights)

    one_by_one = np.zeros((40, 5))
    for row, first, count in zip(rows, begin, length, strict=True):
        for place in range(first, first + count):
            if name[place] >= 0:
                one_by_one[row, name[place]] += dur[place] if timed else 1
    assert (expected == one_by_one).all()
    assert (found == one_by_one).all()
