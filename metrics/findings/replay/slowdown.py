"""Slowdown against a job whose operations of one type are all alike, and what it comes from.

ideal     every compute type takes its mean over workers, stages, micro-batches and steps, every
          type of communication the median of its transfer times
S         mean step of the replay as recorded over that of the ideal
S of X    only X (a type, a stage, one data-parallel rank) as recorded, all else ideal
S of w    the smaller of those of the stage and of the data-parallel rank of worker w: an upper
          bound from pp + dp replays instead of pp * dp
M of X    share of (T - ideal) that goes when the operations of X alone are ideal
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final, TypeVar

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.reductions import distinct_values
from ccltui.metrics.findings.replay.ladder import Ladder
from ccltui.metrics.findings.replay.lines.pass_units import TYPE_NAMES
from ccltui.metrics.findings.replay.unit_targets import means_by, medians_by
from ccltui.metrics.model.classify import TYPES
from ccltui.parsers.array_types import F64, I64, Bool

_Key = TypeVar("_Key", int, str)

LEAST_PHYSICAL: Final = 0.995
"""A slowdown below this is no property of the job: the replay does not describe it."""
LEAST_DECOMPOSED: Final = 1.03
"""A smaller slowdown has no parts."""
MAX_WORKERS: Final = 16
WORKERS_FIXED: Final = 0.03
"""Share of the workers that M_W makes ideal."""
MAX_EVENTS: Final = 8_000_000
"""So many operations are replayed for data-parallel ranks, but one rank at least."""


class Slowdown(Struct, frozen=True, dict=True):
    """The quantities of one job; ratios of mean step times."""

    ladder: Ladder

    @cached_property
    def _ideal_units(self) -> F64:
        return means_by(self.ladder.targets.own, self.ladder.targets.kind)

    @cached_property
    def _ideal_segments(self) -> F64:
        """Time of each segment with all units ideal."""
        return self.ladder.job.segments(self._ideal_units)

    @cached_property
    def _ideal_transfer(self) -> F64:
        """Median of the instances that are alike."""
        return medians_by(self.ladder.recorded_transfer, self.ladder.job.table.alike)

    def _time(self, units: Bool, instances: Bool) -> float:
        """Mean step with some units and instances as recorded, all others ideal."""
        return self._times([(units, instances)])[0]

    def _times(self, kept: Sequence[tuple[Bool, Bool]]) -> list[float]:
        """The same of several choices of units and instances."""
        ends = self.ladder.job.replay.many(self._run(*one) for one in kept)
        return [float(one) for one in ends.mean(axis=1)]

    def _run(self, units: Bool, instances: Bool) -> tuple[F64, F64]:
        """Time of each segment and instance, some as recorded and all others ideal."""
        operations = self.ladder.job.operations
        segments = self._ideal_segments
        if units.any():
            # units share no segments, so those of others do not depend on what is kept
            kept = np.append(units, False)[operations.unit]
            segments = np.where(kept, operations.compute_ns, segments)
        transfer = np.where(instances, self.ladder.recorded_transfer, self._ideal_transfer)
        return segments, transfer

    @cached_property
    def _all(self) -> tuple[Bool, Bool]:
        size = len(self.ladder.targets.own), len(self.ladder.recorded_transfer)
        return np.ones(size[0], np.bool_), np.ones(size[1], np.bool_)

    @cached_property
    def recorded_ns(self) -> float:
        """Mean step of the replay as recorded, without host delays."""
        return float(self.ladder.rungs[5].mean())

    @cached_property
    def ideal_ns(self) -> float:
        """Mean step of the ideal."""
        units, instances = self._all
        return self._time(~units, ~instances)

    @cached_property
    def equalised(self) -> float:
        """S."""
        return self.recorded_ns / self.ideal_ns

    @cached_property
    def by_type(self) -> dict[str, float]:
        """S of each type of operation."""
        job, (units, instances) = self.ladder.job, self._all
        kept = {
            TYPE_NAMES[kind]: (job.units.type == kind, ~instances)
            for kind in distinct_values(job.units.type).tolist()
        }
        kept |= {name: (~units, one) for name, one in self._types_of_instances().items()}
        return self._slowdowns(kept)

    def _slowdowns(self, kept: Mapping[_Key, tuple[Bool, Bool]]) -> dict[_Key, float]:
        times = self._times(list(kept.values()))
        return {key: time / self.ideal_ns for key, time in zip(kept, times, strict=True)}

    def _types_of_instances(self) -> dict[str, Bool]:
        """Masks of the instances of each operation; sends and receives of a direction are one."""
        table = self.ladder.job.table
        linked = np.flatnonzero(table.instance >= 0)
        kind = np.zeros(len(table.transfer_ns), np.int64)
        kind[table.instance[linked]] = table.kind[linked]
        towards = np.zeros(len(table.transfer_ns), np.int64)
        towards[table.instance[linked]] = table.direction[linked]
        found: dict[str, Bool] = {}
        is_pair = table.group < 0
        for one, name in ((1, "transfer_forward"), (2, "transfer_backward"), (0, "transfer")):
            chosen = is_pair & (towards == one) & (table.pair[:, 0] >= 0)
            if chosen.any():
                found[name] = chosen
        rest = ~(is_pair & (table.pair[:, 0] >= 0))
        for one in distinct_values(kind[rest]).tolist():
            found[TYPES[one]] = rest & (kind == one)
        return found

    @cached_property
    def _stage(self) -> I64:
        return self.ladder.targets.place[self.ladder.job.worker]

    @cached_property
    def by_stage(self) -> dict[int, float]:
        """S of each stage of a pipeline."""
        if not self.ladder.targets.has_stages:
            return {}
        instances = self._all[1]
        stages = distinct_values(self._stage).tolist()
        return self._slowdowns({one: (self._stage == one, ~instances) for one in stages})

    @cached_property
    def _replica(self) -> I64:
        """Data-parallel place of each rank: its number among the ranks of its stage."""
        place = self.ladder.targets.place
        order = np.argsort(place, kind="stable")
        first = np.searchsorted(place[order], place[order])
        found = np.empty(len(place), np.int64)
        found[order] = np.arange(len(place)) - first
        return found

    @cached_property
    def _by_replica(self) -> dict[int, float]:
        job, targets = self.ladder.job, self.ladder.targets
        replica = self._replica[job.worker]
        excess = np.bincount(replica, weights=np.abs(targets.own - self._ideal_units))
        count = max(1, MAX_EVENTS // max(len(job.operations.kind), 1))
        chosen = np.argsort(-excess)[: min(count, MAX_WORKERS)].tolist()
        instances = self._all[1]
        return self._slowdowns({one: (replica == one, ~instances) for one in chosen})

    @cached_property
    def by_worker(self) -> dict[int, float]:
        """S of the ranks (indices) with the largest, descending."""
        ranks = distinct_values(self.ladder.job.table.rank)
        place, replica = self.ladder.targets.place, self._replica
        found = {
            int(rank): min(
                self.by_stage.get(int(place[rank]), np.inf), self._by_replica[int(replica[rank])]
            )
            for rank in ranks
            if int(replica[rank]) in self._by_replica
        }
        return dict(sorted(found.items(), key=lambda item: -item[1])[:MAX_WORKERS])

    def _m(self, fixed: Bool) -> float | None:
        """M of the units in a mask; None where there is no slowdown to divide."""
        if self.equalised < LEAST_DECOMPOSED:
            return None
        time = self._time(~fixed, self._all[1])
        return (self.recorded_ns - time) / (self.recorded_ns - self.ideal_ns)

    @cached_property
    def m_w(self) -> float | None:
        """M of the 3 % of the workers with the largest S."""
        count = int(np.ceil(WORKERS_FIXED * len(distinct_values(self.ladder.job.table.rank))))
        return self._m(np.isin(self.ladder.job.worker, list(self.by_worker)[:count]))

    @cached_property
    def m_stage(self) -> dict[int, float] | None:
        """M of each stage; None without a pipeline or a slowdown."""
        if not self.by_stage or self.equalised < LEAST_DECOMPOSED:
            return None
        instances, loss = self._all[1], self.recorded_ns - self.ideal_ns
        times = self._times([(self._stage != stage, instances) for stage in self.by_stage])
        return {
            stage: (self.recorded_ns - time) / loss
            for stage, time in zip(self.by_stage, times, strict=True)
        }

    def details(self) -> dict[str, Any]:
        """Return the keys of the metric; those against the ideal are null where it is longer."""
        ladder = self.ladder
        repaired = float(ladder.rungs[6].mean() / ladder.rungs[0].mean())
        found: dict[str, Any] = dict.fromkeys(KEYS)
        found["repaired_slowdown"] = repaired if repaired >= LEAST_PHYSICAL else None
        found["host_slowdown"] = float(ladder.rungs[6].mean() / self.recorded_ns)
        if self.equalised < LEAST_PHYSICAL:
            return found
        labels, last = ladder.job.labels, ladder.job.stages.count - 1
        m_stage = self.m_stage
        found |= {
            "equalised_slowdown": self.equalised,
            "equalised_ideal_step_time_ms": self.ideal_ns / 1e6,
            "slowdown_by_type": self.by_type,
            "slowdown_by_stage": {str(k): v for k, v in self.by_stage.items()} or None,
            "slowdown_by_worker": {labels[rank]: value for rank, value in self.by_worker.items()},
            "m_w": self.m_w,
            "m_s": None if m_stage is None else m_stage.get(last),
            "m_stage": None if m_stage is None else {str(k): v for k, v in m_stage.items()},
        }
        return found


KEYS: Final = (
    "equalised_slowdown",
    "equalised_ideal_step_time_ms",
    "slowdown_by_type",
    "slowdown_by_stage",
    "slowdown_by_worker",
    "m_w",
    "m_s",
    "m_stage",
    "repaired_slowdown",
    "host_slowdown",
)
