"""Write the recording of each rank's profiler as the text of a trace file, in each layout."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any

import orjson
from msgspec import Struct
from msgspec.structs import replace

from ccltui.demo.rank_events import Args, Event
from ccltui.demo.simulate import Activity, HostRange, Schedule
from ccltui.demo.spec import LateStart, Layout, Library, Spec, Topology

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


NCCL_VERSIONS: dict[Library, str] = {"nccl": "2.27.3", "nccl_old": "2.17.1", "rccl": "2.22.3"}
GPU_NAMES: dict[Library, str] = {
    "nccl": "NVIDIA H100 80GB HBM3",
    "nccl_old": "NVIDIA H100 80GB HBM3",
    "rccl": "AMD Instinct MI300X",
}
_MEMORY_BYTES = {"NVIDIA": 85_018_279_936, "AMD": 206_141_652_992}
_NUM_SMS = {"NVIDIA": 132, "AMD": 304}


def base_ns(spec: Spec) -> int:
    """Base of the times in the file; 0 where the layout has no base."""
    return 0 if spec.layout in ("bare_list", "integer_us", "old2021") else BASE_NS


def header(spec: Spec, topology: Topology, rank: int) -> dict[str, Any]:
    """Top-level keys of a rank's file without the events."""
    document: dict[str, Any] = {"schemaVersion": 1}
    document["deviceProperties"] = _devices(spec, topology, rank)
    if spec.layout == "old2021":
        return document
    document["distributedInfo"] = _distributed_info(spec, topology, rank)
    if spec.layout == "integer_us":
        return document
    document["trace_id"] = hashlib.sha256(f"{spec.seed}/{rank}".encode()).hexdigest()[:32].upper()
    document["record_shapes"] = int(spec.metadata != "names_only")
    if spec.with_python:
        document["with_stack"] = 1
    if spec.library == "rccl":
        document |= {"hip_runtime_version": 60_443_483, "roctracer_version": 4.1}
    else:
        document |= {"cuda_runtime_version": 12_080, "cupti_version": 26}
    document["host_name"] = topology.host_name(rank)
    document["displayTimeUnit"] = "ms"
    document["baseTimeNanoseconds"] = BASE_NS
    return document


def trace_name(rank: int) -> str:
    """Name of a rank's file without a suffix for compression."""
    return f"kineto_trace_{rank}.json"


def _devices(spec: Spec, topology: Topology, rank: int) -> list[dict[str, Any]]:
    name = GPU_NAMES[spec.library]
    vendor = name.split()[0]
    host = topology.host_of(rank)
    here = [other for other in range(spec.world_size) if topology.host_of(other) == host]
    return [
        {
            "id": device,
            "name": name,
            "totalGlobalMem": _MEMORY_BYTES[vendor],
            "computeMajor": 9,
            "computeMinor": 0,
            "maxThreadsPerBlock": 1024,
            "warpSize": 32,
            "numSms": _NUM_SMS[vendor],
        }
        for device in range(len(here))
    ]


def _distributed_info(spec: Spec, topology: Topology, rank: int) -> dict[str, Any]:
    info: dict[str, Any] = {"backend": "nccl", "rank": rank, "world_size": spec.world_size}
    if spec.metadata == "names_only" or spec.layout == "integer_us":
        return info
    groups = topology.groups_of(rank)
    info["pg_count"] = len(topology.groups)
    info["pg_config"] = [
        {
            "pg_name": group.name,
            "pg_desc": group.description,
            "backend_config": "cuda:nccl",
            "pg_size": len(group.ranks),
            "ranks": list(group.ranks),
        }
        for group in groups
    ]
    info["nccl_version"] = NCCL_VERSIONS[spec.library]
    return info


_CATEGORIES = {
    "cpu_op": "Operator",
    "user_annotation": "Operator",
    "cuda_runtime": "Runtime",
    "kernel": "Kernel",
    "gpu_memcpy": "Memcpy",
    "gpu_memset": "Memset",
    "ac2g": "async",
    "Trace": "Trace",
    "": "",
}
_DEVICE = ("Kernel", "Memcpy", "Memset")


