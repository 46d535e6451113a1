"""Text of the file of one rank of a large job: a step as a template, filled for each step.

The event writer of small jobs writes a step in which each number that differs between ranks or
steps is a mark: its place among the numbers of a rank and step, far above all other numbers. Names
and members of groups are replaced before it is written. Written event by event, a rank takes ten
times as long.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

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
    FIRST_CORRELATION,
    LEAD_NS,
    TAIL_NS,
    Event,
    RankEvents,
    device_steps,
    list_text,
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
from ccltui.demo.spec import DemoGroup, Spec, Topology
from ccltui.parsers.array_types import I64

# Marks are 1 ms apart, because events inside others begin some microseconds after them, and ids
# count up from a mark by less than half of that, or down by one.
_NUMBER: Final = 7_000_000_500_000
_OF_RANK: Final = 6_000_000_500_000
_DURATION: Final = 4_000_000_000_000  # between a time and the next one
_APART: Final = 1_000_000
_PID, _DEVICE, _RANK = (_OF_RANK + place * _APART for place in range(3))
_MARK: Final = re.compile(
    r'([47]\d{9})\.(\d{3})|\b([67]\d{12})\b|"@([a-z_]+(?::\d+)?)@"'
    r'|(?<="bytes": )(\d+), "memory bandwidth \(GB/s\)": ([^\n,]+)'
)


class _Fill(Struct, frozen=True):
    """Where the numbers of one kind go: places in the values, what is taken, what is added."""

    into: I64
    what: I64
    add: I64


class Part:
    """Host or device rows of a step: texts, what is the rank's own, and formats for numbers."""

    def __init__(self, text: str) -> None:
        self.pieces, end = [""], 0
        self.bandwidths: list[tuple[int, int, int]] = []
        self.count = 0
        rows: dict[str, list[tuple[int, int, int]]] = {"start": [], "dur": [], "number": []}
        for found in _MARK.finditer(text):
            self.pieces[-1] += text[end : found.start()].replace("%", "%%")
            end = found.end()
            whole_us, rest_ns, number, token, size, rate = found.groups()
            if whole_us:
                kind = "dur" if whole_us[0] == "4" else "start"
                zero = _DURATION if kind == "dur" else _NUMBER
                place, add = divmod(int(whole_us + rest_ns) - zero, _APART)
                rows[kind].append((self.count, place, add))
                self.pieces[-1] += "%d.%03d"
                self.count += 1
            elif size:
                place = round((int(size) / float(rate) - _DURATION) / _APART)
                self.bandwidths.append((self.count, place, int(size)))
                self.pieces[-1] += f'{size}, "memory bandwidth (GB/s)": %s'
            elif token or number[0] == "6":
                self.pieces += [token or number, ""]
                continue
            else:
                place = round((int(number) - _NUMBER) / _APART)
                rows["number"].append((self.count, place, int(number) - _NUMBER - place * _APART))
                self.pieces[-1] += "%d"
            self.count += 1
        self.pieces[-1] += text[end:].replace("%", "%%")
        self._fills = {
            kind: _Fill(*np.array(found, np.int64).reshape(-1, 3).T) for kind, found in rows.items()
        }

    def of_rank(self, names: Mapping[str, str]) -> str:
        """The text with what is the rank's own; formats remain."""
        pieces = self.pieces.copy()
        for place in range(1, len(pieces), 2):
            token = pieces[place]
            pieces[place] = names[token] if token in names else _own_number(token, names)
        return "".join(pieces)

    def values(self, numbers: I64) -> tuple[int | float, ...]:
        """What the formats are filled with."""
        found = np.empty(self.count, np.int64)
        start, dur, number = (self._fills[kind] for kind in ("start", "dur", "number"))
        for fill, ns in (
            (start, numbers[start.what] + start.add),
            (dur, numbers[dur.what + 1] - numbers[dur.what]),
        ):
            found[fill.into], found[fill.into + 1] = ns // 1_000, ns % 1_000
        found[number.into] = numbers[number.what] + number.add
        values: list[int | float] = [*found.tolist()]
        for place, what, size in self.bandwidths:
            values[place] = size / max(int(numbers[what + 1] - numbers[what]), 1)
        return tuple(values)


