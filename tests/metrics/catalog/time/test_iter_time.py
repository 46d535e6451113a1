"""iter_time: the slowest rank's marker, statistics over steps."""

from __future__ import annotations

import pytest
from factories import Event, job, kernel, launch, rank_trace, step

from ccltui.metrics.catalog.time.iter_time import iter_time
from ccltui.metrics.result import Result
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers.columns import RankTrace
from ccltui.parsers.window import Window


def run(*ranks: RankTrace, **options: object) -> Result:
    return iter_time.run(View(job(*ranks), ViewOptions(**options)))  # type: ignore[arg-type]


def test_the_maximum_over_ranks_of_each_step_counts() -> None:
    result = run(
        rank_trace(0, annotations=[step(1, 0, 1000), step(2, 1000, 3000), step(3, 4500, 2000)]),
        rank_trace(1, annotations=[step(1, 0, 2000), step(2, 2000, 1000), step(3, 4000, 3000)]),
    )

    details = result.details
    assert (result.status, result.unit) == ("ok", "ms")
    assert details["iter_times_ms"] == [2.0, 3.0, 3.0]
    assert details["avg_iter_time_ms"] == result.value == pytest.approx(8 / 3)
    assert (details["min_iter_time_ms"], details["max_iter_time_ms"]) == (2.0, 3.0)
    assert details["std_iter_time_ms"] == pytest.approx(0.57735, abs=1e-5)  # sample, n - 1
    assert (details["p50_iter_time_ms"], details["p95_iter_time_ms"]) == (3.0, 3.0)
    assert (details["num_iterations"], details["std_kind"]) == (3, "sample")
    assert details["cv"] == pytest.approx(0.2165, abs=1e-4)
    assert details["per_rank"]["1"] == {"avg": 2.0, "min": 1.0, "max": 3.0, "std": 1.0, "n": 3}
    assert details["across_ranks"] == {"mean": 2.0, "min": 2.0, "max": 2.0, "spread": 0.0}
    assert details["periods_ms"] == [2.0, 3.5]  # start to start, the longest of any rank
    assert details["period_ms"] == 2.75
    assert details["gpu_span_ms"] is None
    assert result.basis["duration"] == "marker"
    assert result.basis["step_marker"] == "ProfilerStep"
    assert set(details) == set(iter_time.keys)


def test_one_step_has_no_deviation_and_says_so() -> None:
    result = run(rank_trace(0, annotations=[step(5, 0, 1000)]))

    assert result.value == 1.0
    assert result.details["std_iter_time_ms"] is None
    assert result.details["cv"] is None
    assert result.details["period_ms"] is None
    assert result.details["p95_iter_time_ms"] == 1.0
    assert any(warning.startswith("n = 1") for warning in result.warnings)


def test_unsteady_steps_are_warned_of() -> None:
    steady = run(rank_trace(0, annotations=[step(i, 100 * i, 50) for i in range(3)]))
    unsteady = run(rank_trace(0, annotations=[step(i, 100 * i, 20 + 30 * i) for i in range(3)]))

    assert steady.warnings == ()
    assert any("vary" in warning for warning in unsteady.warnings)


def test_the_device_copy_of_a_marker_is_ignored() -> None:
    result = run(rank_trace(0, annotations=[step(5, 0, 1000)], gpu_annotations=[step(5, 50, 980)]))

    assert result.details["iter_times_ms"] == [1.0]


def test_steps_that_some_ranks_lack_are_left_out() -> None:
    result = run(
        rank_trace(0, annotations=[step(1, 0, 10), step(2, 10, 10)]),
        rank_trace(1, annotations=[step(2, 10, 30), step(3, 40, 10)]),
        rank_trace(2, gpu=[kernel("gemm", 0, 1)]),
    )

    assert (result.status, result.details["iter_times_ms"]) == ("partial", [0.03])
    assert [(reason.code, reason.rank) for reason in result.reasons] == [
        ("no_step_markers", "2"),
        ("no_step_markers", "0"),
        ("no_step_markers", "1"),
    ]


def test_no_marker_or_no_common_step_is_refused() -> None:
    assert run(rank_trace(0, gpu=[kernel("gemm", 0, 1)])).reason == "no_step_markers"
    apart = run(
        rank_trace(0, annotations=[step(1, 0, 1)]), rank_trace(1, annotations=[step(2, 0, 1)])
    )
    assert apart.reason == "no_step_markers"


def test_the_last_step_stays_and_inner_leaves_both_ends_out() -> None:
    trace = rank_trace(0, annotations=[step(i, 100 * i, 10 * (i + 1)) for i in range(4)])

    assert run(trace).details["iter_times_ms"] == [0.01, 0.02, 0.03, 0.04]
    assert run(trace, span="inner").details["iter_times_ms"] == [0.02, 0.03]
    assert run(trace, steps=(2, 3)).details["iter_times_ms"] == [0.03, 0.04]


def test_a_step_belongs_to_a_window_by_its_start_and_is_never_cut() -> None:
    trace = rank_trace(0, annotations=[step(1, 0, 90), step(2, 100, 90)])

    assert run(trace, window=Window(50_000, 150_000)).details["iter_times_ms"] == [0.09]


def test_the_device_window_is_the_longest_of_any_rank() -> None:
    ranks = [
        rank_trace(
            rank,
            annotations=[step(1, 0, 100)],
            runtime=[launch(1, 5), launch(2, 50)],
            gpu=[
                Event("gemm", 10, 10, correlation=1),
                Event("gemm", end - 10, 10, correlation=2),
            ],
        )
        for rank, end in ((0, 110), (1, 150))
    ]

    assert run(*ranks).details["gpu_span_ms"] == 0.14


def test_a_window_between_two_markers_is_empty_not_unmarked() -> None:
    ranks = [rank_trace(r, annotations=[step(1, 0, 5000), step(2, 5000, 5000)]) for r in range(2)]

    result = run(*ranks, window=Window(1_000_000, 4_000_000))

    assert result.reason == "window_empty"
    assert result.reasons[0].message == "none of the 4 step markers starts in the window"


def ahead(device_us: float) -> RankTrace:
    """Three steps of 100 us on the host, whose kernels take ``device_us`` one after another."""
    return rank_trace(
        0,
        annotations=[step(i, 100 * i, 100) for i in range(3)],
        gpu=[Event("gemm", 50 + device_us * i, device_us, correlation=i + 1) for i in range(3)],
        runtime=[launch(i + 1, 100 * i + 40) for i in range(3)],
    )


def test_hosts_that_run_ahead_of_their_devices_are_warned_of() -> None:
    ahead_of = run(ahead(400))
    in_time = run(ahead(100))

    assert ahead_of.value == in_time.value == 0.1  # of the markers
    assert ahead_of.details["device_period_ms"] == 0.4
    assert in_time.details["device_period_ms"] == 0.1
    assert in_time.warnings == ()
    (warning,) = ahead_of.warnings
    assert "the markers last 100 us, and device work of a step takes 400 us" in warning


def test_one_step_has_no_time_from_end_to_end() -> None:
    result = run(ahead(400), steps=(1, 1))

    assert result.details["device_period_ms"] is None
    assert not any("run ahead" in warning for warning in result.warnings)
