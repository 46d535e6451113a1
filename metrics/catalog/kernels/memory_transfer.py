"""Time and bandwidth of copies and fills of device memory."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.reductions import distinct_values
from ccltui.metrics.arrays.statistics import milliseconds, ratio
from ccltui.metrics.metric import metric
from ccltui.metrics.model.classify import COMP, MEM, distinct, per_name
from ccltui.metrics.result import Result
from ccltui.metrics.unavailable import refuse
from ccltui.metrics.view.data_quality import guessed_steps, without_device_times
from ccltui.metrics.view.provenance import answer
from ccltui.metrics.view.rank_view import of_rank, totals

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView

KINDS: Final = ("HtoD", "DtoH", "DtoD", "PtoP", "HtoH", "Memset", "other")
_PATTERNS: Final = (
    ("PtoP", re.compile(r"PtoP|peer", re.IGNORECASE)),
    ("HtoD", re.compile(r"HtoD|HostToDevice", re.IGNORECASE)),
    ("DtoH", re.compile(r"DtoH|DeviceToHost", re.IGNORECASE)),
    ("DtoD", re.compile(r"DtoD|DeviceToDevice", re.IGNORECASE)),
    ("HtoH", re.compile(r"HtoH|HostToHost", re.IGNORECASE)),
    ("Memset", re.compile(r"memset|fill", re.IGNORECASE)),
)


class Copies(Struct):
    """Sums of one kind over ranks; ``timed_ns`` is the time of those whose size is known."""

    count: int = 0
    num_bytes: int = 0
    time_ns: int = 0
    sized: int = 0
    timed_ns: int = 0

    def add(self, other: Copies) -> None:
        """Add the copies of another rank."""
        for name in Copies.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def row(self) -> dict[str, Any]:
        """JSON form; bytes per ns are decimal GB/s."""
        return {
            "count": self.count,
            "bytes": self.num_bytes if self.sized else None,
            "time_ms": milliseconds(self.time_ns),
            "GBps": ratio(self.num_bytes, self.timed_ns) if self.sized else None,
        }


@metric(
    unit="ms",
    definition=(
        "Time in ms, mean over ranks, in copies and fills of device memory while no kernel "
        "computes; the details list bytes, times and bandwidth by direction."
    ),
    needs=("device events",),
    facts=("sums",),
    keys=(
        "uncovered_mem_ms",
        "uncovered_mem_pct_of_step",
        "mem_time_ms",
        "total_bytes",
        "num_copies",
        "by_kind",
        "per_rank",
    ),
    sums=(
        of_rank(totals),
        lambda _, rank: _copies(rank),
    ),
    label="exposed copies",
    higher_is_better=False,
    category="memory",
)
def memory_transfer(view: View) -> Result:
    """Time and bytes of copies by direction, and the time without concurrent computation."""
    ranks = [rank for rank in view.ranks if rank.facts.has_device]
    if not ranks:
        raise without_device_times(view, "CPU-only trace: no device work was recorded on any rank")
    if not any(rank.window_ns for rank in ranks):
        raise refuse("window_empty", "no device work in the steps or the window")
    kinds: defaultdict[str, Copies] = defaultdict(Copies)
    for rank in ranks:
        for kind, part in _copies(rank).items():
            kinds[kind].add(part)
    uncovered = {rank.label: _uncovered_ns(rank) for rank in ranks}
    total = sum(uncovered.values())
    window = sum(rank.window_ns for rank in ranks)
    details: dict[str, Any] = {
        "uncovered_mem_ms": milliseconds(total) / len(ranks),
        "uncovered_mem_pct_of_step": 100 * total / window,
        "mem_time_ms": milliseconds(sum(rank.mem_ns for rank in ranks)) / len(ranks),
        "total_bytes": sum(part.num_bytes for part in kinds.values()),
        "num_copies": sum(part.count for part in kinds.values()),
        "by_kind": {kind: kinds[kind].row for kind in KINDS if kind in kinds},
        "per_rank": {
            rank.label: {
                "uncovered_mem_ms": milliseconds(uncovered[rank.label]),
                "mem_time_ms": milliseconds(rank.mem_ns),
            }
            for rank in ranks
        },
    }
    return answer(
        memory_transfer,
        view,
        details,
        source="kernel",
        basis={
            "aggregate": "times are means over ranks; bytes, and times by kind, are sums",
            "selection": "a copy counts where it starts",
        },
        reasons=guessed_steps(view),
    )


def _uncovered_ns(rank: RankView) -> int:
    return rank.times.any_of(COMP, MEM) - rank.comp_ns


def _copies(rank: RankView) -> Mapping[str, Copies]:
    """Return the copies of a rank by kind."""
    return rank.sum_up(_copies, lambda: _copies_of(rank))


def _copies_of(rank: RankView) -> Mapping[str, Copies]:
    kinds: defaultdict[str, Copies] = defaultdict(Copies)
    gpu = rank.trace.group("gpu")
    if not rank.device_sums().started[MEM]:
        return kinds
    rows = np.flatnonzero((rank.facts.classes == MEM) & rank.starts_inside)
    names = {i: _kind_of(rank.trace.text(i)) for i in distinct(gpu.name[rows])}
    kind = per_name(rank.trace.strings, gpu.name[rows], names, KINDS.index("other"))
    size, time = gpu.bytes[rows], gpu.dur_ns[rows]
    known = size >= 0
    for index in distinct_values(kind):
        mine, part = kind == index, kinds[KINDS[index]]
        part.count += int(mine.sum())
        part.time_ns += int(time[mine].sum())
        part.sized += int((mine & known).sum())
        part.num_bytes += int(size[mine & known].sum())
        part.timed_ns += int(time[mine & known].sum())
    return kinds


def _kind_of(name: str) -> int:
    found = next((kind for kind, pattern in _PATTERNS if pattern.search(name)), "other")
    return KINDS.index(found)


metric_cal = memory_transfer.document_of
