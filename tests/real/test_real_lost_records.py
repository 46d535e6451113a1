"""What is said first of public recordings when they lack some kind of event.

Who is waited for, and for how long, must not depend on step markers, nor on events of the host
where waiting is in kernels: those only tell why.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace

from ccltui.metrics.catalog.time.findings import answer_of
from ccltui.metrics.findings.finding import Finding
from ccltui.metrics.view.job_view import View
from ccltui.parsers.columns import Group
from ccltui.parsers.job import open_job

pytestmark = pytest.mark.shared

MEGATRON: Final = "traces/astra-sim/megatron-tp8"
SLEEP: Final = "traces/torchrec/trace/sst_long_a2a_optimizer"
ALLOCATION: Final = "traces/torchrec/trace/sst_long_a2a_optimizer_3"
HOST_EVENTS: Final[tuple[Group, ...]] = ("cpu_ops", "runtime", "python", "other", "annotations")


def first_without(path: Path, lost: tuple[Group, ...], cache: Path) -> tuple[Finding, float]:
    """Return the first finding without some groups of events, and the sum of all shares."""
    job = open_job(path, cache_dir=cache)
    ranks = tuple(
        replace(trace, events={name: own for name, own in trace.events.items() if name not in lost})
        for trace in job.ranks
    )
    found = answer_of(View(replace(job, ranks=ranks))).findings
    return found[0], sum(one.share or 0.0 for one in found)


@pytest.mark.parametrize(
    ("path", "lost", "kind", "ranks", "share"),
    [
        (MEGATRON, ("annotations",), "waiting_for_rank", ("0",), 0.31),
        (MEGATRON, HOST_EVENTS, "waiting_for_rank", ("0",), 0.31),
        (SLEEP, ("annotations",), "waiting_for_rank", ("2",), 0.683),
        (SLEEP, ("runtime",), "waiting_for_rank", ("2",), 0.683),
        (SLEEP, HOST_EVENTS, "waiting_for_rank", ("2",), 0.683),
        (ALLOCATION, ("annotations",), "host_allocation", (), 0.299),
    ],
)
def test_the_first_finding_stays(
    shared: Path,
    tmp_path: Path,
    path: str,
    lost: tuple[Group, ...],
    kind: str,
    ranks: tuple[str, ...],
    share: float,
) -> None:
    first, total = first_without(shared / path, lost, tmp_path)

    assert (first.kind, first.where.ranks) == (kind, ranks), first.text
    assert first.share == pytest.approx(share, abs=0.03)
    assert total <= 1.03, "parts of one partition"
