"""Compare metrics and the table of parallel dimensions of two jobs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.bootstrap import block_length, mean_differences
from ccltui.metrics.compare.compare_runs import Sample, half_width, limit_of
from ccltui.metrics.result import Result, values_by_step

if TYPE_CHECKING:
    from ccltui.metrics.metric import Metric
    from ccltui.metrics.view.job_view import View

Change = Literal["higher", "lower", "not distinguishable", ""]
"""Whether a number changed beyond the noise; "" where the noise is unknown."""

SUMS: Final = ("calls", "message_bytes", "exposed_ms")
"""Columns of dimensions that are sums over the measured time, compared as means of a step."""
MEANS: Final = ("busbw_GBps", "hidden_ratio", "wait_ratio", "mean_lag_us")
_SAME_MEAN: Final = 1e-6
"""Relative difference up to which the value of a metric is the mean of its steps."""
_DIMENSIONS: Final = "parallelism"


class Measure(Struct, frozen=True):
    """One metric of one side; ``why`` is the reason where it is unavailable or partial.

    ``by_step`` are the values of which ``value`` is the mean, empty where it is another statistic.
    ``by_run`` are those of several runs, of which ``value`` is the mean; empty of one run.
    """

    title: str
    unit: str
    value: float | None
    why: str = ""
    by_step: tuple[float, ...] = ()
    details: Mapping[str, Any] = {}
    by_run: tuple[float, ...] = ()


class MetricChange(Struct, frozen=True):
    """One metric of both sides.

    Attributes:
        name: name of the metric.
        title: its title on a screen.
        unit: unit of all numbers.
        a: value of A, None where it is unavailable.
        b: value of B.
        half_width: half of the 95 % interval of the difference, of runs where a side has several,
            else by the bootstrap over steps; None where the value is no mean of steps or these are
            too few.
        why: why a side has no value or covers only a part, "" where both are whole.
        runs_vary: spread between runs that the user stated, in the unit, None for none.
        is_one_run: whether A and B are one run each.
    """

    name: str
    title: str
    unit: str
    a: float | None
    b: float | None
    half_width: float | None = None
    why: str = ""
    runs_vary: float | None = None
    is_one_run: bool = False

    @property
    def delta(self) -> float | None:
        """B minus A."""
        return None if self.a is None or self.b is None else self.b - self.a

    @property
    def direction(self) -> Change:
        """Whether B is higher or lower than A beyond the noise."""
        known = [one for one in (self.half_width, self.runs_vary) if one is not None]
        if self.delta is None or not known:
            return ""
        if abs(self.delta) <= max(known):
            return "not distinguishable"
        if self.is_one_run and self.runs_vary is None:
            return ""
        return "higher" if self.delta > 0 else "lower"


class DimensionRow(Struct, frozen=True):
    """One dimension (``group`` None) or group of both sides: values by column of the metric.

    The columns of `SUMS` are means of a step where both sides have steps.
    """

    dim: str
    group: str | None
    a: Mapping[str, float | None]
    b: Mapping[str, float | None]


def measures(
    view: View, metrics: Iterable[Metric], run: Callable[[Metric, View], Result] | None = None
) -> dict[str, Measure]:
    """Return the metrics of a view by name.

    Args:
        view: the job under the selection of the comparison.
        metrics: what to compute.
        run: how to compute one; by default its `run`.
    """
    found = {}
    for metric in metrics:
        result = metric.run(view) if run is None else run(metric, view)
        found[metric.name] = Measure(
            metric.title,
            metric.unit,
            result.value,
            "; ".join(reason.message for reason in result.reasons),
            _of_the_mean(result, metric.headline),
            result.details if metric.name == _DIMENSIONS and result.value is not None else {},
        )
    return found


def metric_changes(
    a: Mapping[str, Measure],
    b: Mapping[str, Measure],
    *,
    is_one_run: bool = False,
    runs_vary_pct: float | None = None,
) -> tuple[MetricChange, ...]:
    """Return the metrics that both sides were asked for and that a side has, in order."""
    rows = []
    for name, one in a.items():
        other = b.get(name)
        if other is None or (one.value is None and other.value is None):
            continue
        reasons = [f"{side}: {m.why}" for side, m in (("A", one), ("B", other)) if m.why]
        rows.append(
            MetricChange(
                name,
                one.title,
                one.unit,
                one.value,
                other.value,
                _half_width(one, other),
                "; ".join(reasons),
                limit_of(one.value, runs_vary_pct),
                is_one_run,
            )
        )
    return tuple(rows)


def dimension_rows(
    a: Mapping[str, Measure], b: Mapping[str, Measure], steps: tuple[int, int]
) -> tuple[DimensionRow, ...]:
    """Return dimensions and groups of both sides, aligned by their names.

    Args:
        a: the metrics of A; empty without `parallelism`.
        b: the metrics of B.
        steps: measured steps of both sides, by which sums are divided; 1 where there are none.
    """
    sides = [_by_key(side, n) for side, n in zip((a, b), steps, strict=True)]
    keys = dict.fromkeys((*sides[0], *sides[1]))
    return tuple(DimensionRow(*key, sides[0].get(key, {}), sides[1].get(key, {})) for key in keys)


def _by_key(
    side: Mapping[str, Measure], steps: int
) -> dict[tuple[str, str | None], dict[str, float | None]]:
    if _DIMENSIONS not in side:
        return {}
    details = side[_DIMENSIONS].details
    rows = [*(details.get("dimensions") or ()), *(details.get("groups") or ())]
    return {
        (row["dim"], row["group"]): {
            **{key: None if row[key] is None else row[key] / steps for key in SUMS},
            **{key: row[key] for key in MEANS},
        }
        for row in rows
    }


def _half_width(a: Measure, b: Measure) -> float | None:
    if a.by_run or b.by_run:
        runs = [one.by_run or (() if one.value is None else (one.value,)) for one in (a, b)]
        return half_width(*(Sample(one, "runs") for one in runs)) if all(runs) else None
    if not a.by_step or not b.by_step:
        return None
    sides = np.array(a.by_step, np.float64), np.array(b.by_step, np.float64)
    found = mean_differences(*sides, block=(block_length(sides[0]), block_length(sides[1])))
    return None if found.half_width is None else float(found.half_width[0])


def _of_the_mean(result: Result, headline: str) -> tuple[float, ...]:
    """Return the values of the steps where the value of a metric is their mean, else nothing.

    The spread of steps says nothing of a median, a maximum, or a ratio of two sums.
    """
    found = values_by_step(result, headline)
    known = [value for value in found if value is not None]
    if result.value is None or len(known) < len(found) or not known:
        return ()
    mean = math.fsum(known) / len(known)
    if not math.isclose(mean, result.value, rel_tol=_SAME_MEAN):
        return ()
    return tuple(map(float, known))
