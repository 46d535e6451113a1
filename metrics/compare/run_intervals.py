"""Intervals of the differences of two sides of which one has several runs: of the runs' means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from ccltui.metrics.compare.job_changes import TimeChange, WorkChange
from ccltui.metrics.compare.spread import Sample, half_width

if TYPE_CHECKING:
    from collections.abc import Callable

    from ccltui.metrics.compare.job_table import JobTable, Work
    from ccltui.parsers.array_types import F64


@dataclass(frozen=True, slots=True)
class RunIntervals:
    """Rows with the intervals of runs in place of those of steps."""

    a: Sequence[JobTable]
    b: Sequence[JobTable]

    @classmethod
    def of(cls, a: JobTable, b: JobTable) -> RunIntervals | None:
        """Return the intervals of two sides, None where both are one run."""
        return cls(a.runs or (a,), b.runs or (b,)) if a.runs or b.runs else None

    def of_steps(self, row: TimeChange, of: Callable[[JobTable], F64 | None]) -> TimeChange:
        """Return a time of a step, whose values by step in a run ``of`` returns."""
        return replace(row, half_width=self._width(lambda run: _mean(of(run))))

    def of_kind(self, row: TimeChange) -> TimeChange:
        """Return the time of a kind of parts of a step."""
        return self.of_steps(row, lambda run: run.kinds_ms.get(row.name))

    def of_work(self, row: WorkChange, table: Literal["kernels", "operators"]) -> WorkChange:
        """Return device work with the wider of the two intervals.

        That of steps holds for all rows at once, which that of runs does not.
        """
        steps = row.time.half_width
        own = self._width(lambda run: _per_step(run, getattr(run, table).get(row.key)))
        wider = None if own is None or steps is None else max(own, steps)
        return replace(row, time=replace(row.time, half_width=wider))

    def _width(self, of: Callable[[JobTable], float | None]) -> float | None:
        sides = [
            tuple(value for run in runs if (value := of(run)) is not None)
            for runs in (self.a, self.b)
        ]
        if not all(sides):
            return None
        return half_width(*(Sample(values, "runs") for values in sides))


def _mean(values: F64 | None) -> float | None:
    return None if values is None or not len(values) else float(values.mean())


def _per_step(run: JobTable, work: Work | None) -> float:
    return 0.0 if work is None else work.total_ns / 1e6 / (run.num_rank_steps or 1)
