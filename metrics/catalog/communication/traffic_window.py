"""Time between traffic of different dimensions, in which a network could be reconfigured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.intervals import Intervals, union
from ccltui.metrics.arrays.reductions import distinct_values, median_along
from ccltui.metrics.arrays.statistics import microseconds
from ccltui.metrics.collectives.matching.validity import middle_and_rank
from ccltui.metrics.metric import metric
from ccltui.metrics.model.dimensions import DIMS, MODES
from ccltui.metrics.result import Result
from ccltui.metrics.unavailable import refuse
from ccltui.metrics.view.config_conflicts import degree_conflicts
from ccltui.metrics.view.overrides import positive_number
from ccltui.metrics.view.provenance import call_answer
from ccltui.parsers.array_types import I64, Bool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ccltui.metrics.model.calls import Calls
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView

MERGE_OVERRIDE: Final = "merge_us"
DEFAULT_MERGE_US: Final = 10.0
UNKNOWN: Final = "unknown"
_UNKNOWN: Final = DIMS.index(UNKNOWN)


class Bursts(Struct, frozen=True):
    """Traffic without gaps above the threshold, in order of step and start; ns, one length.

    ``dim`` indexes DIMS, ``step`` the measured steps.
    """

    step: I64
    dim: I64
    start: I64
    end: I64

    @property
    def windows(self) -> tuple[I64, I64]:
        """Time from each burst to the next of another dimension in its step, and their pair."""
        follows = (self.step[1:] == self.step[:-1]) & (self.dim[1:] != self.dim[:-1])
        pair = self.dim[:-1] * len(DIMS) + self.dim[1:]
        return (self.start[1:] - self.end[:-1])[follows], pair[follows]


@metric(
    unit="us",
    definition=(
        "Median time in µs from the end of a burst of collectives of one parallel dimension to "
        "the start of the next burst of another, per rank and step; negative where they "
        "overlap."
    ),
    needs=("collectives of 2 parallel dimensions", "process groups, or a card that states them"),
    facts=("calls",),
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
    label="traffic window",
    parameters={MERGE_OVERRIDE: "gaps up to here do not end a burst, µs; 10 unless given"},
)
def traffic_window(view: View) -> Result:
    """Windows between consecutive bursts of different dimensions, rank by rank and step by step."""
    if not any(len(rank.selected_calls) for rank in view.ranks):
        raise refuse("no_collectives", "no collective in the selection")
    given = positive_number(view, MERGE_OVERRIDE)
    merge_us = DEFAULT_MERGE_US if given is None else given
    bursts = {rank.label: _bursts(view, rank, round(merge_us * 1000)) for rank in view.ranks}
    known = {DIMS[dim] for one in bursts.values() for dim in distinct_values(one.dim)} - {UNKNOWN}
    if len(known) < 2:
        found = ", ".join(sorted(known)) or "none"
        raise refuse(
            "not_applicable",
            f"a window lies between traffic of two parallel dimensions; found: {found}",
        )
    windows = {label: one.windows for label, one in bursts.items()}
    length = np.concatenate([values for values, _ in windows.values()])
    pair = np.concatenate([pairs for _, pairs in windows.values()])
    known = length[(pair // len(DIMS) != _UNKNOWN) & (pair % len(DIMS) != _UNKNOWN)]
    if not len(known):
        raise refuse("not_applicable", "no burst of traffic follows one of another known dimension")
    details: dict[str, Any] = {
        "p50_window_us": microseconds(float(median_along(known))),
        "windows": _table(length, pair),
        "idle_gaps": _idle_gaps(list(bursts.values())),
        "merge_us": merge_us,
        "mode": _mode(view),
        "num_bursts": _counts(list(bursts.values())),
        "num_windows": len(known),
        "per_rank": {label: {"windows": _table(*found)} for label, found in windows.items()},
    }
    return call_answer(
        traffic_window,
        view,
        details,
        basis={
            "window": "start of a burst minus end of the burst before it; negative is an overlap",
            "burst": "collectives of one dimension with gaps up to merge_us",
            "clock": "each rank's own",
        },
        reasons=degree_conflicts(view),
    )


def _bursts(view: View, rank: RankView, merge_ns: int) -> Bursts:
    """Bursts of a rank, cut at the ends of steps; all in step 0 where no steps are measured."""
    on_device = rank.recorded_calls.event_group == "gpu"
    calls = view.with_dims(rank, rank.device_calls if on_device else rank.selected_calls)
    dims, _ = view.dims_of(calls)
    steps = _steps(rank)
    columns: list[tuple[I64, I64, I64, I64]] = []
    for dim in distinct_values(dims).tolist():
        traffic = _traffic(calls, dims == dim, merge_ns) & steps
        step = np.searchsorted(steps.start_ns, traffic.start_ns, side="right") - 1
        columns.append((step, np.full(len(step), dim), traffic.start_ns, traffic.end_ns))
    if not columns:
        return Bursts(*np.empty((4, 0), np.int64))
    step, dim, start, end = (np.concatenate(column) for column in zip(*columns, strict=True))
    order = np.lexsort((dim, end, start, step))
    return Bursts(step[order], dim[order], start[order], end[order])


def _steps(rank: RankView) -> Intervals:
    """Windows of the steps, which touch where one step follows another."""
    rows = sorted((start, end) for _, start, end in rank.step_windows)
    start, end = np.array(rows, np.int64).reshape(-1, 2).T
    return Intervals(start, end)


def _traffic(calls: Calls, rows: Bool, merge_ns: int) -> Intervals:
    """Intervals of some calls (mask), with gaps up to ``merge_ns`` closed."""
    busy = union(calls.start_ns[rows], calls.end_ns[rows])
    if not len(busy):
        return busy
    opens = np.append(True, busy.start_ns[1:] - busy.end_ns[:-1] > merge_ns)
    return Intervals(busy.start_ns[opens], busy.end_ns[np.append(opens[1:], True)])


def _table(length: I64, pair: I64) -> dict[str, Any]:
    """Statistics of the windows of each pair of dimensions, "before->after"."""
    rows = {
        f"{DIMS[code // len(DIMS)]}->{DIMS[code % len(DIMS)]}": _row(length[pair == code])
        for code in distinct_values(pair).tolist()
    }
    return dict(sorted(rows.items()))


def _row(length: I64) -> dict[str, Any]:
    middle, p95 = middle_and_rank(length, 0.95)
    return {
        "count": len(length),
        "total_us": microseconds(int(length[length > 0].sum())),
        "min_us": microseconds(int(length.min())),
        "p50_us": microseconds(middle),
        "p95_us": microseconds(p95),
        "max_us": microseconds(int(length.max())),
        "overlaps": int((length < 0).sum()),
    }


def _idle_gaps(trains: Sequence[Bursts]) -> dict[str, Any]:
    """Gaps between consecutive bursts of one dimension, regardless of the other dimensions."""
    table = {}
    for dim in sorted({int(dim) for one in trains for dim in distinct_values(one.dim)}):
        parts = []
        for one in trains:
            own = one.dim == dim
            step, start, end = one.step[own], one.start[own], one.end[own]
            parts.append((start[1:] - end[:-1])[step[1:] == step[:-1]])
        gaps = np.concatenate(parts)
        table[DIMS[dim]] = {
            "count": len(gaps),
            "total_us": microseconds(int(gaps.sum())),
            "p50_us": microseconds(float(median_along(gaps))) if len(gaps) else None,
        }
    return dict(sorted(table.items()))


def _counts(trains: Sequence[Bursts]) -> dict[str, int]:
    counts = np.bincount(np.concatenate([one.dim for one in trains]), minlength=len(DIMS))
    return {dim: int(n) for dim, n in sorted(zip(DIMS, counts, strict=True)) if n}


def _mode(view: View) -> str:
    """The rule that determined the dimensions; "mixed" for several rules."""
    modes = {
        MODES[mode]
        for rank in view.ranks
        for mode in distinct_values(view.dims_of(view.with_dims(rank, rank.selected_calls))[1])
    } - {UNKNOWN}
    return next(iter(modes)) if len(modes) == 1 else "mixed" if modes else UNKNOWN


metric_cal = traffic_window.document_of
