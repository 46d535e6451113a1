"""Steps and passes of a line of work, and times that were rounded."""

from __future__ import annotations

import numpy as np
import pytest
from factories import allreduce, job, kernel, rank_trace, world
from msgspec.structs import replace
from planted_jobs import Planted, Run, planted_job

from ccltui.metrics.arrays.typical import lower_median, lower_medians
from ccltui.metrics.catalog.stragglers.what_if_no_straggler import Slowdown
from ccltui.metrics.findings.replay.ladder import ladder_of
from ccltui.metrics.findings.replay.lines import step_lines
from ccltui.metrics.findings.replay.lines.pass_units import (
    BACKWARD_PASS,
    FORWARD_PASS,
    HEAD,
    TAIL,
    WHOLE,
    Transfers,
    labelled_units,
    pass_sizes,
    pipeline_units,
)
from ccltui.metrics.findings.replay.lines.shared_positions import SilentStage, silent_starts
from ccltui.metrics.findings.replay.lines.step_lines import implied_steps
from ccltui.metrics.registry import find
from ccltui.metrics.view.job_view import View
from ccltui.parsers.array_types import I64


def test_runs_of_labels_are_passes_and_the_rest_is_the_tail() -> None:
    labels = np.array([1, 0, 1, 2, 2, 1, 2, 1, 3], np.int8)

    units = labelled_units(labels)

    assert [(one.first, one.stop, one.type, one.number) for one in units] == [
        (0, 3, FORWARD_PASS, 0),
        (3, 5, BACKWARD_PASS, 0),
        (5, 6, FORWARD_PASS, 1),
        (6, 7, BACKWARD_PASS, 1),
        (7, 9, TAIL, 0),
    ]


def test_a_line_that_begins_with_the_optimizer_has_no_pass_there() -> None:
    # steps that are told by the period of calls begin behind the norm of the gradients
    units = labelled_units(np.array([3, 3, 1, 1, 2, 2, 1, 2], np.int8))

    assert [(one.first, one.stop, one.type, one.number) for one in units] == [
        (0, 2, HEAD, 0),
        (2, 4, FORWARD_PASS, 0),
        (4, 6, BACKWARD_PASS, 0),
        (6, 7, FORWARD_PASS, 1),
        (7, 8, BACKWARD_PASS, 1),
    ]


def test_kernels_without_a_label_begin_each_forward_pass_alike() -> None:
    # of those before a forward pass two begin it, behind the optimizer, and one ends the other pass
    units = labelled_units(np.array([3, 0, 0, 1, 0, 2, 0, 0, 0, 1, 0, 2, 0], np.int8))

    assert [(unit.first, unit.stop, unit.type) for unit in units] == [
        (0, 1, HEAD),
        (1, 5, FORWARD_PASS),
        (5, 7, BACKWARD_PASS),
        (7, 11, FORWARD_PASS),
        (11, 13, BACKWARD_PASS),
    ]


def test_without_labels_a_step_is_one_unit() -> None:
    (unit,) = labelled_units(np.zeros(5, np.int8))

    assert (unit.first, unit.stop, unit.type) == (0, 5, WHOLE)


def test_the_optimizer_before_the_first_pass_is_no_part_of_it() -> None:
    # the optimizer, two forward passes of 7 kernels, then backward and forward ones in turn
    transfers = Transfers({1: [8, 15, 29], 2: []}, {1: [], 2: [15, 29, 36]})

    sizes = pass_sizes(transfers, 44, is_first=True, is_last=False)
    units = pipeline_units(
        transfers, 44, np.zeros(44, np.int8), is_first=True, is_last=False, forward_share=0.5
    )

    assert (sizes.forward, sizes.backward) == (7, 7)
    assert [(one.first, one.stop, one.type) for one in units[:3]] == [
        (0, 1, HEAD),
        (1, 8, FORWARD_PASS),
        (8, 15, FORWARD_PASS),
    ]


