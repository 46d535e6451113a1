"""Take the tables of one side of a comparison from a view of a job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from ccltui.metrics.arrays.reductions import distinct_rows
from ccltui.metrics.arrays.statistics import milliseconds
from ccltui.metrics.compare.job_table import (
    Collective,
    CollectiveKey,
    JobTable,
    Section,
    Work,
    WorkKey,
)
from ccltui.metrics.device.device_time import device_ranks, require_communication_on_device
from ccltui.metrics.device.work_pivot import (
    Group,
    Grouping,
    by_name,
    by_operator,
    pivot,
    with_launches,
)
from ccltui.metrics.findings.rank_time.partition import COMPUTE, Named, named_parts, partition
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.model.dimensions import DIMS
from ccltui.metrics.unavailable import Refusal
from ccltui.metrics.view.instances import instances_of
from ccltui.metrics.view.provenance import require_traces
from ccltui.metrics.workload.hardware import device_names
from ccltui.metrics.workload.job_steps import step_times

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView
    from ccltui.parsers.array_types import F64

_T = TypeVar("_T")

_MOST_BY_STEP: Final = 2_000
"""Rows of a table of work, the longest, whose time is held step by step."""
_LISTED: Final = {
    "model": ("model_family", "phase"),
    "batch": ("batch_size", "batch_size_scope", "seq_len"),
    "precision": ("precision",),
    "parallel degrees": ("dp_replicate", "dp_shard", "tp", "pp", "cp", "ep"),
}
"""Fields of the card behind each property; the first must be stated, but of the degrees any."""


def job_table(view: View, name: str) -> JobTable:
    """Return the tables of a view; a table that cannot be made is left out with its reason.

    A time window is reduced to the steps that lie in it as a whole, since the time of a part of a
    step is not that of a step. Where none does, all of the window is measured.
    """
    if view.options.window is not None:
        steps = _whole_steps(view)
        if steps is None:
            view = view.with_options(span="trace")
        else:
            view = view.with_options(window=None, steps=steps)
            name = f"{name} (steps {steps[0]}-{steps[1]})"
    missing: dict[Section, str] = {}

    def attempt(section: Section, make: Callable[[], _T]) -> _T | None:
        try:
            require_traces(view)  # a selection of nothing is the reason why there is no device work
            return make()
        except Refusal as refusal:
            missing[section] = refusal.reasons[0].message
            return None

    ranks = attempt("kernels", lambda: device_ranks(view)) or []
    times = attempt("steps", lambda: step_times(view))
    by_steps = all(rank.by_steps for rank in ranks)
    num_rank_steps = sum(len(rank.step_windows) for rank in ranks) if by_steps else 0
    per = num_rank_steps or len(ranks)
    measured = _common_steps(ranks) if num_rank_steps else ()
    device_ms, kinds_ms = _by_kind(ranks, measured)
    divided = attempt("parts", lambda: _divided(view, ranks, per)) if ranks else None
    parts, waits = divided or ({}, {})
    operators = attempt("operators", lambda: _operators(ranks, measured)) or {}
    return JobTable(
        name=name,
        job=" ".join((str(Path(view.job.path).resolve()), view.job.capture.name)).rstrip(),
        facts=_facts(view, operators),
        num_ranks=len(ranks) or len(view.ranks),
        num_rank_steps=num_rank_steps,
        device_ms=device_ms,
        marker_ms=np.array([] if times is None else times.slowest_ns, np.float64) / 1e6,
        parts_ms=parts,
        kinds_ms=kinds_ms if parts else {},
        kernels=_work(ranks, by_name, measured) if ranks else {},
        operators=operators,
        collectives=_collectives(view),
        waits_ms=waits,
        missing=missing,
    )


def _divided(
    view: View, ranks: Sequence[RankView], per: int
) -> tuple[dict[Named, float], dict[str, float]]:
    """Time of each part, and of waiting by straggler."""
    require_communication_on_device(ranks)
    return _parts(view, per), _waits(view, per)


def _whole_steps(view: View) -> tuple[int, int] | None:
    """First and last of the steps that a window contains as a whole on every rank."""
    whole = view.with_options(window=None)
    found: set[int] | None = None
    for rank, full in zip(view.ranks, whole.ranks, strict=True):
        begin, end = rank.selection.start_ns, rank.selection.end_ns
        inside = {step.id for step in rank.steps if step.end_ns <= end}
        inside -= {step for step, first, last in full.step_windows if first < begin or last > end}
        found = inside if found is None else found & inside
    if not found:
        return None
    return min(found), max(found)


def _parts(view: View, per: int) -> dict[Named, float]:
    """Time of each part, over rank-steps or ranks: the numbers of `step_composition`."""
    total: Counter[Named] = Counter()
    for parts in named_parts(view).values():
        total.update(parts)
    return {part: milliseconds(ns) / per for part, ns in total.items() if ns > 0}


def _waits(view: View, per: int) -> dict[str, float]:
    return {
        loss.what: milliseconds(loss.total_ns) / per
        for loss in partition(view).losses
        if loss.kind == "straggler"
    }


def _common_steps(ranks: Sequence[RankView]) -> tuple[int, ...]:
    """Steps in which every rank has device work, in order."""
    found = [{step for step, _, _ in rank.step_windows} for rank in ranks]
    return tuple(sorted(set.intersection(*found))) if found else ()


def _by_kind(ranks: Sequence[RankView], ids: Sequence[int]) -> tuple[F64, dict[str, F64]]:
    """Time of each step in ms and its kinds of parts, means over ranks, each float64 [steps].

    Waiting is exposed communication too: both kinds are one here.
    """
    if not ids:
        return np.empty(0), {}
    total = {kind: np.zeros(len(ids)) for kind in (COMPUTE, "exposed", "copies", "idle")}
    step_ns = np.zeros(len(ids))
    for rank in ranks:
        windows = {step: (start, stop) for step, start, stop in rank.step_windows}
        begin, end = np.array([windows[step] for step in ids], np.int64).T
        exposed = rank.exposed
        idle = rank.windows.within(begin, end)
        step_ns += idle
        kinds = ((COMPUTE, rank.comp), ("exposed", exposed), ("copies", rank.mem - rank.comp))
        for kind, part in kinds:
            covered = part.within(begin, end)
            total[kind] += covered
            idle = idle - covered
        total["idle"] += idle
    scale = len(ranks) * 1e6
    return step_ns / scale, {kind: values / scale for kind, values in total.items()}


def _operators(ranks: Sequence[RankView], ids: Sequence[int]) -> dict[WorkKey, Work]:
    if not ranks:
        return {}
    known, _ = with_launches(ranks, lambda rank: len(rank.trace.group("cpu_ops")) > 0, "operator")
    return _work(known, by_operator, ids)


def _work(ranks: Sequence[RankView], group: Group, ids: Sequence[int]) -> dict[WorkKey, Work]:
    """Return device work by key; the numbers are those of the metrics of the same names."""
    groups = {rank.label: group(rank) for rank in ranks}
    rows = pivot(ranks, lambda rank: groups[rank.label])
    order = {row.key: i for i, row in enumerate(rows[:_MOST_BY_STEP])}
    by_step = _by_step(ranks, groups, order, ids)
    return {
        (row.key[0] or "", row.key[1] or ""): Work(
            row.calls,
            row.total_ns,
            row.per_rank_ns,
            by_step[order[row.key]] if len(ids) and row.key in order else None,
        )
        for row in rows
    }


def _by_step(
    ranks: Sequence[RankView],
    groups: Mapping[str, Grouping],
    order: Mapping[tuple[str | None, ...], int],
    ids: Sequence[int],
) -> F64:
    """Time in ms of each key in each step, mean over ranks, float64 [keys, steps]."""
    total = np.zeros((len(order), len(ids)))
    if not len(ids):
        return total
    sorted_ids = np.array(ids, np.int64)
    for rank in ranks:
        found = groups[rank.label]
        key = np.array([order.get(one, -1) for one in found.keys] + [-1], np.int64)[found.index]
        steps = rank.facts.work.ids
        place = np.searchsorted(sorted_ids, steps).clip(0, len(ids) - 1)
        kept = np.flatnonzero((key >= 0) & (sorted_ids[place] == steps) & (rank.clipped_ns > 0))
        code = key[kept] * len(ids) + place[kept]
        total += np.bincount(code, weights=rank.clipped_ns[kept], minlength=total.size).reshape(
            total.shape
        )
    return np.asarray(total / len(ranks) / 1e6)


def _collectives(view: View) -> dict[CollectiveKey, Collective]:
    found = instances_of(view)
    counts: Counter[CollectiveKey] = Counter()
    times: Counter[CollectiveKey] = Counter()
    columns = (found.kind, found.dim, found.group_size, found.message_bytes)
    codes, index = distinct_rows(*columns)
    keys = [
        CollectiveKey(TYPES[kind], DIMS[dim] if dim >= 0 else "unknown", size, message)
        for kind, dim, size, message in codes.T.tolist()
    ]
    number = np.bincount(index, minlength=len(keys))
    total = np.bincount(index, weights=found.time_ns, minlength=len(keys))
    for key, calls, time_ns in zip(keys, number.tolist(), total.tolist(), strict=True):
        counts[key] += calls
        times[key] += int(time_ns)
    return {key: Collective(counts[key], times[key]) for key in keys}


def _facts(view: View, operators: Mapping[WorkKey, Work]) -> dict[str, str]:
    stated = {name: _stated(view, fields) for name, fields in _LISTED.items()}
    return {
        "model": stated["model"],
        "batch": stated["batch"],
        "ranks": str(len(view.ranks)),
        "world size": "" if view.world_size is None else str(view.world_size),
        "gpu": ", ".join(device_names(view)),
        "step marker": ", ".join(sorted({rank.marker for rank in view.ranks if rank.marker})),
        "profiler": ", ".join(sorted({rank.trace.source.format for rank in view.ranks})),
        "precision": stated["precision"],
        "parallel degrees": stated["parallel degrees"],
        "operator shapes": str(sum(1 for _, shapes in operators if shapes) or ""),
    }


def _stated(view: View, fields: Sequence[str]) -> str:
    """Values of the card's fields as text; "" where the first is not stated."""
    values = {field: view.card.value(field) for field in fields}
    known = [f"{field} {value}" for field, value in values.items() if value not in (None, "")]
    return ", ".join(known) if known and (known[0].startswith(fields[0]) or "tp" in fields) else ""
