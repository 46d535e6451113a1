"""moe_fraction: kernels that names tie to experts."""

from __future__ import annotations

import pytest
from factories import Coll, Event, card, kernel, launch, rank_trace, world
from worked import cpu_only, measure

from ccltui.metrics.catalog.kernels.moe_fraction import PATTERN
from ccltui.parsers.columns import ProcessGroup, RankTrace

SENDRECV = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"


def example(rank: int = 0) -> RankTrace:
    """1000 µs of kernels: 200 by name, 100 inside an operator, 300 between experts."""
    return rank_trace(
        rank,
        gpu=[
            kernel("moe::dev::routing::histogram", 0, 200),
            Event("sgemm", 200, 100, correlation=1),
            Event("sgemm", 300, 400, correlation=2),
            kernel(SENDRECV, 700, 300, 20, Coll("all_to_allv", 8, 8, "Float", group=1)),
        ],
        runtime=[launch(1, 50), launch(2, 120)],
        cpu_ops=[Event("GroupedExperts.forward", 40, 30, 1), Event("aten::mm", 110, 30, 1)],
        groups=[world(2), ProcessGroup("1", "mesh_ep", (0, 1), 2)],
        world_size=2,
    )


def test_names_operators_and_groups() -> None:
    result = measure("moe_fraction", example(0), example(1))

    details = result.details
    assert result.value == 0.6
    assert (details["moe_ms"], details["expert_comm_ms"]) == (0.6, 0.3)
    assert details["matched_names"] == [
        {"name": "all-to-all of experts", "ms": 0.6},
        {"name": "moe::dev::routing::histogram", "ms": 0.4},
        {"name": "GroupedExperts.forward", "ms": 0.2},
    ]
    assert details["per_rank"]["1"] == {"moe_fraction": 0.6}


def test_an_operator_counts_on_its_own_thread_alone() -> None:
    trace = rank_trace(
        0,
        gpu=[Event("sgemm", 200, 100, correlation=1), kernel("moe_align", 400, 100)],
        runtime=[launch(1, 50, thread=2)],
        cpu_ops=[Event("GroupedExperts.forward", 40, 30, 1)],
    )

    assert measure("moe_fraction", trace).value == 0.5


def test_an_exchange_of_embeddings_is_no_expert() -> None:
    trace = rank_trace(
        0,
        gpu=[kernel("sgemm", 0, 5), kernel(SENDRECV, 9, 9, 20, Coll("all_to_all", 8, 8, "Float"))],
        groups=[world(2)],
    )

    assert measure("moe_fraction", trace).reason == "not_applicable"


@pytest.mark.parametrize(
    ("name", "is_part"),
    [
        ("void moe_align_block_size_kernel<int>(int*)", True),
        ("deep_ep::internode::dispatch<8>(int)", True),
        ("TokenDispatcher.forward", True),
        ("FusedMoE", True),
        ("aten::topk", True),
        ("aten::_grouped_mm", True),
        ("groupnorm_kernel_dispatch_down", False),
        ("combine_kernel", False),
        ("aten::stop_kernel", False),
        ("Momentum", False),
        ("enumerate(DataLoader)", False),
    ],
)
def test_the_pattern(name: str, is_part: bool) -> None:
    assert bool(PATTERN.search(name)) is is_part


def test_what_it_needs() -> None:
    assert measure("moe_fraction", cpu_only()).reason == "no_gpu_events"
    dense = measure("moe_fraction", example(), card=card(moe=False))
    assert (dense.reason, dense.value) == ("not_applicable", None)
    named = rank_trace(0, gpu=[kernel("sgemm", 0, 5)])
    assert measure("moe_fraction", named).reason == "not_applicable"
