"""Latency and bandwidth of each operation and group: T = alpha + beta * S (Hockney 1994).

The fit to sizes and times of calls is robust (Theil-Sen).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.reductions import distinct_values, median_along, unique_counts
from ccltui.metrics.arrays.statistics import microseconds
from ccltui.metrics.metric import metric
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.model.dimensions import DIMS
from ccltui.metrics.result import Reason, Result
from ccltui.metrics.unavailable import Refusal, refuse
from ccltui.metrics.view.instances import Instances, operations
from ccltui.metrics.view.provenance import call_answer, require_kernel_calls
from ccltui.metrics.workload.measured_bandwidth import timed_collectives
from ccltui.parsers.array_types import F64, I64

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View

MIN_INSTANCES: Final = 5
MIN_SIZES: Final = 2
"""Two sizes make a line, five calls a median of slopes that one call does not decide."""
_MAX_POINTS: Final = 512  # 130 thousand pairs; more do not improve the slope
_Z_95: Final = 1.959964


class Line(Struct, frozen=True):
    """T = alpha + beta * S over ``n`` calls of ``sizes`` different sizes.

    ``alpha_ns`` is the latency, ``beta_ns_per_byte`` the inverse bandwidth with its 95 %
    interval (Sen 1968); ``r2`` is the share of the variance of the times that the line explains.
    """

    alpha_ns: float
    beta_ns_per_byte: float
    beta_low: float
    beta_high: float
    r2: float | None
    n: int
    sizes: int


def fit(size_bytes: I64, time_ns: I64) -> Line | str:
    """Fit the Theil-Sen line through the calls.

    Args:
        size_bytes: message size of each call.
        time_ns: duration of each call.

    Returns:
        The line, or the reason why the calls do not follow one.
    """
    sizes = len(distinct_values(size_bytes))
    if len(size_bytes) < MIN_INSTANCES or sizes < MIN_SIZES:
        found = f"{len(size_bytes)} calls of {sizes} {'size' if sizes == 1 else 'sizes'}"
        return f"{found}; a line needs {MIN_INSTANCES} calls of {MIN_SIZES} sizes"
    size, time = _sampled(size_bytes, time_ns)
    early, late = np.triu_indices(len(size), 1)
    apart = size[late] != size[early]
    early, late = early[apart], late[apart]
    slopes = np.sort((time[late] - time[early]) / (size[late] - size[early]))
    beta = float(median_along(slopes))
    alpha = float(median_along(time - beta * size))
    if beta <= 0:
        return "larger messages take no longer: waiting, not moving, decides the times"
    if alpha < 0:
        return "the latency comes out negative: the times do not grow along one line"
    low, high = _interval(slopes, size)
    if low < 0:
        return "the times may not grow with the size: the 95 % interval of the slope contains 0"
    return Line(alpha, beta, low, high, _explained(size, time, alpha, beta), len(size_bytes), sizes)


def _sampled(size_bytes: I64, time_ns: I64) -> tuple[F64, F64]:
    """Sizes and times of all calls, or of an even selection in order of size and time."""
    order = np.lexsort((time_ns, size_bytes))
    if len(order) > _MAX_POINTS:
        order = order[np.linspace(0, len(order) - 1, _MAX_POINTS).astype(np.int64)]
    return size_bytes[order].astype(np.float64), time_ns[order].astype(np.float64)


def _interval(slopes: F64, size: F64) -> tuple[float, float]:
    """Sen's confidence limits of the slope, with the variance corrected for repeated sizes."""
    n = len(size)
    _, tied = unique_counts(size)
    variance = n * (n - 1) * (2 * n + 5) - float((tied * (tied - 1) * (2 * tied + 5)).sum())
    spread = _Z_95 * np.sqrt(variance / 18)
    low = int(np.floor((len(slopes) - spread) / 2)) - 1
    high = int(np.ceil((len(slopes) + spread) / 2))
    return float(slopes[max(low, 0)]), float(slopes[min(high, len(slopes) - 1)])


def _explained(size: F64, time: F64, alpha: float, beta: float) -> float | None:
    total = float(((time - time.mean()) ** 2).sum())
    rest = float(((time - alpha - beta * size) ** 2).sum())
    return 1 - rest / total if total else None


class Fitted(Struct, frozen=True):
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
    facts=("pairs", "matches"),
    keys=("inv_beta_GBps", "alpha_us", "of", "fits", "rejected"),
    label="bandwidth limit (fit)",
    higher_is_better=True,
)
def hockney(view: View) -> Result:
    """Fit one line to every operation of every group."""
    require_kernel_calls(view)
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
    return call_answer(
        hockney,
        view,
        details,
        basis={
            "time": "single_rank_dur" if alone else "shortest duration over ranks",
            "fit": "Theil-Sen",
            "of": f"the fit that moves most bytes, of those with r2 of at least {_LEAST_R2}",
        },
        reasons=_one_sided(alone),
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
