"""Several runs of one command as one side of a comparison: their steps pooled, the runs kept."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from msgspec.structs import replace

from ccltui.metrics.compare.job_changes import job_checks
from ccltui.metrics.compare.job_table import Collective, CollectiveKey, JobTable, Work, WorkKey
from ccltui.metrics.compare.metric_changes import Measure
from ccltui.parsers.errors import NotFoundError

if TYPE_CHECKING:
    from ccltui.parsers.array_types import F64

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
        kernels=_works(runs, lambda one: one.kernels),
        operators=_works(runs, lambda one: one.operators),
        collectives=_collectives(runs),
        waits_ms=_means([one.waits_ms for one in runs], weights),
        missing={name: why for one in reversed(runs) for name, why in one.missing.items()},
        metrics=_measures([one.metrics for one in runs]),
        runs=tuple(runs),
    )


def _check(known: Sequence[JobTable], other: JobTable) -> None:
    first = known[0]
    if any(one.job == other.job for one in known):
        raise NotFoundError("this run is named twice for one side", path=other.name)
    differences = job_checks(first, other).differences
    if differences:
        message = f"it does not repeat {first.name}: {'; '.join(differences)}"
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


def _works(
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


def _collectives(runs: Sequence[JobTable]) -> dict[CollectiveKey, Collective]:
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
