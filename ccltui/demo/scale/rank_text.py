"""Text of the file of one rank of a large job: a step as a template, filled for each step.

The event writer of small jobs writes a step in which each time is a mark: its place among the times
of the step. Ids, group names and members are replaced before it is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace
from numpy.typing import NDArray

from ccltui.demo.call_args import list_text
from ccltui.demo.kineto_writer import (
    NATIVE_BETWEEN,
    base_ns,
    header,
    native_ends,
    native_events,
    trace_name,
)
from ccltui.demo.profiler_view import drift_ppb, offset_ns, origin_ns
from ccltui.demo.program import Communicate, Work
from ccltui.demo.rank_events import (
    BACKWARD_THREAD,
    FIRST_CORRELATION,
    LEAD_NS,
    TAIL_NS,
    Event,
    RankEvents,
    device_steps,
    pid_of,
    row_names,
    window,
)
from ccltui.demo.simulate import (
    FIRST_SEQ,
    Call,
    Entry,
    Lane,
    Line,
    Schedule,
    StepLog,
    records,
)
from ccltui.demo.spec import Spec
from ccltui.demo.topology import DemoGroup, Topology

# Times of a step are far below these, and marks are 1 ms apart, because events inside others begin
# some microseconds after them on the same clock.
_START_US: Final = 7_000_000_000
_DURATION_US: Final = 4_000_000_000
_APART_US: Final = 1_000
_PID: Final = 1  # device ordinals are never negative, so that no row is taken for another
_DEVICE: Final = -1
_SEQ_OF_LINE: Final = 1_000_000_000
_SEQ_ZERO: Final = 500_000_000

_BANDWIDTH: Final = "memory bandwidth (GB/s)"
_GAP: Final = re.compile(
    r'"(ts|dur)": ([47]\d{9})\.000|"#([a-z_]+):([^"#]*)#"|"@([a-z_]+(?::\d+)?)@"|@(step)@'
)

Names = Mapping[str, str]
"""JSON text of each token of a rank: its ids, and the names and members of its groups."""


class _Fill(Struct, frozen=True):
    """Where the numbers of one kind go: places in the values, what is taken, what is added."""

    into: NDArray[np.int64]
    what: NDArray[np.int64]
    add: NDArray[np.int64]


class StepNumbers(Struct, frozen=True):
    """Numbers of one rank and step.

    Attributes:
        times: Of the log, on the clock of the host less the base of the file, int64 ns.
        external, correlation: Ids given out before this step.
        step: As in ``ProfilerStep#N``.
        first_seqs: Calls of each line before this step.
    """

    times: NDArray[np.int64]
    external: int
    correlation: int
    step: int
    first_seqs: Mapping[Line, int]


class Part:
    """Host or device rows of a step: texts and tokens of the rank, with formats for numbers."""

    def __init__(self, text: str) -> None:
        pieces, end = [""], 0
        rows: dict[str, list[tuple[int, int, int]]] = {}
        self.bandwidths: list[tuple[int, int, int]] = []
        self.seqs: list[tuple[int, int]] = []
        count = 0
        for found in _GAP.finditer(text):
            pieces[-1] += text[end : found.start()].replace("%", "%%")
            end = found.end()
            key, mark, kind, value, token, step = found.groups()
            if token:
                pieces += [token, ""]
                continue
            if key:
                pieces[-1] += f'"{key}": %d.%03d'
                zero_us = _START_US if key == "ts" else _DURATION_US
                place, add_us = divmod(int(mark) - zero_us, _APART_US)
                rows.setdefault(key, []).append((count, place, add_us * 1_000))
                count += 2
                continue
            pieces[-1] += "%s" if kind == "bandwidth" else "%d"
            if step:
                rows.setdefault("step", []).append((count, 0, 0))
            elif kind == "bandwidth":
                at, size = value.split(",")
                self.bandwidths.append((count, int(at), int(size)))
            elif kind == "seq":
                self.seqs.append((count, int(value)))
            else:
                rows.setdefault(kind, []).append((count, 0, int(value)))
            count += 1
        pieces[-1] += text[end:].replace("%", "%%")
        self.pieces = pieces
        self.count = count
        self._fills = {kind: _Fill(*np.array(found, np.int64).T) for kind, found in rows.items()}

    def of_rank(self, names: Names) -> str:
        """The text with the tokens of a rank replaced; formats remain."""
        pieces = self.pieces.copy()
        pieces[1::2] = [names[token] for token in pieces[1::2]]
        return "".join(pieces)

    def values(self, numbers: StepNumbers, lines: list[Line]) -> tuple[int | float, ...]:
        """What the formats are filled with."""
        times = numbers.times
        found = np.empty(self.count, np.int64)
        for kind, fill in self._fills.items():
            if kind in ("ts", "dur"):
                ns = times[fill.what] + fill.add
                if kind == "dur":
                    ns = times[fill.what + 1] - times[fill.what]
                found[fill.into] = ns // 1_000
                found[fill.into + 1] = ns % 1_000
            else:
                base = {
                    "external": numbers.external,
                    "correlation": numbers.correlation,
                    "step": numbers.step,
                }[kind]
                found[fill.into] = base + fill.add
        for place, mark in self.seqs:
            line, number = divmod(mark, _SEQ_OF_LINE)
            first = numbers.first_seqs.get(lines[line], 0)
            found[place] = FIRST_SEQ + first + number - _SEQ_ZERO
        values: list[int | float] = [*found.tolist()]
        for place, time, size in self.bandwidths:
            values[place] = size / max(int(times[time + 1] - times[time]), 1)
        return tuple(values)


class StepTemplate(Struct, frozen=True):
    """Both parts of a step.

    Attributes:
        host, device: Rows of the host and of the device.
        lines: Lines of calls in the order of their marks.
        externals, correlations: Ids that the step takes.
        main: Places in the times of the first start and the last end on the main stream.
        streams: Streams of the step.
    """

    host: Part
    device: Part
    lines: list[Line]
    externals: int
    correlations: int
    main: tuple[int, int]
    streams: frozenset[int]


def signature(log: StepLog) -> tuple[object, ...]:
    """What the text of a step depends on besides numbers."""
    return tuple(
        (entry.kind, entry.stream, entry.line, entry.number, _of_item(entry))
        for entry in log.entries
    )


def _of_item(entry: Entry) -> object:
    item = entry.item
    if isinstance(item, Communicate):
        return item.operation, item.in_elems, item.out_elems, item.phase, item.peer
    return item


def make_template(spec: Spec, topology: Topology, rank: int, log: StepLog) -> StepTemplate:
    """Write the text of a step, with gaps, from the log of a rank that is one of its lane."""
    lines = list(dict.fromkeys(entry.line for entry in log.entries if entry.line[0]))
    schedule, main = _drawn(spec, topology, rank, lines, log)
    body = RankEvents(schedule, 0, pid=_PID, device=_DEVICE)
    marks = _Marks()
    host = native_events([marks.event(event) for event in body.host], 0)
    device = native_events([marks.event(event) for event in body.gpu], 0)
    return StepTemplate(
        Part(host),
        Part(device),
        lines,
        marks.externals,
        marks.correlations,
        main,
        frozenset(entry.stream for entry in log.entries if entry.item is not None),
    )


def names_of(topology: Topology, rank: int, pid: int, device: int) -> dict[str, str]:
    """Text of the tokens of a rank."""
    names = {
        "pid": str(pid),
        "backward": str(pid + BACKWARD_THREAD),
        "device": str(device),
        "rank": str(rank),
    }
    for group in topology.groups_of(rank):
        key = group.dimension
        names |= {
            f"{key}_name": f'"{group.name}"',
            f"{key}_ranks": f'"{list_text(group.ranks)}"',
            f"{key}_start": str(group.ranks[0]),
            f"{key}_stride": str(group.ranks[1] - group.ranks[0]),
            f"{key}_comms": str(group.comms_id),
        }
        if key == "pp":
            names |= {f"pp_member:{n}": str(member) for n, member in enumerate(group.ranks)}
    return names


def _drawn(
    spec: Spec, topology: Topology, rank: int, lines: list[Line], log: StepLog
) -> tuple[Schedule, tuple[int, int]]:
    """A schedule of one rank and step whose times are marks, and the span of the main stream."""
    items = [entry for entry in log.entries if isinstance(entry.item, Communicate)]
    index = {(entry.line, entry.number): place for place, entry in enumerate(items)}
    calls = [_call(place, entry.item, rank) for place, entry in enumerate(items)]
    times: list[int] = []
    main: list[int] = []
    for entry in log.entries:
        place = len(times)
        if entry.kind == "work":
            main.append(place)
        times += [_mark_ns(place + one)[0] for one in range(entry.times)]
        start_ns, dur_ns = _mark_ns(len(times) - 2)
        times[-1] = start_ns + dur_ns
    first = {line: place * _SEQ_OF_LINE + _SEQ_ZERO for place, line in enumerate(lines)}
    activities, ranges = records(log, times, rank=0, step=0, first_seqs=first, calls=index)
    schedule = Schedule(spec, topology, (tuple(activities),), (tuple(ranges),), tuple(calls))
    return schedule, (main[0] + 2, main[-1] + 3)


def _call(number: int, item: Work | Communicate | None, rank: int) -> Call:
    """The call of a rank, with places in the group instead of ranks."""
    assert isinstance(item, Communicate)
    group = item.group
    members = tuple(range(len(group.ranks)))
    marked = DemoGroup(group.index, group.dimension, f"@{group.dimension}@", members)
    sizes = (item.in_elems, item.out_elems)
    if item.operation == "all_to_allv":
        sizes = (min(sizes),) * 2  # of a member that is sent no more than the others
    if item.peer >= 0:
        pair = (group.ranks.index(rank), group.ranks.index(item.peer))
        members = pair if item.operation == "send" else pair[::-1]
    operation = "send" if item.operation == "recv" else item.operation
    return Call(number, marked, operation, members, *sizes, item.dtype, 0, 0)


def _mark_ns(place: int) -> tuple[int, int]:
    """Start and duration that stand for the times at a place."""
    return (_START_US + place * _APART_US) * 1_000, (_DURATION_US + place * _APART_US) * 1_000


class _Marks:
    """Replace what differs between ranks and steps in events, and count the ids."""

    def __init__(self) -> None:
        self.externals = 0
        self.correlations = 0

    def event(self, event: Event) -> Event:
        rows: dict[int | str, str] = {
            _PID: "@pid@",
            _PID + BACKWARD_THREAD: "@backward@",
            _DEVICE: "@device@",
        }
        on_host = event.pid == _PID
        name = "ProfilerStep#@step@" if event.name.startswith("ProfilerStep#") else event.name
        return replace(
            event,
            name=name,
            pid=rows[event.pid],
            tid=rows[event.tid] if on_host else event.tid,
            args=self._args(event),
            flow=self._correlation(event.flow),
        )

    def _args(self, event: Event) -> dict[str, Any]:
        args = dict(event.args)
        for key in ("External id", "Ev Idx"):
            if key in args:
                self.externals = max(self.externals, args[key])
                args[key] = f"#external:{args[key]}#"
        if "correlation" in args:
            args["correlation"] = self._correlation(args["correlation"])
        for key, token in (("device", "@device@"), ("Rank", "@rank@")):
            if key in args:
                args[key] = token
        if "Seq" in args:
            args["Seq"] = f"#seq:{args['Seq']}#"
        if _BANDWIDTH in args:
            place = (event.dur_ns // 1_000 - _DURATION_US) // _APART_US
            args[_BANDWIDTH] = f"#bandwidth:{place},{args['bytes']}#"
        if "Process Group Name" in args:
            args |= _group_tokens(args)
        return args

    def _correlation(self, number: int | str) -> int | str:
        if not isinstance(number, int) or not number:
            return number
        count = number - FIRST_CORRELATION
        self.correlations = max(self.correlations, count)
        return f"#correlation:{count}#"


def _group_tokens(args: dict[str, Any]) -> dict[str, Any]:
    dimension = args["Process Group Name"].strip("@")
    tokens = {
        "Process Group Name": f"@{dimension}_name@",
        "Global rank start": f"@{dimension}_start@",
        "Global rank stride": f"@{dimension}_stride@",
        "Comms Id": f"@{dimension}_comms@",
        "Src Rank": f"@pp_member:{args.get('Src Rank')}@",
        "Dst Rank": f"@pp_member:{args.get('Dst Rank')}@",
    }
    if args["Process Group Ranks"] != "[]":
        tokens["Process Group Ranks"] = f"@{dimension}_ranks@"
    return {key: token for key, token in tokens.items() if key in args}


class _Step(Struct):
    """A step of a lane: its template, and its times, one row a rank."""

    template: StepTemplate
    log: StepLog
    times: NDArray[np.int64]


class LaneText(Struct):
    """Texts of the ranks of a lane.

    Attributes:
        spec, topology: The job.
        lane: The lane; its logs are no longer needed afterwards.
    """

    spec: Spec
    topology: Topology
    lane: Lane
    _steps: list[_Step] = field(default_factory=list)

    def __post_init__(self) -> None:
        templates: dict[tuple[object, ...], StepTemplate] = {}
        rank = int(self.lane.ranks[0])
        for log in self.lane.steps:
            key = signature(log)
            if key not in templates:
                templates[key] = make_template(self.spec, self.topology, rank, log)
            times = np.ascontiguousarray(np.array(log.times, np.int64).T)
            log.times = []
            self._steps.append(_Step(templates[key], log, times))

    def pieces(self, place: int) -> Iterator[str]:
        """The text of the rank at a place of the lane, in pieces."""
        spec, topology = self.spec, self.topology
        rank = int(self.lane.ranks[place])
        pid, device = pid_of(rank), topology.device_of(rank)
        numbers = self._numbers(place)
        starts = [times.times for times in numbers]
        first_ns = int(min(times.min() for times in starts)) - LEAD_NS
        last_ns = int(max(times.max() for times in starts)) + TAIL_NS
        head, tail = native_ends(header(spec, topology, rank), trace_name(rank))
        streams = sorted({stream for step in self._steps for stream in step.template.streams})
        names = names_of(topology, rank, pid, device)
        yield head
        yield native_events(list(row_names(pid, device, streams, first_ns)), 0)
        for part in ("host", "device"):
            texts: dict[int, str] = {}
            for step, filled in zip(self._steps, numbers, strict=True):
                rows: Part = getattr(step.template, part)
                if id(rows) not in texts:
                    texts[id(rows)] = NATIVE_BETWEEN + rows.of_rank(names)
                yield texts[id(rows)] % rows.values(filled, step.template.lines)
        spans = {}
        for number, step in enumerate(self._steps):
            begin, end = step.template.main
            spans[number] = (int(starts[number][begin]), int(starts[number][end]))
        yield NATIVE_BETWEEN
        yield native_events(
            [*device_steps(device, spans, spec.first_step), *window(first_ns, last_ns)], 0
        )
        yield tail

    def _numbers(self, place: int) -> list[StepNumbers]:
        """Numbers of each step of a rank."""
        spec, host = self.spec, self.topology.host_of(int(self.lane.ranks[place]))
        zero_ns = origin_ns(spec) + offset_ns(spec, host) - base_ns(spec)
        drift = drift_ppb(spec, host)
        external, correlation = 0, FIRST_CORRELATION
        found = []
        for number, step in enumerate(self._steps):
            true_ns = step.times[place]
            times = zero_ns + true_ns + true_ns * drift // 1_000_000_000
            found.append(
                StepNumbers(
                    times, external, correlation, spec.first_step + number, step.log.first_seqs
                )
            )
            external += step.template.externals
            correlation += step.template.correlations
        return found
