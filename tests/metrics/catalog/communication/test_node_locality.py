"""node_locality: bytes and bandwidth inside and between hosts, by hand."""

from __future__ import annotations

from typing import Any

import pytest
from factories import Coll, Event, card, rank_trace
from worked import measure

from ccltui.metrics.result import Result
from ccltui.parsers.columns import ProcessGroup, RankTrace

NAME = "node_locality"
PAIR = ("tp", (0, 1)), ("tp", (2, 3))
ACROSS = ("dp", (0, 2)), ("dp", (1, 3))
ALLREDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
SENDRECV = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"


def ranks(hosts: tuple[str, ...] = ("a", "a", "b", "b"), **more: Any) -> list[RankTrace]:
    """Four ranks: 1 MB all-reduced in pairs in 10 us, 4 MB across in 100 us."""
    traces = []
    for rank, host in enumerate(hosts):
        mine = [(name, members) for name, members in (*PAIR, *ACROSS) if rank in members]
        groups = [
            ProcessGroup(name=name, description=name, ranks=members, size=2)
            for name, members in mine
        ]
        gpu = [
            Event(ALLREDUCE, 0, 10, 20, Coll("allreduce", 250_000, 250_000, group=0, seq=0)),
            Event(ALLREDUCE, 50, 100, 20, Coll("allreduce", 1_000_000, 1_000_000, group=1, seq=0)),
        ]
        traces.append(rank_trace(rank, gpu=gpu, groups=groups, world_size=4, host=host, **more))
    return traces


def test_pairs_inside_and_across() -> None:
    result = measure(NAME, *ranks())

    # two ranks send S * 2 * 1 / 2 each: 1 MB by 4 ranks inside, 4 MB by 4 across
    details = result.details
    assert (result.status, details["num_hosts"]) == ("ok", 2)
    assert (details["intra_node_bytes"], details["inter_node_bytes"]) == (4_000_000, 16_000_000)
    assert result.value == pytest.approx(0.8)
    assert (details["intra_node_ms"], details["inter_node_ms"]) == (0.01, 0.1)
    assert details["intra_node_busbw_GBps"] == pytest.approx(100.0)
    assert details["inter_node_busbw_GBps"] == pytest.approx(40.0)
    assert details["unknown_bytes"] == 0
    assert {row["group"] for row in details["by_group"]} == {"tp 0,1", "tp 2,3", "dp 0,2", "dp 1,3"}


def test_one_host_has_no_traffic_between_hosts() -> None:
    result = measure(NAME, *ranks(("a",) * 4))

    assert (result.value, result.details["inter_node_bytes"]) == (0.0, 0)
    assert result.details["inter_node_busbw_GBps"] is None


def test_the_card_tells_hosts_that_traces_do_not_name() -> None:
    unknown = measure(NAME, *ranks(("",) * 4))
    stated = measure(NAME, *ranks(("",) * 4), card=card(count_per_node=2))

    assert (unknown.status, unknown.reason) == ("unavailable", "no_card")
    assert stated.value == pytest.approx(0.8)


def transfer(rank: int, host: str, op: str, peer: int) -> RankTrace:
    src, dst = (rank, peer) if op == "send" else (peer, rank)
    coll = Coll(op, 250, 250, src=src, dst=dst)
    group = ProcessGroup(name="pp", description="pp", ranks=(0, 1, 2), size=3)
    gpu = [Event(SENDRECV, 0, 10, 20, coll)]
    return rank_trace(rank, gpu=gpu, groups=[group], world_size=3, host=host)


def measured(hosts: str) -> Result:
    return measure(NAME, transfer(0, hosts[0], "send", 1), transfer(1, hosts[1], "recv", 0))


def test_a_transfer_goes_by_its_two_ranks() -> None:
    inside, across = measured("aa"), measured("ab")

    assert (inside.details["intra_node_bytes"], inside.value) == (1000, 0.0)
    assert (across.details["inter_node_bytes"], across.value) == (1000, 1.0)
    assert across.details["inter_node_busbw_GBps"] == pytest.approx(0.1)