def _own_number(token: str, names: Mapping[str, str]) -> str:
    """A number of the rank itself: its mark and what is added."""
    place = round((int(token) - _OF_RANK) / _APART)
    mark = _OF_RANK + place * _APART
    return str(int(names[str(mark)]) + int(token) - mark)


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
    """Write the text of a step, with marks, from the log of a rank that is one of its lane."""
    lines = list(dict.fromkeys(entry.line for entry in log.entries if entry.line[0]))
    items = [entry for entry in log.entries if isinstance(entry.item, Communicate)]
    index = {(entry.line, entry.number): place for place, entry in enumerate(items)}
    calls = tuple(_call(place, entry.item, rank) for place, entry in enumerate(items))
    times: list[int] = []
    main: list[int] = []
    for entry in log.entries:
        if entry.kind == "work":
            main.append(len(times))
        times += [_NUMBER + (len(times) + one) * _APART for one in range(entry.times)]
        times[-1] = times[-2] + _DURATION + (len(times) - 2) * _APART
    external, correlation, step, *seqs = (
        _NUMBER + (len(times) + one) * _APART for one in range(3 + len(lines))
    )
    first = dict(zip(lines, seqs, strict=True))
    activities, ranges = records(log, times, rank=_RANK, step=0, first_seqs=first, calls=index)
    drawn = replace(spec, first_step=step)
    schedule = Schedule(drawn, topology, (tuple(activities),), (tuple(ranges),), calls)
    body = RankEvents(schedule, 0, _PID, _DEVICE, external=external, correlation=correlation)
    return StepTemplate(
        Part(native_events([_with_tokens(event) for event in body.host], 0)),
        Part(native_events([_with_tokens(event) for event in body.gpu], 0)),
        lines,
        body.external - external,
        body.correlation - correlation,
        (main[0] + 2, main[-1] + 3),
        frozenset(entry.stream for entry in log.entries if entry.item is not None),
    )


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


def _with_tokens(event: Event) -> Event:
    """The event with tokens for the name and the members of its group."""
    args: dict[str, Any] = event.args
    if "Process Group Name" not in args:
        return event
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
    return replace(event, args=args | {key: tokens[key] for key in tokens if key in args})


def names_of(topology: Topology, rank: int, pid: int, device: int) -> dict[str, str]:
    """JSON text of the tokens of a rank, and its own numbers by their marks."""
    names = {str(_PID): str(pid), str(_DEVICE): str(device), str(_RANK): str(rank)}
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


class _Step(Struct):
    """A step of a lane: its template, its times, one row a rank, and its first sequence numbers."""

    template: StepTemplate
    times: I64
    seqs: list[int]


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
            template = templates[key]
            times = np.ascontiguousarray(np.array(log.times, np.int64).T)
            log.times = []
            seqs = [FIRST_SEQ + log.first_seqs.get(line, 0) for line in template.lines]
            self._steps.append(_Step(template, times, seqs))

    def pieces(self, place: int) -> Iterator[str]:
        """The text of the rank at a place of the lane, in pieces."""
        spec, topology = self.spec, self.topology
        rank = int(self.lane.ranks[place])
        pid, device = pid_of(rank), topology.device_of(rank)
        times = [self._on_clock(step.times[place], rank) for step in self._steps]
        first_ns = int(min(one.min() for one in times)) - LEAD_NS
        last_ns = int(max(one.max() for one in times)) + TAIL_NS
        head, tail = native_ends(header(spec, topology, rank), trace_name(rank))
        streams = sorted({stream for step in self._steps for stream in step.template.streams})
        names = names_of(topology, rank, pid, device)
        yield head
        yield native_events(list(row_names(pid, device, streams, first_ns)), 0)
        numbers = self._numbers(times)
        for part in ("host", "device"):
            texts: dict[int, str] = {}
            for step, own in zip(self._steps, numbers, strict=True):
                rows: Part = getattr(step.template, part)
                if id(rows) not in texts:
                    texts[id(rows)] = NATIVE_BETWEEN + rows.of_rank(names)
                yield texts[id(rows)] % rows.values(own)
        spans = {
            number: (int(times[number][begin]), int(times[number][end]))
            for number, (begin, end) in enumerate(step.template.main for step in self._steps)
        }
        yield NATIVE_BETWEEN
        yield native_events(
            [*device_steps(device, spans, spec.first_step), *window(first_ns, last_ns)], 0
        )
        yield tail

    def _on_clock(self, true_ns: I64, rank: int) -> I64:
        """Times on the clock of the host, less the base of the file."""
        spec, host = self.spec, self.topology.host_of(rank)
        zero_ns = origin_ns(spec) + offset_ns(spec, host) - base_ns(spec)
        times: I64 = zero_ns + true_ns + true_ns * drift_ppb(spec, host) // 1_000_000_000
        return times

    def _numbers(self, times: list[I64]) -> list[I64]:
        """Numbers of each step of a rank in the order of their marks."""
        external, correlation = 0, FIRST_CORRELATION
        found = []
        for number, (step, own) in enumerate(zip(self._steps, times, strict=True)):
            ids = [external, correlation, self.spec.first_step + number, *step.seqs]
            found.append(np.concatenate([own, np.array(ids, np.int64)]))
            external += step.template.externals
            correlation += step.template.correlations
        return found
