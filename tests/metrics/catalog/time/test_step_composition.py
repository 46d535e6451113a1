"""step_composition: parts by hand, and that they are a complete division of the measured time."""

from __future__ import annotations

import pytest
from factories import Coll, Event, allreduce, copy, kernel, launch, rank_trace, step, world
from hypothesis import given
from hypothesis import strategies as st
from worked import cpu_only, measure, worked_example

from ccltui.parsers.columns import ProcessGroup, RankTrace


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
