"""Ranks that wait for one another: who entered its groups in another order than the others.

In such a ring edges alone blame everybody. What tells is how far each rank was in its other groups
when it entered a call: the ranks that are right agree, with one another or with themselves before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from ccltui.metrics.hangs.flight_job import Call, FlightJob
from ccltui.metrics.hangs.flight_waits import Waits

_LEAST_HISTORY: Final = 2
"""Earlier calls of a group that must agree before a rank is held against its own past."""


class OutOfOrder(NamedTuple):
    """A rank that entered a call while it was elsewhere in another group than the others.

    Attributes:
        rank: The rank.
        call: The call that it entered.
        other: Description of the group in which it differs.
        its: Number of its last call there, before it entered the call.
        usual: The same of the others, or of itself before.
        witnesses: Ranks with ``usual``; () where it is held against its own past.
    """

    rank: int
    call: Call
    other: str
    its: int
    usual: int
    witnesses: tuple[int, ...]


def out_of_order(job: FlightJob, waits: Waits, ring: Sequence[int]) -> OutOfOrder | None:
    """Return the rank of a ring that is out of order, None where that cannot be told."""
    for compared in (_against_others, _passed_over, _against_past, _alone):
        found = [one for rank in ring if (one := compared(job, waits, rank)) is not None]
        if found:
            return found[0] if len(found) == 1 else None
    return None


def _against_others(job: FlightJob, waits: Waits, rank: int) -> OutOfOrder | None:
    """Compare a rank with all that entered its call, or the same one of a group of that kind."""
    call = waits.by_rank[rank].call
    profiles = _profiles(job, call)
    mine = profiles.get(rank, {})
    for name in mine:
        counts = Counter(one[name] for one in profiles.values() if name in one)
        usual, number = counts.most_common(1)[0]
        if mine[name] != usual and 2 * number > sum(counts.values()):
            witnesses = tuple(other for other, one in profiles.items() if one.get(name) == usual)
            return OutOfOrder(rank, call, name, mine[name], usual, witnesses)
    return None


def _passed_over(job: FlightJob, waits: Waits, rank: int) -> OutOfOrder | None:
    """Return a rank that others wait for alone in a call that it passed over.

    All others that entered its own call had been in that one before.
    """
    own = waits.by_rank[rank].call
    profiles = {other: one for other, one in _profiles(job, own).items() if other != rank}
    for wait in waits.by_rank.values():
        if wait.targets != (rank,) or job.is_p2p(wait.call):
            continue
        name = job.groups[wait.call.group].label
        counts = [one[name] for one in profiles.values() if name in one]
        if counts and min(counts) >= wait.call.seq and wait.call.group != own.group:
            usual = min(counts)
            return OutOfOrder(rank, own, name, wait.call.seq - 1, usual, tuple(profiles))
    return None


def _profiles(job: FlightJob, call: Call) -> Mapping[int, Mapping[str, int]]:
    """Return the profile of each rank that entered a call, or its like in a group of the kind."""
    if job.is_p2p(call):
        return {}
    description = job.groups[call.group].description
    alike = {one.index for one in job.groups if description and one.description == description}
    return {
        rank: _profile(job, calls.call(rows[0]))
        for rank, calls in job.ranks.items()
        for group in {*alike, call.group}
        if (rows := calls.rows.get(group, {}).get(call.seq))
    }


def _against_past(job: FlightJob, waits: Waits, rank: int) -> OutOfOrder | None:
    """Compare how far a rank was in its other groups with how far it was at the calls before."""
    call = waits.by_rank[rank].call
    if job.is_p2p(call):
        return None
    calls = job.ranks[rank]
    now = _profile(job, call)
    before = [
        (call.seq - seq, _profile(job, calls.call(rows[0])))
        for seq, rows in calls.rows.get(call.group, {}).items()
        if seq < call.seq
    ]
    for name, number in now.items():
        past = {one[name] + back for back, one in before if name in one}
        if len(before) >= _LEAST_HISTORY and len(past) == 1 and number not in past:
            return OutOfOrder(rank, call, name, number, past.pop(), ())
    return None


def _alone(job: FlightJob, waits: Waits, rank: int) -> OutOfOrder | None:
    """Return a rank that is alone in its call, and that all others of another call wait for."""
    own = waits.by_rank[rank]
    if job.is_only_active or len(own.targets) < len(job.groups[own.call.group].members) - 1:
        return None
    for wait in waits.by_rank.values():
        group, seq = wait.call.group, wait.call.seq
        waiting = [one for one in job.groups[group].members if one != rank]
        entered = [one for one in waiting if seq in job.ranks[one].rows.get(group, {})] if all(
            one in job.ranks for one in waiting
        ) else []  # fmt: skip
        if wait.targets == (rank,) and len(waiting) > 1 and len(entered) == len(waiting):
            label = job.groups[group].label
            return OutOfOrder(rank, own.call, label, seq - 1, seq, tuple(entered))
    return None


def _profile(job: FlightJob, call: Call) -> Mapping[str, int]:
    """Return, by description of the other groups, the last number before a call."""
    calls = job.ranks[call.rank]
    columns = calls.dump.columns
    found: dict[str, int] = {}
    for group in calls.rows:
        name = job.groups[group].label
        if group == call.group or name == job.groups[call.group].label:
            continue
        rows = (calls.group[: call.row] == group) & ~columns.is_p2p[: call.row]
        seqs = columns.seq[: call.row][rows]
        if len(seqs):
            found[name] = max(found.get(name, 0), int(np.max(seqs)))
        elif calls.dump.num_overwritten == 0:
            found.setdefault(name, 0)
    return found
