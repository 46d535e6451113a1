"""Communicators inferred from streams and ends, where no file names any."""

from __future__ import annotations

import numpy as np
import pytest
from calls_by_hand import Call, member

from ccltui.metrics.collectives.arrivals import arrivals
from ccltui.metrics.collectives.clocks.clock_estimate import match_and_clock
from ccltui.metrics.collectives.implied.implied_groups import Implied, implied_groups
from ccltui.metrics.collectives.matching.match import LOW, MEDIUM, MatchInput
from ccltui.parsers.array_types import I64
from ccltui.parsers.columns import MISSING

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


def test_pairs_are_inferred_without_a_common_collective() -> None:
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


def of_a_mesh(
    calls: int, *, apart_us: float, of: int = 8
) -> tuple[list[MatchInput], dict[str, I64]]:
    """Even and odd ranks of a host as two communicators, which end ``apart_us`` apart or less."""
    rng = np.random.default_rng(17)
    begins = np.cumsum(rng.uniform(9_000, 12_000, calls))
    ends = np.stack([begins, begins + rng.uniform(0.5, 1, calls) * apart_us])
    held = rng.uniform(40, 90, (of // 2, calls))  # two neighbours advance together
    inputs, streams = [], {}
    for rank in range(of):
        times = zip(ends[rank % 2], held[rank // 2], rng.uniform(0, 3, calls), strict=True)
        rows = [Call(end - early, end + more, group=-1) for end, early, more in times]
        inputs.append(member(rank, rows, host="node-0"))
        streams[str(rank)] = np.full(calls, 20)
    return inputs, streams


def test_a_call_in_each_of_few_steps_tells_the_division_of_a_mesh() -> None:
    found = implied_groups(*of_a_mesh(4, apart_us=60.0))

    assert found is not None
    assert {group.ranks for group in found.groups} == {(0, 2, 4, 6), (1, 3, 5, 7)}


def test_divisions_that_end_together_are_one_group_in_step() -> None:
    inputs, streams = of_a_mesh(4, apart_us=2.0)
    found = implied_groups(inputs, streams, also_single=True)
    assert found is not None
    named, groups = found.applied(inputs, [])

    (match,) = match_and_clock(named, groups)[0].groups

    assert match.labels == tuple("01234567")
    assert set(match.confidence.tolist()) == {LOW}  # one communicator, or two that advance alike
    assert match.in_step.all()


def at_once(
    late_us: float = 0.0, *, world: bool = False, wait: bool = True
) -> tuple[list[MatchInput], dict[str, I64]]:
    """Pairs 0,1 and 2,3 on stream 20: both begin with a late rank and end within 3 us.

    Rank 3 joins call 7 ``late_us`` after all others, which ``wait`` for it, or of which rank 2
    alone does. With ``world`` there are calls of all four on stream 32, to which rank 2 comes last
    now and then.
    """
    rng = np.random.default_rng(5)
    inputs, streams = [], {}
    begins = np.cumsum(rng.uniform(900, 1900, COUNT))
    jitter = rng.uniform(0, 3, (4, 4, COUNT))
    for rank in range(4):
        rows = []
        for k, begin in enumerate(begins.tolist()):
            held = late_us if k == 7 else 0.0
            start = begin + (60.0 if rank % 2 else 0.0) + (held if rank == 3 else 0.0)
            end = begin + 100 + (held if wait or rank > 1 else 0.0)
            rows.append((Call(start + jitter[0, rank, k], end + jitter[1, rank, k], group=-1), 20))
            if world:
                first = begin + 500 + (50 if rank == 2 and not k % 5 else 0)
                last = begin + 600 + jitter[3, rank, k]
                rows.append((Call(first + jitter[2, rank, k], last, group=-1), 32))
        inputs.append(member(rank, [call for call, _ in rows]))
        streams[str(rank)] = np.array([stream for _, stream in rows], np.int64)
    return inputs, streams


def confidences(
    inputs: list[MatchInput], streams: dict[str, I64]
) -> dict[tuple[int, ...], set[int]]:
    """Of the matches of every group, by its ranks."""
    found = implied_groups(inputs, streams)
    named, groups = (inputs, []) if found is None else found.applied(inputs, [])
    matches, _ = match_and_clock(named, groups)
    return {
        (one.group, *(int(label) for label in one.labels)): set(one.confidence.tolist())
        for one in matches.groups
    }


def test_pairs_that_always_end_at_once_as_one_group_have_low_confidence() -> None:
    assert confidences(*at_once()) == {(-1, 0, 1, 2, 3): {LOW}}


def test_one_wait_of_all_for_one_rank_confirms_the_group() -> None:
    assert confidences(*at_once(200.0)) == {(-1, 0, 1, 2, 3): {MEDIUM}}


def test_a_wait_of_one_pair_alone_separates_it_from_the_other() -> None:
    believed = confidences(*at_once(200.0, wait=False))

    assert believed == {(0, 0, 1): {MEDIUM}, (1, 2, 3): {MEDIUM}}


def test_groups_of_streams_are_trusted_where_a_wait_confirms_them() -> None:
    assert confidences(*at_once(world=True)) == {
        (0, 0, 1, 2, 3): {LOW},
        (1, 0, 1, 2, 3): {MEDIUM},
    }


def test_a_group_is_as_large_as_it_seems_only_where_no_rank_is_missing() -> None:
    inputs, streams = at_once(world=True)
    for world_size, size in ((None, 4), (4, 4), (8, MISSING)):
        found = implied_groups(inputs, streams, world_size)

        assert found is not None
        assert {group.as_group().size for group in found.groups} == {size}


@pytest.mark.parametrize("world_size", [4, 8])
def test_with_missing_ranks_clocks_are_known_but_blame_has_low_confidence(
    world_size: int,
) -> None:
    inputs, streams = at_once(world=True)
    found = implied_groups(inputs, streams, world_size)
    assert found is not None
    named, groups = found.applied(inputs, [])

    matches, clocks = match_and_clock(named, groups)

    assert clocks.evidence == "dependent collectives"
    seen = arrivals(matches, named, clocks).groups[1]
    assert set(seen.match.confidence.tolist()) == {MEDIUM}
    assert set(seen.confidence.tolist()) == {MEDIUM if world_size == 4 else LOW}


def beside_a_slow_pair(*, both_of_all: bool) -> tuple[list[MatchInput], dict[str, I64]]:
    """Two calls a step of eight ranks on one stream: of the pairs, of which 2 and 3 take 5 ms more.

    The second is of all ranks, which wait for these two, or of the pairs again.
    """
    rng = np.random.default_rng(5)
    inputs, streams = [], {}
    late = {2: 5000.0, 3: 5000.0}
    for rank in range(8):
        rows = []
        for step in range(6):
            begin = 20_000.0 * step
            begin += float(rng.uniform(0, 20))
            end = begin + 400 + late.get(rank, 0.0) + float(rng.uniform(0, 3))
            rows.append(Call(20_000.0 * step + 10, end, group=-1, step=step))
            meets = 20_000.0 * step + (6000 if both_of_all else 600 + late.get(rank, 0.0))
            rows.append(Call(end + 50, meets + float(rng.uniform(0, 3)), group=-1, step=step))
        inputs.append(member(rank, rows, host="node-0"))
        streams[str(rank)] = np.full(len(rows), 20)
    return inputs, streams


PAIRS = {(20, (0, 1)), (20, (2, 3)), (20, (4, 5)), (20, (6, 7))}


def test_one_slow_pair_tells_pairs_that_are_in_step_apart() -> None:
    found = implied_groups(*beside_a_slow_pair(both_of_all=False))

    assert told(found) == PAIRS


def test_a_call_that_all_pairs_wait_for_is_of_all_ranks() -> None:
    inputs, streams = beside_a_slow_pair(both_of_all=True)

    found = implied_groups(inputs, streams)

    assert found is not None
    assert told(found) == {*PAIRS, (20, tuple(range(8)))}
    (of_all,) = (number for number, one in enumerate(found.groups) if len(one.ranks) == 8)
    assert all((found.index[item.label] == of_all).tolist() == [False, True] * 6 for item in inputs)
