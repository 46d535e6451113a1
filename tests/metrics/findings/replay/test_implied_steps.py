"""Steps from the period of calls, and of the kernels between them."""

from __future__ import annotations

import numpy as np
import pytest
from factories import allreduce, job, kernel, rank_trace, world

from ccltui.metrics.findings.replay.lines.step_lines import implied_steps
from ccltui.metrics.view.job_view import View
from ccltui.parsers.array_types import I64


def ends_of(kernels_between: list[int], ranks: int = 2) -> list[I64] | None:
    """Rows that end steps of ranks that run so many kernels of 1 us before each of their calls."""
    gpu, starts, now = [], [], 0
    for number in kernels_between:
        for _ in range(number):
            gpu.append(kernel("gemm", now, 1, 7))
            starts.append(now * 1000)
            now += 1
        gpu.append(allreduce(now, 1))
        now += 1
    view = View(job(*(rank_trace(rank, gpu=gpu, groups=[world(ranks)]) for rank in range(ranks))))
    calls = [item.calls for item in view.match_inputs]
    return implied_steps(calls, [np.array(starts, np.int64)] * ranks)


@pytest.mark.parametrize(
    ("between", "expected"),
    [
        ([5, 5, 5, 5, 5], [0, 1, 2, 3, 4]),  # one call a step
        ([9, 2, 1] * 4, [2, 5, 8, 11]),  # the most kernels follow the last call of a step
        ([2, 1, 9] * 4, [1, 4, 7, 10]),
        ([9, 2, 1, 9, 2, 1, 9, 3, 1, 9, 2, 1, 9, 2, 1], [2, 5, 8, 11, 14]),  # one longer step
        ([4, 7, 1, 9, 3, 8], [0, 1, 2, 3, 4, 5]),  # no period: each call ends a step
    ],
)
def test_the_period_of_kernels_between_calls(between: list[int], expected: list[int]) -> None:
    found = ends_of(between)

    assert found is not None
    assert [rows.tolist() for rows in found] == [expected, expected]


def test_a_rank_without_calls_has_no_steps() -> None:
    view = View(job(*(rank_trace(rank, gpu=[kernel("gemm", 0, 1, 7)]) for rank in range(2))))
    calls = [item.calls for item in view.match_inputs]

    assert implied_steps(calls, [np.zeros(1, np.int64)] * 2) is None
