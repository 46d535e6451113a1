"""Jobs of kernels alone whose source rounds times more coarsely than a profiler."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from planted_jobs import Planted, Run, planted_job

from ccltui.metrics.findings.replay.ladder import ladder_of
from ccltui.metrics.findings.replay.lines import step_lines
from ccltui.metrics.findings.replay.slowdown import Slowdown
from ccltui.metrics.registry import find
from ccltui.metrics.view.job_view import View

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
