"""Sum lag, wait and blame over selected instances and ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.reductions import distinct_values, row_min, row_sum
from ccltui.metrics.collectives.arrivals import (
    GroupArrivals,
    Lateness,
    by_start,
    clock_free,
)
from ccltui.parsers.array_types import F64, I8, I64, Bool

TIMES_EVEN_SHARE = 1.5
"""A straggler causes more than this many times an even share of the waiting."""

MIN_STEPS = 3
"""With fewer known steps, time is divided into ``QUARTERS`` instead."""
QUARTERS = 4
MIN_EVEN_PART = 0.25
"""A step counts as late from this part of an even share of the caused wait on."""
TRANSIENT_SHARE = 0.8
"""Share of the caused wait in one step from which on a pattern is transient."""

Pattern = Literal["persistent", "recurring", "transient"]


class Chosen(Struct, frozen=True):
    """Eligible instances of one group: n rows, m members that index the ``labels`` of the job.

    Times are int64 ns [n, m]; ``step`` is -1 outside steps. ``lateness`` is clock-free;
    ``aligned`` is the measure by starts, None where the members' clocks are not known.
    """

    group: int
    members: I64
    kind: I8
    confidence: I8
    step: I64
    start_ns: I64  # [n, m]
    dur_ns: I64
    lateness: Lateness
    aligned: Lateness | None

    def __len__(self) -> int:
        return len(self.kind)


def choose(arrived: GroupArrivals, rows: Bool, columns: I64, members: I64, floor_ns: int) -> Chosen:
    """Select rows (mask) and member columns of a group; lateness is among these columns alone.

    Args:
        arrived: Arrivals of the group.
        rows: Some of its eligible instances, bool [n].
        columns: Members, ascending.
        members: Index of each into the labels of the job.
        floor_ns: The lag floor of the arrivals.
    """
    if len(columns) == len(arrived.labels):
        return _choose_rows(arrived, rows, members)
    start, dur = arrived.start_ns[rows][:, columns], arrived.dur_ns[rows][:, columns]
    return Chosen(
        group=arrived.match.group,
        members=members,
        kind=arrived.match.kind[rows],
        confidence=arrived.confidence[rows],
        step=arrived.match.step[rows],
        start_ns=start,
        dur_ns=dur,
        lateness=clock_free(dur, floor_ns),
        aligned=None if arrived.by_start is None else by_start(start, floor_ns),
    )


def _choose_rows(arrived: GroupArrivals, rows: Bool, members: I64) -> Chosen:
    """Select instances with all members, whose lateness is known; without a copy where all are."""
    picked: Bool | slice = slice(None) if rows.all() else rows
    aligned = arrived.by_start
    return Chosen(
        group=arrived.match.group,
        members=members,
        kind=arrived.match.kind[picked],
        confidence=arrived.confidence[picked],
        step=arrived.match.step[picked],
        start_ns=arrived.start_ns[picked],
        dur_ns=arrived.dur_ns[picked],
        lateness=arrived.clock_free.take(picked),
        aligned=None if aligned is None else aligned.take(picked),
    )


class Tally(Struct, frozen=True):
    """Sums per label, int64 arrays of one length; times in ns."""

    wait_ns: I64  # waited for others, ties included
    last_count: I64  # blamed instances in which it arrived last
    caused_wait_ns: I64  # waits of all members of those instances
    took_part: I64  # blamed instances that it was a member of
    num_ranks: int  # labels that are a member of any instance

    @property
    def last_share(self) -> F64:
        """Share of the blamed instances it took part in that a label was last in; 0 of none."""
        return np.asarray(self.last_count / np.maximum(self.took_part, 1))

    @property
    def blamed_share(self) -> F64:
        """Share of all blamed instances that a label was last in; 0 of none."""
        return np.asarray(self.last_count / max(int(self.last_count.sum()), 1))


def summed(chosen: Sequence[Chosen], amounts_ns: Sequence[I64], num_labels: int) -> I64:
    """Return the sum of an amount of each instance by the label that was last, int64 ns."""
    total = np.zeros(num_labels, np.int64)
    for one, amount in zip(chosen, amounts_ns, strict=True):
        blamed = one.lateness.last >= 0
        np.add.at(total, one.members[one.lateness.last[blamed]], amount[blamed])
    return total


def tally(chosen: Sequence[Chosen], num_labels: int) -> Tally:
    """Sum waits and blame by label.

    The caused wait of a label is the sum of the waits of all members over the instances in which
    it was last.
    """
    wait, last, caused, part = (np.zeros(num_labels, np.int64) for _ in range(4))
    present = np.zeros(num_labels, np.bool_)
    for one in chosen:
        blamed = one.lateness.last >= 0
        who = one.members[one.lateness.last[blamed]]
        wait[one.members] += one.lateness.wait_ns.sum(axis=0)
        np.add.at(last, who, 1)
        np.add.at(caused, who, row_sum(one.lateness.wait_ns[blamed]))
        part[one.members] += int(blamed.sum())
        present[one.members] = True
    return Tally(wait, last, caused, part, int(present.sum()))


def is_persistent(
    chosen: Sequence[Chosen], amounts_ns: Sequence[I64], num_labels: int, label: int
) -> bool:
    """Whether a label caused most waiting in both halves, by time, of the blamed instances.

    ``amounts_ns`` is the waiting of each instance that is due to its last member.
    """
    blamed = [one.lateness.last >= 0 for one in chosen]
    times = np.concatenate(
        [row_min(one.start_ns)[rows] for one, rows in zip(chosen, blamed, strict=True)]
    )
    order = np.argsort(times, kind="stable")
    middle = times[order[len(order) // 2]] if len(order) else 0
    halves = np.zeros((2, num_labels), np.int64)
    for one, rows, amount in zip(chosen, blamed, amounts_ns, strict=True):
        half = (row_min(one.start_ns)[rows] >= middle).astype(np.int64)
        np.add.at(halves, (half, one.members[one.lateness.last[rows]]), amount[rows])
    return bool((halves.max(axis=1) > 0).all() and (halves.argmax(axis=1) == label).all())


def patterns(
    chosen: Sequence[Chosen], amounts_ns: Sequence[I64], num_labels: int
) -> dict[int, Pattern]:
    """Classify how the waiting that is due to each label is distributed over time.

    Time is counted in steps, or in quarters where fewer than three steps are known. Persistent: at
    least a quarter of an even share in at least half of them. Transient: four fifths in one. Else
    recurring.
    """
    cells = _caused_by_time(chosen, amounts_ns, num_labels)
    found: dict[int, Pattern] = {}
    for label in np.flatnonzero(cells.any(axis=1)).tolist():
        share = cells[label] / cells[label].sum()
        often = np.count_nonzero(share >= MIN_EVEN_PART / len(share)) >= len(share) / 2
        if often:
            found[label] = "persistent"
        else:
            found[label] = "transient" if share.max() >= TRANSIENT_SHARE else "recurring"
    return found


def _caused_by_time(chosen: Sequence[Chosen], amounts_ns: Sequence[I64], num_labels: int) -> I64:
    """Return the waiting due to each label, int64 ns [label, unit of time]."""
    blamed = [one.lateness.last >= 0 for one in chosen]
    who = [one.members[one.lateness.last[rows]] for one, rows in zip(chosen, blamed, strict=True)]
    wait = [amount[rows] for amount, rows in zip(amounts_ns, blamed, strict=True)]
    step = np.concatenate([one.step[rows] for one, rows in zip(chosen, blamed, strict=True)])
    every = distinct_values(np.concatenate([one.step for one in chosen]))
    units = every[every >= 0]
    if len(units) < MIN_STEPS:
        start = np.concatenate([row_min(one.start_ns) for one in chosen])
        since = start - start.min()  # small numbers: floats would lose some ns of epochs
        step = (since * QUARTERS // (since.max() + 1))[np.concatenate(blamed)]
        units = np.arange(QUARTERS)
    cells = np.zeros((num_labels, len(units)), np.int64)
    inside = step >= units[0]
    place = np.searchsorted(units, step[inside])
    np.add.at(cells, (np.concatenate(who)[inside], place), np.concatenate(wait)[inside])
    return cells
