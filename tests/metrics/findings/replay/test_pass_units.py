"""Units of a line, passes without sends, steps without markers, and the lower median."""

from __future__ import annotations

import numpy as np
import pytest
from planted_jobs import Planted, planted_job

from ccltui.metrics.arrays.typical import lower_median, lower_medians
from ccltui.metrics.findings.replay.ladder import ladder_of
from ccltui.metrics.findings.replay.lines.pass_units import (
    BACKWARD_PASS,
    FORWARD_PASS,
    HEAD,
    TAIL,
    WHOLE,
    labelled_units,
)
from ccltui.metrics.findings.replay.lines.shared_positions import SilentStage, silent_starts
from ccltui.metrics.view.job_view import View


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


def test_without_labels_a_step_is_one_unit() -> None:
    (unit,) = labelled_units(np.zeros(5, np.int8))

    assert (unit.first, unit.stop, unit.type) == (0, 5, WHOLE)


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
