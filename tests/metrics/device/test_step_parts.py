"""step_parts: the parts of every step, and equality with the breakdown."""

from __future__ import annotations

import pytest
from factories import job, rank_trace
from worked import cpu_only, measure, two_steps, worked_example

from ccltui.metrics.device.step_parts import PARTS, StepParts, one_per_rank, step_parts
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers.columns import RankTrace


def parts(*ranks: RankTrace, **options: object) -> StepParts:
    return step_parts(View(job(*ranks), ViewOptions(**options)))  # type: ignore[arg-type]


def test_two_steps_by_hand() -> None:
    found = parts(two_steps())

    assert (found.labels, found.steps) == (("0",), (1, 2))
    # windows [10,80) and [100,160): gemm [10,50) nccl [40,80); gemm [100,150) nccl [140,160)
    assert found.parts_ns[:, 0, 0].tolist() == [30_000, 30_000, 10_000, 0, 0]
    assert found.parts_ns[:, 1, 0].tolist() == [40_000, 10_000, 10_000, 0, 0]
    assert found.length_ns[:, 0].tolist() == [70_000, 60_000]
    assert found.slowest_first.tolist() == [0, 1]
    assert found.start_ns[:, 0].tolist() == [10_000, 100_000]  # the first event is the marker at 0


def test_ranks_side_by_side_and_a_rank_without_the_step() -> None:
    other = two_steps(1)
    found = parts(two_steps(), other, steps=(2, 2))

    assert found.steps == (2,)
    assert found.mean_ns(0) == [40_000, 10_000, 10_000, 0, 0]
    assert [label for label, _ in one_per_rank(found, 0)] == ["0", "1"]


def test_parts_sum_to_the_breakdown() -> None:
    found = parts(two_steps(), two_steps(1))
    details = measure("temporal_breakdown", two_steps(), two_steps(1)).details

    means = found.parts_ns.sum(axis=(1, 2)) / 2 / 1e6
    wanted = [details[f"{name}_ms"] for name in ("comp_only", "comm_only", "overlap", "mem_only")]
    assert means[:4].tolist() == pytest.approx(wanted)
    assert means[PARTS.index("idle")] == pytest.approx(details["idle_ms"])


@pytest.mark.parametrize("trace", [worked_example(), cpu_only(), rank_trace(0)])
def test_no_parts_without_steps_or_a_device(trace: RankTrace) -> None:
    found = parts(trace)

    assert len(found) == 0
    assert found.parts_ns.shape[1] == 0
    assert found.slowest_first.tolist() == found.slowest.tolist() == []
    assert found.median_ns == 0


def test_the_period_begins_at_the_end_of_the_step_before() -> None:
    found = parts(two_steps(), two_steps(1))

    assert found.period_ns.tolist() == [[-1, -1], [80_000, 80_000]]  # from 80 to 160
    assert found.time_ns.tolist() == [70_000, 80_000]  # of the first step its device work
    assert (found.between_ns(0), found.between_ns(1)) == (None, 20_000)
    assert found.middle == 1  # of two steps the shorter on the device
