"""Transfers between two ranks."""

from __future__ import annotations

import random

import numpy as np
import pytest
from calls_by_hand import Call, group, member
from factories import Coll, Event, allreduce, job, kernel, rank_trace
from msgspec.structs import replace

from ccltui.metrics.collectives.matching.match import MatchInput, Pairs, match_p2p
from ccltui.metrics.view.job_view import View
from ccltui.parsers.columns import ProcessGroup, RankTrace


def send(start: float, dst: int, elems: int = -1, group: int = 0) -> Call:
    return Call(start, start + 5, "Send", dst=dst, elems=elems, group=group)


def recv(start: float, src: int, elems: int = -1, group: int = 0) -> Call:
    return Call(start, start + 6, "Recv", src=src, out_elems=elems, group=group)


def table(pairs: Pairs) -> list[tuple[int, int, int, int]]:
    columns = (pairs.sender, pairs.send_row, pairs.receiver, pairs.recv_row)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_a_pipeline_pairs_every_transfer_with_its_peer_in_order() -> None:
    inputs = [
        member(0, [send(0, dst=1), send(50, dst=1), recv(120, src=1)]),
        member(1, [recv(0, src=0), send(20, dst=2), recv(50, src=0), send(120, dst=0)]),
        member(2, [recv(20, src=1)]),
    ]

    assert table(match_p2p(inputs)) == [(0, 0, 1, 0), (0, 1, 1, 2), (1, 1, 2, 0), (1, 3, 0, 2)]


def test_a_window_that_opens_late_does_not_shift_the_pairs() -> None:
    sent = [send(start, dst=1) for start in (0, 70, 90, 200)]
    received = [recv(start, src=0) for start in (70, 90, 200)]

    pairs = match_p2p([member(0, sent), member(1, received)])

    assert table(pairs) == [(0, 1, 1, 0), (0, 2, 1, 1), (0, 3, 1, 2)]


def test_sizes_determine_which_transfer_is_missing() -> None:
    sent = [send(start, dst=1, elems=size) for start, size in ((0, 4), (50, 8))]
    received = [recv(start, src=0, elems=size) for start, size in ((0, 4), (50, 8), (100, 16))]

    assert table(match_p2p([member(0, sent), member(1, received)])) == [(0, 0, 1, 0), (0, 1, 1, 1)]


def test_steps_are_paired_apart() -> None:
    # regular times: without the steps, the lost last receive would look like a lost first one
    sent = [replace(send(start, dst=1), step=start // 100) for start in (0, 50, 100, 150)]
    received = [replace(recv(start, src=0), step=start // 100) for start in (0, 50, 100)]

    pairs = match_p2p([member(0, sent), member(1, received)])

    assert table(pairs)[:2] == [(0, 0, 1, 0), (0, 1, 1, 1)]
    assert len(pairs) == 3


def test_in_a_group_of_two_the_peer_is_the_other_rank() -> None:
    groups = (group(3, 7), group(3, 7, 9))
    inputs = [
        member(3, [send(0, dst=-1, group=0), send(9, dst=-1, group=1)]),
        member(7, [recv(0, src=-1, group=0), recv(9, src=-1, group=1)]),
    ]

    assert table(match_p2p(inputs, groups)) == [(0, 0, 1, 0)]
    assert len(match_p2p(inputs)) == 0


def test_peers_without_a_file_and_unknown_ranks_pair_with_nothing() -> None:
    inputs = [member(0, [send(0, dst=1)]), member(None, [recv(0, src=0)], label="odd.json")]

    assert len(match_p2p(inputs)) == 0


def test_indices_count_into_the_inputs_as_given() -> None:
    inputs: list[MatchInput] = [member(5, [recv(0, src=2)]), member(2, [send(0, dst=5)])]

    assert table(match_p2p(inputs)) == [(1, 0, 0, 0)]


SIZES = (1024, 4096, 65_536)


def drawn(
    ranks: int, seed: int, *, ring: bool, dropped: float
) -> tuple[list[MatchInput], dict[tuple[int, int], int], int]:
    """Inputs, which transfer each (rank, row) is, and how many are on both of their ranks."""
    rng = np.random.default_rng(seed)
    offsets = rng.uniform(-1e6, 1e6, ranks)
    drift = rng.uniform(-50e-6, 50e-6, ranks)
    calls: list[list[tuple[Call, int]]] = [[] for _ in range(ranks)]
    now, number = 0.0, 0
    for step in range(4):
        for _ in range(12):
            now += float(rng.uniform(300, 900))
            for rank in range(ranks if ring else ranks - 1):
                peer, size = (rank + 1) % ranks, int(rng.choice(SIZES))
                end = now + float(rng.uniform(0, 200))
                for kind, own in (("Send", rank), ("Recv", peer)):
                    start = end - float(rng.uniform(20, 150))
                    first, last = (t * (1 + drift[own]) + offsets[own] for t in (start, end))
                    call = Call(
                        first, last, kind, elems=size, out_elems=size, step=step, src=rank, dst=peer
                    )
                    calls[own].append((call, number))
                number += 1
    inputs, truth, held = [], {}, np.zeros(number, np.int64)
    for rank, mine in enumerate(calls):
        head = int(rng.integers(0, 5))
        kept = [row for row in mine[head:] if rng.random() >= dropped]
        kept.sort(key=lambda row: row[0].start_us)
        inputs.append(member(rank, [call for call, _ in kept]))
        for row, (_, transfer) in enumerate(kept):
            truth[rank, row] = transfer
            held[transfer] += 1
    return inputs, truth, int((held == 2).sum())


@pytest.mark.parametrize("ring", [True, False], ids=["ring", "pipeline"])
@pytest.mark.parametrize("dropped", [0.0, 0.02])
def test_transfers_are_paired_with_their_other_side(ring: bool, dropped: float) -> None:
    right = wrong = whole = 0
    for seed, ranks in enumerate((3, 4, 8, 16, 64)):
        inputs, truth, both = drawn(ranks, seed, ring=ring, dropped=dropped)
        pairs = match_p2p(inputs)
        columns = (pairs.sender, pairs.send_row, pairs.receiver, pairs.recv_row)
        for sender, sent, receiver, got in zip(*(one.tolist() for one in columns), strict=True):
            same = truth[sender, sent] == truth[receiver, got]
            right, wrong = right + same, wrong + (not same)
        whole += both

    assert right >= 0.999 * whole
    assert wrong <= 0.001 * whole


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
