"""Time in communication: its share, what is exposed, what is waiting."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from factories import Coll, Event, allreduce, copy, job, kernel, rank_trace, step, world
from worked import cpu_only, gloo, measure, worked_example

from ccltui.metrics.catalog.communication.wait_vs_transfer import wait_vs_transfer
from ccltui.metrics.result import Result
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers.columns import ProcessGroup, RankTrace
from ccltui.parsers.window import Window

TP = ProcessGroup("1", "mesh_tp", (0, 1), 2)


def test_worked_example_of_exposed_communication() -> None:
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


def test_what_exposed_communication_needs() -> None:
    assert measure("exposed_communication", cpu_only()).reason == "no_gpu_events"
    assert measure("exposed_communication", gloo()).reason == "no_collectives"


def test_worked_example_of_communication_fraction() -> None:
    result = measure("communication_fraction", worked_example())

    assert result.value == 0.5  # 40 of the 80 µs in which anything runs
    details = result.details
    assert details["communication_fraction_of_kernel_time"] == pytest.approx(40 / 90)
    assert details["communication_fraction_of_window"] == 0.4
    assert (details["comm_time_ms"], details["busy_ms"]) == (0.04, 0.08)


def test_streams_that_run_at_once_count_twice_in_the_sum_alone() -> None:
    details = measure(
        "communication_fraction",
        rank_trace(0, gpu=[allreduce(0, 50), allreduce(0, 50, stream=21), kernel("gemm", 50, 50)]),
    ).details

    assert details["communication_fraction"] == 0.5
    assert details["communication_fraction_of_kernel_time"] == pytest.approx(2 / 3)


def test_a_job_without_collectives_spends_nothing_on_them() -> None:
    result = measure("communication_fraction", rank_trace(0, gpu=[kernel("gemm", 0, 5)]))

    assert (result.value, result.status) == (0.0, "ok")


def test_what_communication_fraction_needs() -> None:
    assert measure("communication_fraction", cpu_only()).reason == "no_gpu_events"
    hosted = measure("communication_fraction", gloo())
    assert hosted.reason == "no_collectives"
    assert "on the host" in hosted.reasons[0].message


def test_communication_by_library_and_what_may_be_communication() -> None:
    peer = Event("Memcpy PtoP (Device -> Device)", 90, 4, 9, category="gpu_memcpy", bytes=64)
    details = measure(
        "communication_fraction",
        rank_trace(
            0,
            gpu=[
                allreduce(0, 50),
                kernel("void deep_ep::intranode::combine<8>(int*)", 50, 10),
                kernel("_fast_all_gather_kernel", 60, 5),
                kernel("void acme::ring_allreduce<float>(float*)", 70, 7),
                kernel("gemm", 80, 5),
                peer,
            ],
        ),
    ).details

    assert {name: row["time_ms"] for name, row in details["by_library"].items()} == {
        "nccl": 0.05,
        "deepep": 0.01,
        "triton": 0.005,
    }
    assert details["kernels_by_words"] == [
        {"name": "_fast_all_gather_kernel", "calls": 1, "time_ms": 0.005}
    ]
    assert details["kernels_like_communication"] == [
        {"name": "acme::ring_allreduce", "calls": 1, "time_ms": 0.007}
    ]
    assert [row["calls"] for row in details["copies_between_devices"]] == [1]


STARTS_US = (1000, 1400, 2900, 3300)
STEPS = (step(1, 900, 900), step(2, 2800, 900))


def late_rank(rank: int, late_us: float, **more: Any) -> RankTrace:
    """One of three ranks; every collective ends 200 µs after the first rank began it."""
    gpu = [
        allreduce(start + late_us, 200 - late_us, Coll("allreduce", 64, 64, seq=seq))
        for seq, start in enumerate(STARTS_US)
    ]
    given = {"gpu": gpu, "annotations": STEPS, "groups": [world(3)], "world_size": 3, **more}
    return rank_trace(rank, **given)


def measured(*ranks: RankTrace, **options: Any) -> Result:
    return wait_vs_transfer.run(View(job(*ranks), ViewOptions(**options)))


def three() -> list[RankTrace]:
    return [late_rank(0, 0), late_rank(1, 100), late_rank(2, 150)]


def test_the_last_rank_waits_for_nobody_and_its_duration_is_the_transfer() -> None:
    result = measured(*three())

    # each collective: durations 200, 100 and 50 µs, so 150 + 50 of 350 µs are waiting
    assert (result.status, result.value, result.unit) == ("ok", 4 * 200 / (4 * 350), "ratio")
    details = result.details
    assert (details["wait_ms"], details["transfer_ms"]) == (0.8, 0.6)
    assert details["per_rank"] == {
        "0": {"wait_share": 0.75, "wait_ms": 0.6, "transfer_ms": 0.2},
        "1": {"wait_share": 0.5, "wait_ms": 0.2, "transfer_ms": 0.2},
        "2": {"wait_share": 0.0, "wait_ms": 0.0, "transfer_ms": 0.2},
    }


def test_by_group_type_and_step() -> None:
    details = measured(*three()).details

    split = {"wait_share": 4 / 7, "wait_ms": 0.8, "transfer_ms": 0.6}
    assert details["by_type"] == {"AllReduce": {"num_collectives": 4, **split}}
    assert details["by_dim"] == {"world": {"num_collectives": 4, **split}}
    (group,) = details["by_group"]
    assert (group["dim"], group["num_collectives"], group["wait_ms"]) == ("world", 4, 0.8)
    assert group["transfer_us"] == {"p50": 50.0, "p95": 50.0, "max": 50.0, "n": 4}
    assert details["per_step"] == [
        {"step": 1, "wait_share": 4 / 7, "wait_ms": 0.4, "transfer_ms": 0.3},
        {"step": 2, "wait_share": 4 / 7, "wait_ms": 0.4, "transfer_ms": 0.3},
    ]


def test_ends_on_one_clock_prove_the_matches() -> None:
    assert measured(*three()).details["end_spread_us"]["max"] == 0.0


def test_a_clock_that_is_ahead_changes_nothing() -> None:
    shifted = [late_rank(0, 0), late_rank(1, 100), late_rank(2, 150, shift_us=7000, host="b")]

    assert measured(*shifted).details["per_rank"] == measured(*three()).details["per_rank"]
    assert measured(*shifted).details["end_spread_us"]["max"] == 0.0


def test_among_chosen_ranks_only_they_wait_for_each_other() -> None:
    details = measured(*three(), ranks=frozenset({0, 1})).details

    assert details["per_rank"]["0"]["wait_ms"] == 0.4
    assert details["per_rank"]["1"]["wait_ms"] == 0.0


def test_one_rank_alone_cannot_tell() -> None:
    result = measured(late_rank(0, 0))

    assert (result.status, result.reason, result.value) == ("unavailable", "single_rank", None)
    assert result.details["wait_ms"] is None


def test_a_step_without_a_collective_is_refused() -> None:
    result = measured(*three(), steps=(9, 9))

    assert (result.status, result.reason) == ("unavailable", "window_empty")
