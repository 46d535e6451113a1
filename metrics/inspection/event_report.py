"""Find one event and describe it: times, launch, operator, ranges, stack, collective, relatives.

queue delay = start of the device work - end of the call that launched it

Both are read from one clock, that of the rank. A negative delay means that the work began before
the call returned.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.reductions import distinct_values
from ccltui.metrics.collectives.matching.match import CONFIDENCES
from ccltui.metrics.device.launch_origin import MODULE, operators_of
from ccltui.metrics.inspection.event_facts import (
    BYTES,
    GBPS,
    INSTANT,
    NS,
    PERCENT,
    EventRef,
    EventReport,
    Fact,
    Link,
    Value,
)
from ccltui.metrics.model.calls import DTYPES
from ccltui.metrics.model.classify import MEM, TYPES
from ccltui.parsers.columns import MISSING
from ccltui.parsers.errors import GrammarError, TraceError
from ccltui.parsers.format import EventRecord
from ccltui.parsers.formats import read_event_record
from ccltui.parsers.numbers import duration

if TYPE_CHECKING:
    from ccltui.metrics.collectives.arrivals import GroupArrivals
    from ccltui.metrics.model.calls import Calls
    from ccltui.metrics.model.rank_facts import RankFacts
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.array_types import I64
    from ccltui.parsers.columns import Events, Group, RankTrace


def call_of(view: View, event: EventRef) -> int:
    """Return the row of the rank's calls that an event is, -1 where it is no collective."""
    calls = view.facts.named_calls[event.rank]
    if calls.event_group != event.group:
        return -1
    found = np.flatnonzero(calls.rows.of(event.group) == event.row)
    return int(found[0]) if len(found) else -1


def event_of_call(view: View, rank: str, call: int) -> EventRef:
    """Return the event of a call. Raises IndexError where there is no such call."""
    calls = view.facts.named_calls[rank]
    return EventRef.of(rank, calls.event_group, int(calls.rows.numbers[call]))


def event_of_member(view: View, number: int, row: int, rank: str) -> EventRef:
    """Return the event of a rank in an instance of a matched group.

    Raises:
        IndexError: there is no such instance, or the rank is absent from it.
    """
    group = view.arrivals.groups[number]
    call = int(group.match.rows[row, group.labels.index(rank)]) if rank in group.labels else -1
    if call < 0:
        raise IndexError(f"rank {rank} is absent from this collective")
    return event_of_call(view, rank, call)


def collective_facts(view: View, rank: str, call: int) -> list[Fact]:
    """Return operation, size, type, group and sequence number of a call."""
    calls = view.facts.named_calls[rank]
    kind, group = TYPES[int(calls.kind[call])], int(calls.group[call])
    members = view.groups[group].ranks if group >= 0 else ()
    stated = [
        Fact("collective", kind),
        _known("message size", int(calls.message_bytes[call]), BYTES),
        _known("elements in", int(calls.in_elems[call])),
        _known("elements out", int(calls.out_elems[call])),
        _type_of(calls, call),
        Fact("process group", view.group_label(group) if group >= 0 else None, why=_none(group)),
        Fact(
            "members",
            ", ".join(map(str, members)) if members else None,
            why="" if members else "the file does not list them",
        ),
        _known("sequence number", int(calls.seq[call])),
    ]
    if kind in ("Send", "Recv"):
        stated += [
            _known("from rank", int(calls.src[call])),
            _known("to rank", int(calls.dst[call])),
        ]
    return stated


def _known(name: str, value: int, unit: str = "") -> Fact:
    return Fact(name, value, unit) if value >= 0 else Fact(name, None, unit, _NOT_STATED)


def _none(group: int) -> str:
    return "" if group >= 0 else "the file names no process group of this call"


def _type_of(calls: Calls, call: int) -> Fact:
    index = int(calls.dtype[call])
    return Fact("data type", DTYPES[index] if index >= 0 else None, why=_none_type(index))


def _none_type(index: int) -> str:
    return "" if index >= 0 else _NOT_STATED


