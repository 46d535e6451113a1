"""collective_volume: bytes of each collective once."""

from __future__ import annotations

import itertools

import pytest
from factories import Coll, Event, kernel, rank_trace, world
from worked import cpu_only, measure

from ccltui.parsers.columns import ProcessGroup, RankTrace
from ccltui.parsers.window import Window

SENDRECV = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
MIB = 1 << 20


def collective(
    start: float, op: str, in_elems: int, out_elems: int, *, group: int = 0, seq: int = -1
) -> Event:
    coll = Coll(op, in_elems, out_elems, "BFloat16", group, seq=seq)
    return kernel(SENDRECV, start, 10, 20, coll)


def member(rank: int, first: int = 0) -> RankTrace:
    """Of four ranks: three all-reduces over all of them, one over its pair; two transfers."""
    pair = (0, 1) if rank < 2 else (2, 3)
    calls = [
        collective(0, "allreduce", 100, 100, seq=1),
        collective(20, "allreduce", 100, 100, seq=2),
        collective(40, "allreduce", MIB, MIB, seq=3),
        collective(60, "_allgather_base", 8, 16, group=1, seq=1),
    ]
    return rank_trace(
        rank,
        gpu=calls[first:],
        groups=[world(4), ProcessGroup("1", "mesh_tp", pair, 2)],
        world_size=4,
    )


def test_each_collective_counts_once() -> None:
    result = measure("collective_volume", *(member(rank) for rank in range(4)))

    details = result.details
    world_bytes, pair_bytes = 2 * (100 + 100 + MIB), 2 * 16
    assert result.value == world_bytes + 2 * pair_bytes  # two pairs gather
    assert details["num_collectives"] == 5
    assert details["by_type"]["AllReduce"]["message_bytes"] == world_bytes
    assert details["by_dim"]["tp"] == {
        "num_collectives": 2,
        "message_bytes": 64,
        "wire_bytes": 4 * 16,  # half of 32 bytes, from four ranks
    }
    # a ring moves 2 (n - 1) / n of the message a rank, so 6 times the message from four
    assert details["by_type"]["AllReduce"]["wire_bytes"] == 6 * world_bytes
    assert (details["num_unmatched"], details["bytes_coverage"]) == (0, 1.0)
    assert [row["group"] for row in details["by_group"]] == ["default_pg 0-3", "tp 0,1", "tp 2,3"]


def test_a_call_that_one_rank_lacks_still_counts_once() -> None:
    ranks = [member(0), member(1, first=1), member(2), member(3)]

    assert measure("collective_volume", *ranks).details["num_collectives"] == 5


def test_the_order_of_ranks_changes_nothing() -> None:
    ranks = [member(rank) for rank in range(4)]
    documents = [
        measure("collective_volume", *(ranks[i] for i in order)).details
        for order in itertools.permutations(range(4))
    ]

    for document in documents:
        assert document["total_message_bytes"] == documents[0]["total_message_bytes"]
        assert document["total_wire_bytes"] == documents[0]["total_wire_bytes"]


def test_ranks_steps_and_windows_choose() -> None:
    ranks = [member(rank) for rank in range(4)]

    assert measure("collective_volume", *ranks, group="tp").value == 64
    assert measure("collective_volume", *ranks, ranks=frozenset({0, 2})).value == (
        2 * (200 + MIB) + 64
    )
    whole = measure("collective_volume", *ranks).value
    parts = [
        measure("collective_volume", *ranks, window=Window(a, b)).value
        for a, b in itertools.pairwise([None, 15_000, 50_000, None])
    ]
    assert sum(part or 0 for part in parts) == whole


def transfer(rank: int, *ops: tuple[str, int, int]) -> RankTrace:
    calls = [
        kernel(SENDRECV, 10 * i, 5 + rank, 20, Coll(op, 64, 64, "Float", src=src, dst=dst))
        for i, (op, src, dst) in enumerate(ops)
    ]
    return rank_trace(rank, gpu=calls, groups=[world(2)], world_size=2)


def test_a_transfer_counts_where_it_is_sent() -> None:
    both = measure(
        "collective_volume",
        transfer(0, ("send", 0, 1), ("recv", 1, 0)),
        transfer(1, ("recv", 0, 1), ("send", 1, 0)),
    )

    assert (both.value, both.details["num_collectives"]) == (512, 2)
    assert both.details["by_type"] == {
        "Send": {"num_collectives": 2, "message_bytes": 512, "wire_bytes": 512}
    }


def test_calls_without_a_size_make_it_partial() -> None:
    bare = kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(a)", 100, 5, 20)
    trace = rank_trace(0, gpu=[collective(0, "allreduce", 10, 10), bare], groups=[world(1)])

    result = measure("collective_volume", trace)

    assert (result.status, result.reason, result.value) == ("partial", "no_message_size", 20)
    assert result.details["bytes_coverage"] == 0.5
    assert result.details["by_type"]["AllReduce"]["num_collectives"] == 2
    alone = measure("collective_volume", rank_trace(0, gpu=[bare]))
    assert (alone.status, alone.reason) == ("unavailable", "no_message_size")


def test_what_it_needs() -> None:
    assert measure("collective_volume", cpu_only()).reason == "no_collectives"
    trace = rank_trace(0, gpu=[kernel("gemm", 0, 1)])
    assert measure("collective_volume", trace).reason == "no_collectives"


@pytest.mark.parametrize("shift_us", [0, 5_000])
def test_clocks_that_differ_change_nothing(shift_us: int) -> None:
    ranks = [
        rank_trace(
            rank,
            gpu=[collective(20 * i, "allreduce", 10, 10) for i in range(4)],
            groups=[world(2)],
            shift_us=shift_us * rank,
        )
        for rank in range(2)
    ]

    assert measure("collective_volume", *ranks).value == 80
