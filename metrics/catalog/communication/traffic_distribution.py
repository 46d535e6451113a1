"""Communication traffic by parallel dimension.

Where groups, degrees and named operations tell no dimension, the heuristic of CCL-Bench assigns
each call by its type. Its values stand where all would be null, and beside the others otherwise: an
all-reduce may serve data or tensor parallelism, so a heuristic value never replaces a known one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec import Struct, field

from ccltui.metrics.arrays.reductions import distinct_values
from ccltui.metrics.arrays.statistics import ratio
from ccltui.metrics.metric import metric
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.model.dimensions import DIMS, MODES
from ccltui.metrics.result import Reason, Result
from ccltui.metrics.unavailable import refuse
from ccltui.metrics.view.config_conflicts import degree_conflicts
from ccltui.metrics.view.provenance import call_answer
from ccltui.metrics.workload.call_parts import Traffic

if TYPE_CHECKING:
    from ccltui.metrics.model.calls import Calls
    from ccltui.metrics.model.dimensions import Degrees
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView
    from ccltui.parsers.array_types import I8, Bool

_UNKNOWN: Final = DIMS.index("unknown")
HEURISTIC: Final = (
    "by the type of the operation: SendRecv is pp (ep where only ep is stated), AllToAll ep, "
    "ReduceScatter and AllGather dp, AllReduce tp (each the other one where only that is stated): "
    "dp and tp may be exchanged, and a SendRecv may be an all-to-all"
)


def guessed_dims(calls: Calls, dims: I8, degrees: Degrees) -> I8:
    """Return the dimension of each call, by its type where no rule tells it.

    Args:
        calls: Calls of a rank.
        dims: Indices into DIMS by the rules.
        degrees: Degrees of the job, which exclude dimensions.
    """
    found = dims.copy()
    for kind, dim in _by_type(degrees).items():
        found[(dims == _UNKNOWN) & (calls.kind == TYPES.index(kind))] = DIMS.index(dim)
    return found


def _by_type(degrees: Degrees) -> dict[str, str]:
    data = max(degrees.dp_replicate or 1, degrees.dp_shard or 1) > 1
    tensor = (degrees.tp or 1) > 1
    experts_only = (degrees.ep or 1) > 1 and (degrees.pp or 1) == 1
    sharded = "tp" if tensor and not data else "dp"
    reduced = "dp" if data and not tensor else "tp"
    return {
        **dict.fromkeys(("Send", "Recv"), "pp"),
        "SendRecv": "ep" if experts_only else "pp",
        "AllToAll": "ep",
        **dict.fromkeys(("ReduceScatter", "AllGather"), sharded),
        "AllReduce": reduced,
    }


_Row: TypeAlias = tuple[str, str | tuple[str, str], "Bool"]
"""Table of `Sums`, key of a part, and mask of its calls."""


def _parts(view: View, calls: Calls) -> tuple[list[_Row], set[str]]:
    """Return the parts of some calls, and how their dimensions follow."""
    dims, modes = view.dims_of(calls)
    tables = ("dims", dims), ("guessed", guessed_dims(calls, dims, view.degrees))
    found: list[_Row] = [
        (table, DIMS[dim], of_calls == dim)
        for table, of_calls in tables
        for dim in distinct_values(of_calls)
    ]
    for group in distinct_values(calls.group[calls.group >= 0]):
        named = view.group(group)
        if named.axis and named.axis != named.dim:
            found.append(("axes", (named.dim, named.axis), calls.group == group))
    found += [("types", TYPES[kind], calls.kind == kind) for kind in distinct_values(calls.kind)]
    return found, {MODES[mode] for mode in distinct_values(modes)} - {"unknown"}


class Sums(Struct):
    """Traffic of the job by dimension, by part of a dimension, and by type.

    ``guessed`` is by dimension too, with the heuristic for calls of unknown dimension.
    """

    dims: defaultdict[str, Traffic] = field(default_factory=lambda: defaultdict(Traffic))
    guessed: defaultdict[str, Traffic] = field(default_factory=lambda: defaultdict(Traffic))
    axes: defaultdict[tuple[str, str], Traffic] = field(
        default_factory=lambda: defaultdict(Traffic)
    )
    types: defaultdict[str, Traffic] = field(default_factory=lambda: defaultdict(Traffic))
    modes: set[str] = field(default_factory=set)

    def add(self, view: View, rank: RankView) -> None:
        """Take the selected calls of one rank."""
        calls = rank.counted(view.with_dims(rank, rank.running_calls))
        parts, modes = view.of_alike(Sums, calls, lambda: _parts(view, calls))
        for table, key, rows in parts:
            getattr(self, table)[key].add(view, rank, calls, rows)
        self.modes |= modes

    @property
    def mode(self) -> str | None:
        """The rule that determined the dimensions; "mixed" for several rules, None for none."""
        if len(self.modes) == 1:
            return next(iter(self.modes))
        return "mixed" if self.modes else None

    @property
    def sized(self) -> int:
        """Number of calls that state their size."""
        return sum(part.sized for part in self.dims.values())

    @property
    def is_guessed(self) -> bool:
        """Whether the heuristic gives the values: no rule tells a dimension, or no call a size."""
        unsized = not self.sized and any(part.countable for part in self.dims.values())
        return unsized or (self.undetermined > 0 and not set(self.dims) - {"unknown"})

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
        "their group; a transfer between two ranks counts once, at its sender. Where no group, "
        "degree or named operation tells a dimension, or no call states its size, the parts are "
        "those of the heuristic of CCL-Bench, by the type of each operation, and the result is "
        "partial; without sizes they are shares of time. by_dim never uses it."
    ),
    needs=("collectives with sizes", "process groups"),
    facts=("calls",),
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
        "fractions_of",
        "heuristic_fractions",
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
    return call_answer(
        traffic_distribution,
        view,
        _details(sums),
        basis=_basis(sums),
        reasons=[*_reasons(sums), *degree_conflicts(view)],
    )


def _basis(sums: Sums) -> dict[str, str]:
    basis = {"bytes_basis": "message", "time": "union per rank"}
    if sums.is_guessed or sums.undetermined:
        basis["heuristic"] = HEURISTIC
    return basis


def _reasons(sums: Sums) -> list[Reason]:
    """Reasons for what is unknown of some calls: their size, their dimension."""
    countable = sum(part.countable for part in sums.dims.values())
    unsized = countable - sums.sized
    reasons = []
    if unsized:
        text = f"{unsized} of {countable} calls do not state their size"
        reasons.append(Reason("no_message_size", text))
    if sums.undetermined:
        text = (
            f"no group, degree or operation tells the dimension of {sums.undetermined} of "
            f"{countable} calls"
        )
        if sums.is_guessed:
            text += "; they are divided by type, where dp and tp may be exchanged"
        reasons.append(Reason("no_process_groups", text))
    return reasons


def _details(sums: Sums) -> dict[str, Any]:
    strict = {dim: sums.part(dim) for dim in DIMS}
    guessed = {dim: sums.guessed.get(dim, Traffic()) for dim in DIMS}
    parts = guessed if sums.is_guessed else strict
    volume = {dim: None if part is None else part.message_bytes for dim, part in parts.items()}
    time = {dim: None if part is None else part.time_ns for dim, part in strict.items()}
    by_dim = {dim: sums.dims[dim].row() for dim in DIMS if dim in sums.dims}
    for (dim, axis), part in sorted(sums.axes.items()):
        by_dim[dim].setdefault("parts", {})[axis] = part.row()
    every = sums.dims.values()
    countable = sum(part.countable for part in every)
    by_time = bool(countable and not sums.sized)
    of_guess = {
        dim: part.time_ns if by_time else part.message_bytes for dim, part in guessed.items()
    }
    return {
        **{f"{dim}_bytes": None if by_time else amount for dim, amount in volume.items()},
        "total_bytes": None if by_time else sum(part.summed_bytes for part in every),
        "fractions": _shares(of_guess if sums.is_guessed else volume),
        "fractions_of": "time" if by_time else "bytes",
        "heuristic_fractions": _shares(of_guess) if sums.is_guessed or sums.undetermined else None,
        "mode": _mode(sums),
        "bytes_basis": "message",
        "total_comm_calls": sum(part.calls for part in every),
        "by_dim": by_dim,
        "time_fractions": _shares(time),
        "by_type": {kind: part.row() for kind, part in sorted(sums.types.items())},
        "bytes_coverage": ratio(sums.sized, countable),
    }


def _mode(sums: Sums) -> str | None:
    if not (sums.is_guessed and sums.undetermined):
        return sums.mode
    return "heuristic" if sums.mode in (None, "heuristic") else "mixed"


def _shares(amounts: Mapping[str, int | None]) -> dict[str, float | None]:
    """Each amount over the sum of those that are known."""
    total = sum(amount for amount in amounts.values() if amount is not None)
    return {
        dim: None if amount is None else ratio(amount, total) for dim, amount in amounts.items()
    }


metric_cal = traffic_distribution.document_of
