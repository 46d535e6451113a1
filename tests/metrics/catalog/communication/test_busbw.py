"""busbw: bandwidths worked out by hand, as nccl-tests counts them."""

from __future__ import annotations

from typing import Any

import pytest
from factories import Coll, Event, job, rank_trace, world

from ccltui.metrics.catalog.communication.busbw import busbw
from ccltui.metrics.findings.causes.instance_report import describe
from ccltui.metrics.result import Result
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers.columns import MISSING, ProcessGroup, RankTrace

NAMES = {
    "allreduce": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "_allgather_base": "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "all_to_allv": "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
}


def call(op: str, start_us: float, dur_us: float, in_elems: int, out_elems: int, seq: int) -> Event:
    """A collective of 4-byte elements in the group of all ranks."""
    coll = Coll(op, in_elems, out_elems, dtype="Float", seq=seq)
    return Event(NAMES[op], start_us, dur_us, 20, coll)


def ranks(durations_ms: tuple[float, ...], *calls: tuple[str, int, int], **more: Any) -> Any:
    """One rank a duration; every collective ends 20 ms after it could begin."""
    count = len(durations_ms)
    return [
        rank_trace(
            rank,
            gpu=[
                call(op, 30_000 * seq + 20_000 - 1000 * dur, 1000 * dur, given, made, seq)
                for seq, (op, given, made) in enumerate(calls)
            ],
            groups=[world(count)],
            world_size=count,
            **more,
        )
        for rank, dur in enumerate(durations_ms)
    ]


def measured(traces: list[RankTrace], **options: Any) -> Result:
    return busbw.run(View(job(*traces), ViewOptions(**options)))


def test_worked_example_of_an_allreduce() -> None:
    # 100 MB in 10 ms (the shortest of four): algbw 10 GB/s, times 2 * 3 / 4
    result = measured(ranks((12, 10, 11, 10), ("allreduce", 25_000_000, 25_000_000)))

    assert (result.status, result.unit) == ("ok", "GB/s")
    assert result.value == pytest.approx(15.0, rel=1e-9)
    assert result.details["algbw_GBps"] == pytest.approx(10.0, rel=1e-9)
    assert result.basis["time"] == "shortest duration over ranks"


def test_an_allgather_counts_its_output() -> None:
    # In 25 MB a rank, Out 100 MB: 10 GB/s, times 3 / 4
    result = measured(ranks((12, 10, 11, 10), ("_allgather_base", 6_250_000, 25_000_000)))

    assert result.value == pytest.approx(7.5, rel=1e-9)


def test_sizes_and_operations_are_told_apart_and_the_mean_is_bytes_over_time() -> None:
    two = (("allreduce", 25_000_000, 25_000_000), ("_allgather_base", 250, 1000))
    result = measured(ranks((10, 10, 10, 10), *two))

    # 150 MB and 3000 B on the wire in twice 10 ms
    assert result.value == pytest.approx((150e6 + 3000) / 20e6, rel=1e-9)
    gather, reduce = result.details["by_size"]
    assert (gather["type"], gather["from_bytes"], gather["below_bytes"]) == (
        "AllGather",
        2048,
        4096,
    )
    assert (reduce["type"], reduce["from_bytes"]) == ("AllReduce", 1 << 26)
    assert reduce["n"] == 1
    assert reduce["busbw_GBps"]["p50"] == pytest.approx(15.0, rel=1e-9)
    assert reduce["time_p50_us"] == 10_000.0


def test_one_rank_alone_gives_a_lower_bound_and_says_so() -> None:
    traces = ranks((10, 10), ("allreduce", 25_000_000, 25_000_000))[:1]

    result = measured(traces)

    assert (result.status, result.reason) == ("partial", "single_rank")
    assert result.basis["time"] == "single_rank_dur"
    assert result.value == pytest.approx(10.0, rel=1e-9)  # 2 * 1 / 2 of 10 GB/s


def test_groups_inside_and_across_hosts() -> None:
    pair = ("allreduce", 25_000_000, 25_000_000)
    inside = measured(ranks((10, 10), pair, host="a")).details["by_locality"]
    apart = ranks((10, 10), pair)
    across = measured(
        [apart[0], ranks((10, 10), pair, host="b")[1]],
    ).details["by_locality"]

    assert list(inside) == ["intra_node"]
    assert list(across) == ["inter_node"]
    assert inside["intra_node"]["n"] == across["inter_node"]["n"] == 1


def test_calls_without_length_or_content_are_no_bandwidth() -> None:
    calls = (("allreduce", 25_000_000, 25_000_000), ("allreduce", 0, 0))
    traces = ranks((12, 10, 11, 10), *calls)
    shortest = ranks((12, 0, 11, 10), calls[0])

    assert measured(traces).details["num_collectives"] == 1
    assert measured(traces).value == pytest.approx(15.0, rel=1e-9)
    refused = measured(shortest)
    assert (refused.status, refused.reason) == ("unavailable", "not_applicable")
    assert "takes any time" in refused.reasons[0].message


def test_without_sizes_it_is_unavailable() -> None:
    traces = [
        rank_trace(rank, gpu=[Event(NAMES["allreduce"], 0, 10, 20)], world_size=2)
        for rank in (0, 1)
    ]

    result = measured(traces)

    assert (result.status, result.reason, result.value) == ("unavailable", "no_message_size", None)


def test_the_selected_group_alone_is_measured() -> None:
    pairs = ProcessGroup("1", "mesh_tp", (0, 1), 2, "cuda:nccl")
    traces = [
        rank_trace(
            rank,
            gpu=[
                Event(NAMES["allreduce"], 0, 10, 20, Coll("allreduce", 1000, 1000, seq=1)),
                Event(
                    NAMES["allreduce"], 20, 40, 24, Coll("allreduce", 1000, 1000, group=1, seq=1)
                ),
            ],
            groups=[world(2), pairs],
            world_size=2,
        )
        for rank in (0, 1)
    ]

    result = measured(traces, group="tp")

    assert result.details["num_collectives"] == 1
    assert result.value == pytest.approx(4000 / 40_000, rel=1e-9)


def test_of_a_job_without_groups_one_collective_has_the_bandwidth_of_the_metric() -> None:
    # 100 MB in 10 ms among the four ranks that the job has, of which two were recorded
    stated = Coll("allreduce", 25_000_000, 25_000_000, group=MISSING)
    traces = [
        rank_trace(
            rank, gpu=[Event(NAMES["allreduce"], 0, 10_000 + rank, 20, stated)], world_size=4
        )
        for rank in (0, 1)
    ]
    view = View(job(*traces))

    shown = describe(view, 0, 0)

    assert busbw.run(view).value == pytest.approx(15.0, rel=1e-9)
    assert shown.algbw_gbps == pytest.approx(10.0, rel=1e-9)
    assert shown.busbw_gbps == pytest.approx(15.0, rel=1e-9)