def peer_links(view: View, rank: str, call: int) -> tuple[list[Fact], list[Link]]:
    """Return when the rank arrived at the collective, and its events on the other ranks."""
    for group in view.arrivals.groups:
        if rank not in group.labels:
            continue
        member = group.labels.index(rank)
        found = np.flatnonzero(group.match.rows[:, member] == call)
        if len(found):
            return _matched(view, group, int(found[0]), member)
    other = _other_side(view, rank, call)
    if other is None:
        return [Fact("peers", None, why="the call is not matched with any of another rank")], []
    return [Fact("peers", 1)], [_transfer_link(view, rank, call, *other)]


def _other_side(view: View, rank: str, call: int) -> tuple[str, int] | None:
    """Return label and call of the other side of a transfer between two ranks."""
    pairs, labels = view.pairs, [one.label for one in view.facts.match_inputs]
    if rank not in labels:
        return None
    this, ends = labels.index(rank), (pairs.sender, pairs.send_row, pairs.receiver, pairs.recv_row)
    for own, own_row, other, other_row in (ends, (*ends[2:], *ends[:2])):
        found = np.flatnonzero((own == this) & (own_row == call))
        if len(found):
            return labels[int(other[found[0]])], int(other_row[found[0]])
    return None


def _arrival(late_ns: int) -> str:
    """Return how late a rank arrived; "" where that is not known."""
    if late_ns <= 0:
        return "" if late_ns < 0 else "arrived first"
    return f"arrived {duration(late_ns)} after the first"


def _transfer_link(view: View, rank: str, call: int, label: str, other: int) -> Link:
    """Return the other side of a transfer, and how much later it began."""
    calls = view.facts.named_calls[label]
    starts = [
        int(view.on_job_clock(one, view.facts.named_calls[one].start_ns[at : at + 1])[0])
        for one, at in ((rank, call), (label, other))
    ]
    event = event_of_call(view, label, other)
    trace = view.facts.ranks[label].trace
    after = starts[1] - starts[0]
    note = f"began {duration(abs(after))} {'later' if after > 0 else 'earlier'}"
    note = note if after else "began at the same time"
    name = trace.text(int(trace.group(event.group).name[event.row]))
    return Link("peer", event, name, starts[1] - view.origin_ns, int(calls.dur_ns[other]), note)


def _matched(
    view: View, group: GroupArrivals, row: int, member: int
) -> tuple[list[Fact], list[Link]]:
    late = group.clock_free.late_at(row).tolist()
    facts = [
        Fact("peers", int((group.match.rows[row] >= 0).sum()) - 1),
        Fact("confidence of the match", CONFIDENCES[int(group.confidence[row])]),
        Fact("arrived after the first", late[member], NS)
        if late[member] >= 0
        else Fact("arrived after the first", None, NS, "not every member was matched"),
        Fact("waited for the last", int(group.wait_ns[row, member]), NS)
        if late[member] >= 0
        else Fact("waited for the last", None, NS, "not every member was matched"),
    ]
    links = []
    for other, label in enumerate(group.labels):
        call = int(group.match.rows[row, other])
        if other == member or call < 0:
            continue
        event = event_of_call(view, label, call)
        trace = view.facts.ranks[label].trace
        links.append(
            Link(
                "peer",
                event,
                trace.text(int(trace.group(event.group).name[event.row])),
                int(group.start_ns[row, other]) - view.origin_ns,
                int(group.dur_ns[row, other]),
                _arrival(int(late[other])),
            )
        )
    return facts, links


MOST_FRAMES: Final = 64
"""Frames of a stack that are listed, the innermost."""


class HostSide(Struct, frozen=True):
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


_PENDING: Final = "being read from the file"
_NOT_STATED: Final = "the file does not state it"
_SEPARATOR: Final = " > "


