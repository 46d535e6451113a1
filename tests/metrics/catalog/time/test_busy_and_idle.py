"""idle_ratio and gpu_busy: the two sides of one time."""

from __future__ import annotations

import pytest
from worked import cpu_only, measure, two_steps, worked_example

from ccltui.parsers.window import Window


def test_worked_example() -> None:
    idle = measure("idle_ratio", worked_example())
    busy = measure("gpu_busy", worked_example())

    assert (idle.value, idle.details["idle_ms"], idle.details["window_ms"]) == (0.2, 0.02, 0.1)
    assert (idle.details["num_gaps"], idle.details["longest_gap_ms"]) == (2, 0.01)
    assert (busy.value, busy.details["busy_ms"]) == (0.8, 0.08)
    # [10,50) + [60,70) + [75,90): without the time in which only the collective runs
    assert (busy.details["useful_busy_ratio"], busy.details["useful_busy_ms"]) == (0.65, 0.065)


def test_time_between_steps_is_idle() -> None:
    details = measure("idle_ratio", two_steps()).details

    # work in [10,80) and [100,160)
    assert (details["idle_ratio"], details["span_idle_ratio"]) == (pytest.approx(20 / 150),) * 2
    assert measure("gpu_busy", two_steps()).value == pytest.approx(130 / 150)


def test_time_between_steps_that_do_not_follow_counts_in_the_span_alone() -> None:
    details = measure("idle_ratio", two_steps(second=9)).details

    assert (details["idle_ratio"], details["span_idle_ratio"]) == (0.0, pytest.approx(20 / 150))


def test_step_by_step() -> None:
    details = measure("gpu_busy", two_steps(0), two_steps(1)).details

    assert details["per_step"] == {
        "1": {
            "gpu_busy_ratio": pytest.approx(70 / 90),
            "useful_busy_ratio": pytest.approx(40 / 90),
        },
        "2": {"gpu_busy_ratio": 1.0, "useful_busy_ratio": pytest.approx(50 / 60)},
    }
    assert set(details["per_rank"]) == {"0", "1"}
    assert measure("gpu_busy", worked_example()).details["per_step"] == {}


def test_the_two_sum_to_one_in_every_window() -> None:
    for start, end in ((0, 30_000), (30_000, 95_000), (95_000, 100_000)):
        window = Window(start, end)
        idle = measure("idle_ratio", worked_example(), window=window).value
        busy = measure("gpu_busy", worked_example(), window=window).value
        assert idle is not None
        assert busy is not None
        assert idle + busy == pytest.approx(1.0)


def test_what_they_need() -> None:
    for name in ("idle_ratio", "gpu_busy"):
        assert measure(name, cpu_only()).reason == "no_gpu_events"
        assert measure(name, worked_example(), window=Window(200_000, None)).reason == (
            "window_empty"
        )
