"""temporal_breakdown: parts that make up the measured time."""

from __future__ import annotations

import pytest
from factories import Coll, allreduce, copy, kernel, rank_trace, world
from worked import cpu_only, measure, two_steps, worked_example

from ccltui.metrics.findings.rank_time.partition import PARTS
from ccltui.parsers.columns import ProcessGroup
from ccltui.parsers.window import Window

TP = ProcessGroup("1", "mesh_tp", (0, 1), 2)


def test_worked_example() -> None:
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


def test_what_it_needs() -> None:
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
