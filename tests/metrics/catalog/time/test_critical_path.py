"""critical_path: the chain of work, over all ranks, that decided when a step ended."""

from __future__ import annotations

import itertools

import pytest
from factories import Coll, Event, allreduce, copy, job, kernel, launch, rank_trace, step, world
from hypothesis import given
from hypothesis import strategies as st
from worked import cpu_only, measure, two_steps

from ccltui.metrics.catalog.time.critical_path import PARTS, Walk
from ccltui.metrics.view.job_view import View
from ccltui.parsers.columns import ProcessGroup, RankTrace
from ccltui.parsers.window import Window

SENDRECV = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"


def late(shift_us: float = 0.0) -> tuple[RankTrace, RankTrace]:
    """Rank 1 computes until 250 and comes last; rank 0 has the longer rest."""
    coll = Coll("allreduce", 8, 8, "Float", seq=1)
    again = Coll("allreduce", 8, 8, "Float", seq=2)
    ranks = [
        [kernel("gemm", 0, 100), allreduce(100, 200, coll), kernel("gemm", 300, 100)],
        [kernel("slow_gemm", 0, 250), allreduce(250, 50, coll), kernel("gemm", 300, 50)],
    ]
    one, other = (
        rank_trace(
            rank,
            gpu=[*gpu, allreduce(-50, 10, again)],
            groups=[world(2)],
            world_size=2,
            shift_us=shift_us * rank + 100,
        )
        for rank, gpu in enumerate(ranks)
    )
    return one, other


@pytest.mark.parametrize("shift_us", [0, 5_000, -7_000])
def test_the_way_leads_through_the_rank_that_came_last(shift_us: float) -> None:
    result = measure("critical_path", *late(shift_us))

    details = result.details
    assert {part: details[f"{part}_ms"] for part in PARTS} == {
        "compute": 0.35,  # 100 of rank 0 after, 250 of rank 1 before the collective
        "communication": 0.06,
        "memory": 0.0,
        "host": 0.0,
        "launch": 0.0,
        "wait": 0.04,  # between the first collective and the products
    }
    assert details["path_ms"] == 0.45
    assert result.value == pytest.approx(60 / 450)
    assert list(details["by_rank"]) == ["1", "0"]
    assert details["work"][0] == {
        "name": "slow_gemm",
        "part": "compute",
        "ms": 0.25,
        "ratio_of_path": pytest.approx(250 / 450),
    }
    assert (details["num_crossings"], details["num_pieces"]) == (1, 4)


def test_a_copy_or_a_late_launch_on_the_way() -> None:
    trace = rank_trace(
        0,
        runtime=[launch(1, 0), launch(2, 130), launch(3, 135)],
        gpu=[
            Event("gemm", 10, 90, correlation=1),  # ends at 100
            Event("gemm", 150, 50, correlation=2),  # launched at 130: host 30, launch 20
            Event("add", 215, 5, correlation=3),  # launched in time: wait 15
            copy(220, 10),
        ],
    )

    details = measure("critical_path", trace).details

    assert {part: details[f"{part}_ms"] for part in PARTS} == {
        "compute": 0.145,
        "communication": 0.0,
        "memory": 0.01,
        "host": 0.03,
        "launch": 0.02,
        "wait": 0.015,
    }
    assert details["path_ms"] == 0.22


def test_what_runs_beside_is_not_on_the_way() -> None:
    trace = rank_trace(
        0,
        gpu=[kernel("gemm", 0, 100), allreduce(20, 60), kernel("add", 100, 10)],
    )

    assert measure("critical_path", trace).value == 0.0


def stage(rank: int) -> RankTrace:
    """Stage 1 waits in its receive from 0 to 110; stage 0 sends from 100 to 110."""
    groups = [ProcessGroup("1", "mesh_pp", (0, 1), 2)]
    if rank == 0:
        coll = Coll("send", 8, 8, "Float", src=0, dst=1)
        gpu = [kernel("forward", 0, 100), kernel(SENDRECV, 100, 10, 20, coll)]
    else:
        coll = Coll("recv", 8, 8, "Float", src=0, dst=1)
        gpu = [kernel(SENDRECV, 0, 110, 20, coll), kernel("forward", 110, 100)]
    return rank_trace(rank, gpu=gpu, groups=groups, world_size=2)