def inspect_event(view: View, event: EventRef, *, with_file: bool = True) -> EventReport:
    """Return what is known of an event.

    Args:
        view: the job.
        event: a row of a group of events.
        with_file: whether to read what only the file holds, which takes a pass over it.

    Raises:
        KeyError: there is no such rank.
        IndexError: there is no such row.
    """
    trace = view.facts.ranks[event.rank].trace
    events = trace.group(event.group)
    if not 0 <= event.row < len(events):
        raise IndexError(f"rank {event.rank} has no event {event.row} of {event.group}")
    host = host_side(view.facts.ranks[event.rank], event.group, event.row)
    record, operator = (
        (_recorded(trace, event), _recorded(trace, _operator_ref(event, host)))
        if with_file
        else (_PENDING, _PENDING)
    )
    facts = [*_times(view, event), *_device(view, event, record), *_launch(view, event, host)]
    facts += _host(trace, event, host, operator if event.group == "gpu" else record)
    links = [*_same_name(view, event), *_relations(view, event, host)]
    call = call_of(view, event)
    if call >= 0:
        arrived, peers = peer_links(view, event.rank, call)
        facts += [*collective_facts(view, event.rank, call), *arrived]
        links += peers
    inputs = operator if event.group == "gpu" else record
    if isinstance(inputs, EventRecord) and inputs.inputs:
        facts.append(Fact("input values", inputs.inputs))
    if isinstance(record, EventRecord):
        facts += [Fact(name, text) for name, text in record.further if text]
    return EventReport(
        event,
        trace.text(int(events.name[event.row])),
        _instant(view, event.rank, int(events.start_ns[event.row])),
        int(events.dur_ns[event.row]),
        tuple(facts),
        tuple(links),
        is_complete=with_file,
    )


def _recorded(trace: RankTrace, event: EventRef | None) -> EventRecord | str:
    """Return the record of an event in its file, or the reason why there is none."""
    if event is None:
        return _NOT_STATED
    try:
        return read_event_record(trace, event.group, event.row)
    except TraceError as error:
        return error.message


def _operator_ref(event: EventRef, host: HostSide) -> EventRef | None:
    if event.group != "gpu" or host.operator < 0:
        return None
    return EventRef(event.rank, "cpu_ops", host.operator)


def _instant(view: View, rank: str, own_ns: int) -> int:
    """Return a time of a rank's clock on the corrected clock, since the origin."""
    return int(view.on_job_clock(rank, np.array(own_ns, np.int64))) - view.origin_ns


def _times(view: View, event: EventRef) -> list[Fact]:
    trace = view.facts.ranks[event.rank].trace
    events = trace.group(event.group)
    category = trace.text(int(events.category[event.row])) or event.group
    place = int(events.track[event.row])
    track = trace.tracks[place] if 0 <= place < len(trace.tracks) else None
    correlation = int(events.correlation[event.row])
    facts = [
        Fact("kind", category),
        Fact("start", _instant(view, event.rank, int(events.start_ns[event.row])), INSTANT),
        Fact("duration", int(events.dur_ns[event.row]), NS),
    ]
    if track is None:
        facts.append(Fact("stream or thread", None, why=_NOT_STATED))
    elif track.kind == "stream":
        facts += [_number("stream", track.stream), _number("device", track.device)]
    else:
        name = track.label.removeprefix("thread ")
        facts.append(Fact("thread", name or f"{track.pid}/{track.tid}"))
    if event.group in ("gpu", "runtime"):
        why = "" if correlation >= 0 else _NOT_STATED
        facts.append(Fact("correlation", correlation if correlation >= 0 else None, why=why))
    return facts


def _number(name: str, value: int) -> Fact:
    return Fact(name, value) if value >= 0 else Fact(name, None, why=_NOT_STATED)


