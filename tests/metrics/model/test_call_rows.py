"""Rows of one table are no rows of another."""

from __future__ import annotations

import numpy as np
import pytest

from ccltui.metrics.model.calls import CallRows


def test_rows_are_given_for_their_own_group_only() -> None:
    rows = CallRows("cpu_ops", np.array([3, 5]))

    assert rows.of("cpu_ops").tolist() == [3, 5]
    with pytest.raises(ValueError, match="rows of cpu_ops, not of gpu"):
        rows.of("gpu")


def test_calls_without_a_row_follow() -> None:
    assert CallRows("gpu", np.array([3])).with_none(2).numbers.tolist() == [3, -1, -1]
