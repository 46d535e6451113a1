"""fix_first: losses by hand, and that they add up to the time in which nothing computes."""

from __future__ import annotations

import pytest
from factories import Coll, Event, allreduce, copy, kernel, launch, rank_trace, step, world
from hypothesis import given
from hypothesis import strategies as st
from worked import cpu_only, measure, worked_example

from ccltui.parsers.columns import RankTrace


def late(rank: int, late_us: int) -> RankTrace:
    """One step: computes 100 us (and what it is late), then a collective that ends at 400."""
    begin = 100 + late_us
    coll = Coll("allreduce", 1000, 1000, "Float", 0, 2, 0, 7)
    return rank_trace(
        rank,
        annotations=[step(1, 0, 400)],
        runtime=[launch(1, 0), launch(2, 1)],
        gpu=[
            Event("gemm", 0, begin, correlation=1),
            Event(allreduce(0, 1).name, begin, 400 - begin, 20, coll, correlation=2),
        ],
        groups=[world(2)],
        world_size=2,
    )


def test_waiting_is_told_from_transfer() -> None:
    result = measure("fix_first", late(0, 0), late(1, 240))

    waiting, transfer = result.details["losses"]
    assert (waiting["kind"], waiting["what"]) == ("straggler", "1")
    assert waiting["lost_ms"] == 0.12  # rank 0 waited from 100 to 340, rank 1 not at all
    assert waiting["share"] == 240 / 800
    assert waiting["sentence"] == (
        "120 us per rank, 30 % of the time: the others wait for rank 1, which comes late"
    )
    assert waiting["evidence"] == {
        "rank": "1",
        "time_us": 340.0,
        "group": "default_pg 0,1",
        "group_number": 0,
        "index": 0,
    }
    assert (transfer["kind"], transfer["what"]) == (
        "communication",
        "AllReduce of default_pg 0,1",
    )
    assert transfer["lost_ms"] == 0.06  # [340, 400) on both
    assert result.value == result.details["lost_ratio"] == 0.45


def test_worked_example_adds_up() -> None:
    details = measure("fix_first", worked_example()).details

    found = {(row["kind"], row["what"]): row["lost_ms"] for row in details["losses"]}
    # K = [10,50) + [60,70), C = [40,80), M = [75,90) in [0,100)
    assert found == {
        ("communication", "AllReduce"): 0.015,  # [50,60) + [70,75)
        ("copies", "copies"): 0.015,  # [75,90)
        ("idle", "unknown"): 0.02,  # [0,10) + [90,100)
    }
    assert details["lost_ratio"] == 0.5
    assert details["lost_ms"] == 0.05


def test_idle_time_has_its_cause_and_its_longest_gap() -> None:
    trace = rank_trace(
        0,
        runtime=[launch(1, 0), launch(2, 150), launch(3, 195)],
        gpu=[
            Event("gemm", 0, 100, correlation=1),
            Event("gemm", 200, 100, correlation=2),
            Event("gemm", 305, 100, correlation=3),
        ],
    )

    idle, start, between = measure("fix_first", trace).details["losses"]
    # tied at 50: by name
    assert (idle["what"], start["what"]) == ("host_other", "launch_latency")
    assert idle["lost_ms"] == start["lost_ms"] == 0.05
    assert idle["evidence"] == {"rank": "0", "time_us": 100.0, "length_us": 50.0}
    assert (between["what"], between["lost_ms"]) == ("between_kernels", 0.005)
    assert between["evidence"] == {"rank": "0", "time_us": 300.0, "length_us": 5.0}


def test_nothing_is_lost_where_everything_computes() -> None:
    result = measure("fix_first", rank_trace(0, gpu=[kernel("gemm", 0, 10)]))

    assert (result.value, result.details["losses"]) == (0.0, [])


def test_without_a_device_it_says_so() -> None:
    assert measure("fix_first", cpu_only()).reason == "no_gpu_events"


EVENTS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 200), st.integers(1, 60)), min_size=1, max_size=12
)


@given(EVENTS, EVENTS)
def test_losses_add_up_to_what_is_not_computed(
    one: list[tuple[int, int, int]], other: list[tuple[int, int, int]]
) -> None:
    def made(rank: int, events: list[tuple[int, int, int]]) -> RankTrace:
        gpu = [kernel("gemm", 0, 1)]
        for kind, start, dur in events:
            coll = Coll("allreduce", 8, 8, "Float", 0, 2)
            gpu.append(
                kernel("gemm", start, dur)
                if kind == 0
                else copy(start, dur, 9)
                if kind == 1
                else allreduce(start, dur, coll)
                if kind == 2
                else allreduce(start, dur, stream=21)
            )
        return rank_trace(rank, gpu=gpu, groups=[world(2)], world_size=2)

    ranks = made(0, one), made(1, other)
    details = measure("fix_first", *ranks).details
    computing = measure("temporal_breakdown", *ranks).details["comp_ratio"]

    assert details["lost_ratio"] == pytest.approx(1 - computing)
    assert sum(row["share"] for row in details["losses"]) == pytest.approx(details["lost_ratio"])
