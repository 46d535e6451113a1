"""Times of collectives do not depend on which of their members are selected."""

from __future__ import annotations

import pytest
from factories import Coll, allreduce, job, kernel, rank_trace, world

from ccltui.metrics.view.instances import instances_of
from ccltui.metrics.view.job_view import View, ViewOptions

LATE_US = (0, 30, 170)


@pytest.mark.parametrize("ranks", [None, {0}, {0, 1}, {2}])
def test_the_transfer_time_is_that_of_the_last_to_arrive(ranks: set[int] | None) -> None:
    traces = [
        rank_trace(
            rank,
            gpu=[
                kernel("gemm", 0, 1000 + late),
                allreduce(1000 + late, 200 - late, Coll("allreduce", 64, 64, group_size=3, seq=7)),
            ],
            groups=[world(3)],
            world_size=3,
        )
        for rank, late in enumerate(LATE_US)
    ]
    chosen = None if ranks is None else frozenset(ranks)

    found = instances_of(View(job(*traces), ViewOptions(ranks=chosen)))

    assert found.time_ns.tolist() == [30_000]
    assert found.members.tolist() == [3 if ranks is None else len(ranks)]
