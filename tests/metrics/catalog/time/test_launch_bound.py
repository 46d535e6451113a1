"""launch_bound: gaps that the host let happen."""

from __future__ import annotations

import pytest
from factories import Event, kernel, launch, rank_trace
from worked import cpu_only, measure

from ccltui.parsers.columns import RankTrace
from ccltui.parsers.window import Window


def example(rank: int = 0) -> RankTrace:
    """Three gaps: 10 µs launched in time, 50 µs launched late, 5 µs before unrecorded work."""
    return rank_trace(
        rank,
        runtime=[launch(1, 0), launch(2, 10), launch(3, 230), launch(4, 240)],
        gpu=[
            Event("a", 20, 80, correlation=1),
            Event("b", 110, 90, correlation=2),
            Event("c", 250, 50, correlation=3),
            Event("c", 250, 20, 8, correlation=4),
            kernel("d", 305, 10),
        ],
    )


def test_share_of_gaps_and_of_idle_time() -> None:
    result = measure("launch_bound", example())

    details = result.details
    assert result.value == 0.5
    assert details["launch_bound_time_ratio"] == pytest.approx(50 / 60)
    assert details["launch_bound_ms"] == 0.05
    assert (details["num_gaps"], details["num_gaps_unknown"]) == (3, 1)
    # delays: 20, 100, 20, 10 µs
    assert (details["launch_delay_p50_us"], details["launch_delay_p95_us"]) == (20.0, 100.0)
    assert details["num_launches"] == 4


def test_a_window_that_cuts_a_gap_does_not_move_its_beginning() -> None:
    details = measure("launch_bound", example(), window=Window(240_000, 300_000)).details

    # The gap [200, 250) began before the launch at 230, though only its end is in the window.
    assert details["launch_bound_ratio"] == 1.0
    assert details["launch_bound_ms"] == 0.01


def test_a_launch_after_the_start_on_the_device_is_no_negative_delay() -> None:
    trace = rank_trace(
        0,
        runtime=[launch(1, 0), launch(2, 60)],
        gpu=[Event("a", 5, 10, correlation=1), Event("b", 50, 5, correlation=2)],
    )

    details = measure("launch_bound", trace).details

    assert (details["launch_delay_p50_us"], details["launch_bound_ratio"]) == (2.5, 1.0)


def test_what_it_needs() -> None:
    assert measure("launch_bound", cpu_only()).reason == "no_gpu_events"
    bare = measure("launch_bound", rank_trace(0, gpu=[kernel("a", 0, 5), kernel("b", 9, 5)]))
    assert (bare.reason, "correlation" in bare.reasons[0].message) == ("not_applicable", True)
    dense = rank_trace(0, runtime=[launch(1, 0)], gpu=[Event("a", 2, 5, correlation=1)])
    assert "never idle" in measure("launch_bound", dense).reasons[0].message
