"""Latency and bandwidth of each operation and group: T = alpha + beta * S (Hockney 1994)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ccltui.metrics.arrays.statistics import microseconds
from ccltui.metrics.metric import metric
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.model.cost_model import Line, fit
from ccltui.metrics.model.dimensions import DIMS
from ccltui.metrics.result import Reason, Result
from ccltui.metrics.unavailable import Refusal, refuse
from ccltui.metrics.view.data_quality import without_device_times
from ccltui.metrics.view.instances import Instances, operations
from ccltui.metrics.view.provenance import answer, source_of
from ccltui.metrics.workload.timed_collectives import timed_collectives

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View


@dataclass(frozen=True, slots=True)
class Fitted:
    """The fitted line of one operation on one group, or the reason why there is none."""

    group: int
    kind: int
    dim: int
    bytes_moved: int
    size: int
    by_ranks: bool  # the times are the shortest of several ranks
    line: Line | str


_LEAST_R2: Final = 0.5
"""Share of the variance of the times that a fit must explain to be the value of the metric."""


@metric(
    unit="GB/s",
    definition=(
        "Asymptotic bandwidth 1/beta in GB/s of the model T = alpha + beta * S, fitted (Theil- "
        "Sen) to the shortest duration over ranks of the operation and group that move the most "
        "bytes, out of those whose sizes explain half of the variance of the times; the details "
        "list all fits."
    ),
    needs=("collectives with sizes", "5 calls of 2 sizes of one group"),
    keys=("inv_beta_GBps", "alpha_us", "of", "fits", "rejected"),
    headline="inv_beta_GBps",
    label="bandwidth limit (fit)",
    higher_is_better=True,
)
def hockney(view: View) -> Result:
    """Fit one line to every operation of every group."""
    source, warnings = source_of(view.ranks)
    if source != "kernel":
        raise without_device_times(view, "CPU-only trace: operators do not tell when data moved")
    timed = timed_collectives(view)
    fitted = _fitted(timed)
    rows = [_row(view, one, one.line) for one in fitted if isinstance(one.line, Line)]
    told = [row for row in rows if row["r2"] is not None and row["r2"] >= _LEAST_R2]
    rejected = [
        {"group": view.group_label(one.group), "type": TYPES[one.kind], "why": one.line}
        for one in fitted
        if isinstance(one.line, str)
    ]
    if not rows:
        raise _nothing_fits(rejected)
    if not told:
        raise _nothing_explained(rows)
    details: dict[str, Any] = {
        "inv_beta_GBps": told[0]["inv_beta_GBps"],
        "alpha_us": told[0]["alpha_us"],
        "of": f"{told[0]['type']} {told[0]['group']}",
        "fits": rows,
        "rejected": rejected,
    }
    alone = [one for one in fitted if isinstance(one.line, Line) and not one.by_ranks]
    return answer(
        hockney,
        view,
        details,
        source=source,
        basis={
            "time": "single_rank_dur" if alone else "shortest duration over ranks",
            "fit": "Theil-Sen",
            "of": f"the fit that moves most bytes, of those with r2 of at least {_LEAST_R2}",
        },
        reasons=_one_sided(alone),
        warnings=warnings,
    )


def _fitted(timed: Instances) -> list[Fitted]:
    """Every operation of every group, the most bytes first."""
    found = []
    for group, kind, rows in operations(timed):
        here = timed.take(rows)
        shared = here.take(here.members > 1)
        part = shared if len(shared) else here
        found.append(
            Fitted(
                group=group,
                kind=kind,
                dim=int(part.dim[0]),
                bytes_moved=int(part.message_bytes.sum()),
                size=int(part.group_size.max()),
                by_ranks=len(shared) > 0,
                line=fit(part.message_bytes, part.time_ns),
            )
        )
    return sorted(found, key=lambda one: (-one.bytes_moved, one.group, one.kind))


def _row(view: View, one: Fitted, line: Line) -> dict[str, Any]:
    return {
        "group": view.group_label(one.group),
        "type": TYPES[one.kind],
        "dim": DIMS[one.dim],
        "group_size": one.size if one.size > 0 else None,
        "alpha_us": microseconds(line.alpha_ns),
        "beta_us_per_MB": line.beta_ns_per_byte * 1000,
        "inv_beta_GBps": 1 / line.beta_ns_per_byte,
        "ci_GBps": [_inverse(line.beta_high), _inverse(line.beta_low)],
        "r2": line.r2,
        "n": line.n,
        "num_sizes": line.sizes,
        "time": "shortest over ranks" if one.by_ranks else "one rank",
    }


def _inverse(beta: float) -> float | None:
    return 1 / beta if beta > 0 else None


def _nothing_fits(rejected: list[dict[str, Any]]) -> Refusal:
    why = "; ".join(f"{row['type']} {row['group']}: {row['why']}" for row in rejected[:4])
    return refuse("not_applicable", f"no operation of a group can be fitted: {why}")


def _nothing_explained(rows: list[dict[str, Any]]) -> Refusal:
    fits = "; ".join(
        f"{row['type']} {row['group']}: r2 {'-' if row['r2'] is None else format(row['r2'], '.2f')}"
        for row in rows[:4]
    )
    return refuse("not_applicable", f"sizes explain less than half of the durations: {fits}")


def _one_sided(alone: list[Fitted]) -> list[Reason]:
    if not alone:
        return []
    text = f"{len(alone)} fits rest on one rank's durations, which include waiting"
    return [Reason("single_rank", text)]


metric_cal = hockney.document_of
