"""Times of steps: how long, how even, of what."""

from __future__ import annotations

import pytest
from factories import Coll, Event, allreduce, copy, job, kernel, launch, rank_trace, step, world
from hypothesis import given
from hypothesis import strategies as st
from worked import cpu_only, measure, worked_example

from ccltui.metrics.catalog.time.iter_time import iter_time
from ccltui.metrics.result import Result
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers.columns import ProcessGroup, RankTrace
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


def steps(*lengths_us: float, rank: int = 0, scale: float = 1.0) -> RankTrace:
    markers, at = [], 0.0
    for number, length in enumerate(lengths_us):
        markers.append(step(number, at * scale, length * scale))
        at += length + 1
    return rank_trace(rank, annotations=markers)


def test_spread_and_slowest_step() -> None:
    result = measure("step_variability", steps(100, 110, 90, 100))

    details = result.details
    assert result.value == pytest.approx((200 / 3) ** 0.5 / 100)
    assert details["p95_over_p50"] == 1.1
    assert details["mad_ms"] == 0.005
    assert details["slowest_step"] == {"step": 1, "iter_time_ms": 0.11, "rank": "0"}
    assert (details["outliers"], details["num_iterations"]) == ([], 4)


def test_a_step_that_stands_out_is_named_with_its_rank() -> None:
    details = measure(
        "step_variability",
        steps(100, 101, 99, 100, 102),
        steps(100, 101, 99, 180, 102, rank=1),
    ).details

    (outlier,) = details["outliers"]
    assert (outlier["step"], outlier["rank"], outlier["iter_time_ms"]) == (3, "1", 0.18)
    assert outlier["deviations"] == pytest.approx(79 / 1.4826)  # the median is 101, its MAD 1


def test_where_most_steps_are_equal_the_mean_deviation_decides() -> None:
    details = measure("step_variability", steps(*[100] * 20, 150)).details

    assert [row["step"] for row in details["outliers"]] == [20]
    assert details["mad_ms"] == 0.0
    assert measure("step_variability", steps(100, 100, 100)).details["outliers"] == []
    assert measure("step_variability", steps(100, 100, 100)).value == 0.0


@pytest.mark.parametrize("scale", [0.5, 3.0])
def test_a_faster_machine_varies_as_much(scale: float) -> None:
    lengths = (100, 130, 90, 105)
    one = measure("step_variability", steps(*lengths))
    other = measure("step_variability", steps(*lengths, scale=scale))

    assert one.value == pytest.approx(other.value)
    assert one.details["p95_over_p50"] == pytest.approx(other.details["p95_over_p50"])


def test_what_it_needs() -> None:
    assert measure("step_variability", cpu_only()).reason == "no_step_markers"
    few = measure("step_variability", steps(100, 100))
    assert few.reason == "not_applicable"
    assert "needs 3" in few.reasons[0].message


def member(rank: int, late_us: int) -> RankTrace:
    """Two steps of 400 us: computing, a reduction of the tensor-parallel group, idle."""
    coll = Coll("allreduce", 1000, 1000, "Float", 0, 2, 0, 7)
    again = Coll("allreduce", 1000, 1000, "Float", 0, 2, 1, 7)
    gpu = []
    for number, (begin, args) in enumerate(((0, coll), (400, again))):
        first = begin + 100 + late_us
        gpu += [
            Event("gemm", begin, 100 + late_us, correlation=3 * number + 1),
            Event(allreduce(0, 1).name, first, begin + 300 - first, 20, args, 3 * number + 2),
            Event("gemm", begin + 350, 50, correlation=3 * number + 3),
        ]
    return rank_trace(
        rank,
        annotations=[step(1, 0, 400), step(2, 400, 400)],
        runtime=[launch(1, 0), launch(2, 1), launch(3, 350), launch(4, 400), launch(5, 401),
                 launch(6, 750)],
        gpu=gpu,
        groups=[ProcessGroup("0", "mesh_tp", (0, 1), 2, "nccl")],
        world_size=2,
    )  # fmt: skip


def test_a_step_by_hand() -> None:
    result = measure("step_composition", member(0, 0), member(1, 140))

    parts = {(row["kind"], row["part"]): row for row in result.details["parts"]}
    # of 2 ranks * 2 steps * 400: computing 150 and 290, rank 0 waits 140, both reduce for 60
    assert result.value == (150 + 290) / 800
    assert parts["waiting", "waiting"]["share"] == 140 / 800
    assert parts["communication", "tp"]["share"] == 120 / 800
    assert sum(row["share"] for row in parts.values() if row["kind"] == "idle") == 100 / 800
    assert parts["communication", "tp"]["ms"] == 0.12  # both steps, mean of two ranks
    assert parts["communication", "tp"]["step_ms"] == 0.06
    assert (result.details["num_steps"], result.details["step_ms"]) == (2, 0.4)
    assert [row["kind"] for row in result.details["parts"]][:3] == [
        "compute",
        "waiting",
        "communication",
    ]
    assert result.details["per_rank"]["0"]["waiting"] == 140 / 400
    assert result.details["per_rank"]["1"]["waiting"] == 0.0


def test_without_step_markers_there_is_no_time_of_a_step() -> None:
    details = measure("step_composition", rank_trace(0, gpu=[kernel("gemm", 0, 10)])).details

    assert (details["num_steps"], details["step_ms"]) == (None, None)
    assert details["parts"] == [
        {"part": "compute", "kind": "compute", "ms": 0.01, "step_ms": None, "share": 1.0}
    ]


def test_worked_example_adds_up() -> None:
    details = measure("step_composition", worked_example()).details

    # K = [10,50) + [60,70), C = [40,80), M = [75,90) in [0,100)
    assert {row["kind"]: row["ms"] for row in details["parts"]} == {
        "compute": 0.05,
        "communication": 0.015,
        "copies": 0.015,
        "idle": 0.02,
    }


def test_without_a_device_it_says_so() -> None:
    assert measure("step_composition", cpu_only()).reason == "no_gpu_events"


EVENTS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 200), st.integers(1, 60)), min_size=1, max_size=12
)


@given(EVENTS, EVENTS)
def test_parts_are_disjoint_and_complete(
    one: list[tuple[int, int, int]], other: list[tuple[int, int, int]]
) -> None:
    def made(rank: int, events: list[tuple[int, int, int]]) -> RankTrace:
        gpu = [kernel("gemm", 0, 1)]
        for kind, start, dur in events:
            coll = Coll("allreduce", 8, 8, "Float", 0, 2)
            made = (
                kernel("gemm", start, dur),
                copy(start, dur, 9),
                allreduce(start, dur, coll),
                allreduce(start, dur, stream=21),
            )
            gpu.append(made[kind])
        return rank_trace(rank, gpu=gpu, groups=[world(2)], world_size=2)

    ranks = made(0, one), made(1, other)
    details = measure("step_composition", *ranks).details
    losses = measure("fix_first", *ranks).details

    assert sum(row["ms"] for row in details["parts"]) == pytest.approx(details["window_ms"])
    assert sum(row["share"] for row in details["parts"]) == pytest.approx(1)
    assert 1 - details["compute_ratio"] == pytest.approx(losses["lost_ratio"])
    for row in details["per_rank"].values():
        assert sum(row.values()) == pytest.approx(1)
