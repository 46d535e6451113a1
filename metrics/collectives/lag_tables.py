"""Build the JSON tables of `straggler_lag` from the selected instances."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ccltui.metrics.arrays.reductions import distinct_values, row_max, row_min
from ccltui.metrics.arrays.statistics import microseconds, ratio
from ccltui.metrics.collectives.arrivals import GroupArrivals
from ccltui.metrics.collectives.blame import Chosen, Tally
from ccltui.metrics.collectives.clocks.clock_model import ClockModel
from ccltui.metrics.collectives.matching.match import HIGH, LOW, MEDIUM
from ccltui.metrics.collectives.matching.validity import middle_and_rank
from ccltui.parsers.array_types import I64, Bool


def transfer_ns(one: Chosen) -> I64:
    """Return the transfer of each instance, int64 ns [n]: the shortest duration over its ranks.

    The last rank to arrive does not wait. What exceeds its duration on another rank is waiting.
    """
    return row_min(one.dur_ns)


def wait_and_transfer(one: Chosen, rows: Bool) -> tuple[int, int]:
    """Return waiting and transfer of some instances (mask), ns summed over all members."""
    size = len(one.members)
    return int(one.lateness.wait_ns[rows].sum()), size * int(transfer_ns(one)[rows].sum())


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
    known = [one for one in chosen if one.aligned is not None]
    ends = [one.start_ns + one.dur_ns for one in known]
    spreads = [row_max(end) - row_min(end) for end in ends]
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
    return {
        labels[i]: {
            "due_wait_us": microseconds(int(due_ns[i])),
            "last_count": int(found.last_count[i]),
            "last_share": float(found.last_share[i]) if found.took_part[i] else None,
            "blamed_share": float(found.blamed_share[i]) if found.last_count.any() else None,
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
        last = (one.start_ns + one.dur_ns).max(axis=0)
        for index, end in zip(one.members.tolist(), last.tolist(), strict=True):
            ends[labels[index]] = max(ends.get(labels[index], end), end)
    return {label: microseconds(end - first) for label, end in ends.items()}
