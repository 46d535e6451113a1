"""Overlap of communication with computation, and the exposed remainder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import astuple

from ccltui.metrics.arrays.statistics import milliseconds, over_ranks, ratio
from ccltui.metrics.device.device_time import device_answer, device_ranks
from ccltui.metrics.metric import metric
from ccltui.metrics.model.classify import COMM, COMP, MEM
from ccltui.metrics.result import Result
from ccltui.metrics.unavailable import refuse
from ccltui.metrics.workload.call_parts import Split, by_dim, by_group, by_type, parts_of

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView

NOTE = (
    "time in collective kernels includes waiting for the other ranks: "
    "a high overlap may hide a straggler, see straggler_lag"
)


_SPLITS: Final[Mapping[str, Split[str]]] = {
    "by_type": by_type,
    "by_group": by_group,
    "by_dim": by_dim,
}
_Sums = dict[str, tuple[int, int, int]]
"""By part: ns of communication, ns of it under computation, calls."""


class Overlap(Struct, frozen=True):
    """Lengths in ns over the windows of one rank, exact."""

    window: int
    comm: int
    comp: int
    mem: int
    overlap: int
    idle: int
    comm_sum: int
    comp_sum: int
    span: int  # first start to last end, gaps between steps included
    span_idle: int
    num_comm: int
    num_comp: int

    @property
    def exposed(self) -> int:
        """Communication during which nothing is computed."""
        return self.comm - self.overlap


def _is_named(view: View) -> bool:
    """Whether the user restricts computation to kernels with a matrix product in their name."""
    asked = view.card.text("compute_set")
    if asked not in ("", "all", "named"):
        raise refuse("card_invalid", f"compute_set = {asked!r} is neither all nor named")
    return asked == "named"


@metric(
    unit="ratio",
    definition=(
        "Share of the communication time during which a computing kernel runs: |C and K| / |C| "
        "in the step windows, with the unions C of communication and K of computation over all "
        "streams, summed over ranks."
    ),
    needs=("GPU kernels", "collective kernels"),
    facts=("busy", "calls", "sums"),
    keys=(
        "comm_time_ms",
        "comp_time_ms",
        "overlap_time_ms",
        "overlap_ratio_of_comm",
        "overlap_ratio_of_comp",
        "exposed_comm_ms",
        "exposed_comm_pct_of_step",
        "mem_time_ms",
        "idle_ms",
        "window_ms",
        "span_ms",
        "span_idle_ms",
        "comm_sum_ms",
        "comp_sum_ms",
        "num_comm_kernels",
        "num_comp_kernels",
        "compute_set",
        "per_rank",
        "across_ranks",
        "by_type",
        "by_group",
        "by_dim",
        "uncorrelated",
    ),
    headline="overlap_ratio_of_comm",
    sums=(lambda view, rank: _measured_of(view, rank, named=_is_named(view)),),
    parameters={
        "compute_set": "named: only kernels with a matrix product in their name compute; else all"
    },
    aliases=("comm_comp_overlap_16",),
    label="hidden communication",
    higher_is_better=True,
)
def comm_comp_overlap(view: View) -> Result:
    """Overlap of the two sets of intervals, per rank and over ranks."""
    named = _is_named(view)
    ranks = device_ranks(view)
    parts, tables = _measured(view, ranks, named=named)
    if not any(part.num_comm or part.comm for part in parts.values()):
        raise refuse("no_collectives", "no collective kernel in the measured time")
    columns = zip(*map(astuple, parts.values()), strict=True)
    total = Overlap(*(sum(column) for column in columns))
    details = {
        **_row(
            total,
            num_ranks=len(parts),
            exposed_comm_pct_of_step=100 * total.exposed / total.window,
        ),
        "compute_set": "named" if named else "all",
        "per_rank": {label: _row(part) for label, part in parts.items()},
        "across_ranks": _across_ranks(parts),
        **{name: _breakdown(table, len(ranks)) for name, table in tables.items()},
        "uncorrelated": sum(rank.num_uncorrelated for rank in ranks),
    }
    return device_answer(
        comm_comp_overlap,
        view,
        details,
        basis={"aggregate": "mean over ranks; ratios from sums", "note": NOTE},
    )


def _measured(
    view: View, ranks: Sequence[RankView], *, named: bool
) -> tuple[dict[str, Overlap], dict[str, _Sums]]:
    """Each rank measured, and the sums over ranks of each part of its communication.

    Rank by rank: the intervals of all ranks of a large job do not fit into memory.
    """
    parts: dict[str, Overlap] = {}
    tables: dict[str, _Sums] = {name: {} for name in _SPLITS}
    for rank in ranks:
        parts[rank.label], of_rank = _measured_of(view, rank, named=named)
        for table, rows in of_rank.items():
            for name, found in rows.items():
                comm, both, calls = tables[table].get(name, (0, 0, 0))
                tables[table][name] = (comm + found[0], both + found[1], calls + found[2])
    return parts, tables


def _measured_of(view: View, rank: RankView, *, named: bool) -> tuple[Overlap, dict[str, _Sums]]:
    def measured() -> tuple[Overlap, dict[str, _Sums]]:
        comp = rank.named_comp if named else rank.comp
        parts = {table: parts_of(view, rank, split) for table, split in _SPLITS.items()}
        # The only type, group and dimension of a rank have one set of times.
        sets = {id(comm): comm for every in parts.values() for _, comm, _ in every}
        lengths = {key: (comm.total_ns, (comm & comp).total_ns) for key, comm in sets.items()}
        tables = {
            table: {name: (*lengths[id(comm)], started) for name, comm, started in every}
            for table, every in parts.items()
        }
        return measure(rank, named=named), tables

    return rank.sum_up((_measured_of, named), measured)


def measure(rank: RankView, *, named: bool = False) -> Overlap:
    """Communication, computation and their overlap on one rank, over its windows."""
    sums = rank.device_sums(named=named)
    times, untimed = sums.times, rank.num_untimed
    comm, comp = times.any_of(COMM), times.any_of(COMP)
    return Overlap(
        window=rank.window_ns,
        comm=comm,
        comp=comp,
        mem=times.any_of(MEM),
        overlap=comm + comp - times.any_of(COMM, COMP),
        idle=rank.window_ns - times.busy_ns,
        comm_sum=sums.summed_ns[COMM],
        comp_sum=sums.summed_ns[COMP],
        span=rank.span.total_ns,
        span_idle=rank.span_idle_ns,
        num_comm=sums.started[COMM] + (untimed(COMM) if rank.selection.chosen is None else 0),
        num_comp=sums.started[COMP] + (0 if named else untimed(COMP)),
    )


def _row(part: Overlap, *, num_ranks: int = 1, **after_exposed: float) -> dict[str, Any]:
    """Times of a rank, or means over ranks of a sum; ratios and numbers are of what is given."""

    def mean_ms(time_ns: int) -> float:
        return milliseconds(time_ns) / num_ranks

    return {
        "comm_time_ms": mean_ms(part.comm),
        "comp_time_ms": mean_ms(part.comp),
        "overlap_time_ms": mean_ms(part.overlap),
        "overlap_ratio_of_comm": ratio(part.overlap, part.comm),
        "overlap_ratio_of_comp": ratio(part.overlap, part.comp),
        "exposed_comm_ms": mean_ms(part.exposed),
        **after_exposed,
        "mem_time_ms": mean_ms(part.mem),
        "idle_ms": mean_ms(part.idle),
        "window_ms": mean_ms(part.window),
        "span_ms": mean_ms(part.span),
        "span_idle_ms": mean_ms(part.span_idle),
        "comm_sum_ms": mean_ms(part.comm_sum),
        "comp_sum_ms": mean_ms(part.comp_sum),
        "num_comm_kernels": part.num_comm,
        "num_comp_kernels": part.num_comp,
    }


def _across_ranks(parts: Mapping[str, Overlap]) -> dict[str, Any]:
    return {
        f"{name}_ms": over_ranks({k: getattr(part, of) for k, part in parts.items()}, milliseconds)
        for name, of in (
            ("comm_time", "comm"),
            ("comp_time", "comp"),
            ("overlap_time", "overlap"),
            ("exposed_comm", "exposed"),
        )
    }


def _breakdown(sums: _Sums, num_ranks: int) -> dict[str, Any]:
    """The same for each part; parts may overlap, so they do not add up."""
    return {
        name: {
            "comm_time_ms": milliseconds(comm) / num_ranks,
            "overlap_time_ms": milliseconds(overlap) / num_ranks,
            "exposed_comm_ms": milliseconds(comm - overlap) / num_ranks,
            "overlap_ratio_of_comm": ratio(overlap, comm),
            "num_comm_kernels": count,
        }
        for name, (comm, overlap, count) in sorted(sums.items())
    }


metric_cal = comm_comp_overlap.document_of
