"""link_utilization and network_utilization: bytes against time and against the links' peak."""

from __future__ import annotations

import itertools

import pytest
from factories import Coll, Event, allreduce, card, kernel, rank_trace, world
from worked import cpu_only, measure

from ccltui.parsers.columns import Device, ProcessGroup, RankTrace
from ccltui.parsers.side.workload_card import Card
from ccltui.parsers.window import Window

A100 = [Device(0, "NVIDIA A100-SXM4-40GB")]
MB = 1_000_000
SENDRECV = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"


def member(
    rank: int, late_us: float = 0.0, *, host: str = "node-a", devices: object = A100
) -> RankTrace:
    """Two all-reduces of 100 MB over two ranks, 1000 µs from the last arrival; then a product."""
    coll = [Coll("allreduce", 25 * MB, 25 * MB, "Float", seq=i) for i in range(2)]
    return rank_trace(
        rank,
        gpu=[
            allreduce(late_us, 1500 - late_us, coll[0]),
            allreduce(2000 + late_us, 1500 - late_us, coll[1]),
            kernel("gemm", 3500, 500),
        ],
        groups=[world(2)],
        world_size=2,
        host=host,
        devices=devices,  # type: ignore[arg-type]
    )


def test_the_shortest_duration_against_one_direction_of_the_link() -> None:
    result = measure("link_utilization", member(0), member(1, late_us=500))

    # 100 MB in 1000 µs are 100 GB/s; of two ranks busbw is algbw; NVLink 3 moves 300 GB/s.
    details = result.details
    assert result.value == pytest.approx(1 / 3)
    assert (details["peak_GBps"], details["num_collectives"]) == (300.0, 2)
    assert details["peak_source"].startswith("A100 SXM, NVLink 3")
    (row,) = details["by_group"]
    assert (row["type"], row["dim"], row["n"]) == ("AllReduce", "world", 2)
    assert row["p50_ratio"] == row["max_ratio"] == pytest.approx(1 / 3)
    assert result.status == "ok"


def test_the_user_knows_the_links_best() -> None:
    given = {"link_peak_GBps": "200"}
    result = measure("link_utilization", member(0), member(1, 500), overrides=given)

    assert result.value == pytest.approx(0.5)
    assert result.details["peak_source"] == "override"
    wrong = measure("link_utilization", member(0), overrides={"link_peak_GBps": "fast"})
    assert wrong.reason == "card_invalid"


def test_between_hosts_the_card_tells() -> None:
    ranks = [member(0), member(1, 500, host="node-b")]
    assert measure("link_utilization", *ranks).reason == "unknown_peak"

    stated = Card("c.yaml", {"workload.hardware.network_topo.bandwidth_gbps": (1600, 2400)})
    result = measure("link_utilization", *ranks, card=stated)

    assert result.value == pytest.approx(100 / 200)
    assert "between hosts" in result.details["peak_source"]
    for unclear in ((600,), ("N/A", 5), 400):
        lone = Card("c.yaml", {"workload.hardware.network_topo.bandwidth_gbps": unclear})
        assert measure("link_utilization", *ranks, card=lone).reason == "unknown_peak"


def test_groups_whose_links_are_unknown_are_left_out_and_counted() -> None:
    """Ranks 0 and 1 share a host, 2 is on another, and nothing tells of the links between them."""

    def of_three(rank: int) -> RankTrace:
        pair = ProcessGroup("1", "mesh_tp", (0, 1), 2)
        near = [Coll("allreduce", 25 * MB, 25 * MB, "Float", group=1, seq=i) for i in range(2)]
        far = [Coll("allreduce", MB, MB, "Float", seq=i) for i in range(3)]
        calls = [allreduce(2000 * i, 1000, one) for i, one in enumerate(near if rank < 2 else [])]
        calls += [allreduce(9000 + 2000 * i, 1000, one) for i, one in enumerate(far)]
        host = "node-b" if rank == 2 else "node-a"
        return rank_trace(
            rank, gpu=calls, groups=[world(3), pair], world_size=3, host=host, devices=A100
        )

    result = measure("link_utilization", *(of_three(rank) for rank in range(3)))

    assert (result.status, result.details["num_collectives"]) == ("partial", 2)
    assert result.value == pytest.approx(100 / 300)
    assert result.reasons[0].message == (
        "the peak of the links of 3 collectives is not known: they are left out"
    )