def test_few_labels_bound_where_a_backward_pass_begins() -> None:
    # of 7 kernels of each pass the third has a name that tells what it is
    labels = np.zeros(14, np.int8)
    labels[[2, 9]] = 1, 2
    transfers = Transfers({1: [], 2: [14]}, {1: [0], 2: []})

    def turn(share: float) -> int:
        units = pipeline_units(
            transfers, 14, labels, is_first=False, is_last=True, forward_share=share
        )
        return units[0].stop

    assert turn(0.5) == 7
    assert turn(0.1) == 3  # behind the forward kernel
    assert turn(0.9) == 9  # before the backward one


def test_forward_passes_of_a_last_stage_from_the_sends_of_its_backward_ones() -> None:
    # 1F1B: 2 + 4 kernels each; GPipe: all forward passes, 3 of 2 kernels, before the first send
    one = SilentStage([6, 12, 18], 3, 20, is_first=False, seen={})
    gpipe = SilentStage([10, 14, 18], 3, 20, is_first=False, seen={})

    assert silent_starts(one, None).tolist() == [0, 6, 12]  # type: ignore[union-attr]
    assert silent_starts(gpipe, None).tolist() == [0, 2, 4]  # type: ignore[union-attr]


def test_backward_passes_of_a_first_stage_from_the_sends_of_its_forward_ones() -> None:
    # two forward passes of 2 kernels, then a backward one of 4 before the third; two are left
    stage = SilentStage([2, 4, 10], 3, 20, is_first=True, seen={})

    assert silent_starts(stage, None).tolist() == [4, 10, 14]  # type: ignore[union-attr]


def test_what_was_seen_is_believed() -> None:
    stage = SilentStage([6, 12, 18], 3, 20, is_first=False, seen={1: 7})

    assert silent_starts(stage, None) is None


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
@pytest.mark.parametrize("kernels", [1, 3])
def test_every_stage_has_the_passes_of_its_micro_batches(schedule: str, kernels: int) -> None:
    plan = Planted(dp=1, pp=4, micro_batches=4, schedule=schedule, kernels_per_pass=kernels)

    job = ladder_of(View(planted_job(plan))).job

    counts = {kind: int((job.units.type == kind).sum()) for kind in (HEAD, TAIL)}
    passes = {
        kind: job.unit_ns[job.units.type == kind] / 1e3 for kind in (FORWARD_PASS, BACKWARD_PASS)
    }
    assert job.stages.stage.tolist() == [0, 1, 2, 3]
    assert counts == {HEAD: 0, TAIL: 4 * plan.steps}
    assert len(passes[FORWARD_PASS]) == len(passes[BACKWARD_PASS]) == 4 * 4 * plan.steps
    assert passes[FORWARD_PASS] == pytest.approx(1000, rel=0.06)
    assert passes[BACKWARD_PASS] == pytest.approx(2000, rel=0.06)


def test_steps_without_markers_lie_between_calls_with_a_period() -> None:
    job = ladder_of(View(planted_job(Planted(dp=4, micro_batches=2, marked=False)))).job

    assert job.num_steps == 5  # of six: between the ends of the first and the last
    assert job.measured_ns / 1e3 == pytest.approx(9000, rel=0.1)


def test_the_lower_median_is_the_smaller_of_two() -> None:
    assert lower_median(np.array([3.0, 1.0])) == 1.0
    assert lower_median(np.array([3.0, 1.0, 2.0])) == 2.0
    assert np.isnan(lower_median(np.array([])))
    groups = lower_medians(np.array([5.0, 1.0, 2.0, 9.0]), np.array([0, 0, 2, 2]), 3)
    assert groups.tolist()[::2] == [1.0, 2.0]
    assert np.isnan(groups[1])


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


HEAVY = Planted(
    dp=2,
    pp=4,
    steps=12,
    micro_batches=4,
    forward_us=60_000,
    backward_us=120_000,
    optimizer_us=40_000,
    transfer_us=400,
    reduce_us=40_000,
    stage_weights={3: (2.0, 1.6)},
    rounded_to_us=122.0,  # seconds as 32-bit floats, between 1024 and 2048
)


@pytest.mark.parametrize("unit_us", [0.0, 16.0, 61.0, 122.0, 244.0])
def test_rounding_of_the_source_does_not_hide_a_heavy_stage(unit_us: float) -> None:
    plan = replace(HEAVY, rounded_to_us=unit_us)
    found = find("verdict").run(View(planted_job(plan))).details
    assert (found["verdict"], found["culprit"]["stage"]) == ("heavy_stage", 3), found["why"]
    assert found["confidence"] == "high"


