"""The host side of an event: launch, operator, ranges and Python frames around it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from ccltui.metrics.device.launch_origin import MODULE, operators_of
from ccltui.parsers.columns import MISSING

if TYPE_CHECKING:
    from ccltui.metrics.model.rank_facts import RankFacts
    from ccltui.parsers.array_types import I64
    from ccltui.parsers.columns import Events, Group, RankTrace

MOST_FRAMES: Final = 64
"""Frames of a stack that are listed, the innermost."""


@dataclass(frozen=True, slots=True)
class HostSide:
    """Where an event comes from on the host.

    Attributes:
        launch: row of ``runtime`` of its launch, -1 where none is recorded.
        operator: row of ``cpu_ops`` of its operator, -1 where none is known.
        operators: rows of ``cpu_ops`` around the launch, from the outside to the inside.
        ranges: names of the annotations and modules around it, from the outside to the inside.
        frames: names of the Python frames around it, the innermost first.
        why_no_launch: reason, "" where there is a launch.
    """

    launch: int
    operator: int
    operators: tuple[int, ...]
    ranges: tuple[str, ...]
    frames: tuple[str, ...]
    why_no_launch: str = ""


def host_side(facts: RankFacts, group: Group, row: int) -> HostSide:
    """Return the host side of a row of ``gpu``, ``runtime``, ``cpu_ops`` or another group."""
    trace = facts.trace
    launch, operator, why = MISSING, MISSING, ""
    if group == "gpu":
        launch = int(facts.launch_row[row])
        operator = int(operators_of(facts, slice(row, row + 1))[0])
        why = "" if launch >= 0 else _why_no_launch(trace, row)
    track, at_ns = MISSING, 0
    if group == "gpu" and launch >= 0:
        track, at_ns = _place(trace.group("runtime"), launch)
    elif group == "gpu" and operator >= 0:
        track, at_ns = _place(trace.group("cpu_ops"), operator)
    elif group in ("runtime", "cpu_ops", "annotations", "python", "other"):
        track, at_ns = _place(trace.group(group), row)
    if track < 0:
        return HostSide(launch, operator, (), (), (), why)
    around = around_rows(trace.group("cpu_ops"), track, at_ns).tolist()
    if group == "cpu_ops":
        around = [one for one in around if one != row]
    if operator < 0 and around:
        operator = around[-1]
    return HostSide(
        launch,
        operator,
        tuple(around),
        _ranges(trace, track, at_ns, row if group == "annotations" else MISSING),
        _frames(trace, track, at_ns),
        why,
    )


def around_rows(events: Events, track: int, at_ns: int) -> I64:
    """Return the rows of a thread that run at a time, from the outside to the inside."""
    until = int(np.searchsorted(events.start_ns, at_ns, side="right"))
    here = events.track[:until] == track
    here &= events.start_ns[:until] + events.dur_ns[:until] > at_ns
    return np.flatnonzero(here)


def launched_inside(facts: RankFacts, group: Group, row: int) -> I64:
    """Return the rows of ``gpu`` that a call launched, or that were launched in an operator."""
    launch = facts.launch_row
    if group == "runtime":
        return np.flatnonzero(launch == row)
    calls, events = facts.trace.group("runtime"), facts.trace.group("cpu_ops")
    start, track = int(events.start_ns[row]), int(events.track[row])
    launched = facts.launched_ns
    rows = np.flatnonzero((launched >= start) & (launched < start + int(events.dur_ns[row])))
    rows = rows[launch[rows] >= 0]
    return np.asarray(rows[calls.track[launch[rows]] == track])


def _place(events: Events, row: int) -> tuple[int, int]:
    return int(events.track[row]), int(events.start_ns[row])


def _why_no_launch(trace: RankTrace, row: int) -> str:
    correlation = int(trace.group("gpu").correlation[row])
    if not len(trace.group("runtime")):
        return "the file has no calls of the CUDA or HIP runtime"
    if correlation < 0:
        return "the event has no correlation id"
    return f"no call with correlation id {correlation} was recorded"


def _ranges(trace: RankTrace, track: int, at_ns: int, itself: int) -> tuple[str, ...]:
    found = []
    for group in ("annotations", "python"):
        events = trace.group(group)
        for one in around_rows(events, track, at_ns).tolist():
            name = trace.text(int(events.name[one]))
            if group == "python" and not name.startswith(MODULE):
                continue
            if group == "python" or one != itself:
                start = int(events.start_ns[one])
                found.append((start, -int(events.dur_ns[one]), name.removeprefix(MODULE)))
    return tuple(name for _, _, name in sorted(found))


def _frames(trace: RankTrace, track: int, at_ns: int) -> tuple[str, ...]:
    events = trace.group("python")
    rows = around_rows(events, track, at_ns)[::-1][:MOST_FRAMES].tolist()
    names = (trace.text(int(events.name[one])) for one in rows)
    return tuple(name for name in names if not name.startswith(MODULE))
