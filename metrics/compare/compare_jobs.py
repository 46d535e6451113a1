"""Compare two sides of traces: step time, its parts, work, collectives and stragglers.

A side may be several runs of one command: their steps are pooled, and the runs stay apart for the
spread between them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeVar

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ccltui.metrics.arrays.bootstrap import LEAST, block_length, mean_differences
from ccltui.metrics.compare import job_side
from ccltui.metrics.compare.compare_runs import INDISTINCT, ONE_RUN, Verdict, limit_of, stated
from ccltui.metrics.compare.job_changes import (
    CollectiveChange,
    DimensionChange,
    JobChecks,
    PartChange,
    RunIntervals,
    TimeChange,
    WorkChange,
    job_checks,
)
from ccltui.metrics.compare.job_side import Collective, CollectiveKey, JobTable, Work, WorkKey
from ccltui.metrics.compare.metric_changes import (
    DimensionRow,
    Measure,
    MetricChange,
    dimension_rows,
    metric_changes,
)
from ccltui.metrics.findings.rank_time.partition import KINDS, Named
from ccltui.parsers.errors import NotFoundError

if TYPE_CHECKING:
    from ccltui.parsers.array_types import F64


MOST_TESTED: Final = 300
"""Rows of a table of work with an interval: the longest; each further one would widen all."""
REMAINDER: Final[Named] = ("remainder", "other_steps")
_EXPOSED: Final = ("communication", "bubble")
"""Kinds of parts that are exposed communication."""
"""Step time, of the steps of all ranks, less the parts, of all steps of each rank."""


class JobComparison(Struct, frozen=True):
    """Result of a comparison of traces.

    Attributes:
        a: tables of the first side.
        b: tables of the second side.
        checks: whether both did the same work.
        by_step: whether times are of a step; else of all the measured time.
        step_time: time of a step on the devices; the duration of the step marker where a side
            has no device work, and without steps the measured time.
        markers: marker time of a step on its slowest rank.
        kinds: computation, exposed communication, copies and idle time of a step.
        waterfall: parts whose differences add up to that of ``step_time``, the largest first;
            empty where a side has no parts.
        dimensions: exposed communication by dimension.
        kernels: device work by name, what changed beyond the noise first, then by difference.
        operators: device work by operator and shapes, in the same order.
        collectives: by operation, dimension, group and message size, the largest difference first.
        stragglers: exposed waiting by the rank that causes it, the largest difference first.
        count: steps of A and of B.
        blocks: blocks of steps that are nearly independent.
        metrics: metrics of both sides, where they were asked for.
        by_dimension: the table of `parallelism` of both sides, where it was asked for.
        runs_vary_pct: spread between runs in percent that the user stated, None for none.
    """

    a: JobTable
    b: JobTable
    checks: JobChecks
    by_step: bool
    step_time: TimeChange
    markers: TimeChange | None
    kinds: tuple[TimeChange, ...]
    waterfall: tuple[PartChange, ...]
    dimensions: tuple[DimensionChange, ...]
    kernels: tuple[WorkChange, ...]
    operators: tuple[WorkChange, ...]
    collectives: tuple[CollectiveChange, ...]
    stragglers: tuple[TimeChange, ...]
    count: tuple[int, int]
    blocks: tuple[int, int]
    metrics: tuple[MetricChange, ...] = ()
    by_dimension: tuple[DimensionRow, ...] = ()
    runs_vary_pct: float | None = None

    @property
    def verdict(self) -> Verdict | Literal["unknown"]:
        """Verdict on the step time of B; better and worse only where both did the same work."""
        if self.checks.verdict == "not comparable":
            return "not comparable"
        row = self.step_time
        if self.by_step and not (row.is_beyond and row.half_width is not None):
            return "not distinguishable"
        if self.checks.verdict == "unknown":
            return "unknown"
        if self.is_unjudged:
            return "not distinguishable"
        return "worse" if self.step_time.direction == "longer" else "better"

    @property
    def is_unjudged(self) -> bool:
        """Whether both are one run each, and the spread between runs is not stated.

        Parts of one run are compared within it.
        """
        return self.step_time.is_one_run and self.runs_vary_pct is None

    @property
    def verdict_text(self) -> str:
        """The verdict in words, which say where the spread between runs is unknown."""
        if self.verdict == "not distinguishable" and self.is_unjudged:
            return INDISTINCT
        return self.verdict

    @property
    def why(self) -> str:
        """Reason why B is called neither better nor worse, "" where it is."""
        if self.checks.differences:
            return self.checks.why_not
        if self.verdict == "unknown":
            return "; ".join(check.sentence for check in self.checks.unknown)
        if self.verdict == "not distinguishable":
            return "; ".join(self._noise())
        return ""

    def _noise(self) -> Iterator[str]:
        """Yield why the step time is not distinguishable, the closest noise first."""
        row = self.step_time
        if row.half_width is None:
            yield from (one for one in (self.too_few,) if one)
        elif row.delta is not None and abs(row.delta) <= row.half_width:
            yield "the 95 % interval of the difference contains 0"
        elif self.runs_vary_pct is not None:
            yield stated(self.runs_vary_pct)
        if self.is_unjudged:
            yield ONE_RUN

    @property
    def why_unmeasured(self) -> str:
        """Reason why a side has no step time and no measured time, "" where both have one."""
        return job_side.why_unmeasured((self.a, self.step_time.a), (self.b, self.step_time.b))

    @property
    def too_few(self) -> str:
        """Reason why no interval can be computed, "" where one can."""
        if not self.by_step or min(self.blocks) >= LEAST or self.step_time.half_width is not None:
            return ""
        steps = " against ".join(map(str, self.count))
        if min(self.count) < LEAST:
            return f"n = {steps} steps: an interval needs {LEAST} a side"
        blocks = " against ".join(map(str, self.blocks))
        return (
            f"n = {steps} steps, correlated with their neighbours: {blocks} independent blocks, "
            f"of which an interval needs {LEAST} a side"
        )


def compare_jobs(
    a: JobTable | Sequence[JobTable],
    b: JobTable | Sequence[JobTable],
    *,
    runs_vary_pct: float | None = None,
) -> JobComparison:
    """Compare two sides, each of one run or of several runs of one command.

    Times are those of a step where both sides have steps, else those of all the measured time.

    Args:
        a: the first side.
        b: the second side.
        runs_vary_pct: by how many percent two runs of one command differ, where it is known.

    Raises:
        NotFoundError: the runs of a side do not repeat one another.
    """
    a, b = (pooled([one] if isinstance(one, JobTable) else one) for one in (a, b))
    found = _compared(a, b, runs_vary_pct)
    runs = RunIntervals.of(a, b)
    return found if runs is None or not found.by_step else _by_runs(found, runs)


def _by_runs(found: JobComparison, runs: RunIntervals) -> JobComparison:
    """Return a comparison with the intervals of runs."""
    on_device = found.step_time.name == "step time"

    def steps(run: JobTable) -> F64:
        return run.device_ms if on_device else run.marker_ms

    def markers(run: JobTable) -> F64:
        return run.marker_ms

    return replace(
        found,
        step_time=runs.of_steps(found.step_time, steps),
        markers=None if found.markers is None else runs.of_steps(found.markers, markers),
        kinds=tuple(runs.of_kind(row) for row in found.kinds),
        kernels=_ordered(runs.of_work(row, "kernels") for row in found.kernels),
        operators=_ordered(runs.of_work(row, "operators") for row in found.operators),
    )


def _compared(a: JobTable, b: JobTable, runs_vary_pct: float | None) -> JobComparison:
    is_one_run = a.job != b.job and not a.runs and not b.runs

    def judged(row: TimeChange) -> TimeChange:
        vary = limit_of(row.a, runs_vary_pct)
        return replace(row, runs_vary_ms=vary, is_one_run=is_one_run)

    checks = job_checks(a, b)
    by_step = a.has_steps and b.has_steps
    if not by_step:
        a, b = a.without_steps(), b.without_steps()
    on_device = len(a.device_ms) > 0 and len(b.device_ms) > 0
    steps = (a.device_ms, b.device_ms) if on_device else (a.marker_ms, b.marker_ms)
    by_step = by_step and min(map(len, steps)) > 0
    block = (block_length(steps[0]), block_length(steps[1])) if by_step else (1, 1)
    step_time = TimeChange("measured time", _whole(a), _whole(b))
    if by_step:
        step_time = _steps("step time" if on_device else "step marker", steps, block)
    markers = None
    if by_step and on_device and len(a.marker_ms) and len(b.marker_ms):
        markers = _steps("step marker", (a.marker_ms, b.marker_ms), block)
    return JobComparison(
        a=a,
        b=b,
        checks=checks,
        by_step=by_step,
        step_time=judged(step_time),
        markers=None if markers is None else judged(markers),
        kinds=tuple(map(judged, _kinds(a, b, block))) if by_step else (),
        waterfall=_waterfall(a, b, step_time),
        dimensions=_dimensions(a, b, by_step=by_step),
        kernels=_works(a, b, (a.kernels, b.kernels), block, judged, by_step=by_step),
        operators=_works(a, b, (a.operators, b.operators), block, judged, by_step=by_step),
        collectives=_collectives(a, b, by_step=by_step),
        stragglers=_stragglers(a, b),
        count=(len(steps[0]), len(steps[1])),
        blocks=(len(steps[0]) // block[0], len(steps[1]) // block[1]),
        metrics=metric_changes(
            a.metrics, b.metrics, is_one_run=is_one_run, runs_vary_pct=runs_vary_pct
        ),
        by_dimension=dimension_rows(
            a.metrics, b.metrics, (a.num_steps, b.num_steps) if by_step else (1, 1)
        ),
        runs_vary_pct=runs_vary_pct,
    )


def _steps(name: str, steps: tuple[F64, F64], block: tuple[int, int]) -> TimeChange:
    found = mean_differences(*steps, block=block)
    half = None if found.half_width is None else float(found.half_width[0])
    return TimeChange(name, float(steps[0].mean()), float(steps[1].mean()), half)


def _whole(side: JobTable) -> float | None:
    """Measured time of a rank, None where it is not divided."""
    return math.fsum(side.parts_ms.values()) if side.parts_ms else None


def _kinds(a: JobTable, b: JobTable, block: tuple[int, int]) -> tuple[TimeChange, ...]:
    names = [name for name in a.kinds_ms if name in b.kinds_ms]
    if not names:
        return ()
    samples = [np.stack([side.kinds_ms[name] for name in names], axis=1) for side in (a, b)]
    found = mean_differences(*samples, block=block)
    return tuple(
        TimeChange(
            name,
            float(samples[0][:, i].mean()),
            float(samples[1][:, i].mean()),
            None if found.half_width is None else float(found.half_width[i]),
        )
        for i, name in enumerate(names)
    )


def _waterfall(a: JobTable, b: JobTable, whole: TimeChange) -> tuple[PartChange, ...]:
    """Parts of both sides; what they leave of the whole is the remainder.

    None where a side is not divided, as without device work.
    """
    if whole.a is None or whole.b is None or not a.parts_ms or not b.parts_ms:
        return ()
    parts = dict.fromkeys((*a.parts_ms, *b.parts_ms))
    rows = [PartChange(one, a.parts_ms.get(one, 0.0), b.parts_ms.get(one, 0.0)) for one in parts]
    left = [
        value - math.fsum(getattr(row, side) for row in rows)
        for side, value in (("a", whole.a), ("b", whole.b))
    ]
    if max(map(abs, left)) > 1e-9 * max(whole.a, whole.b):
        rows.append(PartChange(REMAINDER, *left))
    return tuple(sorted(rows, key=lambda row: (-abs(row.delta), _place(row.part))))


def _place(part: Named) -> tuple[int, str]:
    return (KINDS.index(part[0]) if part[0] in KINDS else len(KINDS)), part[1]


def _works(
    a: JobTable,
    b: JobTable,
    works: tuple[Mapping[WorkKey, Work], Mapping[WorkKey, Work]],
    block: tuple[int, int],
    judged: Callable[[TimeChange], TimeChange],
    *,
    by_step: bool,
) -> tuple[WorkChange, ...]:
    """Rows of both sides: what changed beyond the noise first, then by size of the difference."""
    per = [side.num_rank_steps or 1 if by_step else 1 for side in (a, b)]
    widths = _half_widths(works, block) if by_step else {}
    rows = []
    for key in dict.fromkeys((*works[0], *works[1])):
        sides = [of_side.get(key) for of_side in works]
        values = [
            0.0 if w is None else w.total_ns / 1e6 / n for w, n in zip(sides, per, strict=True)
        ]
        time = TimeChange(key[0], values[0], values[1], widths.get(key))
        rows.append(WorkChange(key, sides[0], sides[1], judged(time)))
    return _ordered(rows)


def _ordered(rows: Iterable[WorkChange]) -> tuple[WorkChange, ...]:
    return tuple(sorted(rows, key=_order))


def _order(row: WorkChange) -> tuple[bool, float, WorkKey]:
    """Order of device work: what changed beyond the noise first, then by size of the difference."""
    noise = row.time.direction == "not distinguishable"
    return noise, -abs(row.time.delta or 0.0), row.key


def _half_widths(
    works: tuple[Mapping[WorkKey, Work], Mapping[WorkKey, Work]], block: tuple[int, int]
) -> dict[WorkKey, float]:
    """Half of the interval of each row that both sides have by step.

    The intervals hold for all rows at once: in 95 % of comparisons none of hundreds of kernels is
    called changed by chance. Work that is absent from most steps has no usable spread and is left
    out.
    """
    keys = [key for key in works[0] if all(_is_regular(side.get(key)) for side in works)]
    keys = sorted(keys, key=lambda key: -works[0][key].total_ns)[:MOST_TESTED]
    if not keys:
        return {}
    samples = [
        np.stack([by_step for key in keys if (by_step := side[key].by_step_ms) is not None], axis=1)
        for side in works
    ]
    found = mean_differences(*samples, block=block, together=True)
    if found.half_width is None:
        return {}
    return dict(zip(keys, found.half_width.tolist(), strict=True))


def _is_regular(work: Work | None) -> bool:
    if work is None or work.by_step_ms is None or not len(work.by_step_ms):
        return False
    return 2 * int(np.count_nonzero(work.by_step_ms)) > len(work.by_step_ms)


def _collectives(a: JobTable, b: JobTable, *, by_step: bool) -> tuple[CollectiveChange, ...]:
    rows = []
    for key in dict.fromkeys((*a.collectives, *b.collectives)):
        sides = [side.collectives.get(key, Collective(0, 0)) for side in (a, b)]
        per = [side.num_steps if by_step else 1 for side in (a, b)]
        calls = tuple(one.calls / n for one, n in zip(sides, per, strict=True))
        times = [one.total_ns / 1e6 / n for one, n in zip(sides, per, strict=True)]
        rows.append(
            CollectiveChange(
                key, (calls[0], calls[1]), TimeChange(key.operation, times[0], times[1])
            )
        )
    return tuple(sorted(rows, key=lambda row: (-abs(row.time.delta or 0.0), row.key)))


def _dimensions(a: JobTable, b: JobTable, *, by_step: bool) -> tuple[DimensionChange, ...]:
    """Dimensions of exposed communication and of collectives, the most exposed first."""
    names = [name for side in (a, b) for kind, name in side.parts_ms if kind in _EXPOSED]
    names += [key.dim for side in (a, b) for key in side.collectives]
    rows = []
    for dim in dict.fromkeys(names):
        exposed = [
            sum(side.parts_ms.get((kind, dim), 0.0) for kind in _EXPOSED) if side.parts_ms else None
            for side in (a, b)
        ]
        counts = [_traffic(side, dim, side.num_steps if by_step else 1) for side in (a, b)]
        rows.append(
            DimensionChange(
                dim,
                TimeChange(dim, exposed[0], exposed[1]),
                (counts[0][0], counts[1][0]),
                (counts[0][1], counts[1][1]),
            )
        )
    return tuple(
        sorted(rows, key=lambda row: (-max(row.exposed.a or 0, row.exposed.b or 0), row.dim))
    )


def _traffic(side: JobTable, dim: str, per: int) -> tuple[float, float]:
    """Calls of a dimension and their bytes; those that state no size add none."""
    mine = [(key, one.calls) for key, one in side.collectives.items() if key.dim == dim]
    total = sum(calls * max(key.message_bytes, 0) for key, calls in mine)
    return sum(calls for _, calls in mine) / per, total / per


def _stragglers(a: JobTable, b: JobTable) -> tuple[TimeChange, ...]:
    if "parts" in a.missing or "parts" in b.missing:
        return ()
    names: Sequence[str] = list(dict.fromkeys((*a.waits_ms, *b.waits_ms)))
    rows = [
        TimeChange(name, a.waits_ms.get(name, 0.0), b.waits_ms.get(name, 0.0)) for name in names
    ]
    return tuple(sorted(rows, key=lambda row: (-abs(row.delta or 0.0), row.name)))


_K = TypeVar("_K")


def pooled(runs: Sequence[JobTable]) -> JobTable:
    """Return one table of all runs; a single run as it is.

    A time of a step is the mean over the steps of all runs, a metric the mean over runs. The table
    keeps the runs, whose means show how far runs differ.

    Raises:
        NotFoundError: a run did other work than the first, has no steps, or is the same run.
    """
    first = runs[0]
    if len(runs) == 1:
        return first
    for at, other in enumerate(runs[1:], 1):
        _check(runs[:at], other)
    weights = [one.num_steps for one in runs]
    rank_steps = [one.num_rank_steps for one in runs]
    return replace(
        first,
        name=f"{first.name} and {len(runs) - 1} more runs",
        num_rank_steps=sum(rank_steps),
        device_ms=_joined([one.device_ms for one in runs]),
        marker_ms=_joined([one.marker_ms for one in runs]),
        parts_ms=_means([one.parts_ms for one in runs], weights),
        kinds_ms={
            name: np.concatenate([one.kinds_ms[name] for one in runs])
            for name in first.kinds_ms
            if all(name in one.kinds_ms for one in runs)
        },
        kernels=_pooled_works(runs, lambda one: one.kernels),
        operators=_pooled_works(runs, lambda one: one.operators),
        collectives=_pooled_collectives(runs),
        waits_ms=_means([one.waits_ms for one in runs], weights),
        missing={name: why for one in reversed(runs) for name, why in one.missing.items()},
        metrics=_measures([one.metrics for one in runs]),
        runs=tuple(runs),
    )


def _check(known: Sequence[JobTable], other: JobTable) -> None:
    first = known[0]
    if any(one.job == other.job for one in known):
        raise NotFoundError("this run is named twice for one side", path=other.name)
    why_not = job_checks(first, other).why_not
    if why_not:
        message = f"it does not repeat {first.name}: {why_not}"
        raise NotFoundError(message, path=other.name)
    if not (first.has_steps and other.has_steps):
        why = (first if not first.has_steps else other).why_unmeasured
        message = f"several runs are compared by their steps, which are not in all of them: {why}"
        raise NotFoundError(message, path=other.name)


def _joined(parts: Sequence[F64]) -> F64:
    """Steps of all runs; none where a run has none, so that each run counts."""
    return np.concatenate(parts) if all(map(len, parts)) else np.empty(0)


def _means(rows: Sequence[Mapping[_K, float]], weights: Sequence[int]) -> dict[_K, float]:
    """Means weighted by steps; what a run does not have is 0 in it."""
    if not all(rows):
        return {}
    total = sum(weights)
    keys = dict.fromkeys(key for row in rows for key in row)
    return {
        key: math.fsum(row.get(key, 0.0) * n for row, n in zip(rows, weights, strict=True)) / total
        for key in keys
    }


def _pooled_works(
    runs: Sequence[JobTable], of: Callable[[JobTable], Mapping[WorkKey, Work]]
) -> dict[WorkKey, Work]:
    tables = [of(one) for one in runs]
    found = {}
    for key in dict.fromkeys(key for table in tables for key in table):
        same = [table[key] for table in tables if key in table]
        per_rank: Counter[str] = Counter()
        for work in same:
            per_rank.update(work.per_rank_ns)
        steps = [work.by_step_ms for work in same if work.by_step_ms is not None]
        found[key] = Work(
            sum(work.calls for work in same),
            math.fsum(work.total_ns for work in same),
            per_rank,
            np.concatenate(steps) if len(steps) == len(runs) else None,
        )
    return found


def _pooled_collectives(runs: Sequence[JobTable]) -> dict[CollectiveKey, Collective]:
    found: dict[CollectiveKey, Collective] = {}
    for run in runs:
        for key, one in run.collectives.items():
            known = found.get(key, Collective(0, 0))
            found[key] = Collective(known.calls + one.calls, known.total_ns + one.total_ns)
    return found


def _measures(runs: Sequence[Mapping[str, Measure]]) -> dict[str, Measure]:
    """Means over runs; unavailable where a run has no value, because it is no mean of all then."""
    found = {}
    for name, first in runs[0].items():
        same = [run[name] for run in runs if name in run]
        values = [one.value for one in same if one.value is not None]
        reasons = dict.fromkeys(one.why for one in same if one.why)
        whole = len(values) == len(runs)
        found[name] = Measure(
            first.title,
            first.unit,
            math.fsum(values) / len(values) if whole else None,
            "; ".join(reasons),
            by_run=tuple(values) if whole else (),
        )
    return found
