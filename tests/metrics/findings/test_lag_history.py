"""Distribution and trend of the lags of like collectives."""

from __future__ import annotations

from factories import Coll, allreduce, job, rank_trace, world

from ccltui.metrics.findings.causes.instance_report import BINS, lag_history
from ccltui.metrics.view.job_view import View
from ccltui.parsers.columns import RankTrace

LATE_US = (5, 5, 5, 5, 100, 5)


def rank(number: int) -> RankTrace:
    """Six collectives of 400 us at which rank 1 is late."""
    gpu = []
    for i, late in enumerate(LATE_US):
        begin = 1000 * i + (late if number else 0)
        coll = Coll("allreduce", 1000, 1000, "Float", 0, 2, i, 7)
        gpu.append(allreduce(begin, 1000 * i + 400 - begin, coll))
    return rank_trace(number, gpu=gpu, groups=[world(2)], world_size=2)


def test_distribution_and_trend() -> None:
    arrived = View(job(rank(0), rank(1))).arrivals.groups[0]
    found = lag_history(arrived, 4)

    assert found is not None
    assert found.trend_ns.tolist() == [late * 1000 for late in LATE_US]
    assert (found.place, found.median_ns) == (4, 5_000)
    assert found.counts.tolist() == [5, *[0] * (BINS - 2), 1]
    assert (found.edges_ns[0], found.edges_ns[-1]) == (5_000, 100_000)


def test_equal_lags_have_a_scale_too() -> None:
    first = View(job(rank(0), rank(1))).arrivals.groups[0]
    found = lag_history(first, 0)

    assert found is not None
    assert found.counts.sum() == len(LATE_US)
    assert (found.edges_ns[1:] >= found.edges_ns[:-1]).all()


def test_an_incomplete_collective_has_none() -> None:
    short = rank_trace(
        1,
        gpu=[allreduce(5, 395, Coll("allreduce", 1000, 1000, "Float", 0, 2, 0, 7))],
        groups=[world(2)],
        world_size=2,
    )
    arrived = View(job(rank(0), short)).arrivals.groups[0]

    assert lag_history(arrived, len(arrived.lag_ns) - 1) is None