def _device(view: View, event: EventRef, record: EventRecord | str) -> list[Fact]:
    """Return the size of a copy, or the launch arguments and occupancy of a kernel."""
    if event.group != "gpu":
        return []
    facts = view.facts.ranks[event.rank]
    gpu, row = facts.trace.group("gpu"), event.row
    if facts.classes[row] == MEM:
        size, dur = int(gpu.bytes[row]), int(gpu.dur_ns[row])
        if size < 0:
            return [Fact("size", None, BYTES, _NOT_STATED)]
        return [Fact("size", size, BYTES), *([Fact("rate", size / dur, GBPS)] if dur else [])]
    one = record if isinstance(record, EventRecord) else EventRecord()
    why = record if isinstance(record, str) else _NOT_STATED
    blocks = float(gpu.sparse("blocks_per_sm")[row])
    estimated = float(gpu.sparse("occupancy_pct")[row])
    occupancy = one.occupancy_pct if one.occupancy_pct is not None else estimated
    return [
        _fact("grid", None if one.grid is None else "x".join(map(str, one.grid)), why),
        _fact("block", None if one.block is None else "x".join(map(str, one.block)), why),
        _fact("registers per thread", one.registers, why),
        _fact("shared memory per block", one.shared_bytes, why, BYTES),
        *_shared_parts(one),
        _fact(
            "blocks per SM", blocks if blocks >= 0 else None, "neither it nor the SMs are stated"
        ),
        _fact(
            "occupancy estimate",
            occupancy if occupancy > 0 else None,
            "the profiler gives no estimate of this kernel",
            PERCENT,
        ),
    ]


def _shared_parts(record: EventRecord) -> list[Fact]:
    parts = (
        ("static shared memory", record.static_shared_bytes),
        ("dynamic shared memory", record.dynamic_shared_bytes),
    )
    return [Fact(name, value, BYTES) for name, value in parts if value is not None]


def _fact(name: str, value: Value | None, why: str, unit: str = "") -> Fact:
    return Fact(name, value, unit, "" if value is not None else why)


def _launch(view: View, event: EventRef, host: HostSide) -> list[Fact]:
    if event.group != "gpu":
        return []
    names = ("launch call", "launch start", "launch duration", "queue delay")
    units = ("", INSTANT, NS, NS)
    if host.launch < 0:
        return [Fact(n, None, u, host.why_no_launch) for n, u in zip(names, units, strict=True)]
    trace = view.facts.ranks[event.rank].trace
    calls, at = trace.group("runtime"), host.launch
    start, dur = int(calls.start_ns[at]), int(calls.dur_ns[at])
    values: tuple[Value, ...] = (
        trace.text(int(calls.name[at])),
        _instant(view, event.rank, start),
        dur,
        int(trace.group("gpu").start_ns[event.row]) - start - dur,
    )
    return [Fact(n, v, u) for n, v, u in zip(names, values, units, strict=True)]


def _host(
    trace: RankTrace, event: EventRef, host: HostSide, record: EventRecord | str
) -> list[Fact]:
    """Return operator, inputs, ranges and stack."""
    operators = trace.group("cpu_ops")
    names = [trace.text(int(operators.name[one])) for one in host.operators]
    facts = []
    own = event.row if event.group == "cpu_ops" else host.operator
    if event.group != "cpu_ops":
        name = trace.text(int(operators.name[host.operator])) if host.operator >= 0 else None
        facts.append(_fact("operator", name, _why_no_operator(trace, host)))
    if names:
        facts.append(Fact("operators around it", _SEPARATOR.join(names)))
    if event.group in ("gpu", "cpu_ops"):
        facts += _inputs(trace, own, record)
    why = "no range, NVTX or nn.Module, is recorded around it"
    facts.append(_fact("ranges and modules", _SEPARATOR.join(host.ranges) or None, why))
    stack = host.frames or (record.call_stack if isinstance(record, EventRecord) else ())
    facts.append(_fact("Python stack", stack or None, _why_no_stack(trace)))
    return facts


def _why_no_operator(trace: RankTrace, host: HostSide) -> str:
    if not len(trace.group("cpu_ops")):
        return "the file has no operators"
    return host.why_no_launch or "no operator runs at the launch"


def _why_no_stack(trace: RankTrace) -> str:
    if len(trace.group("python")):
        return "no Python frame is recorded around it"
    return "the file has no Python frames (with_stack=True records them)"


