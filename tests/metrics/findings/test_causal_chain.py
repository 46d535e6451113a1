"""The chain behind a late collective: its events, their times and gaps, in jobs with known ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from factories import Coll, Event, allreduce, job, kernel, launch, rank_trace, world

from ccltui.metrics.findings.causes.instance_report import CausalChain, ChainEvent, causal_chain
from ccltui.metrics.view.job_view import View
from ccltui.parsers.columns import ProcessGroup, RankTrace

SIZE = 4
END_US = 2200.0


def rank(number: int, between: Sequence[Event], start_us: float, **host: object) -> RankTrace:
    """A rank with a collective at 0 to 100 µs and one from ``start_us`` to 2200 µs."""
    second = Coll("allreduce", 64, 64, seq=2)
    gpu = [
        allreduce(0, 100, Coll("allreduce", 64, 64, seq=1)),
        *between,
        Event("ncclDevKernel_AllReduce", start_us, END_US - start_us, 20, second, correlation=77),
    ]
    return rank_trace(
        number,
        gpu=gpu,
        groups=[world(SIZE)],
        world_size=SIZE,
        host="a",
        **host,  # type: ignore[arg-type]
    )


def usual(number: int) -> RankTrace:
    return rank(number, [kernel("gemm", t, 300) for t in (100, 400, 700)], 1000)


def chain_of(late: RankTrace) -> CausalChain:
    ranks = [usual(number) for number in range(SIZE) if number != late.rank]
    return causal_chain(View(job(*ranks, late)), 0, 1)


def times(chain: CausalChain, place: int = 0) -> Mapping[str, tuple[object, ...]]:
    """Name, start and length in µs of each event of a rank, by role."""
    return {
        event.role: (event.name, event.start_ns / 1000, (event.end_ns - event.start_ns) / 1000)
        for event in chain.ranks[place].events
    }


def event(chain: CausalChain, role: str) -> ChainEvent:
    return next(one for _, one in chain.events if one.role == role)


def test_a_host_that_is_blocked_is_followed_to_its_operator() -> None:
    chain = chain_of(
        rank(
            2,
            [kernel("gemm", t, 300) for t in (100, 400, 1600)],
            1900,
            runtime=[launch(77, 1800, 5)],
            cpu_ops=[
                Event("aten::mm", 90, 50, 1),
                Event("aten::empty", 650, 940, 1),
                Event("c10d::allreduce_", 1790, 30, 1),
            ],
        )
    )

    (late,) = chain.ranks
    assert (chain.lag_ns, late.label, late.cause) == (900_000, "2", "host_blocked")
    assert [one.role for one in late.events] == [
        *("arrival", "kernel", "launch", "operator", "before", "idle", "host", "since")
    ]
    found = times(chain)
    assert found["kernel"] == ("ncclDevKernel_AllReduce", 1900, 300)
    assert found["launch"] == ("cudaLaunchKernel", 1800, 5)
    assert found["operator"] == ("c10d::allreduce_", 1790, 30)
    assert found["before"] == ("gemm", 1600, 300)
    assert found["host"] == ("aten::empty", 650, 940)
    assert found["since"][1] == 0
    assert event(chain, "arrival").gap_ns == 900_000
    assert event(chain, "launch").gap_ns == 100_000
    assert event(chain, "operator").gap_ns == 10_000
    assert event(chain, "before").gap_ns == 0
    idle, host = event(chain, "idle"), event(chain, "host")
    assert idle.start_ns == 700_000  # the device idles from there until the next kernel
    assert host.gap_ns == idle.gap_ns == idle.end_ns - idle.start_ns


def test_more_computation_leads_to_the_longest_of_its_kernels() -> None:
    chain = chain_of(
        rank(1, [kernel("gemm", 100, 500), kernel("gemm", 600, 900), kernel("gemm", 1500, 400)],
             1900)
    )  # fmt: skip

    assert chain.ranks[0].cause == "compute"
    assert times(chain)["work"] == ("gemm", 600, 900)
    assert event(chain, "work").gap_ns == 900_000  # 1800 µs of gemm; the peers need 900
    assert "launch" not in times(chain)


def test_nobody_late_is_an_empty_chain() -> None:
    assert chain_of(usual(3)).ranks == ()
    with pytest.raises(IndexError):
        causal_chain(View(job(*map(usual, range(SIZE)))), 0, 5)


def two_groups(number: int, first: tuple[float, float], second: tuple[float, float]) -> RankTrace:
    """Ranks 0 1 2 share a group, ranks 2 3 another; ``first`` is of the one that is earlier."""
    inner = ProcessGroup("1", "tp", (2, 3), 2, "nccl")
    outer = ProcessGroup("0", "dp", (0, 1, 2), 3, "nccl")
    group = {2: (1, 0), 3: (1, 1)}.get(number, (0, 0))
    size = (3, 2)
    begin = Coll("allreduce", 64, 64, group=group[0], group_size=size[group[0]], seq=1)
    gpu = [allreduce(0, 100, begin)]
    if number == 2:
        gpu.append(allreduce(110, 90, Coll("allreduce", 64, 64, group=0, group_size=3, seq=1)))
    elif number != 3:
        gpu = [allreduce(110, 90, begin)]
    gpu.append(kernel("gemm", 200, first[0] - 200))
    seq = 2
    if number in (2, 3):
        coll = Coll("allreduce", 64, 64, group=1, group_size=2, seq=2)
        gpu.append(allreduce(first[0], first[1] - first[0], coll))
    if number != 3:
        coll = Coll("allreduce", 64, 64, group=0, group_size=3, seq=seq)
        gpu.append(allreduce(second[0], second[1] - second[0], coll))
    return rank_trace(number, gpu=gpu, groups=[outer, inner], world_size=4, host="a")


def test_a_rank_that_waited_for_another_leads_to_it() -> None:
    ranks = [
        two_groups(0, (400, 0), (400, 1600)),
        two_groups(1, (400, 0), (400, 1600)),
        two_groups(2, (400, 1500), (1500, 1600)),
        two_groups(3, (1400, 1500), (0, 0)),
    ]
    view = View(job(*ranks))
    number = next(
        i for i, group in enumerate(view.arrivals.groups) if group.labels == ("0", "1", "2")
    )

    chain = causal_chain(view, number, 1)

    assert [one.label for one in chain.ranks] == ["2", "3"]
    assert times(chain)["wait"][1:] == (400, 1100)
    assert times(chain, 1)["arrival"][1] == 1400
    assert times(chain, 1)["before"] == ("gemm", 200, 1200)
