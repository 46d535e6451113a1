"""What a rank's device was doing at a moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ccltui.tui.scene import Scene

if TYPE_CHECKING:
    from parsers.columns import RankTrace

_LOOK_BACK = 256
"""Kernels that may have started since one that still runs."""


@dataclass(frozen=True, slots=True)
class Running:
    """A piece of device work: its name as recorded, its stream (-1: unknown), its length."""

    name: str
    stream: int
    dur_ns: int


def running_at_cursor(scene: Scene) -> Running | None:
    """The work of the selected rank at the selected time, the latest to start; None when idle."""
    job, selection = scene.session.job, scene.state.selection
    lane = scene.findings.lanes.get(selection.rank or "")
    if job is None or lane is None or selection.time_ns is None:
        return None
    trace = next((trace for trace in job.ranks if trace.label == lane.label), None)
    if trace is None:
        return None
    return running_at(trace, scene.findings.origin_ns + lane.offset_ns + selection.time_ns)


def running_at(trace: RankTrace, time_ns: int) -> Running | None:
    """The device work of a rank at a time of its own clock."""
    gpu = trace.group("gpu")
    passed = int(gpu.start_ns.searchsorted(time_ns, side="right"))
    first = max(passed - _LOOK_BACK, 0)
    ends = gpu.start_ns[first:passed] + gpu.dur_ns[first:passed]
    rows = (ends > time_ns).nonzero()[0]
    if not len(rows):
        return None
    row = first + int(rows[-1])
    track = int(gpu.track[row])
    stream = trace.tracks[track].stream if 0 <= track < len(trace.tracks) else -1
    return Running(trace.text(int(gpu.name[row])), stream, int(gpu.dur_ns[row]))
