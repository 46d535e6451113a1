"""Busy and idle time: causes, launches, parts."""

from __future__ import annotations

import itertools

import pytest
from factories import Coll, Event, allreduce, copy, job, kernel, launch, rank_trace, step, world
from hypothesis import given
from hypothesis import strategies as st
from worked import cpu_only, measure, two_steps, worked_example

from ccltui.draw.palette import IDLE_INKS
from ccltui.metrics.findings.causes.activity import host_cause
from ccltui.metrics.findings.rank_time.idle_causes import CAUSES, all_idle_times
from ccltui.metrics.findings.rank_time.partition import PARTS
from ccltui.metrics.view.job_view import View
from ccltui.parsers.columns import ProcessGroup, RankTrace
from ccltui.parsers.window import Window


def test_worked_example_of_busy_and_idle() -> None:
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


def example(rank: int = 0) -> RankTrace:
    """Work ends at 100 and the host launches the next at 190; four kinds of gaps follow."""
    return rank_trace(
        rank,
        annotations=[Event("enumerate(DataLoader)#_Iter.__next__", 90, 30, 1)],
        runtime=[
            launch(1, 0),
            Event("cudaStreamSynchronize", 110, 25, 1),
            Event("cudaMalloc", 130, 20, 1),
            launch(2, 190),
            launch(3, 192),
            launch(4, 194),
        ],
        cpu_ops=[Event("aten::mm", 145, 25, 1)],
        gpu=[
            Event("a", 10, 90, correlation=1),
            Event("b", 200, 100, correlation=2),  # gap 100: host 90, launch latency 10
            Event("c", 305, 95, correlation=3),  # gap 5, launched in time
            Event("d", 440, 10, correlation=4),  # gap 40, launched in time
            kernel("e", 453, 7),  # gap 3, no launch record
        ],
    )


def test_every_cause() -> None:
    result = measure("idle_causes", example())

    found = {cause: row["ms"] for cause, row in result.details["by_cause"].items()}
    assert found == {
        "data_loading": 0.02,  # [100,120)
        "checkpoint": 0.0,
        "garbage_collection": 0.0,
        "compilation": 0.0,
        "allocation": 0.02,  # [130,150)
        "synchronisation": 0.01,  # [120,130), what of it is neither data loading nor allocation
        "operators": 0.02,  # [150,170)
        "between_markers": 0.0,  # no steps are marked
        "host_other": 0.02,  # [170,190)
        "launch_latency": 0.01,
        "launch_call": 0.0,
        "between_kernels": 0.005,
        "dependency": 0.04,
        "unknown": 0.003,
    }
    assert result.value == 0.09
    assert result.details["idle_ms"] == pytest.approx(0.148)
    assert result.details["host_late_ratio_of_idle"] == pytest.approx(90 / 148)


