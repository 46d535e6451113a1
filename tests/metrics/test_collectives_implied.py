"""Communicators told from streams and ends, where no file names any."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from calls_by_hand import Call, member

from metrics.collectives.implied import Implied, implied_groups
from metrics.collectives.match import MatchInput

I64 = npt.NDArray[np.int64]
COUNT = 40


def job(
    *groups: tuple[int, tuple[int, ...]],
    hosts: str = "",
    shift_us: tuple[float, ...] = (),
    drop: int = 0,
    kind: str = "AllReduce",
    apart_us: float = 90.0,
) -> tuple[list[MatchInput], dict[str, I64]]:
    """Calls of (stream, ranks) communicators that end within 20 us on their ranks.

    Ends of different ones are ``apart_us`` or more apart; ``drop`` calls of rank 0 are missing.
    """
    rng = np.random.default_rng(7)
    ranks = sorted({rank for _, members in groups for rank in members})
    rows: dict[int, list[tuple[Call, int]]] = {rank: [] for rank in ranks}
    for place, (stream, members) in enumerate(groups):
        for k in range(COUNT):
            end = 1000.0 * k + place * apart_us + float(rng.uniform(0, 300))
            for rank in members:
                call = Call(end - 50, end + float(rng.uniform(0, 20)), kind, group=-1)
                rows[rank].append((call, stream))
    inputs, streams = [], {}
    for rank in ranks:
        mine = sorted(rows[rank], key=lambda row: row[0].start_us)
        mine = mine[drop:] if rank == 0 else mine
        shift = shift_us[rank] if shift_us else 0.0
        host = hosts[rank] if hosts else ""
        inputs.append(member(rank, [call for call, _ in mine], shift_us=shift, host=host))
        streams[str(rank)] = np.array([stream for _, stream in mine], np.int64)
    return inputs, streams


def told(found: Implied | None) -> set[tuple[int, tuple[int, ...]]]:
    assert found is not None
    return {(group.stream, group.ranks) for group in found.groups}


def test_pairs_on_one_stream_and_all_on_another() -> None:
    groups = (20, (0, 1)), (20, (2, 3)), (32, (0, 1, 2, 3))

    found = implied_groups(*job(*groups))

    assert told(found) == set(groups)


def test_clocks_that_are_a_second_apart() -> None:
    groups = (20, (0, 1)), (20, (2, 3)), (24, (0, 2)), (24, (1, 3))

    found = implied_groups(*job(*groups, shift_us=(0, 1e6, -7e5, 31.0)))

    assert told(found) == set(groups)


def test_calls_that_a_window_lacks() -> None:
    groups = (20, (0, 1)), (20, (2, 3)), (32, (0, 1, 2, 3))
    inputs, streams = job(*groups, drop=9)

    found = implied_groups(inputs, streams)

    assert told(found) == set(groups)
    assert found is not None
    named, known = found.applied(inputs, [])
    assert len(known) == 3
    assert [len(item.calls) for item in named] == [2 * COUNT - 9] + [2 * COUNT] * 3
    assert {int(group) for item in named for group in item.calls.group} == {0, 1, 2}


def test_one_stream_of_all_ranks_needs_no_groups() -> None:
    assert implied_groups(*job((20, (0, 1, 2, 3)))) is None


def test_pairs_alone_are_told_without_a_common_collective() -> None:
    groups = (20, (0, 1)), (20, (2, 3))

    assert told(implied_groups(*job(*groups, hosts="aabb"))) == set(groups)


def test_transfers_between_stages_are_pairs_of_a_sender_and_a_receiver() -> None:
    # ranks 0 and 1 send on stream 40 to 2 and 3, which receive on 44, at the same moments
    rng = np.random.default_rng(3)
    ends = np.cumsum(rng.uniform(300, 900, COUNT))
    inputs, streams = [], {}
    for rank in range(4):
        calls = [
            Call(end - 40, end + float(rng.uniform(0, 9)), "SendRecv", group=-1)
            for end in ends.tolist()
        ]
        inputs.append(member(rank, calls))
        streams[str(rank)] = np.full(COUNT, 40 if rank < 2 else 44)

    found = implied_groups(inputs, streams)

    assert found is not None
    assert {group.ranks for group in found.groups} == {(0, 2), (1, 3)}
