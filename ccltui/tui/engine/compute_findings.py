"""Compute what the panes draw of a view: lanes, steps, time span, communicators and hosts.

All numbers come from the metrics' view of the job; here they only change their shape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from ccltui.draw.lanes import Lane, Track
from ccltui.metrics.arrays.intervals import Intervals, union
from ccltui.metrics.collectives.arrivals import GroupArrivals, drawn_floor
from ccltui.metrics.findings.causes.cause_search import job_causes
from ccltui.metrics.findings.rank_time.partition import exposed_parts
from ccltui.metrics.model.calls import Calls
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.model.rank_facts import RankFacts
from ccltui.metrics.view.job_view import View
from ccltui.metrics.view.view_options import ViewOptions
from ccltui.parsers import numbers
from ccltui.parsers.array_types import I64, Bool
from ccltui.tui.state.communicator import Communicator
from ccltui.tui.state.job_findings import Span, Step


def nodes_of(view: View) -> dict[str, int]:
    """Number of the host of each rank, in order of their first ranks; without unnamed hosts."""
    known: dict[str, int] = {}
    hosts = {rank.label: rank.trace.host for rank in view.ranks if rank.trace.host}
    return {label: known.setdefault(host, len(known)) for label, host in hosts.items()}


def lanes_of(view: View) -> dict[str, Lane]:
    """Busy time of every chosen rank, whatever the window, by label."""
    return {
        rank.label: _lane(rank.label, rank.facts, view, rank.recorded_calls.event_group)
        for rank in view.ranks
    }


def _lane(label: str, facts: RankFacts, view: View, event_group: str) -> Lane:
    network, compute, copies = facts.busy
    if event_group != "gpu":  # no kernels: the collectives the host recorded
        calls = view.facts.named_calls[label]
        network = union(calls.start_ns, calls.end_ns)
    both = compute & network
    offset = view.offsets_ns.get(label, 0)
    lane = Lane(
        label, _track(compute), _track(network), _track(both), offset, copies=_track(copies)
    )
    drift_ppb = None if view.is_as_recorded else view.clocks.clocks[label].drift_ppb
    if drift_ppb is None:
        return lane
    return replace(lane, drift=drift_ppb / 1e9, drift_from_ns=view.clocks.reference_ns)


def with_waiting(lanes: Mapping[str, Lane], view: View) -> dict[str, Lane]:
    """Return lanes with the waiting and the bubble in their network time, whatever the window."""
    whole = view.with_options(window=None, steps=None, group=None)
    found = dict(lanes)
    for rank in whole.ranks:
        network, compute, copies = rank.facts.busy
        waiting, bubble = exposed_parts(whole, rank, network - (compute | copies))
        lane = found[rank.label]
        found[rank.label] = replace(lane, waiting=_track(waiting), bubble=_track(bubble))
    return found


def _track(busy: Intervals) -> Track:
    return Track.of(busy.start_ns, busy.end_ns)


def steps_of_job(view: View) -> tuple[Step, ...]:
    """Every step from its first start to its last end on any rank, in order of start."""
    extents: dict[int, tuple[int, int]] = {}
    for rank in view.ranks:
        marked = rank.facts.marked_steps[0]
        own = np.array([(step.start_ns, step.end_ns) for step in marked], np.int64).reshape(-1, 2)
        times = (view.on_job_clock(rank.label, own) - view.origin_ns).tolist()
        for step, (start, end) in zip(marked, times, strict=True):
            known = extents.get(step.id, (start, end))
            extents[step.id] = (min(known[0], start), max(known[1], end))
    steps = [Step(number, start, end) for number, (start, end) in extents.items()]
    return tuple(sorted(steps, key=lambda step: step.start_ns))


def span_of(view: View, chosen: ViewOptions, steps: tuple[Step, ...]) -> Span | None:
    """Return the time span of the timeline: the window or chosen steps, else all device work."""
    starts, ends = [], []
    for rank in view.ranks:
        extent = rank.facts.extent
        if len(extent):
            own = np.array([extent.start_ns[0], extent.end_ns[0]], np.int64)
            first, last = (view.on_job_clock(rank.label, own) - view.origin_ns).tolist()
            starts.append(first)
            ends.append(last)
    if not starts:
        return None
    start, end = min(starts), max(ends)
    if chosen.steps is not None:
        first, last = chosen.steps
        inside = [step for step in steps if first <= step.id <= last]
        start = min((step.start_ns for step in inside), default=start)
        end = max((step.end_ns for step in inside), default=end)
    if chosen.window is not None:
        start = start if chosen.window.start_ns is None else chosen.window.start_ns
        end = end if chosen.window.end_ns is None else chosen.window.end_ns
    return Span(start, max(end, start + 1))


def communicators_of(view: View, chosen: ViewOptions) -> tuple[Communicator, ...]:
    """Matched collectives of every communicator, the one with the most caused wait first."""
    # A first number is posted before this is imported.
    from ccltui.metrics.findings.causes.cause_search import (  # noqa: PLC0415
        starts_recording,
    )

    begin = starts_recording(job_causes(view))
    found = [_communicator(view, number, one) for number, one in enumerate(begin)]
    if chosen.limits_time:
        found = [item.take(_chosen_rows(item, chosen)) for item in found]
    for item in found:
        _ = item.heat, item.by_harm, item.first_ns  # computed here, not in the user's way
    return tuple(sorted(found, key=lambda item: -int(item.harm_ns.sum())))


def _chosen_rows(item: Communicator, chosen: ViewOptions) -> Bool:
    keep = np.ones(len(item), np.bool_)
    if chosen.window is not None:
        start, end = chosen.window.start_ns, chosen.window.end_ns
        keep &= True if start is None else item.first_ns >= start
        keep &= True if end is None else item.first_ns < end
    if chosen.steps is not None:
        keep &= (item.step >= chosen.steps[0]) & (item.step <= chosen.steps[1])
    return keep


def _communicator(view: View, number: int, begins: Bool) -> Communicator:
    group = view.arrivals.groups[number]
    match = group.match
    return Communicator(
        name="all ranks" if match.group < 0 else view.groups[match.group].label,
        labels=group.labels,
        start_ns=group.start_ns - view.origin_ns,
        dur_ns=group.dur_ns,
        present=match.rows >= 0,
        late_ns=group.late_ns,
        wait_ns=group.wait_ns,
        lag_ns=group.lag_ns,
        last=group.last,
        kind=TYPES,
        kind_id=match.kind,
        message_bytes=_message_bytes(view.facts.named_calls, group),
        step=match.step,
        confidence=group.confidence,
        begins=begins,
        number=number,
        row=np.arange(len(match.rows)),
        floor_ns=view.arrivals.floor_ns,
        drawn_ns=drawn_floor(view.arrivals.floor_ns),
        clock=clock_of(view, group.labels),
        group=match.group,
    )


def _message_bytes(calls: Mapping[str, Calls], group: GroupArrivals) -> I64:
    """Size of each collective as any of its members states it, -1 where none does."""
    rows = group.match.rows
    size = np.full(len(rows), -1, np.int64)
    for member, label in enumerate(group.labels):
        stated = calls[label].message_bytes
        known = (size < 0) & (rows[:, member] >= 0)
        size[known] = stated[rows[known, member]]
    return size


def clock_of(view: View, labels: Sequence[str]) -> str:
    """Describe how precisely times of these ranks compare, as text; "" for fewer than two ranks."""
    if len(labels) < 2:
        return ""
    if view.options.raw_clocks:
        return "raw clocks"
    residual = view.clocks.error_bar_ns
    if residual is None or not view.clocks.comparable(labels):
        return "clocks unknown"
    return f"clock ±{numbers.duration(residual)}"
