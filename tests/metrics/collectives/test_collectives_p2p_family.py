"""Pairing of transfers in rings and pipelines, over random jobs that lack some calls."""

from __future__ import annotations

import numpy as np
import pytest
from calls_by_hand import Call, member

from ccltui.metrics.collectives.matching.match import MatchInput
from ccltui.metrics.collectives.matching.p2p import match_p2p

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
