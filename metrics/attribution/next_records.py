"""What to record next, where a verdict is not sure."""

from __future__ import annotations

from typing import Final

import numpy as np

from ccltui.metrics.attribution.findings import Context, Finding
from ccltui.metrics.attribution.lines.job_lines import JobLines
from ccltui.metrics.model.classify import TYPES
from ccltui.parsers.missing_ranks import ranges_text

MAX_UNLINKED: Final = 0.1
"""Share of the time in collectives that may be in calls without a match."""
MAX_UNKNOWN_TRANSFERS: Final = 0.01
"""Share of the calls that may be transfers of which no side is known."""
_TRANSFERS: Final = [TYPES.index(name) for name in ("Send", "Recv", "SendRecv")]


def next_records(
    job: JobLines, context: Context, finding: Finding | None, *, tells_passes: bool
) -> list[str]:
    """Return what to record so that more is known; ``tells_passes``: of forward and backward."""
    asked = []
    if job.num_steps < 3:
        asked.append("more steps: three or more tell what is always slow from what comes and goes")
    if not job.marked:
        asked.append("step markers (profiler.step())")
    if context.missing:
        asked.append(f"the trace of rank {ranges_text(context.missing)}")
    apart = context.names_only and len(job.together) > 1
    if (
        apart
        or job.replay.unlinked > MAX_UNLINKED
        or unknown_transfers(job) > MAX_UNKNOWN_TRANSFERS
    ):
        asked.append("groups, peers and sizes of collectives, which PyTorch 2.3 or later writes")
    if finding is None and not tells_passes and not context.has_launches:
        asked.append("launch records (CPU activity): they tell forward from backward passes")
    if finding is not None and finding.verdict == "host" and finding.hosts_cause is None:
        asked.append("CPU activity, or Python stacks, of the ranks whose devices idle")
    return asked


def unknown_transfers(job: JobLines) -> float:
    """Share of the calls that are sends or receives without a known other side.

    A kernel of sends and receives that three ranks or more share is an all-to-all.
    """
    table = job.table
    sizes = np.bincount(table.instance[table.instance >= 0], minlength=len(table.transfer_ns))
    members = np.append(sizes, 0)[table.instance]
    unknown = np.isin(table.kind, _TRANSFERS) & (table.direction == 0) & (members < 3)
    if job.stages.ring:
        unknown &= table.instance < 0
    return float(unknown.mean()) if len(unknown) else 0.0
