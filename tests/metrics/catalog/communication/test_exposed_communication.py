"""exposed_communication: what neither computation nor copies hide."""

from __future__ import annotations

import itertools

import pytest
from factories import Coll, allreduce, copy, kernel, rank_trace, world
from worked import cpu_only, gloo, measure, worked_example

from ccltui.parsers.columns import ProcessGroup
from ccltui.parsers.window import Window

TP = ProcessGroup("1", "mesh_tp", (0, 1), 2)


def test_worked_example() -> None:
    result = measure("exposed_communication", worked_example())

    assert result.value == 0.015  # [50,60) and [70,75): the copy hides [75,80)
    details = result.details
    assert details["exposed_pct_of_step"] == 15.0
    assert details["exposed_ratio_of_comm"] == 0.375
    assert details["by_type"] == {"AllReduce": {"exposed_ms": 0.015}}


def test_each_dimension_against_what_hides_it() -> None:
    trace = rank_trace(
        0,
        gpu=[
            kernel("gemm", 0, 100),
            copy(120, 10),
            allreduce(50, 100, Coll("allreduce", group=1)),
            allreduce(140, 60, Coll("_allgather_base"), stream=21),
        ],
        groups=[world(2), TP],
        world_size=2,
    )

    details = measure("exposed_communication", trace).details

    assert details["by_dim"]["tp"] == {"exposed_ms": 0.04}  # [100,150) without the copy
    assert details["by_dim"]["world"] == {"exposed_ms": 0.06}
    assert details["exposed_ms"] == 0.09  # [140,150) runs twice and counts once


def test_windows_add_up() -> None:
    whole = measure("exposed_communication", worked_example()).value
    edges = [None, 55_000, 72_000, None]
    parts = [
        measure("exposed_communication", worked_example(), window=Window(a, b)).value
        for a, b in itertools.pairwise(edges)
    ]

    assert sum(part or 0 for part in parts) == pytest.approx(whole)


def test_a_job_without_collectives_exposes_none() -> None:
    result = measure("exposed_communication", rank_trace(0, gpu=[kernel("gemm", 0, 5)]))

    assert (result.value, result.details["exposed_ratio_of_comm"]) == (0.0, None)


def test_what_it_needs() -> None:
    assert measure("exposed_communication", cpu_only()).reason == "no_gpu_events"
    assert measure("exposed_communication", gloo()).reason == "no_collectives"
