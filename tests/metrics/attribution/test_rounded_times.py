"""Jobs of kernels alone whose source rounds times more coarsely than a profiler."""

from __future__ import annotations

from dataclasses import replace

import pytest
from planted_jobs import Planted, Run, planted_job

from ccltui.metrics.attribution.job_verdict import ladder_of
from ccltui.metrics.attribution.slowdown import Slowdown
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


def test_slowdown_of_rounded_times_is_that_of_exact_ones() -> None:
    run = Run(HEAVY)
    exact = Slowdown(ladder_of(View(planted_job(replace(HEAVY, rounded_to_us=0.0), run))))
    rounded = Slowdown(ladder_of(View(planted_job(HEAVY, run))))
    assert rounded.equalised == pytest.approx(exact.equalised, rel=0.003)
    assert rounded.by_stage == pytest.approx(exact.by_stage, rel=0.005)
    assert rounded.m_stage == pytest.approx(exact.m_stage, rel=0.02, abs=0.02)
