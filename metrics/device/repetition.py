"""Statistics of a repeating block of kernels, over all repetitions and ranks.

A block begins with a kernel and ends before its next occurrence on the stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.reductions import median_along, unique_counts
from ccltui.parsers.array_types import I64
from ccltui.parsers.columns import MISSING

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView


class Position(Struct, frozen=True):
    """Durations of one kernel of the block, in ns over ``count`` occurrences.

    ``p5_ns`` and ``p95_ns`` are nearest-rank percentiles of the duration; ``gap_ns`` is the median
    time from its end to the start of the next kernel on the stream, negative where they overlap.
    """

    name: str
    count: int
    median_ns: int
    p5_ns: int
    p95_ns: int
    least_ns: int
    most_ns: int
    gap_ns: int

    @property
    def spread_ns(self) -> int:
        """Difference of the 95th and the 5th percentile."""
        return self.p95_ns - self.p5_ns


class Block(Struct, frozen=True):
    """The kernels from one occurrence of ``name`` to the next on its stream.

    Attributes:
        name: name of the first kernel.
        stream: stream of the selected block.
        positions: the kernels of the block.
        repetitions: number of blocks with exactly the kernels of the selected one.
        others: number of blocks that begin with the same kernel and continue differently.
        period_ns: median time from the start of a block to the start of the next.
        by_rank: repetitions by rank label.
    """

    name: str
    stream: str
    positions: tuple[Position, ...]
    repetitions: int
    others: int
    period_ns: int
    by_rank: dict[str, int]


class NoBlockError(ValueError):
    """The selected kernel does not begin a block that could be repeated."""


class _Found(Struct, frozen=True):
    """Repetitions of one rank: durations and gaps [n, length], periods [n]; other blocks."""

    dur_ns: I64
    gap_ns: I64
    period_ns: I64
    others: int


def block_of(view: View, label: str, row: int) -> Block:
    """Return the block that begins with a kernel, over the ranks that the view selects.

    A block is on one stream; on other ranks on the stream that has the kernel most often. Blocks
    that begin in the measured time are counted.

    Args:
        view: the job.
        label: label of the rank of the kernel.
        row: row of the kernel in ``gpu``.

    Raises:
        NoBlockError: the kernel does not occur again after ``row``, or no block begins in the
            measured time.
    """
    trace = view.facts.ranks[label].trace
    gpu = trace.group("gpu")
    stream = np.flatnonzero(gpu.track == gpu.track[row])
    first, name = int(np.searchsorted(stream, row)), int(gpu.name[row])
    again = np.flatnonzero(gpu.name[stream[first + 1 :]] == name)
    if not len(again):
        raise NoBlockError(f"{trace.text(name)} does not occur again on its stream")
    rows = stream[first : first + 1 + int(again[0])]
    pattern = [trace.text(int(one)) for one in gpu.name[rows]]
    track = int(gpu.track[row])
    found = {
        rank.label: _repetitions(rank, pattern, track if rank.label == label else None)
        for rank in view.ranks
    }
    dur, gap, period = (
        np.concatenate([getattr(one, part) for one in found.values()])
        for part in ("dur_ns", "gap_ns", "period_ns")
    )
    if not len(dur):
        raise NoBlockError(f"no block of {trace.text(name)} begins in the measured time")
    return Block(
        name=pattern[0],
        stream=trace.tracks[track].tid if 0 <= track < len(trace.tracks) else "",
        positions=tuple(_position(one, dur[:, i], gap[:, i]) for i, one in enumerate(pattern)),
        repetitions=len(dur),
        others=sum(one.others for one in found.values()),
        period_ns=int(median_along(period)),
        by_rank={rank: len(one.dur_ns) for rank, one in found.items()},
    )


def _repetitions(rank: RankView, pattern: Sequence[str], track: int | None) -> _Found:
    trace, length = rank.trace, len(pattern)
    gpu = trace.group("gpu")
    wanted = np.array([trace.strings.find(name) if name else MISSING for name in pattern], np.int64)
    begins = gpu.name == wanted[0]
    if track is None and begins.any():
        tracks, counts = unique_counts(gpu.track[begins])
        track = int(tracks[counts.argmax()])
    stream = np.flatnonzero(gpu.track == track) if track is not None else np.empty(0, np.intp)
    start, end, name = gpu.start_ns[stream], gpu.end_ns[stream], gpu.name[stream]
    at = np.flatnonzero(name == wanted[0])
    size = np.diff(at)
    at, inside = at[:-1], rank.windows.contains(start[at[:-1]])
    same = inside & (size == length)
    cells = at[same][:, np.newaxis] + np.arange(length)
    equal = (name[cells] == wanted).all(axis=1)
    cells = cells[equal]
    return _Found(
        dur_ns=end[cells] - start[cells],
        gap_ns=start[cells + 1] - end[cells],
        period_ns=start[cells[:, 0] + length] - start[cells[:, 0]],
        others=int(inside.sum()) - len(cells),
    )


def _position(name: str, dur_ns: I64, gap_ns: I64) -> Position:
    ordered = np.sort(dur_ns)

    def share(percent: int) -> int:
        return int(ordered[max(-(-percent * len(ordered) // 100), 1) - 1])

    return Position(
        name=name,
        count=len(ordered),
        median_ns=int(median_along(ordered)),
        p5_ns=share(5),
        p95_ns=share(95),
        least_ns=int(ordered[0]),
        most_ns=int(ordered[-1]),
        gap_ns=int(median_along(gap_ns)),
    )
