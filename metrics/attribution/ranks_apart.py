"""Ranks that a verdict cannot compare: those without a like, and those that never wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ccltui.metrics.arrays.statistics import milliseconds
from ccltui.metrics.result import Reason
from ccltui.parsers.array_types import I64

if TYPE_CHECKING:
    from ccltui.metrics.attribution.ladder import Ladder
    from ccltui.metrics.attribution.lines.job_lines import JobLines


def ranks_alone(ladder: Ladder) -> I64:
    """Return the ranks whose calls no other rank makes, of a job in which other ranks are alike.

    Stages of a pipeline differ anyway and are compared by what they cost: none of them is alone.
    """
    here = np.unique(ladder.job.table.rank)
    if ladder.targets.has_stages:
        return here[:0]
    place = ladder.targets.place[here]
    alone = np.bincount(place)[place] == 1
    return here[alone] if not alone.all() else here[:0]


def longer_alone(ladder: Ladder, least_share: float) -> str | None:
    """Return why a rank without a like may be slow, None where none computes longer than others.

    Every replay leaves such a rank its own time, so that it costs nothing however slow it is.

    Args:
        ladder: the replays.
        least_share: share of the step from which on more compute counts.
    """
    alone, job = ranks_alone(ladder), ladder.job
    if not len(alone):
        return None
    total_ns = np.bincount(job.worker, weights=job.unit_ns, minlength=len(job.labels))
    compute_ns = total_ns / job.num_steps
    others = np.setdiff1d(np.unique(job.table.rank), alone)
    longest = int(alone[compute_ns[alone].argmax()])
    longer_ns = float(compute_ns[longest] - compute_ns[others].max())
    if longer_ns < least_share * float(ladder.rungs[6].mean()):
        return None
    return (
        f"rank {job.labels[longest]} computes {milliseconds(longer_ns):.3g} ms longer than any "
        f"other in {job.period}, and its calls are recorded as other ones than theirs: whether it "
        "is slow or has more to do cannot be told"
    )


def alone_reasons(ladder: Ladder) -> list[Reason]:
    """Return a reason for each rank that is compared with no other."""
    labels = [ladder.job.labels[rank] for rank in ranks_alone(ladder).tolist()]
    return [
        Reason(
            "unmatched_collectives",
            f"rank {label} is compared with no other: its calls differ from those of all others",
            rank=label,
        )
        for label in labels
    ]


def why_apart(job: JobLines, *, names_only: bool) -> str | None:
    """Return why ranks that never wait for each other may do so, None where they do or do not."""
    parts = len(job.together)
    if not names_only or parts < 2:
        return None
    return (
        f"no file names a communicator, and those that are told apart leave {parts} sets of ranks "
        "that never wait for each other: some are not told"
    )