def test_one_rank_gives_a_lower_bound() -> None:
    result = measure("link_utilization", member(0), card=card(count_per_node=4))

    assert (result.status, result.basis["time"]) == ("partial", "single_rank_dur")
    assert "single_rank" in [reason.code for reason in result.reasons]
    assert result.value == pytest.approx(100 / 1.5 / 300)


def test_what_link_utilization_needs() -> None:
    assert measure("link_utilization", cpu_only()).reason in ("no_collectives", "no_gpu_events")
    bare = rank_trace(0, gpu=[allreduce(0, 5)], devices=A100)
    assert measure("link_utilization", bare).reason == "no_message_size"
    unknown = [member(rank, devices=[Device(0, "Unheard-of X1")]) for rank in range(2)]
    refused = measure("link_utilization", *unknown)
    assert refused.reason == "unknown_peak"
    assert "Unheard-of X1" in refused.reasons[0].message
    ungrouped = rank_trace(0, gpu=[allreduce(0, 5, Coll("allreduce", 8, 8, "Float", group=-1))])
    assert measure("link_utilization", ungrouped).reason == "no_process_groups"


def test_throughput_over_all_of_the_time() -> None:
    result = measure("network_utilization", member(0), member(1, late_us=500))

    # 2 x 100 MB a rank; rank 0 is measured for 4000 µs, rank 1 for 3500.
    details = result.details
    assert result.value == pytest.approx(400 / 7.5)
    assert details["wire_bytes"] == 400 * MB
    assert details["per_rank"]["0"]["wire_GBps"] == 50.0
    assert details["wire_GBps_while_communicating"] == pytest.approx(400 / (3 + 2))
    assert details["network_utilization_ratio"] == pytest.approx(400 / 7.5 / 300)
    assert details["by_dim"] == {
        "world": {"wire_bytes": 400 * MB, "wire_GBps": pytest.approx(400 / 7.5)}
    }
    assert set(details["by_locality"]) == {"inside_host"}


def test_a_receive_sends_nothing_and_hosts_are_told_apart() -> None:
    def stage(rank: int) -> RankTrace:
        op = "send" if rank == 0 else "recv"
        coll = Coll(op, MB, MB, "Float", src=0, dst=1, group=0)
        return rank_trace(
            rank,
            gpu=[Event(SENDRECV, 0, 100, 20, coll), kernel("gemm", 100, 100)],
            groups=[ProcessGroup("1", "mesh_pp", (0, 1), 2)],
            host=f"node-{rank}",
        )

    details = measure("network_utilization", stage(0), stage(1)).details

    assert details["wire_bytes"] == 4 * MB
    assert details["by_locality"] == {
        "between_hosts": {"wire_bytes": 4 * MB, "wire_GBps": pytest.approx(10.0)}
    }
    assert details["network_utilization_ratio"] is None


def test_windows_add_up() -> None:
    ranks = [member(0), member(1, late_us=500)]
    parts = [
        measure("network_utilization", *ranks, window=Window(a, b)).details
        for a, b in itertools.pairwise([None, 1_900_000, None])
    ]

    assert sum(part["wire_bytes"] for part in parts) == 400 * MB


def test_what_network_utilization_needs() -> None:
    assert measure("network_utilization", cpu_only()).reason == "no_gpu_events"
    alone = rank_trace(0, gpu=[kernel("gemm", 0, 5)])
    assert measure("network_utilization", alone).reason == "no_collectives"
    bare = rank_trace(0, gpu=[allreduce(0, 5)])
    assert measure("network_utilization", bare).reason == "no_message_size"
