"""Communication traffic by parallel dimension."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from ccltui.metrics.arrays.reductions import distinct_values
from ccltui.metrics.arrays.statistics import ratio
from ccltui.metrics.metric import metric
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.model.dimensions import DIMS, MODES
from ccltui.metrics.result import Reason, Result
from ccltui.metrics.unavailable import refuse
from ccltui.metrics.view.config_conflicts import degree_conflicts
from ccltui.metrics.view.provenance import answer, source_of
from ccltui.metrics.workload.call_parts import Traffic

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView


class Sums(Struct):
    """Traffic of the job by dimension, by part of a dimension, and by type."""

    dims: defaultdict[str, Traffic] = field(default_factory=lambda: defaultdict(Traffic))
    axes: defaultdict[tuple[str, str], Traffic] = field(
        default_factory=lambda: defaultdict(Traffic)
    )
    types: defaultdict[str, Traffic] = field(default_factory=lambda: defaultdict(Traffic))
    modes: set[str] = field(default_factory=set)

    def add(self, view: View, rank: RankView) -> None:
        """Take the selected calls of one rank."""
        calls = rank.counted(view.with_dims(rank, rank.running_calls))
        dims, modes = view.dims_of(calls)
        for dim in distinct_values(dims):
            self.dims[DIMS[dim]].add(rank, calls, dims == dim)
        for group in distinct_values(calls.group[calls.group >= 0]):
            named = view.group(group)
            if named.axis and named.axis != named.dim:
                self.axes[named.dim, named.axis].add(rank, calls, calls.group == group)
        for kind in distinct_values(calls.kind):
            self.types[TYPES[kind]].add(rank, calls, calls.kind == kind)
        self.modes |= {MODES[mode] for mode in distinct_values(modes)} - {"unknown"}

    @property
    def mode(self) -> str | None:
        """The rule that determined the dimensions; "mixed" for several rules, None for none."""
        if len(self.modes) == 1:
            return next(iter(self.modes))
        return "mixed" if self.modes else None

    @property
    def undetermined(self) -> int:
        """Number of calls that count bytes and whose dimension is unknown."""
        return self.dims["unknown"].countable if "unknown" in self.dims else 0

    def part(self, dim: str) -> Traffic | None:
        """Traffic of a dimension, None where none is known and some calls have no dimension."""
        if dim in self.dims:
            return self.dims[dim]
        return None if self.undetermined and dim != "unknown" else Traffic()


@metric(
    unit="bytes",
    definition=(
        "Message bytes of all collectives of the ranks present, by the parallel dimension of "
        "their group; a transfer between two ranks counts once, at its sender."
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
    aliases=("traffic_distribution_16",),
    label="traffic by dimension",
    parts="fractions",
)
def traffic_distribution(view: View) -> Result:
    """Sum bytes and time by dimension over all ranks present."""
    sums = Sums()
    for rank in view.ranks:
        if len(rank.counted(rank.running_calls)):
            sums.add(view, rank)
    if not sums.dims:
        raise refuse("no_collectives", "no collective in the selection")
    source, warnings = source_of(view.ranks)
    return answer(
        traffic_distribution,
        view,
        _details(sums),
        source=source,
        basis={"bytes_basis": "message", "time": "union per rank"},
        reasons=[*_reasons(sums), *degree_conflicts(view)],
        warnings=warnings,
    )


def _reasons(sums: Sums) -> list[Reason]:
    """Reasons for what is unknown of some calls: their size, their dimension."""
    countable = sum(part.countable for part in sums.dims.values())
    unsized = countable - sum(part.sized for part in sums.dims.values())
    reasons = []
    if unsized:
        text = f"{unsized} of {countable} calls do not state their size"
        reasons.append(Reason("no_message_size", text))
    if sums.undetermined:
        text = (
            f"no group, degree or operation tells the dimension of {sums.undetermined} of "
            f"{countable} calls"
        )
        reasons.append(Reason("no_process_groups", text))
    return reasons


def _details(sums: Sums) -> dict[str, Any]:
    parts = {dim: sums.part(dim) for dim in DIMS}
    volume = {dim: None if part is None else part.message_bytes for dim, part in parts.items()}
    time = {dim: None if part is None else part.time_ns for dim, part in parts.items()}
    by_dim = {dim: sums.dims[dim].row() for dim in DIMS if dim in sums.dims}
    for (dim, axis), part in sorted(sums.axes.items()):
        by_dim[dim].setdefault("parts", {})[axis] = part.row()
    every = sums.dims.values()
    countable, sized = sum(part.countable for part in every), sum(part.sized for part in every)
    return {
        **{f"{dim}_bytes": amount for dim, amount in volume.items()},
        "total_bytes": None
        if countable and not sized
        else sum(part.summed_bytes for part in every),
        "fractions": _shares(volume),
        "mode": sums.mode,
        "bytes_basis": "message",
        "total_comm_calls": sum(part.calls for part in every),
        "by_dim": by_dim,
        "time_fractions": _shares(time),
        "by_type": {kind: part.row() for kind, part in sorted(sums.types.items())},
        "bytes_coverage": ratio(sized, countable),
    }


def _shares(amounts: Mapping[str, int | None]) -> dict[str, float | None]:
    """Each amount over the sum of those that are known."""
    total = sum(amount for amount in amounts.values() if amount is not None)
    return {
        dim: None if amount is None else ratio(amount, total) for dim, amount in amounts.items()
    }


metric_cal = traffic_distribution.document_of
