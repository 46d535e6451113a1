"""How other tools measure what we define otherwise, from our columns.

Each function is the difference written out: what HTA or TraceLens drops, adds or rounds, so that
their numbers follow from ours, and a number that does not is somebody's mistake.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
from golden_rows import rank_of, view_of
from msgspec import Struct

from ccltui.metrics.arrays.intervals import Intervals, union
from ccltui.metrics.model.bandwidth import wire_factor
from ccltui.metrics.model.calls import DTYPE_BYTES, Calls
from ccltui.metrics.model.classify import COMM, MEM, TYPES
from ccltui.metrics.model.rank_steps import launch_rows
from ccltui.metrics.view.rank_view import RankView
from ccltui.parsers.array_types import I64, Bool
from ccltui.parsers.columns import RankTrace

KINDS = ("COMPUTATION", "COMMUNICATION", "MEMORY")
_HTA_COMM = re.compile(r"^nccl|^hip|^hccl|ncclKernel")
_HTA_MEMORY = re.compile(r"^Memcpy|^Memset|^CopyDevice")
_WITH_A_STREAM = re.compile(r"^triton_poi_fused_add_bitwise_and")
"""The one operator on the CPU row whose arguments name a stream (b200_eager)."""


class HtaWork(Struct, frozen=True):
    """What HTA keeps of a trace: whole µs; ``kind`` indexes KINDS, -1 is synchronisation."""

    start: I64
    end: I64
    kind: I64

    def of(self, *kinds: str) -> Busy:
        wanted = [KINDS.index(kind) for kind in kinds]
        return self._busy(np.isin(self.kind, wanted))

    @property
    def busy(self) -> Busy:
        return self._busy(np.ones(len(self.kind), np.bool_))

    @property
    def span(self) -> int:
        return int(self.end.max() - self.start.min())

    def _busy(self, rows: Bool) -> Busy:
        start, end = self.start[rows], self.end[rows]
        backwards = end < start  # rounded start up, end down: one µs less than nothing
        time = union(start[~backwards], end[~backwards])
        lonely = backwards.copy()
        lonely[backwards] = ~time.contains(end[backwards])
        at = end[lonely]
        return Busy(time, union(at, at + 1))


class Busy(Struct, frozen=True):
    """Time of one kind, and the single µs before work that begins after it ends."""

    time: Intervals
    backwards: Intervals

    @property
    def total(self) -> int:
        return self.time.total_ns - self.backwards.total_ns


@cache
def hta_work(path: Path, *, every_step: bool) -> HtaWork:
    """Work that was launched by the end of the last marker, or before it begins.

    A file with fewer than two markers is kept whole, with the rows that are no work but name a
    stream. The markers of the device row count as well.
    """
    trace = rank_of(path).trace
    gpu = trace.group("gpu")
    keep, extra = _kept(path, trace, every_step=every_step), _rows_with_a_stream(trace)
    start = np.append(gpu.start_ns[keep], extra[0])
    end = np.append(gpu.end_ns[keep], extra[1])
    names = [trace.text(int(name)) for name in gpu.name[keep]]
    kind = np.append(np.array([_hta_kind(name) for name in names], np.int64), extra[2])
    return HtaWork(-(-start // 1000), end // 1000, kind)


def _kept(path: Path, trace: RankTrace, *, every_step: bool) -> Bool:
    steps = rank_of(path).facts.marked_steps[0]
    rows = launch_rows(trace)
    if len(steps) < 2:
        return np.ones(len(rows), np.bool_)
    device = trace.group("gpu_annotations")
    marks = [i for i, n in enumerate(device.name) if trace.text(int(n)).startswith("ProfilerStep")]
    last_start = max(steps[-1].start_ns, *(int(device.start_ns[i]) for i in marks), 0)
    last_end = max(steps[-1].end_ns, *(int(device.end_ns[i]) for i in marks), 0)
    launched = trace.group("runtime").start_ns[rows]
    return (rows >= 0) & ((launched <= last_end) if every_step else (launched < last_start))


def _rows_with_a_stream(trace: RankTrace) -> tuple[I64, I64, I64]:
    sync, ops = trace.group("gpu_sync"), trace.group("cpu_ops")
    rows = [i for i, n in enumerate(ops.name) if _WITH_A_STREAM.match(trace.text(int(n)))]
    return (
        np.append(sync.start_ns, ops.start_ns[rows]),
        np.append(sync.end_ns, ops.end_ns[rows]),
        np.append(np.full(len(sync), -1), np.full(len(rows), KINDS.index("COMPUTATION"))),
    )


def _hta_kind(name: str) -> int:
    if _HTA_COMM.search(name):
        return KINDS.index("COMMUNICATION")
    return KINDS.index("MEMORY" if _HTA_MEMORY.search(name) else "COMPUTATION")


def hta_exclusive(work: HtaWork, kinds: Sequence[str]) -> int:
    """Time in which exactly ``kinds`` run, µs.

    HTA sweeps over starts and ends, and a µs that runs backwards counts against its kind: what
    runs beside it then stands for fewer kinds, or for others.
    """
    edges: dict[int, int] = {}
    for number, kind in enumerate(KINDS):
        busy = work.of(kind)
        for part in (busy.time, busy.backwards):
            sign = 1 if part is busy.time else -1
            for start, end in zip(part.start_ns.tolist(), part.end_ns.tolist(), strict=True):
                edges[start] = edges.get(start, 0) + sign * 2**number
                edges[end] = edges.get(end, 0) - sign * 2**number
    wanted = sum(2 ** KINDS.index(kind) for kind in kinds)
    total, running, since = 0, 0, 0
    for time in sorted(edges):
        total += (time - since) * (running == wanted)
        running, since = running + edges[time], time
    return total


def hta_straggler(paths: Sequence[Path], *, every_step: bool) -> int:
    """Rank that starts last in the last long kernel of NCCL, of the kernel that varies most.

    Long is 1 % of a step. One kernel is told from another by its stream, step and name.
    """
    last: dict[tuple[int, int, str], dict[int, tuple[int, int]]] = {}
    for number, path in enumerate(paths):
        rank = rank_of(path)
        gpu, steps = rank.trace.group("gpu"), rank.facts.marked_steps[0]
        for row in np.flatnonzero(rank.facts.classes == COMM).tolist():
            name, step = rank.trace.text(int(gpu.name[row])), int(rank.facts.work.index[row])
            dropped = step < 0 or (not every_step and step == len(steps) - 1)
            if dropped or gpu.dur_ns[row] < steps[step].dur_ns / 100:
                continue
            seen = last.setdefault((int(gpu.track[row]), step, name), {})
            seen[number] = (int(gpu.start_ns[row]), int(gpu.dur_ns[row]))
    everywhere = [ranks for ranks in last.values() if len(ranks) == len(paths)]
    varying = max(everywhere, key=lambda ranks: np.std([dur for _, dur in ranks.values()]))
    return max(varying, key=lambda number: varying[number][0])


class TraceLensWork(Struct, frozen=True):
    """Communication told by the names of NCCL and RCCL; fills are computation; ns."""

    comm: Intervals
    comp: Intervals
    copies: Intervals
    num_comm: int
    comm_bytes: int
    named_comp: Intervals


_NCCL = re.compile("nccl|rccl", re.IGNORECASE)


@cache
def by_name(path: Path) -> TraceLensWork:
    """Kernels of a trace told by their names alone."""
    rank = rank_of(path)
    trace, gpu = rank.trace, rank.trace.group("gpu")
    names = [trace.text(int(name)) for name in gpu.name]
    is_kernel = rank.facts.classes != MEM
    is_comm = is_kernel & np.array([bool(_NCCL.search(name)) for name in names])
    is_fill = np.array(["memset" in name.lower() for name in names]) & ~is_kernel
    calls = rank.named_calls
    nccl = is_comm[calls.rows.of("gpu")]

    def times(rows: Bool) -> Intervals:
        return union(gpu.start_ns[rows], gpu.end_ns[rows])

    return TraceLensWork(
        comm=times(is_comm),
        comp=times((is_kernel & ~is_comm) | is_fill),
        copies=times(~is_kernel & ~is_fill),
        num_comm=int(is_comm.sum()),
        comm_bytes=int(input_bytes(calls.take(nccl)).sum()),
        named_comp=rank.named_comp - (rank.comm - times(is_comm)),
    )


def input_bytes(calls: Calls) -> I64:
    """Input of every call, 0 where it is not stated."""
    known = (calls.in_elems >= 0) & (calls.dtype >= 0)
    return np.where(known, calls.in_elems * np.append(DTYPE_BYTES, 0)[calls.dtype], 0)


class TraceLensGroup(Struct, frozen=True):
    """The k-th collective of every rank as one: [n, m] in ns, as recorded."""

    start: I64
    dur: I64
    message: I64
    size: int
    kind: I64


COUNTED = [TYPES.index(name) for name in ("AllReduce", "ReduceScatter", "AllGather", "AllToAll")]


@cache
def by_position(
    paths: tuple[Path, ...], *, everything: bool = False, elements: int | None = None
) -> TraceLensGroup:
    """Calls of all ranks by their place; without metadata all are alike, else COUNTED alone.

    ``everything`` keeps each call whatever its type; ``elements`` those with such an input.
    """
    ranks = [rank_of(path) for path in paths]
    chosen = [_counted(rank, everything=everything, elements=elements) for rank in ranks]
    group = int(chosen[0].group[0])
    return TraceLensGroup(
        start=np.stack([calls.start_ns for calls in chosen], axis=1),
        dur=np.stack([calls.dur_ns for calls in chosen], axis=1),
        message=chosen[0].message_bytes,
        size=view_of(paths[0]).groups[group].size if group >= 0 else 0,
        kind=np.asarray(chosen[0].kind, np.int64),
    )


def _counted(rank: RankView, *, everything: bool, elements: int | None) -> Calls:
    calls = rank.named_calls
    if everything or not calls.has_metadata.any():
        return calls
    keep = calls.has_metadata & np.isin(calls.kind, COUNTED)
    return calls.take(keep if elements is None else keep & (calls.in_elems == elements))


def gib_per_s(group: TraceLensGroup, *, on_the_bus: bool) -> float:
    """Mean over calls of size over shortest duration, in units of 2^30 bytes."""
    rates = group.message / group.dur.min(axis=1)
    if on_the_bus:
        rates = rates * wire_factor(group.kind, np.full(len(rates), group.size))
    return math.fsum(rates.tolist()) / len(rates) * 1e9 / 2**30