def test_when_each_cause_was() -> None:
    (rank,) = View(job(example())).ranks

    found = {
        cause: list(zip((t.start_ns // 1000).tolist(), (t.end_ns // 1000).tolist(), strict=True))
        for cause, t in all_idle_times(rank).items()
    }

    assert found["data_loading"] == [(100, 120)]
    assert found["allocation"] == [(130, 150)]
    assert found["synchronisation"] == [(120, 130)]
    assert found["operators"] == [(150, 170)]
    assert found["host_other"] == [(170, 190)]
    assert found["launch_latency"] == [(190, 200)]
    assert found["between_kernels"] == [(300, 305)]
    assert found["dependency"] == [(400, 440)]
    assert found["unknown"] == [(450, 453)]


def test_a_launch_that_has_begun_long_ago_is_no_latency() -> None:
    """One kernel starts 20 us after a call of 5 ms; another 3 ms after one, on another stream."""
    trace = rank_trace(
        0,
        runtime=[launch(1, 0), launch(2, 200, 5000), launch(3, 6000)],
        gpu=[
            Event("a", 10, 90, correlation=1),
            Event("b", 5220, 80, correlation=2),
            Event("c", 9000, 100, 8, correlation=3),
        ],
    )

    found = measure("idle_causes", trace).details["by_cause"]
    assert {cause: row["ms"] for cause, row in found.items() if row["ms"]} == {
        "host_other": 0.8,  # [100,200) and [5300,6000)
        "launch_latency": pytest.approx(0.02, abs=0.002),
        "launch_call": 5.0,
        "dependency": pytest.approx(3.0, abs=0.01),  # but for 1 us of the call itself
    }


def test_every_cause_has_a_colour_and_events_of_the_host_their_cause() -> None:
    assert tuple(IDLE_INKS) == CAUSES
    assert host_cause("runtime", "cudaDeviceSynchronize") == "synchronisation"
    assert host_cause("runtime", "cudaLaunchKernel") is None
    assert host_cause("cpu_ops", "cudaDeviceSynchronize") is None


def test_between_steps_the_host_has_causes_like_elsewhere() -> None:
    """Steps [0,100) and [150,300): the host loads data [140,170) and launches at 200."""
    trace = rank_trace(
        0,
        annotations=[step(1, 0, 100), step(2, 150, 150)],
        cpu_ops=[Event("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 140, 30, 1)],
        runtime=[launch(1, 10), launch(2, 200)],
        gpu=[Event("a", 20, 40, correlation=1), Event("b", 210, 50, correlation=2)],
    )

    found = measure("idle_causes", trace).details["by_cause"]
    assert {cause: row["ms"] for cause, row in found.items() if row["ms"]} == {
        "data_loading": 0.03,  # [140,170), as an operator: old files have no annotations
        "between_markers": 0.04,  # [100,140)
        "host_other": 0.07,  # [60,100) and [170,200), inside the markers
        "launch_latency": 0.01,  # [200,210)
    }
    losses = measure("fix_first", trace).details["losses"]
    assert [one["what"] for one in losses] == [
        "host_other",
        "between_markers",
        "data_loading",
        "launch_latency",
    ]


def test_windows_add_up() -> None:
    whole = measure("idle_causes", example()).details["by_cause"]
    parts = [
        measure("idle_causes", example(), window=Window(a, b)).details["by_cause"]
        for a, b in itertools.pairwise([None, 115_000, 195_000, 420_000, None])
    ]

    for cause in CAUSES:
        assert sum(part[cause]["ms"] for part in parts) == pytest.approx(whole[cause]["ms"])


@st.composite
def traces(draw: st.DrawFn) -> RankTrace:
    work, launches = [], []
    for number in range(draw(st.integers(1, 20))):
        start, dur = draw(st.integers(0, 500)), draw(st.integers(0, 60))
        known = draw(st.booleans())
        work.append(Event("k", start, dur, draw(st.sampled_from((7, 8))), correlation=number))
        if known:
            launches.append(launch(number, draw(st.integers(0, 500))))
    host = [
        Event(draw(st.sampled_from(("aten::mm", "aten::add"))), draw(st.integers(0, 500)), 20, 1)
        for _ in range(draw(st.integers(0, 5)))
    ]
    return rank_trace(0, gpu=work, runtime=[launch(999, 0), *launches], cpu_ops=host)


@given(traces())
def test_the_causes_are_all_of_the_idle_time(trace: RankTrace) -> None:
    causes, idle = measure("idle_causes", trace), measure("idle_ratio", trace)

    if causes.status == "unavailable":
        assert causes.reason in ("not_applicable", "window_empty")
        return
    parts = [row["ms"] for row in causes.details["by_cause"].values()]
    assert all(part >= 0 for part in parts)
    assert round(sum(parts) * 1e6) == round(idle.details["idle_ms"] * 1e6)


def test_what_idle_causes_needs() -> None:
    assert measure("idle_causes", cpu_only()).reason == "no_gpu_events"
    assert measure("idle_causes", rank_trace(0, gpu=[kernel("a", 0, 1)])).reason == (
        "not_applicable"
    )


def launch_bound_example(rank: int = 0) -> RankTrace:
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
    result = measure("launch_bound", launch_bound_example())

    details = result.details
    assert result.value == 0.5
    assert details["launch_bound_time_ratio"] == pytest.approx(50 / 60)
    assert details["launch_bound_ms"] == 0.05
    assert (details["num_gaps"], details["num_gaps_unknown"]) == (3, 1)
    # delays: 20, 100, 20, 10 µs
    assert (details["launch_delay_p50_us"], details["launch_delay_p95_us"]) == (20.0, 100.0)
    assert details["num_launches"] == 4


def test_a_window_that_cuts_a_gap_does_not_move_its_beginning() -> None:
    details = measure(
        "launch_bound", launch_bound_example(), window=Window(240_000, 300_000)
    ).details

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


def test_what_launch_bound_needs() -> None:
    assert measure("launch_bound", cpu_only()).reason == "no_gpu_events"
    bare = measure("launch_bound", rank_trace(0, gpu=[kernel("a", 0, 5), kernel("b", 9, 5)]))
    assert (bare.reason, "correlation" in bare.reasons[0].message) == ("not_applicable", True)
    dense = rank_trace(0, runtime=[launch(1, 0)], gpu=[Event("a", 2, 5, correlation=1)])
    assert "never idle" in measure("launch_bound", dense).reasons[0].message


TP = ProcessGroup("1", "mesh_tp", (0, 1), 2)


def test_worked_example_of_temporal_breakdown() -> None:
    result = measure("temporal_breakdown", worked_example())

    details = result.details
    parts = {part: details[f"{part}_ms"] for part in PARTS}
    assert parts == {
        "idle": 0.02,
        "comp_only": 0.03,
        "comm_only": 0.02,
        "overlap": 0.02,
        "mem_only": 0.01,
        "other_comm": 0.0,
    }
    assert details["window_ms"] == 0.1
    assert (result.value, result.status) == (0.5, "ok")
    assert details["comm_only_ratio"] == 0.2
    assert details["exclusive_ms"] == {
        "comp": 0.03,
        "comm": 0.015,  # [50,60) and [70,75)
        "mem": 0.01,
        "comp_comm": 0.02,
        "comp_mem": 0.0,
        "comm_mem": 0.005,
        "comp_comm_mem": 0.0,
    }
    assert details["per_rank"]["0"]["idle_ms"] == 0.02


def test_three_kinds_at_once_and_every_pair() -> None:
    """K [0, 60), C [20, 80), M [40, 50) + [70, 90): each of the seven kinds for some time."""
    trace = rank_trace(
        0,
        gpu=[
            kernel("gemm", 0, 60),
            kernel("gemm", 95, 5, 8),
            allreduce(20, 60),
            copy(40, 10, 9),
            copy(70, 20, 9),
            copy(97, 2, 9),
        ],
    )

    assert measure("temporal_breakdown", trace).details["exclusive_ms"] == {
        "comp": 0.023,  # [0, 20), [95, 97) and [99, 100)
        "comm": 0.010,  # [60, 70)
        "mem": 0.010,  # [80, 90)
        "comp_comm": 0.030,  # [20, 40) and [50, 60)
        "comp_mem": 0.002,  # [97, 99)
        "comm_mem": 0.010,  # [70, 80)
        "comp_comm_mem": 0.010,  # [40, 50)
    }


def test_times_are_means_and_shares_come_from_sums() -> None:
    details = measure(
        "temporal_breakdown",
        rank_trace(0, gpu=[kernel("gemm", 0, 100)]),
        rank_trace(1, gpu=[allreduce(0, 300)]),
    ).details

    assert (details["window_ms"], details["comp_only_ms"], details["comm_only_ms"]) == (
        0.2,
        0.05,
        0.15,
    )
    assert (details["comp_ratio"], details["comm_only_ratio"]) == (0.25, 0.75)


def test_communication_of_other_groups_is_neither_idle_nor_chosen() -> None:
    trace = rank_trace(
        0,
        gpu=[
            kernel("gemm", 0, 100),
            allreduce(50, 100, Coll("allreduce", group=1)),
            allreduce(200, 50, Coll("_allgather_base")),
        ],
        groups=[world(2), TP],
    )

    details = measure("temporal_breakdown", trace, group="tp").details

    assert (details["comm_only_ms"], details["other_comm_ms"]) == (0.05, 0.05)
    assert (details["overlap_ms"], details["idle_ms"], details["window_ms"]) == (0.05, 0.05, 0.25)


def test_a_window_cuts_every_part() -> None:
    details = measure("temporal_breakdown", two_steps(), window=Window(50_000, 110_000)).details

    assert (details["window_ms"], details["comm_only_ms"], details["comp_only_ms"]) == (
        0.06,
        0.03,
        0.01,
    )
    assert details["idle_ms"] == 0.02  # between the steps


def test_what_temporal_breakdown_needs() -> None:
    assert measure("temporal_breakdown", cpu_only()).reason == "no_gpu_events"
    assert measure("temporal_breakdown", worked_example(), window=Window(200_000, None)).reason == (
        "window_empty"
    )
    beside = measure("temporal_breakdown", worked_example(), cpu_only(1))
    assert (beside.status, beside.reason, beside.value) == ("partial", "no_gpu_events", 0.5)


@pytest.mark.parametrize("factor", [2, 10])
def test_a_slower_clock_changes_no_share(factor: int) -> None:
    def trace(scale: int) -> object:
        return rank_trace(0, gpu=[kernel("gemm", 0, 40 * scale), allreduce(30 * scale, 60 * scale)])

    one, other = (measure("temporal_breakdown", trace(n)) for n in (1, factor))  # type: ignore[arg-type]

    for part in PARTS:
        assert one.details[f"{part}_ratio"] == other.details[f"{part}_ratio"]
        assert other.details[f"{part}_ms"] == pytest.approx(factor * one.details[f"{part}_ms"])
