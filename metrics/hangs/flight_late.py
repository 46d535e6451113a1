"""Ranks that arrive late where nothing hangs, from the dumps of their flight recorders.

With timing on, the time of a collective on the device holds the waiting: the last to arrive has the
shortest. Without it the time of the call tells only where calls are synchronous, as in gloo on one
host: NCCL's calls return at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np

from ccltui.metrics.hangs.flight_job import FlightJob, RankCalls

_LEAST_MS: Final = 1.0
"""Lateness below it is noise of hosts and of the resolution of events."""
_LEAST_CALLS: Final = 5
"""Late calls that a name rests on: one of few ranks is the last of four by chance."""
_MOST_OF_ALL: Final = 0.75
"""Share of all lateness that one rank must have to be named."""


class Late(NamedTuple):
    """A rank that is late by itself, in a group: in ``num_late`` of ``num_calls`` collectives.

    ``median_ms`` is the median of those in which it is.
    """

    rank: int
    group: int
    median_ms: float
    num_late: int
    num_calls: int
    by_duration: bool


def late_rank(job: FlightJob) -> Late | None:
    """Return the rank that is late more than all others together, None where there is none."""
    has_timing = all(one.dump.has_timing for one in job.ranks.values())
    is_synchronous = all(one.dump.backends <= {"gloo"} for one in job.ranks.values())
    if len(job.ranks) < 2 or not (has_timing or is_synchronous):
        return None
    late = _by_duration(job) if has_timing else _by_calls(job)
    by_rank: dict[int, float] = defaultdict(float)
    for (rank, _), own in late.items():
        by_rank[rank] += sum(own)
    latest = max(by_rank, key=lambda one: by_rank[one], default=None)
    if latest is None or by_rank[latest] < _MOST_OF_ALL * sum(by_rank.values()):
        return None
    group = max((one for one in late if one[0] == latest), key=lambda one: sum(late[one]))[1]
    own = late[latest, group]
    strong = [one for one in own if one >= _LEAST_MS]
    if len(strong) < _LEAST_CALLS:
        return None
    return Late(latest, group, float(np.median(strong)), len(strong), len(own), has_timing)


def _instances(job: FlightJob) -> Iterator[tuple[int, int, Mapping[int, int]]]:
    """Yield group, number and row by rank of synchronising calls that every member has."""
    for group in job.groups:
        members = [job.ranks.get(rank) for rank in group.members]
        held = [one for one in members if one is not None]
        if len(held) < 2 or len(held) < len(members):
            continue
        numbers = set.intersection(*(set(one.rows.get(group.index, {})) for one in held))
        for seq in sorted(numbers):
            rows = {one.rank: one.rows[group.index][seq][0] for one in held}
            first = held[0].call(rows[held[0].rank])
            if job.is_synchronising(first):
                yield group.index, seq, rows


def _by_duration(job: FlightJob) -> Mapping[tuple[int, int], list[float]]:
    """Return lateness in ms by rank and group: how much shorter its calls are than the longest.

    Only of calls before which all members were in one call, and left it together: what a rank was
    kept waiting elsewhere is no lateness of its own.
    """
    late: dict[tuple[int, int], list[float]] = defaultdict(list)
    for group, _, rows in _instances(job):
        before = {job.ranks[rank].call(row - 1)[1:3] if row else None for rank, row in rows.items()}
        took = {
            rank: float(job.ranks[rank].dump.columns.duration_ms[row]) for rank, row in rows.items()
        }
        if len(before) == 1 and np.isfinite(list(took.values())).all():
            longest = max(took.values())
            for rank, one in took.items():
                late[rank, group].append(longest - one)
    return late


def _by_calls(job: FlightJob) -> Mapping[tuple[int, int], list[float]]:
    """Return own lateness in ms by rank and group, without what a rank was kept elsewhere.

    Nobody leaves a synchronising call before the last has entered it. What a rank takes from there
    to its next call is its own; what the quickest member takes is taken off.
    """
    found = list(_instances(job))
    ends: dict[tuple[int, int], int] = {}  # by rank and row: when the last member entered
    for _, _, rows in found:
        last = max(_created(job.ranks[rank], row) for rank, row in rows.items())
        ends |= dict.fromkeys(rows.items(), last)
    before = {rank: _row_before(calls, ends) for rank, calls in job.ranks.items()}
    late: dict[tuple[int, int], list[float]] = defaultdict(list)
    for group, _, rows in found:
        own = {
            rank: _created(job.ranks[rank], row) - ends[rank, previous]
            for rank, row in rows.items()
            if (previous := before[rank].get(row)) is not None
        }
        if len(own) == len(rows):
            least = min(own.values())
            for rank, one in own.items():
                late[rank, group].append((one - least) / 1e6)
    return late


def _created(calls: RankCalls, row: int) -> int:
    return int(calls.dump.columns.created_ns[row])


def _row_before(calls: RankCalls, ends: Mapping[tuple[int, int], int]) -> Mapping[int, int]:
    """Return for each row with an end the one before it."""
    rows = [row for row in range(len(calls.dump.columns)) if (calls.rank, row) in ends]
    return dict(zip(rows[1:], rows[:-1], strict=True))
