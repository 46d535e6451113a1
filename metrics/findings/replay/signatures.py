"""Signatures of work that differs from one micro-batch to the next.

Long sequences make the forward and the backward pass of a micro-batch longer, on all stages that it
goes through; a slow device does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.reductions import median_along
from ccltui.metrics.findings.replay.lines.job_lines import JobLines
from ccltui.metrics.findings.replay.lines.pass_units import BACKWARD_PASS, FORWARD_PASS, WHOLE
from ccltui.parsers.array_types import F64

MIN_POINTS: Final = 4
"""Micro-batches of one worker from which a correlation is given."""


class Signatures(Struct, frozen=True, dict=True):
    """Correlations over the micro-batches of a job; None where too few are recorded."""

    job: JobLines

    @cached_property
    def _tables(self) -> tuple[F64, F64] | None:
        """Forward and backward times [workers, steps, micro-batches], NaN where there is none."""
        units = self.job.units
        count = [int((units.type == kind).sum()) for kind in (FORWARD_PASS, BACKWARD_PASS)]
        if not all(count):
            return None
        shape = (len(self.job.labels), self.job.num_steps)
        found = []
        for kind in (FORWARD_PASS, BACKWARD_PASS):
            mine = units.type == kind
            table = np.full((*shape, int(units.number[mine].max()) + 1), np.nan)
            place = self.job.worker[mine], self.job.step[mine], units.number[mine]
            table[place] = self._relative_ns[mine]
            found.append(table)
        least = min(one.shape[2] for one in found)
        return found[0][:, :, :least], found[1][:, :, :least]

    @cached_property
    def _relative_ns(self) -> F64:
        """Time of each unit over what is typical of it on all lines of its program, times the mean.

        A pass that always has more kernels than the others has no longer sequences for that.
        """
        own, typical = self.job.unit_ns, self.job.profile_ns
        known = typical > 0
        mean = np.bincount(self.job.units.type[known], typical[known], minlength=WHOLE + 2)
        count = np.bincount(self.job.units.type[known], minlength=WHOLE + 2)
        usual = (mean / np.maximum(count, 1))[self.job.units.type]
        return np.where(known, own * usual / np.where(known, typical, 1), own)

    @property
    def num_micro_batches(self) -> int:
        """Micro-batches of a step, 0 where passes are not known."""
        return 0 if self._tables is None else self._tables[0].shape[2]

    @cached_property
    def r_fb(self) -> float | None:
        """Correlation of forward and backward time without the means of worker and step.

        With one micro-batch a step, without the mean of the worker. Median over workers.
        """
        if self._tables is None:
            return None
        forward, backward = (self._residual(one) for one in self._tables)
        each = [
            correlation(one.ravel(), other.ravel())
            for one, other in zip(forward, backward, strict=True)
        ]
        return _median([one for one in each if one is not None])

    @cached_property
    def cv(self) -> float | None:
        """Standard deviation over mean of backward times in a step, median over workers and steps.

        With one micro-batch a step over the steps. Whole steps where passes are not known.
        """
        if self._tables is not None:
            table = self._tables[1]
        else:
            units = self.job.units
            mine = units.type == WHOLE
            if not mine.any():
                return None
            table = np.full((len(self.job.labels), self.job.num_steps, 1), np.nan)
            table[self.job.worker[mine], self.job.step[mine], 0] = self.job.unit_ns[mine]
        if table.shape[2] == 1:
            table = np.swapaxes(table, 1, 2)
        known = ~np.isnan(table).any(axis=2)
        rows = table[known]
        if not len(rows) or rows.shape[1] < 2 or not (rows.mean(axis=1) > 0).all():
            return None
        return float(median_along(rows.std(axis=1) / rows.mean(axis=1)))

    @cached_property
    def r_stages(self) -> float | None:
        """Correlation over micro-batches of backward time on the first and the other stages."""
        if self._tables is None or self.job.stages.count < 2 or self.job.stages.wraps:
            return None
        stage = self.job.stages.stage
        backward = self._residual(self._tables[1])
        found = []
        for line in self.job.pipelines:
            first = [rank for rank in line if stage[rank] == 0]
            for other in (rank for rank in line if stage[rank] > 0):
                if first:
                    one = correlation(backward[first[0]].ravel(), backward[other].ravel())
                    found += [] if one is None else [one]
        return _median(found)

    def _residual(self, table: F64) -> F64:
        axis = (1, 2) if table.shape[2] < 2 else (2,)
        return np.asarray(table - table.mean(axis=axis, keepdims=True))


def correlation(one: F64, other: F64) -> float | None:
    """Return Pearson's correlation over the pairs without NaN, None of too few or constant ones."""
    known = ~(np.isnan(one) | np.isnan(other))
    one, other = one[known], other[known]
    if len(one) < MIN_POINTS or one.std() == 0 or other.std() == 0:
        return None
    return float(np.corrcoef(one, other)[0, 1])


def _median(values: Sequence[float]) -> float | None:
    return float(median_along(values)) if values else None
