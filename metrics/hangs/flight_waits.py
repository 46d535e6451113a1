"""Who waits for whom, from flight recorder dumps: edges between ranks, and where they end.

A rank in a collective waits for the members that have not entered it. A rank that others wait for
and that waits for nobody is the root. In a ring of ranks edges alone blame everybody: what tells is
how far each rank was in its other groups when it entered a call. The ranks that are right agree,
with one another or with themselves before; the others entered their groups in another order.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from ccltui.metrics.hangs.flight_job import Call, FlightJob, RankCalls
from ccltui.parsers.flight_recorder.dump import NONE

_LEAST_GAP: Final = 2
"""Calls that others are ahead of a rank that stopped: one may be a race with the dump."""


class Wait(NamedTuple):
    """A rank waits for others in a call.

    ``is_strong`` is false for a send or receive whose counterpart may have been lost with the ring.
    """

    call: Call
    targets: tuple[int, ...]
    is_strong: bool = True


class Waits:
    """All waits of a job.

    Attributes:
        by_rank: The wait of each rank that waits for a rank.
        frozen: Ranks that stand in what others finished, with that call, and the call that the
            furthest of the others finished.
        arrived: Calls that every member has entered and none has finished, by rank: the first
            that the rank stands in, where it waits for nobody.
    """

    def __init__(self, job: FlightJob, explained: Collection[Call] = ()) -> None:
        """Find the waits; in ``explained`` calls a rank stands for another reason."""
        self._job = job
        self._explained = {(one.rank, one.group, one.seq) for one in explained}
        self._p2p = _Posted(job)
        self.frozen = dict(self._frozen())
        self.by_rank: dict[int, Wait] = {}
        self.arrived: dict[int, Call] = {}
        for rank, calls in job.ranks.items():
            if rank not in self.frozen:
                self._add(rank, calls)
        if not self.frozen and not set(self.roots()) - set(self.arrived) and not self.rings():
            self.by_rank |= dict(self._behind_others())

    def _frozen(self) -> Iterator[tuple[int, tuple[Call, int]]]:
        if self._job.are_apart:
            return
        for rank, calls in self._job.ranks.items():
            for call in calls.pending:
                is_counted = call.seq >= 0 and not calls.dump.columns.is_p2p[call.row]
                if not is_counted or self._job.groups[call.group].is_gloo:
                    continue
                if not self._job.is_synchronising(call):
                    continue
                done = max(
                    (one.completed.get(call.group, NONE)
                     for one in self._job.members_with_dump(call.group) if one.rank != rank),
                    default=NONE,
                )  # fmt: skip
                if done - call.seq + 1 >= _LEAST_GAP:
                    yield rank, (call, done)
                    break

    def _add(self, rank: int, calls: RankCalls) -> None:
        weak: Wait | None = None
        for call in calls.pending:
            is_p2p = self._job.is_p2p(call)
            if not is_p2p and (rank, call.group, call.seq) in self._explained:
                return
            wait = self._p2p.wait(call) if is_p2p else self._collective(call)
            if wait is not None and wait.is_strong:
                self.by_rank[rank] = wait
                return
            weak = weak or wait
        if weak is not None:
            self.by_rank[rank] = weak
            self.arrived.pop(rank, None)

    def _collective(self, call: Call) -> Wait | None:
        """Return who has not entered a collective; None where all have, or one finished it."""
        if call.seq < 0:
            return None
        group = self._job.groups[call.group]
        members = [one for one in group.members if one != call.rank]
        others = {one: self._job.ranks.get(one) for one in members}
        done = (one.completed.get(call.group, NONE) for one in others.values() if one is not None)
        if max(done, default=NONE) >= call.seq:
            return None
        targets = tuple(
            rank for rank, one in others.items()
            if one is None or one.enqueued.get(call.group, call.seq) < call.seq
        )  # fmt: skip
        if targets:
            return Wait(call, targets)
        entered = [one for one in others.values() if one is not None and call.group in one.enqueued]
        if len(entered) == len(members) and members:
            self.arrived.setdefault(call.rank, call)
        return None

    def _behind_others(self) -> Iterator[tuple[int, Wait]]:
        """Yield waits where all have entered the first calls: for members in calls before it.

        A host runs ahead of its device, which works on its calls in their order.
        """
        for rank, call in self.arrived.items():
            targets = []
            for other in self._job.groups[call.group].members:
                calls = self._job.ranks[other]
                rows = calls.rows.get(call.group, {}).get(call.seq)
                if other != rank and rows and calls.pending and calls.pending[0].row < rows[0]:
                    targets.append(other)
            if targets:
                yield rank, Wait(call, tuple(targets))

    def roots(self) -> tuple[int, ...]:
        """Return the ranks that others wait for and that wait for nobody."""
        waited_for = {one for wait in self.by_rank.values() for one in wait.targets}
        return tuple(sorted(waited_for - set(self.by_rank)))

    def rings(self) -> list[tuple[int, ...]]:
        """Return the rings: ranks that wait for one another, and for nobody else in the end."""
        reach = {rank: self._reached(rank) for rank in self.by_rank}
        found = set()
        for rank, reached in reach.items():
            if rank in reached and all(rank in reach.get(one, ()) for one in reached):
                found.add(tuple(sorted(reached)))
        return sorted(found)

    def _reached(self, start: int) -> set[int]:
        found: set[int] = set()
        todo = [start]
        while todo:
            wait = self.by_rank.get(todo.pop())
            if wait is not None:
                new = set(wait.targets) - found
                found |= new
                todo += new
        return found

    def waiting_for(self, ranks: Collection[int]) -> tuple[list[int], list[int]]:
        """Return the ranks that wait for some ranks directly, and those that do through others."""
        direct = {rank for rank, wait in self.by_rank.items() if set(wait.targets) & set(ranks)}
        direct -= set(ranks)
        through = {rank for rank in self.by_rank if self._reached(rank) & set(ranks)}
        return sorted(direct), sorted(through - direct - set(ranks))


class _Posted:
    """Sends and receives that ranks have posted."""

    def __init__(self, job: FlightJob) -> None:
        self._job = job
        self._rows: dict[tuple[int, int, str, int], list[Call]] = defaultdict(list)
        for calls in job.ranks.values():
            columns = calls.dump.columns
            for row in columns.is_p2p.nonzero()[0].tolist():
                call = calls.call(row)
                if (peer := job.peer(call)) is not None:
                    key = (calls.rank, call.group, calls.operation(row), peer)
                    self._rows[key].append(call)

    def wait(self, call: Call) -> Wait | None:
        """Return whose counterpart is missing; None where it was posted, or nothing is known."""
        job = self._job
        calls = job.ranks[call.rank]
        peer = job.peer(call)
        if peer is None:
            return None
        if peer not in job.ranks:
            return Wait(call, (peer,))
        here = calls.operation(call.row)
        there = {"send": "recv", "recv": "send"}.get(here)
        if there is None:
            return None
        mine = self._rows[call.rank, call.group, here, peer]
        its = self._rows.get((peer, call.group, there, call.rank), [])
        if self._is_whole(calls) and self._is_whole(job.ranks[peer]):
            return None if mine.index(call) < len(its) else Wait(call, (peer,))
        if len(job.groups[call.group].members) == 2 and not job.is_only_active:
            # each send is one receive on the other side: both count alike
            number = int(calls.dump.columns.p2p_seq[call.row])
            highest = max((self._number(one) for one in its), default=NONE)
            if its and number > 0:
                return None if highest >= number else Wait(call, (peer,))
        is_posted = any(not job.ranks[peer].is_done[one.row] for one in its)
        return None if is_posted else Wait(call, (peer,), is_strong=False)

    def _number(self, call: Call) -> int:
        return int(self._job.ranks[call.rank].dump.columns.p2p_seq[call.row])

    def _is_whole(self, calls: RankCalls) -> bool:
        return not self._job.is_only_active and calls.dump.num_overwritten == 0


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


def out_of_order(job: FlightJob, waits: Waits, ring: Sequence[int]) -> tuple[OutOfOrder, ...]:
    """Return the ranks of a ring that are out of order, () where that cannot be told.

    Several may be against their own past, but not all of the ring.
    """
    for compared in (_against_others, _passed_over, _after_another, _against_past, _alone):
        found = [one for rank in ring if (one := compared(job, waits, rank)) is not None]
        if len(found) == 1 or (compared is _after_another and 0 < len(found) < len(ring)):
            return tuple(found)
        if found and compared is not _against_others:
            return ()
    return ()


def apart_from_others(job: FlightJob, waits: Waits) -> list[OutOfOrder]:
    """Return all ranks that wait and entered their call in another order than most of the rest."""
    found = [_against_others(job, waits, rank) for rank in waits.by_rank]
    return [one for one in found if one is not None]


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


def _after_another(job: FlightJob, waits: Waits, rank: int) -> OutOfOrder | None:
    """Compare what a rank entered right before its call with what it did at calls like it."""
    call = waits.by_rank[rank].call
    calls = job.ranks[rank]
    if job.is_p2p(call) or not call.row:
        return None
    mine = _kind(job, call)
    rows = [one for held in calls.rows.get(call.group, {}).values() for one in held
            if 0 < one < call.row]  # fmt: skip
    before = [one for one in rows if _kind(job, calls.call(one)) == mine]
    usual = {_kind(job, calls.call(one - 1)) for one in before}
    last = calls.call(call.row - 1)
    if len(before) < _LEAST_HISTORY or len(usual) > 1 or _kind(job, last) in usual:
        return None
    skipped = calls.call(max(before) - 1)
    if skipped.group == call.group or job.is_p2p(skipped):
        return None
    number = _profile(job, call).get(job.groups[skipped.group].label)
    if number is None:
        return None
    return OutOfOrder(rank, call, job.groups[skipped.group].label, number, number + 1, ())


def _kind(job: FlightJob, call: Call) -> tuple[int, str, int]:
    """Return what calls of one line of a program have in common."""
    calls = job.ranks[call.rank]
    return call.group, calls.operation(call.row), int(calls.dump.columns.num_in[call.row])


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
