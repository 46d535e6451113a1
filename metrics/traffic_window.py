"""Slack between traffic of different parallel dimensions: when a network could be reconfigured."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from metrics.dimensions import DIMS, MODES
from metrics.directory import metric_cal as metric_cal_of
from metrics.envelope import answer, source_of
from metrics.hardware import positive_number
from metrics.intervals import Intervals, union
from metrics.refusal import refuse
from metrics.registry import Metric
from metrics.result import Result
from metrics.statistics import median, microseconds, nearest_rank

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from metrics.calls import Calls
    from metrics.rank_view import RankView
    from metrics.view import View

MERGE_OVERRIDE: Final = "merge_us"
DEFAULT_MERGE_US: Final = 10.0
UNKNOWN: Final = "unknown"


Pairs = dict[tuple[str, str], list[int]]
"""Windows in ns by the dimensions before and after."""


@dataclass(frozen=True, slots=True)
class Burst:
    """Traffic of one dimension without a gap above the threshold, in ns."""

    dim: str
    start: int
    end: int


def compute(view: View) -> Result:
    """Windows between consecutive bursts of different dimensions, rank by rank and step by step."""
    if not any(len(rank.selected_calls) for rank in view.ranks):
        raise refuse("no_collectives", "no collective in the selection")
    given = positive_number(view, MERGE_OVERRIDE)
    merge_us = DEFAULT_MERGE_US if given is None else given
    merge_ns = round(merge_us * 1000)
    trains = {rank.label: list(_bursts(view, rank, merge_ns)) for rank in view.ranks}
    told = {b.dim for parts in trains.values() for part in parts for b in part} - {UNKNOWN}
    if len(told) < 2:
        found = ", ".join(sorted(told)) or "none"
        raise refuse(
            "not_applicable",
            f"windows lie between two dimensions of parallelism; the traffic here tells: {found}",
        )
    windows = {label: _windows(parts) for label, parts in trains.items()}
    pairs = _merged(windows.values())
    known = [ns for (a, b), values in pairs.items() if UNKNOWN not in (a, b) for ns in values]
    if not known:
        raise refuse("not_applicable", "no burst follows one of another known dimension")
    source, warnings = source_of(view.ranks)
    details: dict[str, Any] = {
        "p50_window_us": microseconds(median(known) or 0),
        "windows": _table(pairs),
        "idle_gaps": _idle_gaps(trains.values()),
        "merge_us": merge_us,
        "mode": _mode(view),
        "num_bursts": _counts(trains.values()),
        "num_windows": len(known),
        "per_rank": {label: {"windows": _table(found)} for label, found in windows.items()},
    }
    return answer(
        METRIC,
        view,
        details,
        source=source,
        basis={
            "window": "start of a burst minus end of the burst before it; negative is an overlap",
            "burst": "collectives of one dimension with gaps up to merge_us",
            "clock": "each rank's own",
        },
        warnings=warnings,
    )


def _bursts(view: View, rank: RankView, merge_ns: int) -> Iterator[list[Burst]]:
    """Bursts of each step in order of start; of the whole trace where no steps are measured."""
    on_device = rank.calls.event_group == "gpu"
    calls = rank.device_calls if on_device else rank.selected_calls
    dims, _ = view.dims_of(calls)
    traffic = {DIMS[dim]: _traffic(calls.take(dims == dim), merge_ns) for dim in np.unique(dims)}
    for _, start, end in rank.step_windows:
        found = []
        for dim, bursts in traffic.items():
            inside = bursts.clip(start, end)
            edges = zip(inside.start_ns.tolist(), inside.end_ns.tolist(), strict=True)
            found += [Burst(dim, *edge) for edge in edges]
        yield sorted(found, key=lambda burst: (burst.start, burst.end, burst.dim))


def _traffic(calls: Calls, merge_ns: int) -> Intervals:
    """The time of calls with gaps up to ``merge_ns`` closed."""
    busy = union(calls.start_ns, calls.end_ns)
    if not len(busy):
        return busy
    opens = np.append(True, busy.start_ns[1:] - busy.end_ns[:-1] > merge_ns)
    return Intervals(busy.start_ns[opens], busy.end_ns[np.append(opens[1:], True)])


def _windows(parts: Sequence[list[Burst]]) -> Pairs:
    found: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for bursts in parts:
        for before, after in pairwise(bursts):
            if before.dim != after.dim:
                found[before.dim, after.dim].append(after.start - before.end)
    return found


def _merged(parts: Iterable[Pairs]) -> Pairs:
    found: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for part in parts:
        for pair, values in part.items():
            found[pair] += values
    return found


def _table(pairs: Pairs) -> dict[str, Any]:
    return {f"{a}->{b}": _row(values) for (a, b), values in sorted(pairs.items())}


def _row(values: Sequence[int]) -> dict[str, Any]:
    return {
        "count": len(values),
        "total_us": microseconds(sum(value for value in values if value > 0)),
        "min_us": microseconds(min(values)),
        "p50_us": microseconds(median(values) or 0),
        "p95_us": microseconds(nearest_rank(values, 0.95) or 0),
        "max_us": microseconds(max(values)),
        "overlaps": sum(value < 0 for value in values),
    }


def _idle_gaps(trains: Iterable[list[list[Burst]]]) -> dict[str, Any]:
    """Gaps between consecutive bursts of one dimension, whatever the others do meanwhile."""
    gaps: defaultdict[str, list[int]] = defaultdict(list)
    for parts in trains:
        for bursts in parts:
            for dim in {burst.dim for burst in bursts}:
                own = [burst for burst in bursts if burst.dim == dim]
                gaps[dim] += [after.start - before.end for before, after in pairwise(own)]
    return {
        dim: {
            "count": len(values),
            "total_us": microseconds(sum(values)),
            "p50_us": None if not values else microseconds(median(values) or 0),
        }
        for dim, values in sorted(gaps.items())
    }


def _counts(trains: Iterable[list[list[Burst]]]) -> dict[str, int]:
    counts: defaultdict[str, int] = defaultdict(int)
    for parts in trains:
        for bursts in parts:
            for burst in bursts:
                counts[burst.dim] += 1
    return dict(sorted(counts.items()))


def _mode(view: View) -> str:
    """The rule that told the dimensions; mixed where several did."""
    modes = {
        MODES[mode]
        for rank in view.ranks
        for mode in np.unique(view.dims_of(rank.selected_calls)[1])
    } - {UNKNOWN}
    return next(iter(modes)) if len(modes) == 1 else "mixed" if modes else UNKNOWN


METRIC = Metric(
    name="traffic_window",
    unit="us",
    definition=(
        "Median time from the end of a burst of collectives of one parallel dimension to the "
        "start of the next burst of another, per rank and step; negative where they overlap."
    ),
    needs=("collectives of 2 parallel dimensions", "process groups or a card that tell them"),
    keys=(
        "p50_window_us",
        "windows",
        "idle_gaps",
        "merge_us",
        "mode",
        "num_bursts",
        "num_windows",
        "per_rank",
    ),
    headline="p50_window_us",
    compute=compute,
    label="traffic window",
    category="communication",
    parameters={MERGE_OVERRIDE: "gaps up to here do not end a burst, µs; 10 unless given"},
)
metric_cal = metric_cal_of(METRIC.name)
