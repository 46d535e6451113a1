"""What the hosts do while devices idle and no collective runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from ccltui.metrics.arrays.intervals import Intervals, union
from ccltui.metrics.attribution.findings import NOTHING
from ccltui.metrics.attribution.lines.job_lines import JobLines
from ccltui.metrics.attribution.lines.step_lines import SOON_NS
from ccltui.metrics.collectives.causes.host_work import HostWork
from ccltui.metrics.model.classify import MEM, any_name, distinct

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View

MAX_RANKS: Final = 4
"""Ranks whose hosts are looked at where no single one is to blame."""
SHORT_NS: Final = 10_000
"""Shorter idle times are changeovers of the device."""
_PEER: Final = re.compile("PtoP|peer", re.IGNORECASE)


def idle_by_activity(
    view: View, job: JobLines, ranks: Sequence[int] | None
) -> dict[str, float] | None:
    """Return idle time by activity of the host, ns; None where no host activity is recorded.

    Args:
        view: the view of the job.
        job: its lines.
        ranks: indices of ranks; None for the first of all.
    """
    chosen = list(ranks) if ranks else np.unique(job.table.rank)[:MAX_RANKS].tolist()
    found: dict[str, float] = {}
    told = False
    for rank in chosen:
        facts = view.facts.ranks[job.labels[rank]]
        if not len(facts.trace.group("cpu_ops")) and not len(facts.trace.group("runtime")):
            continue
        told = True
        idle = _idle(facts.device_work, job, rank)
        rest = idle
        for cause, times in HostWork.of(facts).disjoint.items():
            left = rest - times
            found[cause] = found.get(cause, 0.0) + rest.total_ns - left.total_ns
            rest = left
        found[NOTHING] = found.get(NOTHING, 0.0) + rest.total_ns
    return found if told else None


def waits_for_copies(view: View, job: JobLines, ranks: Sequence[int] | None) -> float:
    """Return idle time of a device that ends with a copy from another rank, ns a step.

    Such a copy is one of a collective where an operator says so. Without it nothing tells whether
    the device waited for other ranks or for its host.

    Args:
        view: the view of the job.
        job: its lines.
        ranks: indices of ranks; None for all. The longest time is returned.
    """
    chosen = list(ranks) if ranks else np.unique(job.table.rank).tolist()
    found = 0.0
    for rank in chosen:
        facts = view.facts.ranks[job.labels[rank]]
        gpu = facts.trace.group("gpu")
        names = [one for one in distinct(gpu.name) if _PEER.search(facts.trace.text(one))]
        if not names:
            continue
        copies = (facts.classes == MEM) & any_name(facts.trace.strings, gpu.name, names)
        other = union(gpu.start_ns[~copies], gpu.end_ns[~copies])
        ends = np.sort(gpu.end_ns[copies])
        idle = _idle(other, job, rank)
        last = np.searchsorted(ends, idle.end_ns, side="right") - 1
        ended = np.append(ends, np.iinfo(np.int64).min)[last]
        waits = (ended > idle.start_ns) & (idle.end_ns - ended <= SOON_NS)
        found = max(found, float((idle.end_ns - idle.start_ns)[waits].sum()))
    return found / job.num_steps


def _idle(work: Intervals, job: JobLines, rank: int) -> Intervals:
    """Idle time of a device in its lines."""
    lines = np.flatnonzero(job.table.rank == rank)
    gaps = [work.gaps(int(job.own_origin_ns[i]), int(job.own_end_ns[i])) for i in lines]
    starts = np.concatenate([gap.start_ns for gap in gaps])
    ends = np.concatenate([gap.end_ns for gap in gaps])
    long = ends - starts > SHORT_NS
    return union(starts[long], ends[long])
