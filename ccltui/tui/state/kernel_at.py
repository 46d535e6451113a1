"""Find the device work of a rank at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from ccltui.tui.state.scene import Scene

if TYPE_CHECKING:
    from ccltui.parsers.columns import RankTrace

_LOOK_BACK = 256
"""Most kernels that may have started since one that still runs."""


class Running(Struct, frozen=True):
    """Device work: its recorded name, its stream (-1: unknown), its length."""

    name: str
    stream: int
    dur_ns: int


def running_at_cursor(scene: Scene) -> Running | None:
    """Return the selected rank's work at the cursor, the latest to start; None when idle."""
    found = _trace_and_time(scene)
    return None if found is None else running_at(*found)


def row_at_cursor(scene: Scene) -> int | None:
    """Return the row of that work; on an idle rank, of the first to start in the cursor's cell."""
    found = _trace_and_time(scene)
    if found is None:
        return None
    trace, time_ns = found
    row = _row_at(trace, time_ns)
    if row is not None:
        return row
    starts = trace.group("gpu").start_ns
    after = int(starts.searchsorted(time_ns))
    cell_ns = scene.state.time.cell_ns
    return after if after < len(starts) and starts[after] - time_ns < cell_ns else None


def _trace_and_time(scene: Scene) -> tuple[RankTrace, int] | None:
    """Return the trace of the selected rank, and the selected time on its clock."""
    selection = scene.state.selection
    lane = scene.findings.lanes.get(selection.rank or "")
    if lane is None or selection.time_ns is None:
        return None
    trace = scene.trace(lane.label)
    if trace is None:
        return None
    import numpy as np  # noqa: PLC0415  (after the first paint)

    time_ns = np.array(scene.findings.origin_ns + selection.time_ns, np.int64)
    return trace, int(lane.own(time_ns))


def running_at(trace: RankTrace, time_ns: int) -> Running | None:
    """Return the device work of a rank at a time of its own clock."""
    row = _row_at(trace, time_ns)
    if row is None:
        return None
    gpu = trace.group("gpu")
    track = int(gpu.track[row])
    stream = trace.tracks[track].stream if 0 <= track < len(trace.tracks) else -1
    return Running(trace.text(int(gpu.name[row])), stream, int(gpu.dur_ns[row]))


def _row_at(trace: RankTrace, time_ns: int) -> int | None:
    gpu = trace.group("gpu")
    passed = int(gpu.start_ns.searchsorted(time_ns, side="right"))
    first = max(passed - _LOOK_BACK, 0)
    ends = gpu.start_ns[first:passed] + gpu.dur_ns[first:passed]
    rows = (ends > time_ns).nonzero()[0]
    return first + int(rows[-1]) if len(rows) else None