def _inputs(trace: RankTrace, operator: int, record: EventRecord | str) -> list[Fact]:
    if operator < 0:
        return []
    stored = int(trace.group("cpu_ops").sparse("shapes")[operator])
    one = record if isinstance(record, EventRecord) else EventRecord()
    why = record if isinstance(record, str) else "record_shapes=True records it"
    shapes = one.input_shapes or (trace.text(stored) if stored >= 0 else "")
    return [
        _fact("input shapes", shapes or None, why),
        _fact("input types", one.input_types or None, why),
    ]


def _same_name(view: View, event: EventRef) -> list[Link]:
    """Return the previous and next event of the same name, and how many there are."""
    trace = view.facts.ranks[event.rank].trace
    names = trace.group(event.group).name
    rows = np.flatnonzero(names == names[event.row])
    place = int(np.searchsorted(rows, event.row))
    links = []
    for relation, other in (("previous", place - 1), ("next", place + 1)):
        if 0 <= other < len(rows):
            note = f"{other + 1} of {len(rows)} of this name"
            there = EventRef(event.rank, event.group, int(rows[other]))
            links.append(_link(view, relation, there, note))
    return links


def _relations(view: View, event: EventRef, host: HostSide) -> list[Link]:
    """Return launch and operator of device work; device work of a call or operator."""
    found = []
    if host.launch >= 0:
        found.append(_link(view, "launch", EventRef(event.rank, "runtime", host.launch)))
    outer = host.operators[-1] if event.group == "cpu_ops" and host.operators else host.operator
    if outer >= 0:
        relation = "operator around it" if event.group == "cpu_ops" else "operator"
        found.append(_link(view, relation, EventRef(event.rank, "cpu_ops", outer)))
    if event.group in ("runtime", "cpu_ops"):
        facts = view.facts.ranks[event.rank]
        rows = launched_inside(facts, event.group, event.row)
        if len(rows):
            total = int(facts.trace.group("gpu").dur_ns[rows].sum())
            note = f"first of {len(rows)} launched, {duration(total)} together"
            found.append(
                _link(view, "device work", EventRef(event.rank, "gpu", int(rows[0])), note)
            )
    return found


def _link(view: View, relation: str, other: EventRef, note: str = "") -> Link:
    row = other.row
    trace = view.facts.ranks[other.rank].trace
    events = trace.group(other.group)
    return Link(
        relation,
        other,
        trace.text(int(events.name[row])),
        _instant(view, other.rank, int(events.start_ns[row])),
        int(events.dur_ns[row]),
        note,
    )


def find_event(
    view: View, rank: str, group: Group, *, pattern: str = "", number: int | None = None
) -> EventRef:
    """Return the event of a rank whose name matches: the longest, or one by its place in time.

    Args:
        view: the job; the window, if one is set, must contain the start of the event.
        rank: label of the rank.
        group: group of events.
        pattern: regular expression that the name contains; "" matches every name.
        number: place among the matches in order of time, from 1; None is the longest.

    Raises:
        GrammarError: there is no such rank, no event of that name, or no such number.
    """
    if rank not in view.facts.ranks:
        raise GrammarError(f"no rank {rank!r}; there are {', '.join(list(view.facts.ranks)[:8])}")
    try:
        matches = re.compile(pattern, re.IGNORECASE).search
    except re.error as error:
        raise GrammarError(f"{pattern!r} is no regular expression: {error}") from error
    chosen = next((one for one in view.ranks if one.label == rank), None)
    trace = view.facts.ranks[rank].trace
    events = trace.group(group)
    names = [name for name in distinct_values(events.name).tolist() if matches(trace.text(name))]
    inside = np.isin(events.name, names)
    if chosen is not None:
        inside &= chosen.contains(events.start_ns)
    rows = np.flatnonzero(inside)
    if not len(rows):
        of = f" whose name matches {pattern!r}" if pattern else ""
        raise GrammarError(f"rank {rank} has no event of {group}{of}")
    if number is None:
        return EventRef(rank, group, int(rows[events.dur_ns[rows].argmax()]))
    if number > len(rows):
        raise GrammarError(f"only {len(rows)} events of rank {rank} match")
    return EventRef(rank, group, int(rows[number - 1]))
