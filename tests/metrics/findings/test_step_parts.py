"""step_parts: the parts of every step, and equality with the partition."""

from __future__ import annotations

import pytest
from factories import job, kernel, launch, rank_trace, step
from full_jobs import view_of
from worked import cpu_only, measure, two_steps, worked_example

from ccltui.metrics.findings.rank_time.portions import portions_of
from ccltui.metrics.findings.rank_time.step_parts import (
    PARTS,
    StepParts,
    from_end,
    one_per_rank,
    step_parts,
)
from ccltui.metrics.findings.slow_steps import slow_steps
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers.columns import RankTrace
from ccltui.parsers.window import Window


def parts(*ranks: RankTrace, **options: object) -> StepParts:
    return step_parts(View(job(*ranks), ViewOptions(**options)))  # type: ignore[arg-type]


def test_two_steps_by_hand() -> None:
    found = parts(two_steps())

    assert (found.labels, found.steps) == (("0",), (1, 2))
    # windows [10,100) and [100,160): gemm [10,50) nccl [40,80); gemm [100,150) nccl [140,160)
    assert found.parts_ns[:, 0, 0].tolist() == [30_000, 10_000, 0, 30_000, 0, 0, 20_000]
    assert found.parts_ns[:, 1, 0].tolist() == [40_000, 10_000, 0, 10_000, 0, 0, 0]
    assert found.length_ns[:, 0].tolist() == [90_000, 60_000]
    assert found.start_ns[:, 0].tolist() == [10_000, 100_000]  # the first event is the marker at 0


def test_ranks_side_by_side_and_a_rank_without_the_step() -> None:
    other = two_steps(1)
    found = parts(two_steps(), other, steps=(2, 2))

    assert found.steps == (2,)
    assert found.mean_ns(0) == [40_000, 10_000, 0, 10_000, 0, 0, 0]
    assert [label for label, _ in one_per_rank(found, 0)] == ["0", "1"]


def test_parts_sum_to_the_breakdown() -> None:
    found = parts(two_steps(), two_steps(1))
    details = measure("temporal_breakdown", two_steps(), two_steps(1)).details

    means = found.parts_ns.sum(axis=(1, 2)) / 2 / 1e6
    by_name = dict(zip(PARTS, means.tolist(), strict=True))
    assert by_name["compute"] == pytest.approx(details["comp_only_ms"])
    assert by_name["overlapped"] == pytest.approx(details["overlap_ms"])
    exposed = sum(by_name[name] for name in ("waiting", "transfer", "bubble"))
    assert exposed == pytest.approx(details["comm_only_ms"])
    assert by_name["copies"] == pytest.approx(details["mem_only_ms"])
    assert by_name["idle"] == pytest.approx(details["idle_ms"])


@pytest.mark.parametrize("name", ["training", "pipelined"])
def test_parts_are_the_kinds_of_time_of_the_overview(name: str) -> None:
    view = view_of(name)
    found, shares = step_parts(view), portions_of(view).shares

    total = dict(zip(PARTS, found.parts_ns.sum(axis=(1, 2)).tolist(), strict=True))
    total["compute"] += total.pop("overlapped")
    whole = sum(total.values())
    assert whole == found.length_ns.sum()
    assert {kind: ns / whole for kind, ns in total.items() if ns} == pytest.approx(dict(shares))
    assert shares["waiting" if name == "training" else "bubble"] > 0


@pytest.mark.parametrize("trace", [worked_example(), cpu_only(), rank_trace(0)])
def test_no_parts_without_steps_or_a_device(trace: RankTrace) -> None:
    found = parts(trace)

    assert len(found) == 0
    assert found.parts_ns.shape[1] == 0
    assert found.slowest.tolist() == []
    assert found.median_ns == 0


def test_the_time_of_a_step_is_the_lower_median_over_ranks() -> None:
    longer = rank_trace(
        1,
        annotations=[step(1, 0, 100), step(2, 100, 100)],
        gpu=[kernel("gemm", 0, 10, correlation=1), kernel("gemm", 130, 50, correlation=2)],
        runtime=[launch(1, 0), launch(2, 110)],
    )
    found = parts(two_steps(), longer, two_steps(2))

    assert found.length_ns.tolist() == [[90_000, 130_000, 90_000], [60_000, 50_000, 60_000]]
    assert found.time_ns.tolist() == [90_000, 60_000]
    assert found.middle == 1  # of two steps the shorter


def test_a_window_after_the_work_of_a_step_leaves_its_idle_time_to_the_next() -> None:
    # The work of step 1 ends at 80 us, that of step 2 begins at 100 us.
    view = View(job(two_steps()), ViewOptions(window=Window(85_000, None)))
    found = step_parts(view, from_end)

    assert found.steps == (1, 2)
    assert found.parts_ns[-1, :, 0].tolist() == [0, 15_000]
    assert slow_steps(view) == []


def test_slow_steps_are_those_of_all_groups() -> None:
    view = view_of("training")

    one_group = View(view.job, ViewOptions(group="ep"))
    assert [one.step for one in slow_steps(one_group)] == [one.step for one in slow_steps(view)]
