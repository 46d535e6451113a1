"""Collectives before which no common point of their ranks is recorded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from factories import Coll, Event, allreduce, job, kernel, rank_trace, world

from ccltui.demo import LateStart, Spec, Straggler, write_job
from ccltui.metrics.catalog.stragglers.straggler_cause import straggler_cause
from ccltui.metrics.findings.causes.cause_search import job_causes, starts_recording
from ccltui.metrics.view.job_view import View
from ccltui.parsers.columns import ProcessGroup, RankTrace
from ccltui.parsers.job import open_job

PAIR = ProcessGroup("1", "tp", (0, 1), 2, "cuda:nccl")
ENDS_US = (9000, 11000, 13000)


def rank(number: int, *, pair: bool = False, late_us: float = 0) -> RankTrace:
    """Three collectives of two ranks; rank 1 is recorded from 8800 us on, late by ``late_us``."""
    gpu: list[Event] = []
    if pair:
        call = Coll("allreduce", 8, 8, group=1, seq=0)
        gpu.append(allreduce(100 + 5 * number, 200 - 5 * number, call, stream=21))
    for nth, end in enumerate(ENDS_US):
        own = late_us if nth and number else 0
        start = 8800 if nth == 0 and number else end - 1000 + own
        start = 1000 if nth == 0 and not number else start
        if number and not pair and nth == 0:
            gpu.append(kernel("gemm", 8790, 5))
        elif nth:
            gpu.append(kernel("gemm", ENDS_US[nth - 1], start - ENDS_US[nth - 1] - 1))
        gpu.append(allreduce(start, end - start, Coll("allreduce", 8, 8, seq=nth)))
    return rank_trace(number, gpu=gpu, groups=[world(2), PAIR], world_size=2, host="a")


def begun(view: View) -> list[list[bool]]:
    return [mask.tolist() for mask in starts_recording(job_causes(view))]


def test_the_first_collective_of_ranks_that_begin_to_record_at_different_times() -> None:
    assert begun(View(job(rank(0), rank(1)))) == [[True, False, False]]


def test_a_collective_of_another_group_before_it_is_a_common_point() -> None:
    view = View(job(rank(0, pair=True), rank(1, pair=True)))

    found = dict(zip([one.match.group for one in view.arrivals.groups], begun(view), strict=True))

    assert found[0] == [False, False, False]


def test_the_rank_with_most_lag_is_from_recorded_common_points() -> None:
    # 7.8 ms of the first collective belong to the recording, 0.6 ms of each of the others do not
    details = straggler_cause.run(View(job(rank(0), rank(1, late_us=600)))).details

    assert (details["main_rank"], details["main_cause"]) == ("1", "compute")
    assert [(row["index"], row["lag_us"]) for row in details["worst"]] == [
        (1, 600.0),
        (2, 600.0),
        (0, 7800.0),
    ]
    assert details["blamed_lag_ms"] == pytest.approx(9.0)
    assert details["worst"][2]["cause"] == "unknown"


def test_where_nothing_else_is_late_the_first_one_is_reported() -> None:
    details = straggler_cause.run(View(job(rank(0), rank(1)))).details

    assert (details["main_rank"], details["main_cause"]) == ("1", "unknown")


@pytest.mark.parametrize(("seed", "offset_ns"), [(0, 0), (1, 10**9), (2, 0), (3, 10**9)])
def test_they_equal_the_verdicts_without_a_start(tmp_path: Path, seed: int, offset_ns: int) -> None:
    spec = Spec.quiet(
        tp=2,
        dp_shard=2,
        gpus_per_node=2,
        steps=2,
        stragglers=(Straggler(1, "compute", 2_000_000, None),),
        late_starts=(LateStart(seed, 1 + seed),),
        clock_offsets_ns=(0, offset_ns),
        seed=seed,
    )
    write_job(tmp_path / "job", spec)
    view = View(open_job(tmp_path / "job", cache_dir=tmp_path / "cache"))
    causes = job_causes(view)

    for number, (group, found) in enumerate(
        zip(view.arrivals.groups, starts_recording(causes), strict=True)
    ):
        rows = np.flatnonzero(group.eligible)
        before = causes.points(group.labels).before(causes.targets(number, rows).time_ns)
        assert found[rows].tolist() == (before == 0).tolist()
        late = found & (group.last >= 0)
        assert causes.verdicts(number, np.flatnonzero(late)).starts_recording.all()
