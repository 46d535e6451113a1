"""Error bars of clocks that few collectives tell."""

from __future__ import annotations

import numpy as np
import pytest
from factories import Coll, allreduce, job, rank_trace, world

from ccltui.metrics.view.job_view import View
from ccltui.parsers.columns import RankTrace

OFFSET_US = 500.0


def rank(number: int, ends_us: list[float]) -> RankTrace:
    gpu = [
        allreduce(end - 50, 50, Coll("allreduce", 8, 8, group_size=2, seq=k))
        for k, end in enumerate(ends_us)
    ]
    return rank_trace(
        number, gpu=gpu, groups=[world(2)], shift_us=OFFSET_US * number, host=f"n{number}"
    )


def clocks(scatter_us: list[float]) -> View:
    common = [1_000.0 * (k + 1) for k in range(len(scatter_us))]
    late = [end + more for end, more in zip(common, scatter_us, strict=True)]
    return View(job(rank(0, common), rank(1, late)))


def test_one_end_has_no_error_bar() -> None:
    view = clocks([3.0])
    assert view.clocks.clocks["1"].residual_p95_ns is None
    assert view.clocks.error_bar_ns is None


@pytest.mark.parametrize("count", [2, 3, 4])
def test_the_bar_of_few_ends_covers_the_next_end(count: int) -> None:
    """A bar of 95 % covers the next of normally distributed ends in about 95 % of the cases."""
    draw = np.random.default_rng(count)
    covered = []
    for _ in range(200):
        scatter = draw.normal(0, 20, count + 1)
        view = clocks(scatter[:count].tolist())
        clock = view.clocks.clocks["1"]
        assert clock.residual_p95_ns is not None
        error_us = abs(clock.offset_ns / 1000 - OFFSET_US - scatter[count])
        covered.append(error_us <= 2 * clock.residual_p95_ns / 1000)
    assert np.mean(covered) > 0.85


def test_five_ends_keep_their_residual() -> None:
    view = clocks([0.0, 4.0, -4.0, 2.0, -2.0])
    clock = view.clocks.clocks["1"]
    assert clock.residual_p95_ns == 2_000  # half of the difference of two ranks
    assert view.clocks.error_bar_ns == view.clocks.residual_p95_ns