@pytest.mark.parametrize("slow_ranks", [{}, {5: 1.6}])
def test_sends_that_begin_before_their_pass_ends_change_no_verdict(
    slow_ranks: dict[int, float],
) -> None:
    """Ends of calls fit exactly, so that the clocks say nothing of the error of the begins."""
    plan = replace(HEAVY, stage_weights={}, rounded_to_us=0.0, sends_early_us=120.0)
    run = Run(replace(plan, slow_ranks=slow_ranks))
    view = View(planted_job(run.plan, run))
    found = find("verdict").run(view).details
    ladder = ladder_of(view)

    assert ladder.invalid() is None
    assert ladder.mean_error < 0.005
    assert found["verdict"] == ("slow_worker" if slow_ranks else "no_straggler"), found["why"]
    assert not slow_ranks or found["culprit"]["ranks"] == ["5"]


def test_slowdown_of_rounded_times_is_that_of_exact_ones() -> None:
    run = Run(HEAVY)
    exact = Slowdown(ladder_of(View(planted_job(replace(HEAVY, rounded_to_us=0.0), run))))
    rounded = Slowdown(ladder_of(View(planted_job(HEAVY, run))))
    assert rounded.equalised == pytest.approx(exact.equalised, rel=0.003)
    assert rounded.by_stage == pytest.approx(exact.by_stage, rel=0.005)
    assert rounded.m_stage == pytest.approx(exact.m_stage, rel=0.02, abs=0.02)


SLOW = Planted(
    dp=4,
    pp=2,
    forward_us=20_000,
    backward_us=40_000,
    optimizer_us=15_000,
    transfer_us=400,
    reduce_us=8_000,
    norm_us=400,
    slow_ranks={3: 1.8},
)


def slowdown_of(plan: Planted) -> tuple[float, float, str]:
    """What is told, what is true, and the status."""
    run = Run(plan)
    true = float(run.step_us.sum() / Run(plan.without()).step_us.sum())
    found = find("what_if_no_straggler").run(View(planted_job(plan, run)))
    assert found.value is not None, found.reasons
    return found.value, true, found.status


@pytest.mark.parametrize("silent", [(0, 1, 2), (0, 1, 2, 4)])
@pytest.mark.parametrize(("stages", "unit_us"), [(1, 0.0), (2, 0.0), (2, 122.0)])
def test_waits_that_no_call_shows_end_with_the_slow_rank(
    stages: int, unit_us: float, silent: tuple[int, ...]
) -> None:
    silent = tuple(rank for rank in silent if rank < 4 * stages)
    told, true, status = slowdown_of(
        replace(SLOW, pp=stages, silent_ranks=silent, rounded_to_us=unit_us)
    )
    assert told == pytest.approx(true, rel=0.01)
    assert stages == 1 or status == "ok"


def test_gaps_of_one_rank_without_launches_are_no_part_of_the_ideal() -> None:
    pauses = {(3, 1): 200_000.0, (3, 3): 150_000.0, (3, 4): 200_000.0}
    told, true, _ = slowdown_of(replace(SLOW, slow_ranks={}, pauses_us=pauses))
    assert told == pytest.approx(true, rel=0.01)


def test_gaps_that_all_ranks_have_stay() -> None:
    pauses = {(rank, step): 200_000.0 for rank in range(8) for step in (1, 3, 4)}
    plan = replace(SLOW, slow_ranks={}, pauses_us=pauses)
    told = find("what_if_no_straggler").run(View(planted_job(plan))).value
    assert told == pytest.approx(1.0, abs=0.02)


def test_passes_that_are_not_as_many_as_transfers_refuse_the_slowdown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert ladder_of(View(planted_job(HEAVY))).unequal_passes() is None

    monkeypatch.setattr(step_lines, "KERNEL_SHARE", 0.0)  # positions as if times were exact
    view = View(planted_job(HEAVY))
    assert ladder_of(view).unequal_passes() is not None
    assert find("what_if_no_straggler").run(view).details["equalised_slowdown"] is None
