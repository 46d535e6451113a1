"""Divide the device time of each step of each rank, for the chart of steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.reductions import median_along
from ccltui.metrics.findings.rank_time.partition import exposed_parts
from ccltui.parsers.array_types import I64

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView

PARTS: Final = ("compute", "overlapped", "waiting", "transfer", "bubble", "copies", "idle")
"""Kinds of time in the order of a bar: computation alone and beside communication, then those of
`partition`."""


class StepParts(Struct, frozen=True, eq=False):
    """Device time of s steps of r ranks; all arrays int64 ns.

    Attributes:
        labels: labels of the ranks.
        steps: ids of the steps.
        start_ns: [s, r] starts since the origin on the job's clock, -1 where a rank lacks a step.
        length_ns: [s, r] lengths, 0 where a rank lacks a step.
        parts_ns: [7, s, r] time in each of PARTS; the sum over parts is ``length_ns``.
    """

    labels: tuple[str, ...]
    steps: tuple[int, ...]
    start_ns: I64
    length_ns: I64
    parts_ns: I64

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def longest_ns(self) -> I64:
        """Length of each step on its slowest rank, int64 [s]."""
        return np.asarray(self.length_ns.max(axis=1, initial=0))

    @property
    def slowest(self) -> I64:
        """Column of the slowest rank of each step, int64 [s]."""
        if not self.labels:
            return np.empty(0, np.int64)
        return np.asarray(self.length_ns.argmax(axis=1))

    @property
    def median_ns(self) -> int:
        """Median length of the steps on their slowest ranks; 0 without steps."""
        return int(median_along(self.longest_ns)) if len(self) else 0

    @property
    def median_step(self) -> int | None:
        """Row of the step whose length on its slowest rank is the lower median, None without."""
        order = np.argsort(self.longest_ns, kind="stable")
        return int(order[(len(order) - 1) // 2]) if len(order) else None

    @property
    def time_ns(self) -> I64:
        """Time of each step, int64 [s]: lower median of the lengths on the ranks that have it."""
        found = np.zeros(len(self), np.int64)
        for row, lengths in enumerate(self.length_ns):
            known = np.sort(lengths[self.start_ns[row] >= 0])
            if len(known):
                found[row] = known[(len(known) - 1) // 2]
        return found

    @property
    def middle(self) -> int | None:
        """Row of the step whose time is the lower median; None without steps."""
        order = np.argsort(-self.time_ns, kind="stable")
        return int(order[len(order) // 2]) if len(order) else None

    def mean_shares(self, row: int) -> list[float]:
        """Return the parts of one step as shares of its mean length; zeros where no rank has it."""
        mean = self.mean_ns(row)
        return [part / max(sum(mean), 1) for part in mean]

    def mean_ns(self, row: int) -> list[int]:
        """Return the parts of one step in ns, mean over the ranks that have it; zeros if none."""
        there = max(int((self.start_ns[row] >= 0).sum()), 1)
        return [int(total) // there for total in self.parts_ns[:, row].sum(axis=1)]


Windows = Sequence[tuple[int, int, int]]
"""Step id, start and end in ns of the steps of a rank; disjoint."""


def from_begin(rank: RankView) -> Windows:
    """Return the steps of a rank from first work to first work, as they are measured."""
    return rank.step_windows


def from_end(rank: RankView) -> Windows:
    """Return the steps of a rank from the end of the work of the step before to that of their own.

    Idle time between two steps is here in the step whose work comes late, which is the one whose
    marker contains what the host did, where hosts do not run ahead.
    """
    ends = {step: end for step, _, end in rank.work_windows}
    rows: list[tuple[int, int, int]] = []
    reached = None
    for step, start, stop in rank.step_windows:
        begin = start if reached is None or reached[0] != start else reached[1]
        # A window may begin after the work of a step: what is left of it is idle for the next.
        end = max(ends.get(step, begin), begin)
        rows.append((step, begin, end))
        reached = stop, end
    return rows


def step_parts(view: View, windows: Callable[[RankView], Windows] = from_begin) -> StepParts:
    """Return the parts of the selected steps of all selected ranks with kernels.

    Definitions are those of `partition`, inside the time of each step.
    Where the view selects a group, time in collectives of other groups is in no part and not in
    ``length_ns``.
    """
    ranks = [rank for rank in view.ranks if rank.facts.has_kernels and rank.by_steps]
    steps = sorted({step for rank in ranks for step, _, _ in rank.step_windows})
    shape = len(steps), len(ranks)
    start = np.full(shape, -1, np.int64)
    parts = np.zeros((len(PARTS), *shape), np.int64)
    place = {step: row for row, step in enumerate(steps)}
    for column, rank in enumerate(ranks):
        ids, begins, ends = np.array(windows(rank), np.int64).reshape(-1, 3).T
        rows = [place[step] for step in ids.tolist()]
        start[rows, column] = view.on_job_clock(rank.label, begins) - view.origin_ns
        parts[:, rows, column] = _parts(view, rank, begins, ends)
        if view.facts.is_large:  # the intervals of all ranks do not fit into memory
            rank.forget_intervals()
    return StepParts(
        labels=tuple(rank.label for rank in ranks),
        steps=tuple(steps),
        start_ns=start,
        length_ns=parts.sum(axis=0),
        parts_ns=parts,
    )


def _parts(view: View, rank: RankView, starts: I64, ends: I64) -> I64:
    """Parts of the steps of one rank, int64 ns [7, steps]."""
    exposed = rank.exposed
    waiting, bubble = exposed_parts(view, rank, exposed)
    overlap, copies = rank.comm & rank.comp, rank.mem - rank.comp
    # What the recording lacks of a step (`RankView.windows`) is in none of its parts.
    in_comp, both, waits, in_comm, bubbles, copied, busy, window = (
        part.within(starts, ends)
        for part in (
            *(rank.comp, overlap, waiting, exposed, bubble),
            *(copies, rank.occupied, rank.windows),
        )
    )
    transfer = in_comm - waits - bubbles
    return np.stack([in_comp - both, both, waits, transfer, bubbles, copied, window - busy])


def one_per_rank(parts: StepParts, row: int) -> Sequence[tuple[str, list[int]]]:
    """Return label and parts of every rank that has a step, the slowest first."""
    order = np.argsort(-parts.length_ns[row], kind="stable")
    here = [column for column in order.tolist() if parts.start_ns[row, column] >= 0]
    return [(parts.labels[column], parts.parts_ns[:, row, column].tolist()) for column in here]
