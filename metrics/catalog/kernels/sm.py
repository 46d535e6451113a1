"""Four quantities that are all called SM utilization, each under its own name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.statistics import mean, ratio
from ccltui.metrics.device.device_counters import COUNTERS, typical_reading
from ccltui.metrics.device.device_time import device_answer, device_ranks
from ccltui.metrics.metric import metric
from ccltui.metrics.model.classify import COMP, any_name, distinct
from ccltui.metrics.result import Reason, Result
from ccltui.metrics.view.rank_view import of_rank, totals
from ccltui.parsers.array_types import F64, I64, Bool

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView

_SM_ACTIVE: Final = re.compile(r"SMs? Active\b")


class Weighted(Struct, frozen=True):
    """A mean weighted by kernel time: sum of value times ns, and of ns, where a value is known."""

    total: float = 0.0
    weight: int = 0

    @classmethod
    def of(cls, values: F64, time_ns: I64, rows: Bool) -> Weighted:
        """Weighted mean over the rows (mask) with a known value (not NaN)."""
        known = np.flatnonzero(rows & ~np.isnan(values))
        weights = time_ns.take(known)
        return cls(float((values.take(known) * weights).sum()), int(weights.sum()))

    def __add__(self, other: Weighted) -> Weighted:
        return Weighted(self.total + other.total, self.weight + other.weight)

    @property
    def mean(self) -> float | None:
        """The mean, None where nothing is known."""
        return ratio(self.total, self.weight)


@metric(
    unit="ratio",
    definition=(
        "Share of the measured time in which the device runs anything; the details list three "
        "other quantities of SM use by their own names: launch coverage, occupancy and active "
        "SMs. Where they were sampled, also clocks, power and temperature: medians."
    ),
    needs=("GPU kernels",),
    facts=("sums",),
    keys=(
        "gpu_busy_ratio",
        "sm_coverage",
        "sm_coverage_of_step",
        "achieved_occupancy_pct",
        "coverage_known_ratio",
        "occupancy_known_ratio",
        "sm_active_pct",
        *COUNTERS,
        "per_rank",
    ),
    sums=(
        of_rank(totals),
        lambda _, rank: _weighted(rank),
    ),
    label="SM: GPU busy",
    higher_is_better=True,
)
def sm(view: View) -> Result:
    """Busy time, launch coverage and occupancy of computing kernels, and active SMs."""
    ranks = device_ranks(view)
    coverage, occupancy, kernel_time = Weighted(), Weighted(), 0
    per_rank: dict[str, dict[str, float | None]] = {}
    for rank in ranks:
        reach, resident, computing_ns = _weighted(rank)
        kernel_time += computing_ns
        coverage, occupancy = coverage + reach, occupancy + resident
        per_rank[rank.label] = {
            "gpu_busy_ratio": ratio(rank.occupied_ns, rank.window_ns),
            "sm_coverage": reach.mean,
            "achieved_occupancy_pct": resident.mean,
            "sm_active_pct": sm_active_pct(rank),
            **_counters(rank),
        }
    active = [row["sm_active_pct"] for row in per_rank.values()]
    window = sum(rank.window_ns for rank in ranks)
    details: dict[str, Any] = {
        "gpu_busy_ratio": ratio(sum(rank.occupied_ns for rank in ranks), window),
        "sm_coverage": coverage.mean,
        "sm_coverage_of_step": ratio(coverage.total, window) if coverage.weight else None,
        "achieved_occupancy_pct": occupancy.mean,
        "coverage_known_ratio": ratio(coverage.weight, kernel_time),
        "occupancy_known_ratio": ratio(occupancy.weight, kernel_time),
        "sm_active_pct": mean([value for value in active if value is not None]),
        **{key: _middle([row[key] for row in per_rank.values()]) for key in COUNTERS},
        "per_rank": per_rank,
    }
    return device_answer(
        sm,
        view,
        details,
        basis={
            "gpu_busy_ratio": "any device work over the measured time",
            "sm_coverage": "min(blocks per SM, 1) of computing kernels, weighted by their time: "
            "the share of SMs that get a block, not how well they are used",
            "sm_active_pct": "mean of the readings of the counter of active SMs in the measured "
            "time, of each device; then over devices",
            "achieved_occupancy_pct": "the profiler's estimate, weighted by time; 0 is no estimate",
        },
        reasons=_missing(details),
    )


def _weighted(rank: RankView) -> tuple[Weighted, Weighted, int]:
    """Return coverage and occupancy of the computing kernels of a rank, and their time in ns."""
    return rank.sum_up(_weighted, lambda: _weighted_of(rank))


def _weighted_of(rank: RankView) -> tuple[Weighted, Weighted, int]:
    def weighted(values: F64 | None) -> Weighted:
        if values is None:
            return Weighted()
        return Weighted.of(values, rank.clipped_ns, np.asarray(rank.facts.classes == COMP))

    computing = rank.device_sums().summed_ns[COMP]
    return weighted(_coverage(rank)), weighted(_occupancy(rank)), computing


def _counters(rank: RankView) -> dict[str, float | None]:
    """Median readings of the counters of the rank's device in its windows."""
    inside = rank.windows.contains(rank.trace.samples.time_ns)
    return {key: typical_reading(rank.trace, key, inside) for key in COUNTERS}


def _middle(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.median(known)) if known else None


def sm_active_pct(rank: RankView) -> float | None:
    """Mean reading of active SMs in the rank's windows, percent; None without a reading."""
    samples, trace = rank.trace.samples, rank.trace
    named = [i for i in distinct(samples.name) if _SM_ACTIVE.match(trace.text(i))]
    rows = any_name(trace.strings, samples.name, named) & rank.windows.contains(samples.time_ns)
    return mean(samples.value[rows].tolist())


def _coverage(rank: RankView) -> F64 | None:
    blocks = rank.trace.group("gpu").blocks_per_sm
    if not len(blocks):
        return None
    return np.where(blocks >= 0, np.minimum(blocks.astype(np.float64), 1.0), np.nan)


def _occupancy(rank: RankView) -> F64 | None:
    estimate = rank.trace.group("gpu").occupancy_pct
    return np.where(estimate > 0, estimate.astype(np.float64), np.nan) if len(estimate) else None


def _missing(details: dict[str, Any]) -> list[Reason]:
    names = ("sm_coverage", "achieved_occupancy_pct", "sm_active_pct")
    absent = [name for name in names if details[name] is None]
    if not absent:
        return []
    text = f"{', '.join(absent)}: not in what was recorded (active SMs only come from nsys)"
    return [Reason("no_gpu_metrics", text)]


metric_cal = sm.document_of
