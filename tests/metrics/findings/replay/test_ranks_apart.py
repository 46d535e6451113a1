"""Verdicts on jobs in which a rank makes calls of its own, so that it has no like."""

from __future__ import annotations

import pytest
from factories import allreduce, job, kernel, rank_trace, step, world

from ccltui.metrics.findings.replay.ladder import ladder_of
from ccltui.metrics.findings.replay.verdict_rules import alone_reasons, longer_alone, ranks_alone
from ccltui.metrics.registry import find
from ccltui.metrics.result import Result
from ccltui.metrics.view.job_view import View
from ccltui.parsers.columns import RankTrace

WORK_US = 400


def traces(longer_us: float, *, alone: bool = True, num_steps: int = 5) -> list[RankTrace]:
    """Four ranks that compute and meet once a step.

    Rank 3 computes longer, and where it is alone it makes only half of the calls of the others.
    """
    meet = WORK_US + longer_us + 60
    length = meet + 31  # no idle time between steps
    found = []
    for rank in range(4):
        gpu = []
        for i in range(num_steps):
            begin = i * length
            work = WORK_US + (longer_us if rank == 3 else 0) + (i * 7 + rank * 3) % 5 / 10
            gpu.append(kernel("gemm", begin, work, 7))
            gpu.append(allreduce(begin + work + 1, meet - work))
            if alone and rank != 3:
                gpu.append(kernel("ncclDevKernel_Broadcast_RING_LL", begin + meet + 1.2, 0.6, 20))
            gpu.append(kernel("adam", begin + meet + 2, 29, 7))
        marks = [step(i, i * length, length) for i in range(num_steps)]
        found.append(rank_trace(rank, gpu=gpu, annotations=marks, groups=[world(4)]))
    return found


def verdict_on(ranks: list[RankTrace]) -> Result:
    return find("verdict").run(View(job(*ranks)))


def test_a_rank_with_calls_of_its_own_is_not_cleared() -> None:
    found = verdict_on(traces(200))

    assert (found.details["verdict"], found.details["confidence"]) == ("inconclusive", None)
    assert "rank 3 computes 200 us longer" in found.details["why"]
    assert found.status == "partial"
    assert "3" in {reason.rank for reason in found.reasons}


def test_without_calls_of_its_own_the_same_rank_is_named() -> None:
    found = verdict_on(traces(200, alone=False))

    assert found.details["verdict"] == "slow_worker"
    assert found.details["culprit"]["ranks"] == ["3"]


def test_a_rank_alone_that_computes_no_longer_lowers_the_confidence_that_nobody_is_slow() -> None:
    alone, alike = verdict_on(traces(0)), verdict_on(traces(0, alone=False))

    assert alone.details["verdict"] == alike.details["verdict"] == "no_straggler"
    assert (alone.details["confidence"], alike.details["confidence"]) == ("low", "high")
    assert (alone.status, alike.status) == ("partial", "ok")


@pytest.mark.parametrize(("least_share", "told"), [(0.1, True), (0.5, False)])
def test_longer_compute_counts_from_a_share_of_the_step(least_share: float, told: bool) -> None:
    ladder = ladder_of(View(job(*traces(200))))

    assert ranks_alone(ladder).tolist() == [3]
    assert (longer_alone(ladder, least_share) is not None) is told


def test_ranks_that_are_all_alone_are_refused_as_a_whole() -> None:
    pair = traces(200)[2:]
    ladder = ladder_of(View(job(*pair)))

    assert ranks_alone(ladder).tolist() == []
    assert alone_reasons(ladder) == []
