"""Which dimension of parallelism causes the traffic."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from metrics.classify import TYPES
from metrics.dimensions import DIMS, MODES
from metrics.directory import metric_cal as metric_cal_of
from metrics.envelope import answer, source_of
from metrics.intervals import union
from metrics.refusal import refuse
from metrics.registry import Metric
from metrics.result import Reason, Result
from metrics.statistics import milliseconds, ratio

if TYPE_CHECKING:
    from metrics.calls import Calls
    from metrics.rank_view import RankView
    from metrics.view import View
    from parsers.columns import Bool

_RECV, _BARRIER = TYPES.index("Recv"), TYPES.index("Barrier")


@dataclass(slots=True)
class Traffic:
    """Sums over ranks of one dimension, one of its parts, or one type."""

    calls: int = 0
    message_bytes: int = 0
    wire_bytes: int = 0
    wired: int = 0  # of the sized calls, those whose group size is known
    sized: int = 0  # calls that count bytes and know them
    time_ns: int = 0  # union per rank, summed over ranks
    ranks: set[str] = field(default_factory=set)

    def add(self, rank: RankView, calls: Calls, rows: Bool) -> None:
        """Take the calls of one rank; a transfer counts its bytes where it is sent."""
        known = rows & counts_bytes(calls) & (calls.message_bytes >= 0)
        wired = known & (calls.wire_bytes >= 0)
        busy = union(calls.start_ns[rows], calls.end_ns[rows])
        clipped = busy.clip(rank.selection.start_ns, rank.selection.end_ns)
        self.calls += int(rows.sum())
        self.sized += int(known.sum())
        self.wired += int(wired.sum())
        self.message_bytes += int(calls.message_bytes[known].sum())
        self.wire_bytes += int(calls.wire_bytes[wired].sum())
        self.time_ns += clipped.total_ns
        self.ranks.add(rank.label)

    def row(self, *, has_sizes: bool) -> dict[str, Any]:
        """JSON form; bytes are null where no call of the job, or not every call, tells them."""
        return {
            "calls": self.calls,
            "message_bytes": self.message_bytes if has_sizes else None,
            "wire_bytes": self.wire_bytes if has_sizes and self.wired == self.sized else None,
            "time_ms": milliseconds(self.time_ns) / len(self.ranks),
            "ranks": sorted(self.ranks, key=lambda label: (len(label), label)),
        }


def counts_bytes(calls: Calls) -> Bool:
    """Calls that move bytes of their own: a receive repeats its send, a barrier moves none."""
    return np.asarray((calls.kind != _RECV) & (calls.kind != _BARRIER))


@dataclass(slots=True)
class Sums:
    """Traffic of the job by dimension, by part of a dimension, and by type."""

    dims: defaultdict[str, Traffic] = field(default_factory=lambda: defaultdict(Traffic))
    axes: defaultdict[tuple[str, str], Traffic] = field(
        default_factory=lambda: defaultdict(Traffic)
    )
    types: defaultdict[str, Traffic] = field(default_factory=lambda: defaultdict(Traffic))
    modes: set[str] = field(default_factory=set)
    countable: int = 0

    def add(self, view: View, rank: RankView) -> None:
        """Take the selected calls of one rank."""
        calls = rank.selected_calls
        dims, modes = view.dims_of(calls)
        self.countable += int(counts_bytes(calls).sum())
        for dim in np.unique(dims):
            self.dims[DIMS[dim]].add(rank, calls, dims == dim)
        for group in np.unique(calls.group[calls.group >= 0]):
            axis = view.groups[group].axis
            rows = calls.group == group
            if axis and axis != view.groups[group].dim:
                self.axes[view.groups[group].dim, axis].add(rank, calls, rows)
        for kind in np.unique(calls.kind):
            self.types[TYPES[kind]].add(rank, calls, calls.kind == kind)
        self.modes |= {MODES[mode] for mode in np.unique(modes)} - {"unknown"}

    @property
    def mode(self) -> str:
        """The rule that told the dimensions; "mixed" where several did."""
        if len(self.modes) == 1:
            return next(iter(self.modes))
        return "mixed" if self.modes else "heuristic"


def compute(view: View) -> Result:
    """Sum bytes and time by dimension over all ranks present."""
    sums = Sums()
    for rank in view.ranks:
        if len(rank.selected_calls):
            sums.add(view, rank)
    if not sums.dims:
        raise refuse("no_collectives", "no collective in the selection")
    sized = sum(part.sized for part in sums.dims.values())
    details = _details(sums, has_sizes=sized > 0)
    details["bytes_coverage"] = ratio(sized, sums.countable)
    warnings = []
    if set(sums.dims) == {"unknown"}:
        warnings.append("no_process_groups: no group, degree or operation tells a dimension")
    source, differing = source_of(view.ranks)
    return answer(
        METRIC,
        view,
        details,
        source=source,
        basis={"bytes_basis": "message", "time": "union per rank"},
        reasons=_unsized(sized, sums.countable),
        warnings=[*warnings, *differing],
    )


def _unsized(sized: int, countable: int) -> list[Reason]:
    if sized == countable:
        return []
    missing = countable - sized
    return [Reason("no_message_size", f"{missing} of {countable} calls do not state their size")]


def _details(sums: Sums, *, has_sizes: bool) -> dict[str, Any]:
    volume = {dim: sums.dims[dim].message_bytes if dim in sums.dims else 0 for dim in DIMS}
    total = sum(volume.values())
    time = {dim: sums.dims[dim].time_ns if dim in sums.dims else 0 for dim in DIMS}
    by_dim = {dim: sums.dims[dim].row(has_sizes=has_sizes) for dim in DIMS if dim in sums.dims}
    for (dim, axis), part in sorted(sums.axes.items()):
        by_dim[dim].setdefault("parts", {})[axis] = part.row(has_sizes=has_sizes)
    return {
        **{f"{dim}_bytes": volume[dim] if has_sizes else None for dim in DIMS},
        "total_bytes": total if has_sizes else None,
        "fractions": {dim: ratio(volume[dim], total) for dim in DIMS},
        "mode": sums.mode,
        "bytes_basis": "message",
        "total_comm_calls": sum(part.calls for part in sums.dims.values()),
        "by_dim": by_dim,
        "time_fractions": {dim: ratio(time[dim], sum(time.values())) for dim in DIMS},
        "by_type": {
            kind: part.row(has_sizes=has_sizes) for kind, part in sorted(sums.types.items())
        },
    }


METRIC = Metric(
    name="traffic_distribution",
    unit="bytes",
    definition=(
        "Message bytes of all collectives of the ranks present, by the parallel dimension of "
        "their group; a transfer between two ranks counts where it is sent."
    ),
    needs=("collectives with sizes", "process groups"),
    keys=(
        "dp_bytes",
        "tp_bytes",
        "pp_bytes",
        "ep_bytes",
        "cp_bytes",
        "world_bytes",
        "unknown_bytes",
        "total_bytes",
        "fractions",
        "mode",
        "bytes_basis",
        "total_comm_calls",
        "by_dim",
        "time_fractions",
        "by_type",
        "bytes_coverage",
    ),
    headline="total_bytes",
    compute=compute,
    aliases=("traffic_distribution_16",),
    label="traffic by dimension",
)
metric_cal = metric_cal_of(METRIC.name)