def test_through_a_transfer_to_its_sender() -> None:
    details = measure("critical_path", stage(0), stage(1)).details

    assert (details["compute_ms"], details["communication_ms"]) == (0.2, 0.01)
    assert details["num_crossings"] == 1


def test_steps_are_walked_one_by_one() -> None:
    details = measure("critical_path", two_steps()).details

    assert details["num_steps"] == 2
    assert details["per_step"]["1"]["path_ms"] == 0.07
    # The collective of step 2 ends last and began at 140, for it was launched at 120: the
    # product beside it, from 100 to 150, kept nobody.
    second = details["per_step"]["2"]
    assert (second["communication_ms"], second["host_ms"], second["launch_ms"]) == (
        0.02,
        0.02,
        0.02,
    )
    assert (second["compute_ms"], second["path_ms"]) == (0.0, 0.06)


def test_a_window_cuts_the_way() -> None:
    details = measure("critical_path", *late(), window=Window(250_000, 400_000)).details

    assert details["path_ms"] == 0.15
    assert details["compute_ms"] + details["communication_ms"] == pytest.approx(0.15)


@given(
    st.lists(
        st.tuples(st.integers(0, 300), st.integers(1, 60), st.sampled_from((7, 8, 20))),
        min_size=1,
        max_size=25,
    ),
    st.booleans(),
)
def test_on_one_rank_the_way_is_the_whole_time(
    work: list[tuple[int, int, int]], launched: bool
) -> None:
    gpu = [
        Event("ncclDevKernel_AllReduce_a" if track == 20 else "k", start, dur, track, None, i)
        for i, (start, dur, track) in enumerate(work)
    ]
    runtime = [launch(i, max(0, start - 5)) for i, (start, _, _) in enumerate(work) if launched]
    details = measure("critical_path", rank_trace(0, gpu=gpu, runtime=runtime)).details

    first, last = min(s for s, _, _ in work), max(s + d for s, d, _ in work)
    assert round(details["path_ms"] * 1e6) == (last - first) * 1000


def test_collectives_in_another_order_lead_around_in_no_circle() -> None:
    """Members that disagree on the order, as only a wrong match can have it."""
    one, two = (Coll("allreduce", 8, 8, "Float", seq=i) for i in (1, 2))
    ranks = [
        rank_trace(0, gpu=[allreduce(0, 10, one), allreduce(20, 5, two)], groups=[world(2)]),
        rank_trace(1, gpu=[allreduce(0, 10, two), allreduce(20, 5, one)], groups=[world(2)]),
    ]

    result = measure("critical_path", *ranks)

    assert result.status in ("ok", "partial")
    assert 0 < result.details["path_ms"] < 1


def test_ranks_in_any_order() -> None:
    ranks = late()
    found = [measure("critical_path", *order).details for order in itertools.permutations(ranks)]

    assert found[0] == found[1]


def test_work_of_one_start_and_end_in_any_order() -> None:
    events = [
        Event("gemm", 0, 10, 7),
        Event("softmax", 10, 5, 8),
        Event("elementwise", 10, 5, 9),
        Event("norm", 10, 5, 7),
    ]
    found = [
        measure("critical_path", rank_trace(0, gpu=list(order))).details["work"]
        for order in itertools.permutations(events)
    ]

    assert [row["name"] for row in found[0]] == ["gemm", "softmax"]  # the last of equals by name
    assert all(one == found[0] for one in found)


def test_the_last_work_is_that_which_ends_last() -> None:
    walk = Walk(View(job(rank_trace(0, gpu=[kernel("long", 0, 100), kernel("short", 50, 10)]))))

    assert walk.last_work({"0": (0, 100_000)}) == (0, 0)
    assert walk.last_work({"0": (200_000, 300_000)}) is None


def test_what_it_needs() -> None:
    assert measure("critical_path", cpu_only()).reason == "no_gpu_events"
    marked = rank_trace(0, annotations=[step(1, 0, 10)], gpu=[kernel("a", 50, 5)])
    assert measure("critical_path", marked).reason == "window_empty"
    alone = measure("critical_path", late()[0])
    assert "single_rank" in [reason.code for reason in alone.reasons]
