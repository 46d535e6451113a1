"""Clocks of pipeline stages, from the ends of transfers between them."""

from __future__ import annotations

import random

import pytest
from factories import Coll, Event, allreduce, job, kernel, rank_trace

from ccltui.metrics.view.job_view import View
from ccltui.parsers.columns import ProcessGroup, RankTrace

STAGES = 4
GROUP = ProcessGroup("1", "mesh_pp", tuple(range(STAGES)), STAGES)
ONE_WAY_US = 12.0
OFFSETS_US = [0.0, 4_000.0, -250_000.0, 431.0]


def transfer(kind: str, peer: int, end_us: float, dur_us: float) -> Event:
    source, target = (-1, peer) if kind == "send" else (peer, -1)
    coll = Coll(kind, 1024, 1024, group_size=STAGES, src=source, dst=target)
    return kernel("ncclDevKernel_SendRecv(int)", end_us - dur_us, dur_us, 20, coll)


def pipeline(
    *, seed: int = 1, transfers: int = 12, both_ways: bool = True, jitter_us: float = 2.0
) -> list[RankTrace]:
    """A job of four stages without any collective; the receiver ends ``ONE_WAY_US`` later."""
    draw = random.Random(seed)
    events: list[list[Event]] = [[] for _ in range(STAGES)]
    for k in range(transfers):
        for low in range(STAGES - 1):
            moves = [(low, low + 1, 1_000.0 * (k + 1) + 100 * low)]
            if both_ways:
                moves.append((low + 1, low, 1_000.0 * (k + 1) + 900 - 100 * low))
            for source, target, end in moves:
                late = ONE_WAY_US + draw.gauss(0, jitter_us)
                events[source].append(transfer("send", target, end, draw.uniform(20, 60)))
                events[target].append(transfer("recv", source, end + late, draw.uniform(20, 60)))
    return [
        rank_trace(rank, gpu=found, groups=[GROUP], shift_us=OFFSETS_US[rank], host=f"n{rank}")
        for rank, found in enumerate(events)
    ]


def error_us(view: View, rank: int) -> float:
    return view.clocks.clocks[str(rank)].offset_ns / 1000 - OFFSETS_US[rank]


@pytest.mark.parametrize("seed", range(5))
def test_transfers_tell_the_clocks_of_all_stages(seed: int) -> None:
    view = View(job(*pipeline(seed=seed)))

    assert view.clocks.evidence == "transfers"
    for rank in range(STAGES):
        clock = view.clocks.clocks[str(rank)]
        assert clock.known
        assert clock.residual_p95_ns is not None
        assert abs(error_us(view, rank)) < 3 * clock.residual_p95_ns / 1000


def test_transfers_of_one_direction_tell_no_clock() -> None:
    view = View(job(*pipeline(both_ways=False)))
    assert not any(clock.known for clock in view.clocks.clocks.values())


def test_three_transfers_each_way_tell_no_clock() -> None:
    view = View(job(*pipeline(transfers=3)))
    assert not any(clock.known for clock in view.clocks.clocks.values())


def test_collectives_that_link_all_ranks_are_the_only_evidence() -> None:
    world = ProcessGroup("0", "default_pg", tuple(range(STAGES)), STAGES)
    ranks = []
    for rank, trace in enumerate(pipeline()):
        gpu = [
            allreduce(10_000.0 * k, 50, Coll(in_elems=8, out_elems=8, group_size=STAGES, seq=k))
            for k in range(1, 8)
        ]
        del trace
        ranks.append(rank_trace(rank, gpu=gpu, groups=[world], shift_us=OFFSETS_US[rank]))

    assert View(job(*ranks)).clocks.evidence == "dependent collectives"


def test_equally_many_transfers_are_paired_by_order() -> None:
    """A clock that jumps by more than the distance of two transfers drops no pair."""
    view = View(job(*pipeline(jitter_us=400.0)))
    assert len(view.pairs) == 2 * 12 * (STAGES - 1)
