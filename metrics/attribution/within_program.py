"""Step times if no rank were slower than those of its stage in the same pass of the same step.

Host delays and transfers stay as recorded. Where receives are posted ahead on streams of their own,
how much a rank computes between two posts is no property of its program; passes are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from ccltui.metrics.attribution.ladder import Ladder
from ccltui.metrics.attribution.lines.call_table import is_receive
from ccltui.metrics.attribution.lines.job_lines import JobLines
from ccltui.metrics.attribution.lower_median import lower_medians
from ccltui.parsers.array_types import F64, Bool

AHEAD_SHARE: Final = 0.1
"""Share of the receives posted before the pass that needs them, from which passes count."""


def posts_ahead(job: JobLines) -> bool:
    """Return whether the ranks of a pipeline post receives before they need them."""
    receives = is_receive(job.table)
    if not receives.any():
        return False
    ahead = job.positions.posted[receives] < job.positions.resumed[receives]
    return bool(ahead.mean() > AHEAD_SHARE)


@dataclass(frozen=True)
class WithinProgram:
    """Replays of a job with passes at the typical time of their like; float64 ns by step."""

    ladder: Ladder

    @cached_property
    def _typical(self) -> F64:
        """Lower median over the workers of a stage of each pass of each step."""
        job, targets = self.ladder.job, self.ladder.targets
        key = np.stack([targets.place[job.worker], job.step, targets.kind, job.units.number])
        _, number = np.unique(key, axis=1, return_inverse=True)
        number = number.reshape(-1)
        return lower_medians(targets.own, number, int(number.max(initial=-1)) + 1)[number]

    def _ends(self, changed: Bool) -> F64:
        job, targets = self.ladder.job, self.ladder.targets
        scale = self._typical / np.where(targets.own > 0, targets.own, 1)
        scale = np.append(np.where(changed & (targets.own > 0), scale, 1.0), 1.0)
        operations = job.operations
        return job.replay.ends(
            operations.compute_ns * scale[operations.unit] + operations.host_ns,
            self.ladder.recorded_transfer,
            begin_ns=job.begin_ns,
            delayed=np.ones(job.table.num_lines, np.bool_),
        )

    @cached_property
    def recorded(self) -> F64:
        """Steps as recorded."""
        return self.ladder.delayed

    @cached_property
    def even(self) -> F64:
        """Steps with every pass at the typical time of its like."""
        return self._ends(np.ones(len(self._typical), np.bool_))

    def without(self, rank: int) -> F64:
        """Return the steps with the passes of one rank (an index) at the typical time."""
        return self._ends(self.ladder.job.worker == rank)

    def suspects(self, most: int) -> Sequence[int]:
        """Ranks whose passes exceed their like the most, those first that do so most."""
        job, own = self.ladder.job, self.ladder.targets.own
        excess = np.bincount(
            job.worker, weights=np.maximum(own - self._typical, 0), minlength=len(job.labels)
        )
        order = np.argsort(-excess, kind="stable")[:most]
        return [int(rank) for rank in order if excess[rank] > 0]

    @cached_property
    def alone(self) -> Sequence[str]:
        """Ranks that are the only ones of their stage."""
        job, place = self.ladder.job, self.ladder.targets.place
        here = np.unique(job.table.rank)
        counts = np.bincount(place[here])
        return [job.labels[rank] for rank in here if counts[place[rank]] == 1]