def to_2021(event: Event) -> Event | None:
    """Convert an event to the categories, threads and arguments of 2021; None if it did not exist.

    Markers of steps are operators like any other, so a 2021 file has no step markers of its own
    category; copies of annotations on the device did not exist.
    """
    category = _CATEGORIES.get(event.cat)
    if category is None:
        return None
    if event.ph in ("s", "f"):
        tid = event.tid if event.ph == "s" else f"stream {event.tid}"
        return replace(event, cat=category, name="launch", tid=tid)
    if category in _DEVICE:
        return replace(
            event, cat=category, tid=f"stream {event.tid}", args=_device_args(event.args)
        )
    if category == "Operator":
        args = {
            "Device": event.pid,
            "External id": event.args["External id"],
            "Trace name": "PyTorch Profiler",
            "Trace iteration": 0,
        }
        return replace(event, cat=category, tid=str(event.tid), args=args)
    if category == "Runtime":
        return replace(event, cat=category, tid=str(event.tid), args=_device_args(event.args))
    return replace(event, cat=category)


def _device_args(args: dict[str, Any]) -> dict[str, Any]:
    return {key.replace("External id", "external id"): value for key, value in args.items()}


Header = dict[str, Any]

NATIVE_BETWEEN = ",\n"
"""Separator of events in the profiler's own layout."""


class Written(Struct, frozen=True):
    """Text of a file (ASCII), its events, and the end position of each event."""

    text: str
    events: tuple[Event, ...]
    ends: tuple[int, ...]

    def cut(self, fraction: float) -> Written:
        """Truncate the text; only events that are complete in it remain."""
        length = int(len(self.text) * fraction)
        count = sum(end <= length for end in self.ends)
        return Written(self.text[:length], self.events[:count], self.ends[:count])


class _Form(Struct, frozen=True):
    """Parts of a layout: head, one event, separator, tail; and the resolution of times."""

    head: Callable[[Header, str], str]
    event: Callable[[dict[str, Any]], str]
    between: str
    tail: Callable[[Header, str], str]
    whole_us: bool = False


def write(
    events: Sequence[Event], header: Header, *, base_ns: int, name: str, layout: Layout
) -> Written:
    """Write one file; times are relative to ``base_ns``."""
    form = _FORMS[layout]
    if layout == "old2021":
        events = [old for event in events if (old := to_2021(event)) is not None]
    parts = [form.head(header, name)]
    ends: list[int] = []
    length = len(parts[0])
    for event in events:
        start_ns = event.start_ns - base_ns
        piece = form.event(_fields(event, start_ns, event.dur_ns, whole_us=form.whole_us))
        if ends:
            piece = form.between + piece
        length += len(piece)
        parts.append(piece)
        ends.append(length)
    parts.append(form.tail(header, name))
    return Written("".join(parts), tuple(events), tuple(ends))


def compact_file(events: Sequence[Event], header: Header, clock: Callable[[int], int]) -> bytes:
    """Return a file in the layout "compact", whose rows ``clock`` times; encoded at once."""
    rows = []
    for event in events:
        start_ns = clock(event.start_ns)
        end_ns = clock(event.start_ns + event.dur_ns)
        rows.append(_fields(event, start_ns, end_ns - start_ns))
    return orjson.dumps({**header, "traceEvents": rows})


def native_events(events: Sequence[Event], base_ns: int) -> str:
    """Events as the profiler prints them, separated as in the list of a file."""
    form = _FORMS["native"]
    return NATIVE_BETWEEN.join(
        form.event(_fields(event, event.start_ns - base_ns, event.dur_ns)) for event in events
    )


def native_ends(header: Header, name: str) -> tuple[str, str]:
    """What precedes and follows the events of a file."""
    form = _FORMS["native"]
    return form.head(header, name), form.tail(header, name)


def _fields(event: Event, start_ns: int, dur_ns: int, *, whole_us: bool = False) -> dict[str, Any]:
    """JSON object of an event, with the profiler's order of keys for its kind."""
    start: float = start_ns // 1_000 if whole_us else start_ns / 1_000
    if event.ph == "X":
        return {
            "ph": "X",
            "cat": event.cat,
            "name": event.name,
            "pid": event.pid,
            "tid": event.tid,
            "ts": start,
            "dur": dur_ns // 1_000 if whole_us else dur_ns / 1_000,
            "args": event.args,
        }
    row = {"pid": event.pid, "tid": event.tid}
    if event.ph == "M":
        return {"name": event.name, "ph": "M", "ts": start, **row, "args": event.args}
    if event.ph == "i":
        return {"name": event.name, "ph": "i", "s": "g", **row, "ts": start}
    fields = {"ph": event.ph, "id": event.flow, **row, "ts": start}
    fields |= {"cat": event.cat, "name": event.name}
    return fields | ({"bp": "e"} if event.ph == "f" else {})


