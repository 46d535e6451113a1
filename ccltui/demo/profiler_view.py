"""Convert a schedule to the recording of each rank's profiler: clock, resolution, window."""

from __future__ import annotations

from msgspec.structs import replace

from ccltui.demo.simulate import Activity, HostRange, Schedule
from ccltui.demo.spec import LateStart, Spec

BASE_NS = 1_775_078_550_000_000_000
"""``baseTimeNanoseconds`` of all files that have a base."""

START_NS = BASE_NS + 973_473_392_000_000
"""Start of the first host on its own clock."""


def origin_ns(spec: Spec) -> int:
    """Time 0 of the true clock on a clock without offset; times of a bare list begin near 0."""
    return 1_000_000_000 if spec.layout == "bare_list" else START_NS


def resolution_ns(spec: Spec) -> int:
    """Resolution of the times in the files."""
    return 1_000 if spec.layout in ("integer_us", "old2021") else 1


def offset_ns(spec: Spec, host: int) -> int:
    """Offset of the clock of a host from the true clock at the start."""
    return spec.clock_offsets_ns[host] if host < len(spec.clock_offsets_ns) else 0


def drift_ppb(spec: Spec, host: int) -> int:
    """Drift of the clock of a host from the true clock, in 1e-9."""
    return spec.clock_drifts_ppb[host] if host < len(spec.clock_drifts_ppb) else 0


class HostClock:
    """Conversion from the true clock to the times that a host records."""

    def __init__(self, spec: Spec, host: int) -> None:
        self._zero_ns = origin_ns(spec) + offset_ns(spec, host)
        self._drift_ppb = drift_ppb(spec, host)
        self._resolution_ns = resolution_ns(spec)

    def read(self, true_ns: int) -> int:
        """Return the host's time at a true time, floored to its resolution."""
        own_ns = self._zero_ns + true_ns + true_ns * self._drift_ppb // 1_000_000_000
        return own_ns // self._resolution_ns * self._resolution_ns


def observe(schedule: Schedule) -> Schedule:
    """Convert a schedule to the clocks of the hosts and remove what the profilers missed."""
    spec = schedule.spec
    late = {start.rank: start for start in spec.late_starts}
    activities, host = [], []
    for rank in range(spec.world_size):
        clock = HostClock(spec, schedule.topology.host_of(rank))
        own = [_on_clock(activity, clock) for activity in schedule.activities[rank]]
        ranges = [
            replace(item, start_ns=clock.read(item.start_ns), end_ns=clock.read(item.end_ns))
            for item in schedule.host[rank]
        ]
        if rank in late:
            own, ranges = _from_late_start(own, ranges, late[rank])
        activities.append(tuple(own))
        host.append(tuple(ranges))
    return replace(schedule, activities=tuple(activities), host=tuple(host))


def _on_clock(activity: Activity, clock: HostClock) -> Activity:
    return replace(
        activity,
        start_ns=clock.read(activity.start_ns),
        end_ns=clock.read(activity.end_ns),
        host_start_ns=clock.read(activity.host_start_ns),
        launch_ns=clock.read(activity.launch_ns),
    )


def _from_late_start(
    activities: list[Activity], ranges: list[HostRange], late: LateStart
) -> tuple[list[Activity], list[HostRange]]:
    """Drop events before the profiler started, and clip the open step marker."""
    calls = [activity for activity in activities if activity.klass == "comm"]
    if not 0 <= late.orphans <= late.missing < len(calls):
        raise ValueError(f"{late}: rank {late.rank} has {len(calls)} collectives")
    began_ns = calls[late.missing].host_start_ns
    orphans = [
        replace(activity, orphan=True)
        for activity in calls[late.missing - late.orphans : late.missing]
    ]
    kept = [activity for activity in activities if activity.host_start_ns >= began_ns]
    seen = []
    for item in ranges:
        if item.start_ns >= began_ns:
            seen.append(item)
        elif item.kind == "step" and item.end_ns > began_ns:
            seen.append(replace(item, start_ns=began_ns))
    return orphans + kept, seen
