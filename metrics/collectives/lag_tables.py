"""Sums of lag, wait and blame over selected instances, and the tables of `straggler_lag`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.by_column import together
from ccltui.metrics.arrays.reductions import distinct_values, row_max, row_min
from ccltui.metrics.arrays.statistics import microseconds, ratio
from ccltui.metrics.collectives.arrivals import (
    GroupArrivals,
    Lateness,
    by_start,
    clock_free,
)
from ccltui.metrics.collectives.clocks.clock_model import ClockModel
from ccltui.metrics.collectives.matching.match import HIGH, LOW, MEDIUM
from ccltui.metrics.collectives.matching.validity import middle_and_rank
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


class Ends(Struct, frozen=True):
    """Ends of n instances on m members, int64 ns.

    ``last`` [m] is the end of the last instance on each member, ``spread`` [n] last minus first
    end of each instance.
    """

    last: I64
    spread: I64


class Chosen(Struct, frozen=True, dict=True):
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

    @cached_property
    def ends(self) -> Ends:
        """The ends, some members at a time: a table of all takes longer to make than to reduce.

        There must be an instance.
        """
        last = np.empty(len(self.members), np.int64)
        first_end = self.start_ns[:, 0] + self.dur_ns[:, 0]
        last_end = first_end.copy()
        for some in together(len(self), len(last)):
            end = self.start_ns[:, some] + self.dur_ns[:, some]
            last[some] = end.max(axis=0)
            np.minimum(first_end, row_min(end), out=first_end)
            np.maximum(last_end, row_max(end), out=last_end)
        return Ends(last, last_end - first_end)


def choose(arrived: GroupArrivals, rows: Bool, columns: I64, members: I64, floor_ns: int) -> Chosen:
    """Select rows (mask) and member columns of a group; lateness is among these columns alone.

    Args:
        arrived: Arrivals of the group.
        rows: Some of its eligible instances, bool [n].
        columns: Members, ascending.
        members: Index of each into the labels of the job.
        floor_ns: The lag floor of the arrivals.
    """
    picked: Bool | slice = rows
    if len(columns) == len(arrived.labels):  # lateness is known; no copy where all rows are picked
        picked = slice(None) if rows.all() else rows
        start, dur = arrived.start_ns[picked], arrived.dur_ns[picked]
        lateness = arrived.clock_free.take(picked)
        aligned = None if arrived.by_start is None else arrived.by_start.take(picked)
    else:
        start, dur = arrived.start_ns[rows][:, columns], arrived.dur_ns[rows][:, columns]
        lateness = clock_free(dur, floor_ns)
        aligned = None if arrived.by_start is None else by_start(start, floor_ns)
    return Chosen(
        group=arrived.match.group,
        members=members,
        kind=arrived.match.kind[picked],
        confidence=arrived.confidence[picked],
        step=arrived.match.step[picked],
        start_ns=start,
        dur_ns=dur,
        lateness=lateness,
        aligned=aligned,
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
        wait[one.members] += one.lateness.waited_ns
        np.add.at(last, who, 1)
        np.add.at(caused, who, one.lateness.caused_ns[blamed])
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


def transfer_ns(one: Chosen) -> I64:
    """Return the transfer of each instance, int64 ns [n]: the shortest duration over its ranks.

    The last rank to arrive does not wait. What exceeds its duration on another rank is waiting.
    """
    return row_min(one.dur_ns)


def wait_and_transfer(one: Chosen, rows: Bool) -> tuple[int, int]:
    """Return waiting and transfer of some instances (mask), ns summed over all members."""
    size = len(one.members)
    return int(one.lateness.caused_ns[rows].sum()), size * int(transfer_ns(one)[rows].sum())


Table = list[dict[str, Any]]

LEVELS = ("high", "medium", "low")


def summary(lag_ns: I64) -> dict[str, Any]:
    """Return mean, median, p95, min and max in µs, and n, of at least one lag."""
    middle, p95 = middle_and_rank(lag_ns, 0.95)
    return {
        "mean_lag_us": microseconds(int(lag_ns.sum())) / len(lag_ns),
        "p50_lag_us": microseconds(middle),
        "p95_lag_us": microseconds(p95),
        "min_lag_us": microseconds(int(lag_ns.min())),
        "max_lag_us": microseconds(int(lag_ns.max())),
        "n": len(lag_ns),
    }


def distribution(times_ns: I64) -> dict[str, Any]:
    """Return median, p95 and max of times in µs, and their number; None without any."""
    if not len(times_ns):
        return {"p50": None, "p95": None, "max": None, "n": 0}
    middle, p95 = middle_and_rank(times_ns, 0.95)
    return {
        "p50": microseconds(middle),
        "p95": microseconds(p95),
        "max": microseconds(int(times_ns.max())),
        "n": len(times_ns),
    }


def end_spread(chosen: Sequence[Chosen]) -> dict[str, Any]:
    """Return the distribution of last minus first end of each collective on one clock, in µs.

    Such collectives end nearly together: a spread far above some tens of µs means wrong matches or
    wrong clocks. Instances whose members' clocks are not known are omitted.
    """
    spreads = [one.ends.spread for one in chosen if one.aligned is not None]
    return distribution(np.concatenate([np.empty(0, np.int64), *spreads]))


def last_counts(one: Chosen, rows: Bool, labels: Sequence[str]) -> dict[str, int]:
    """Return how often each rank was last in some rows (mask), most often first."""
    last = one.lateness.last[rows]
    counts = np.bincount(last[last >= 0], minlength=len(one.members))
    order = np.argsort(-counts, kind="stable")
    return {labels[one.members[i]]: int(counts[i]) for i in order if counts[i]}


def by_group(
    chosen: Sequence[Chosen], labels: Sequence[str], describe: Callable[[int], Mapping[str, Any]]
) -> Table:
    """Return one row per group: its lags and the ranks that they blame."""
    rows = []
    for one in chosen:
        everything = np.ones(len(one), np.bool_)
        numbers = summary(one.lateness.lag_ns)
        rows.append(
            {
                **describe(one.group),
                "members": [labels[index] for index in one.members],
                "num_collectives": numbers.pop("n"),
                **numbers,
                "transfer_us": distribution(row_min(one.dur_ns)),
                "last": last_counts(one, everything, labels),
                "ties": int((one.lateness.last < 0).sum()),
                "confidence": confidence_counts([one]),
            }
        )
    return rows


def per_step(
    chosen: Sequence[Chosen], labels: Sequence[str], step_time_ns: Mapping[int, int]
) -> Table:
    """Return one row per step: its lags, the ranks that they blame, and their share of the step.

    ``lag_us`` is the sum over the group in which it is largest: groups wait at the same time.
    """
    steps = sorted({int(step) for one in chosen for step in distinct_values(one.step) if step >= 0})
    rows = []
    for step in steps:
        parts = [(one, one.step == step) for one in chosen]
        lags = [one.lateness.lag_ns[rows] for one, rows in parts]
        worst = max(int(lag.sum()) for lag in lags)
        together = np.concatenate(lags)
        length = step_time_ns.get(step)
        rows.append(
            {
                "step": step,
                "num_collectives": len(together),
                "lag_us": microseconds(worst),
                "mean_lag_us": microseconds(int(together.sum())) / len(together),
                "max_lag_us": microseconds(int(together.max())),
                "last": _merged([last_counts(one, mask, labels) for one, mask in parts]),
                "step_time_us": None if length is None else microseconds(length),
                "lag_fraction": None if length is None else ratio(worst, length),
            }
        )
    return rows


def _merged(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in counts:
        for label, count in part.items():
            total[label] = total.get(label, 0) + count
    return dict(sorted(total.items(), key=lambda item: -item[1]))


def blame(
    found: Tally, due_ns: I64, labels: Sequence[str], present: Sequence[int]
) -> dict[str, Any]:
    """Return by rank: waiting due to it alone, caused wait, and in how many instances it was last.

    The shares are those of its own and of all blamed instances; None of no instance.
    """
    last_share, blamed_share, is_any = found.last_share, found.blamed_share, found.last_count.any()
    return {
        labels[i]: {
            "due_wait_us": microseconds(int(due_ns[i])),
            "last_count": int(found.last_count[i]),
            "last_share": float(last_share[i]) if found.took_part[i] else None,
            "blamed_share": float(blamed_share[i]) if is_any else None,
            "caused_wait_us": microseconds(int(found.caused_wait_ns[i])),
        }
        for i in present
    }


def clock_table(clocks: ClockModel, labels: Sequence[str]) -> dict[str, Any]:
    """Return offset, residuals, number of collectives and drift by rank; None where not known."""
    table = {}
    for label in labels:
        clock = clocks.clocks[label]
        table[label] = {
            "offset_us": microseconds(clock.offset_ns) if clock.known else None,
            "residual_p50_us": _us(clock.residual_p50_ns),
            "residual_p95_us": _us(clock.residual_p95_ns),
            "n": clock.n,
            "drift_ppm": None if clock.drift_ppb is None else clock.drift_ppb / 1000,
        }
    return table


def _us(nanoseconds: int | None) -> float | None:
    return None if nanoseconds is None else microseconds(nanoseconds)


def confidence_counts(chosen: Sequence[Chosen]) -> dict[str, int]:
    """Count the instances by confidence."""
    values = np.concatenate([one.confidence for one in chosen])
    counts = np.bincount(values, minlength=3)
    return {
        name: int(counts[value]) for name, value in zip(LEVELS, (HIGH, MEDIUM, LOW), strict=True)
    }


def match_table(
    chosen: Sequence[Chosen], matched: Sequence[tuple[GroupArrivals, Bool]]
) -> dict[str, Any]:
    """Summarise how the instances were matched and what was omitted (``matched``: row masks)."""
    level = np.concatenate([one.match.level[rows & one.eligible] for one, rows in matched])
    overlap = np.concatenate([one.match.overlap[rows & one.eligible] for one, rows in matched])
    tested = overlap[overlap >= 0]
    counts = np.bincount(level, minlength=5)
    return {
        "level": int(counts.argmax()),
        "levels": {str(i): int(counts[i]) for i in range(1, 5) if counts[i]},
        **confidence_counts(chosen),
        "mismatched": sum(
            int((one.match.complete & ~one.match.agrees)[rows].sum()) for one, rows in matched
        ),
        "incomplete": sum(int((~one.match.complete)[rows].sum()) for one, rows in matched),
        "overlap_pass_ratio": float(tested.mean()) if len(tested) else None,
    }


def end_times(chosen: Sequence[Chosen], labels: Sequence[str]) -> dict[str, float]:
    """Return the end of each rank's last collective, µs after the first start of all."""
    first = min(int(one.start_ns.min()) for one in chosen)
    ends: dict[str, int] = {}
    for one in chosen:
        for index, end in zip(one.members.tolist(), one.ends.last.tolist(), strict=True):
            ends[labels[index]] = max(ends.get(labels[index], end), end)
    return {label: microseconds(end - first) for label, end in ends.items()}
