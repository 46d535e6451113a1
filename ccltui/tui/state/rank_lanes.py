"""Lanes of a rank below its row: streams, idle time by cause, counters, threads of the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from ccltui.draw.palette import IDLE_INKS, Ink
from ccltui.draw.rank_rows import Stream
from ccltui.draw.timeline_chart import Track
from ccltui.metrics.arrays.intervals import union
from ccltui.metrics.device.device_counters import SLOW_CLOCK, are_readings, typical_reading
from ccltui.metrics.device.launch_origin import HostThread, HostThreads, Level, host_threads
from ccltui.metrics.findings.causes.activity import host_cause
from ccltui.metrics.findings.rank_time.idle_causes import CAUSES, all_idle_times
from ccltui.metrics.model.classify import COMM, COMP, MEM, any_name, distinct
from ccltui.metrics.model.kernel_names import bare_name, category_of
from ccltui.parsers.array_types import F64, Bool
from ccltui.parsers.columns import RankTrace

if TYPE_CHECKING:
    from ccltui.metrics.model.rank_facts import RankFacts
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView
    from ccltui.parsers.array_types import I64
    from ccltui.parsers.columns import Group, RankTrace


Streams = Mapping[str, tuple[Stream, ...]]
"""Streams of each rank, by label."""

_PARTS = (COMP, COMM, MEM)
_PLACE = np.argsort(_PARTS).astype(np.uint8)
"""Place of each class in the parts of a stream."""

IDLE_LANE: Final = "idle"
"""Label of the lane of idle time by cause."""
COMMUNICATION = "communication"
COPIES = "copies"


def streams_of(view: View, ranks: tuple[str, ...]) -> Streams:
    """Return streams of some ranks in order of number. Raises KeyError for an unknown rank."""
    return {label: tuple(_streams(view.facts.ranks[label])) for label in ranks}


def _streams(facts: RankFacts) -> list[Stream]:
    trace = facts.trace
    tracks = trace.group("gpu").track
    found = [(trace.tracks[i].stream if i >= 0 else -1, i) for i in distinct(tracks)]
    if (tracks < 0).any():
        found.append((-1, -1))
    return [_device_stream(facts, track) for _, track in sorted(found)]


def _device_stream(facts: RankFacts, track: int) -> Stream:
    trace = facts.trace
    gpu = trace.group("gpu")
    rows = np.flatnonzero(gpu.track == track)
    start, end, kind = gpu.start_ns[rows], gpu.end_ns[rows], facts.classes[rows]
    compute, comm, copies = (_device_track(facts, rows[kind == one]) for one in _PARTS)
    return Stream(
        label=f"s{trace.tracks[track].tid}" if track >= 0 else "s?",
        work=_device_track(facts, rows),
        parts=(compute, comm, copies),
        start_ns=start,
        end_ns=end,
        kind=_PLACE[kind],
        name=gpu.name[rows],
        text=partial(_bare, trace),
        track=track,
    )


def _bare(trace: RankTrace, name: int) -> str:
    return bare_name(trace.text(name))


def _device_track(facts: RankFacts, rows: npt.NDArray[np.intp]) -> Track:
    gpu = facts.trace.group("gpu")
    time = union(gpu.start_ns[rows], gpu.end_ns[rows])
    return Track.of(time.start_ns, time.end_ns)


def kernels_of(view: View, category: str) -> Mapping[str, Track]:
    """Return the times of kernels of a category on each selected rank, on its own clock."""
    return {
        rank.label: _device_track(rank.facts, np.flatnonzero(_is_of(rank.facts, category)))
        for rank in view.ranks
    }


def _is_of(facts: RankFacts, category: str) -> Bool:
    if category == COMMUNICATION:
        return np.asarray(facts.classes == COMM)
    if category == COPIES:
        return np.asarray(facts.classes == MEM)
    trace = facts.trace
    gpu = trace.group("gpu")
    named = [i for i in distinct(gpu.name) if category_of(trace.text(i)) == category]
    return np.asarray(any_name(trace.strings, gpu.name, named) & (facts.classes == COMP))


_COUNTERS: Final[Mapping[str, tuple[str, str]]] = {
    "sm_clock_mhz": ("SM clk", "{:.0f} MHz"),
    "memory_clock_mhz": ("mem clk", "{:.0f} MHz"),
    "power_w": ("power", "{:.0f} W"),
    "temperature_c": ("temp", "{:.0f} C"),
}
"""Label of the lane of each counter, and how its readings are written."""


def counter_lanes_of(view: View, ranks: Sequence[str]) -> Streams:
    """Return a lane of readings for each counter of some ranks; a reading holds until the next.

    Clocks clearly below the typical one of all ranks have the colour of delays of the device.
    """
    slow_below = {key: _slow_below(view, key) for key in _COUNTERS}
    traces = {label: view.facts.ranks[label].trace for label in ranks}
    return {
        label: tuple(
            lane
            for key, slow in slow_below.items()
            if len(trace.samples) and (lane := _counter_lane(trace, key, slow)) is not None
        )
        for label, trace in traces.items()
    }


def _slow_below(view: View, key: str) -> float:
    if not key.endswith("clock_mhz"):
        return -np.inf
    found = [typical_reading(rank.trace, key) for rank in view.ranks]
    known = [one for one in found if one is not None]
    return SLOW_CLOCK * float(np.median(known)) if known else -np.inf


def _counter_lane(trace: RankTrace, key: str, slow_below: float) -> Stream | None:
    """Return the readings of one counter, None where there are fewer than two."""
    rows = are_readings(trace, key)
    time, value = trace.samples.time_ns[rows], trace.samples.value[rows]
    if len(time) < 2:
        return None
    changes = np.flatnonzero(np.diff(value, prepend=np.nan) != 0)  # the first differs from none
    start, value = time[changes], value[changes]
    end = np.append(start[1:], time[-1])
    label, written = _COUNTERS[key]
    kind = (value < slow_below).astype(np.uint8)
    return Stream(
        label=label,
        work=_track(start, end),
        parts=tuple(_track(start[kind == one], end[kind == one]) for one in (0, 1)),
        start_ns=start,
        end_ns=end,
        kind=kind,
        name=np.arange(len(value), dtype=np.int32),
        text=partial(_reading, written, value),
        inks=(Ink.COMPUTE, Ink.DELAY),
    )


def _reading(written: str, values: F64, number: int) -> str:
    return written.format(float(values[number]))


LABELS: Final[Mapping[Group, str]] = {"annotations": "range", "cpu_ops": "op", "runtime": "call"}
_INKS: Final = (Ink.HOST, Ink.INPUT, Ink.BLOCKED)
"""Colours of events on the host: that of the cause of idle time which they stand for."""


class HostLanes(Struct, frozen=True):
    """Lanes of the host of one rank, and what of it has no lane; "" where nothing is left out."""

    rows: tuple[Stream, ...]
    note: str = ""


def idle_lane(rank: RankView) -> Stream | None:
    """Return all idle time of a rank by cause, None where it has no device work."""
    if not rank.facts.has_device:
        return None
    times = all_idle_times(rank)
    inks = tuple(dict.fromkeys(IDLE_INKS[cause] for cause in CAUSES))
    starts = np.concatenate([times[cause].start_ns for cause in CAUSES])
    ends = np.concatenate([times[cause].end_ns for cause in CAUSES])
    cause = np.repeat(np.arange(len(CAUSES)), [len(times[cause]) for cause in CAUSES])
    order = np.argsort(starts, kind="stable")
    starts, ends, cause = starts[order], ends[order], cause[order]
    kind = np.array([inks.index(IDLE_INKS[one]) for one in CAUSES], np.uint8)[cause]
    parts = tuple(_track(starts[kind == one], ends[kind == one]) for one in range(len(inks)))
    return Stream(
        label=IDLE_LANE,
        work=_track(starts, ends),
        parts=parts,
        start_ns=starts,
        end_ns=ends,
        kind=kind,
        name=cause.astype(np.int32),
        text=cause_text,
        inks=inks,
    )


def cause_text(number: int) -> str:
    """Return the name of a cause of idle time by its place among the causes."""
    return CAUSES[number].replace("_", " ")


def host_lanes_of(view: View, ranks: Sequence[str]) -> Mapping[str, HostLanes]:
    """Return the lanes of the hosts of some ranks. Raises KeyError for an unknown rank."""
    return {label: _lanes(view.facts.ranks[label]) for label in ranks}


def _lanes(facts: RankFacts) -> HostLanes:
    found = host_threads(facts)
    rows: list[Stream] = []
    for number, thread in enumerate(found.threads, 1):
        # The lanes of a thread stand together: the first bears its number.
        for place, level in enumerate(thread.levels):
            mark = f"{number} " if len(found.threads) > 1 and not place else ""
            rows.append(replace(_stream(facts.trace, level, mark), track=thread.track))
    return HostLanes(tuple(rows), _note(facts.trace, found))


def _stream(trace: RankTrace, level: Level, mark: str) -> Stream:
    events = trace.group(level.group)
    name = events.name[level.rows]
    start, end = events.start_ns[level.rows], events.end_ns[level.rows]
    kinds = np.zeros(len(trace.strings) + 1, np.uint8)  # the last is that of no name
    for one in distinct(name):
        cause = host_cause(level.group, trace.text(one))
        if cause is not None:
            kinds[one] = _INKS.index(IDLE_INKS[cause])
    kind = kinds[name]
    label = LABELS[level.group] + (f" {level.depth + 1}" if level.depth else "")
    return Stream(
        label=mark + label,
        work=_track(start, end),
        parts=tuple(_track(start[kind == i], end[kind == i]) for i in range(len(_INKS))),
        start_ns=start,
        end_ns=end,
        kind=kind,
        name=name,
        text=partial(_text, trace),
        inks=_INKS,
    )


def _text(trace: RankTrace, name: int) -> str:
    return trace.text(name)


def _track(start_ns: I64, end_ns: I64) -> Track:
    time = union(start_ns, end_ns)
    return Track.of(time.start_ns, time.end_ns)


def _note(trace: RankTrace, found: HostThreads) -> str:
    """Say which threads the lanes are of, where there are several, and what has no lane."""
    if not found.threads:
        return "nothing of the host is recorded"
    parts = []
    if len(found.threads) > 1:
        names = [f"{i} is {_thread_name(trace, one)}" for i, one in enumerate(found.threads, 1)]
        parts.append("thread " + ", ".join(names))
    hidden = []
    for number, thread in enumerate(found.threads, 1):
        of = f" of thread {number}" if len(found.threads) > 1 else ""
        for group, deepest in thread.deepest.items():
            left = deepest - sum(level.group == group for level in thread.levels)
            if left:
                hidden.append(f"{left} deeper {LABELS[group]} {_plural('level', left)}{of}")
    if found.others:
        hidden.append(f"{found.others} more {_plural('thread', found.others)}")
    return "; ".join([*parts, *(["not drawn: " + ", ".join(hidden)] if hidden else [])])


def _plural(noun: str, count: int) -> str:
    return noun if count == 1 else f"{noun}s"


def _thread_name(trace: RankTrace, thread: HostThread) -> str:
    return trace.tracks[thread.track].tid if thread.track >= 0 else "not recorded"
