"""Find the runtime call and the operator that launched one piece of device work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from ccltui.metrics.model.rank_steps import launch_rows
from ccltui.parsers.columns import MISSING

if TYPE_CHECKING:
    from ccltui.parsers.array_types import Bool
    from ccltui.parsers.columns import Events, RankTrace


class HostEvent(Struct, frozen=True):
    """One event of the host: its name, its times on the rank's own clock, its place in the tracks.

    ``track`` is -1 where the thread is not recorded.
    """

    name: str
    start_ns: int
    end_ns: int
    track: int


class LaunchSite(Struct, frozen=True):
    """The runtime call that launched device work, and the operator around it, None where none is.

    ``work_ns`` is the start of that work, on the rank's own clock like all times, ``work_track``
    the place of its stream in the tracks.
    """

    call: HostEvent
    operator: HostEvent | None
    work_ns: int
    work_track: int

    @property
    def delay_ns(self) -> int:
        """Time from the start of the call to the start of the work on the device."""
        return self.work_ns - self.call.start_ns


def launch_site(trace: RankTrace, row: int) -> LaunchSite | None:
    """Return where a row of ``gpu`` was launched, None where no launch is recorded.

    Raises:
        IndexError: There is no such row.
    """
    gpu, calls = trace.group("gpu"), trace.group("runtime")
    if not 0 <= row < len(gpu):
        raise IndexError(row)
    launch = int(launch_rows(trace, np.array([row]))[0]) if len(calls) else MISSING
    if launch < 0:
        return None
    call = host_event(trace, calls, launch)
    operator = _operator(trace, int(gpu.external_id[row]), int(gpu.correlation[row]), call)
    return LaunchSite(call, operator, int(gpu.start_ns[row]), int(gpu.track[row]))


def host_event(trace: RankTrace, events: Events, row: int) -> HostEvent:
    """Return one event of a group with its name."""
    start = int(events.start_ns[row])
    end = start + int(events.dur_ns[row])
    return HostEvent(trace.text(int(events.name[row])), start, end, int(events.track[row]))


def _operator(trace: RankTrace, stated: int, correlation: int, call: HostEvent) -> HostEvent | None:
    """Return the operator of the External id if it runs at the launch, else the innermost there."""
    operators = trace.group("cpu_ops")
    running = (operators.start_ns <= call.start_ns) & (operators.end_ns > call.start_ns)
    # Old files repeat the correlation id of a kernel as its External id, which then names none.
    chosen: Bool = running & (operators.external_id == stated)
    if stated in (MISSING, correlation) or not chosen.any():
        chosen = running & (operators.track == call.track)
    rows = np.flatnonzero(chosen)
    return host_event(trace, operators, int(rows[-1])) if len(rows) else None