Breaks = dict[str, tuple[str, ...]]

_BREAKS: Breaks = {
    "X": ("tid", "dur"),
    "M": ("tid",),
    "i": ("s",),
    "s": ("ts",),
    "f": ("ts",),
}
"""Keys after which the profiler begins a new line."""


def _pretty(fields: dict[str, Any], *, blank: str = "", breaks: Breaks = _BREAKS) -> str:
    """Write several keys per line; ``blank`` precedes line ends, as in early versions."""
    layout = _template(tuple(fields), breaks[fields["ph"]], blank)
    return layout % tuple([_plain(value) for value in fields.values()])


@cache
def _template(keys: tuple[str, ...], ends: tuple[str, ...], blank: str) -> str:
    """The text around the values of these keys, which few kinds of events share: made once."""
    lines: list[str] = [""]
    for key in keys:
        value = "{\n      %s\n    }" if key == "args" else "%s"
        lines[-1] += f'{", " if lines[-1] else ""}"{key}": {value}'
        if key in ends:
            lines.append("")
    return "  {\n    " + f",{blank}\n    ".join(line for line in lines if line) + "\n  }"


_JSON = json.JSONEncoder(check_circular=False).encode
"""As ``json.dumps``, in three quarters of its time."""


def _plain(value: str | float | Args) -> str:
    """Write one value, arguments without their braces; many texts, hardly any times, recur."""
    if type(value) is float:
        return f"{value:.3f}"
    return _JSON(value)[1:-1] if isinstance(value, dict) else _scalar(value)


@lru_cache(maxsize=4096)
def _scalar(value: str | int) -> str:
    return _JSON(value)


_BREAKS_2021 = _BREAKS | {"X": ("cat", "tid", "dur")}


def _pretty_2021(fields: dict[str, Any]) -> str:
    return _pretty(fields, blank=" ", breaks=_BREAKS_2021)


def _top_level(header: Header) -> str:
    """Lines of the header, each with its comma."""
    return "".join(f'  "{key}": {json.dumps(value)},\n' for key, value in header.items())


def _object_head(header: Header, _: str) -> str:
    return "\n{\n" + _top_level(header) + '  "traceEvents": [\n'


def _object_tail(_: Header, name: str) -> str:
    return f'\n  ],\n  "traceName": {json.dumps(name)}\n}}'


def _one_line_head(header: Header, _: str) -> str:
    return json.dumps(header)[:-1] + ', "traceEvents": ['


def _indented(value: Any, depth: int) -> str:
    """``json.dumps(value, indent=4)`` indented by ``depth`` levels."""
    return json.dumps(value, indent=4).replace("\n", "\n" + "    " * depth)


def _indent4_head(header: Header, _: str) -> str:
    lines = (f"    {json.dumps(key)}: {_indented(value, 1)},\n" for key, value in header.items())
    return "{\n" + "".join(lines) + '    "traceEvents": [\n'


_FORMS: dict[Layout, _Form] = {
    "native": _Form(_object_head, _pretty, NATIVE_BETWEEN, _object_tail),
    "integer_us": _Form(_object_head, _pretty, ",\n", _object_tail, whole_us=True),
    "metadata_last": _Form(
        lambda header, name: '{\n  "traceEvents": [\n',
        _pretty,
        ",\n",
        lambda header, name: (
            "\n  ],\n" + _top_level(header) + f'  "traceName": {json.dumps(name)}\n}}\n'
        ),
    ),
    "one_line": _Form(
        _one_line_head,
        _JSON,
        ", ",
        lambda header, name: f'], "traceName": {json.dumps(name)}}}',
    ),
    "indent4": _Form(
        _indent4_head,
        lambda fields: "        " + _indented(fields, 2),
        ",\n",
        lambda header, name: f'\n    ],\n    "traceName": {json.dumps(name)}\n}}',
    ),
    "compact": _Form(
        lambda header, _: orjson.dumps(header).decode()[:-1] + ',"traceEvents":[',
        lambda fields: orjson.dumps(fields).decode(),
        ",",
        lambda header, name: "]}",
    ),
    "bare_list": _Form(
        lambda header, name: "[\n\n", json.dumps, ",\n", lambda header, name: "\n]\n"
    ),
    "old2021": _Form(
        lambda header, name: "\n{\n" + _top_level(header) + '  "traceEvents": [\n  \n',
        _pretty_2021,
        ",\n",
        _object_tail,
        whole_us=True,
    ),
}
