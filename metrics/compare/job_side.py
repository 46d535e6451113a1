"""One side of a comparison of traces: its tables, restricted to what is compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeVar

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from ccltui.metrics.arrays.reductions import distinct_rows
from ccltui.metrics.arrays.statistics import milliseconds
from ccltui.metrics.compare.metric_changes import Measure
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

Standing = Mapping[str, str]
"""Properties of a side by name, "" where they are unknown."""
WorkKey = tuple[str, str]
"""Name, and what else tells rows apart: class of a kernel, shapes of an operator."""
Section = Literal["steps", "parts", "kernels", "operators", "collectives", "stragglers"]


class CollectiveKey(Struct, frozen=True, order=True):
    """Operation, dimension, ranks of the group (-1: unknown) and bytes of a message (-1)."""

    operation: str
    dim: str
    group_size: int
    message_bytes: int


class Work(Struct, frozen=True, eq=False):
    """Device work of one key on one side.

    Attributes:
        calls: calls of all ranks in the measured time.
        total_ns: summed durations of all ranks in the measured time.
        per_rank_ns: the same by rank.
        by_step_ms: time in each step, mean over ranks, float64 [steps]; None without steps.
    """

    calls: int
    total_ns: float
    per_rank_ns: Mapping[str, float] = field(default_factory=dict)
    by_step_ms: F64 | None = None

    def imbalance(self, num_ranks: int) -> float | None:
        """Return the largest total of a rank over the mean of ranks; None of one rank."""
        if num_ranks < 2 or not self.total_ns or not self.per_rank_ns:
            return None
        return max(self.per_rank_ns.values()) * num_ranks / self.total_ns


class Collective(Struct, frozen=True):
    """Calls of one key, a matched collective counted once, and their summed transfer times.

    The transfer time of a collective is the shortest duration of a member: the last to arrive does
    not wait.
    """

    calls: int
    total_ns: int


class JobTable(Struct, frozen=True, eq=False):
    """What a comparison needs of one side; times of steps in ms.

    Attributes:
        name: name of the side.
        job: identity of the job; sides of one job did the same work in each step.
        facts: properties of the job by name, "" where unknown.
        num_ranks: ranks with kernels, or all ranks where none has.
        num_rank_steps: measured steps of all ranks with kernels together, 0 without steps.
        device_ms: time of each step on the devices, from the end of the step before to its own end,
            mean over ranks, float64 [steps]; empty without device work by steps. It holds the time
            between steps, and of steps that overlap none twice.
        marker_ms: marker time of each step on its slowest rank, as in `iter_time`, float64 [steps].
            Where the host runs ahead of the devices, it is not the time that a step takes.
        parts_ms: time of each part of `step_composition`: of a rank in a step, or of a rank in all
            of the measured time without steps.
        kinds_ms: time of each kind of parts in each step, mean over ranks, float64 [steps]; they
            add up to ``device_ms``.
        kernels: device work by name and class.
        operators: device work by host operator and shapes.
        collectives: by operation, dimension, group size and message size.
        waits_ms: exposed waiting by straggler, in the unit of ``parts_ms``.
        missing: why a section has no numbers.
        metrics: metrics that were asked for, by name.
        runs: tables of the runs that are pooled here, empty where the side is one run.
    """

    name: str
    job: str
    facts: Standing
    num_ranks: int
    num_rank_steps: int = 0
    device_ms: F64 = field(default_factory=lambda: np.empty(0))
    marker_ms: F64 = field(default_factory=lambda: np.empty(0))
    parts_ms: Mapping[Named, float] = field(default_factory=dict)
    kinds_ms: Mapping[str, F64] = field(default_factory=dict)
    kernels: Mapping[WorkKey, Work] = field(default_factory=dict)
    operators: Mapping[WorkKey, Work] = field(default_factory=dict)
    collectives: Mapping[CollectiveKey, Collective] = field(default_factory=dict)
    waits_ms: Mapping[str, float] = field(default_factory=dict)
    missing: Mapping[Section, str] = field(default_factory=dict)
    metrics: Mapping[str, Measure] = field(default_factory=dict)
    runs: tuple[JobTable, ...] = ()

    @property
    def num_runs(self) -> int:
        """Number of runs of the side."""
        return len(self.runs) or 1

    @property
    def has_steps(self) -> bool:
        """Whether times are known by step."""
        return self.num_steps > 0

    @property
    def num_steps(self) -> int:
        """Number of measured steps, those that every rank has."""
        return len(self.device_ms) or len(self.marker_ms)

    @property
    def why_unmeasured(self) -> str:
        """Reasons why neither steps nor the time of the devices are known."""
        reasons = (self.missing.get(name) for name in ("steps", "kernels", "parts"))
        found = dict.fromkeys(one for one in reasons if one)
        return "; ".join(found) or "no steps in common with the other side"

    def without_steps(self) -> JobTable:
        """Return the table with times of all the measured time of a rank instead of a step."""
        times = self.num_rank_steps / self.num_ranks if self.num_rank_steps else 1
        return replace(
            self,
            num_rank_steps=0,
            device_ms=np.empty(0),
            marker_ms=np.empty(0),
            parts_ms={part: ms * times for part, ms in self.parts_ms.items()},
            kinds_ms={},
            waits_ms={name: ms * times for name, ms in self.waits_ms.items()},
        )


def why_unmeasured(*sides: tuple[JobTable, float | None]) -> str:
    """Return why sides A and B, each with its time, have none; "" where both have one."""
    found = [
        (label, table.why_unmeasured)
        for label, (table, value) in zip("AB", sides, strict=True)
        if value is None
    ]
    reasons = {why for _, why in found}
    if len(found) == 2 and len(reasons) == 1:
        return f"A and B: {reasons.pop()}"
    return "; ".join(f"{label}: {why}" for label, why in found)


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
