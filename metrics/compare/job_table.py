"""Tables of one side of a comparison of traces: steps, parts of a step, work, collectives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from ccltui.metrics.compare.metric_changes import Measure
from ccltui.metrics.findings.rank_time.partition import Named

if TYPE_CHECKING:
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
