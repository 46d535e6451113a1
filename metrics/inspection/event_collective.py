"""The collective that an event is part of: its arguments, and its events on other ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ccltui.metrics.collectives.matching.match import CONFIDENCES
from ccltui.metrics.inspection.event_facts import BYTES, NS, EventRef, Fact, Link
from ccltui.metrics.model.calls import DTYPES
from ccltui.metrics.model.classify import TYPES
from ccltui.parsers.numbers import duration

if TYPE_CHECKING:
    from ccltui.metrics.collectives.arrivals import GroupArrivals
    from ccltui.metrics.model.calls import Calls
    from ccltui.metrics.view.job_view import View

_NOT_STATED = "the file does not state it"


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
    late = group.late_ns[row].tolist()
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
