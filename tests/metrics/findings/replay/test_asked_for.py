"""What the verdict asks to be recorded next time."""

from __future__ import annotations

import pytest
from factories import Coll, Event, allreduce, job, kernel, rank_trace, world

from ccltui.metrics.findings.replay.job_facts import job_facts
from ccltui.metrics.view.job_view import View


@pytest.mark.parametrize("stated", [True, False])
def test_groups_and_sizes_are_asked_for_only_where_calls_lack_them(stated: bool) -> None:
    bare = Event("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 100, 50, 20)
    call = allreduce(100, 50, Coll("allreduce", 64, 64)) if stated else bare
    ranks = [
        rank_trace(rank, gpu=[kernel("sgemm", 0, 100), call], groups=[world(2)], world_size=2)
        for rank in range(2)
    ]

    assert job_facts(View(job(*ranks))).untold_calls is not stated
