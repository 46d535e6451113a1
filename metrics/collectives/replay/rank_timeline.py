"""Build the timeline of one rank for a replay: its progress, calls, waits and steps.

The device works, idles, or waits in a collective that is not hidden by computation. Time without
these waits is progress, which does not depend on other ranks. A call is posted at a point of
progress and begins there, or when the call that it is queued behind has ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ccltui.metrics.arrays.intervals import Intervals, union
from ccltui.metrics.model.calls import Calls
from ccltui.metrics.model.classify import COMM
from ccltui.metrics.model.rank_facts import RankFacts
from ccltui.parsers.array_types import I8, I32, I64
from ccltui.parsers.columns import MISSING

WAIT, POST, MARK = 0, 1, 2
"""Kinds of operations: wait for the end of a call, post a call, mark the end of a step."""

QUEUED_NS: Final = 20_000
"""A call that begins within this time after the end of another one was queued behind it."""


@dataclass(frozen=True, slots=True)
class RankTimeline:
    """Operations of one rank in order of progress, and the timing of its calls.

    ``kind`` is WAIT (for the end of call ``which``), POST (of call ``which``) or MARK (the last
    work of step ``which`` ends). ``progress_ns`` is the time of the operation without waits. The
    next arrays are by call: a posted call begins ``delay_ns`` later, and not before ``gap_ns``
    after the end of call ``behind`` (-1: none); ``posted_ns`` is the progress at its post,
    ``launched_ns`` its launch, which orders the calls of the program. ``begin_ns`` is the start of
    the timeline on the rank's clock, ``steps`` are the ids of its steps.
    """

    kind: I8
    which: I32
    progress_ns: I64
    delay_ns: I64
    behind: I64
    gap_ns: I64
    posted_ns: I64
    launched_ns: I64
    begin_ns: int
    steps: tuple[int, ...]


def rank_timeline(facts: RankFacts, calls: Calls) -> RankTimeline:
    """Build the timeline of a rank whose device was recorded; ``calls`` are all its collectives."""
    work = facts.busy[1] | facts.busy[2]
    waiting = _exposed_waits(calls, union(calls.start_ns, calls.end_ns) - work)
    begin = min(
        int(times[0]) for times in (work.start_ns, calls.start_ns) if len(times)
    )  # both ascend

    def progress(times: I64) -> I64:
        return np.asarray(times - begin - waiting.before(times))

    behind, gap = _queued(calls, work.end_ns)
    post, delay, launched = _posts(facts, calls, waiting, behind)
    waits = np.flatnonzero(_ends_in(waiting, calls.end_ns))
    marks = facts.work.end_ns[facts.work.end_ns > facts.work.start_ns]
    number = np.flatnonzero(facts.work.end_ns > facts.work.start_ns)
    count = len(calls)
    kind = np.concatenate(
        (np.full(len(waits), WAIT), np.full(count, POST), np.full(len(marks), MARK))
    )
    when = np.concatenate((calls.end_ns[waits], post, marks))
    which = np.concatenate((waits, np.arange(count), number))
    # Progress is monotonic in time, so this is the order of progress too.
    order = np.argsort((when - begin) * 4 + kind, kind="stable")
    return RankTimeline(
        kind=kind[order].astype(np.int8),
        which=which[order].astype(np.int32),
        progress_ns=progress(when[order]),
        delay_ns=delay,
        behind=behind,
        gap_ns=gap,
        posted_ns=progress(post),
        launched_ns=launched,
        begin_ns=begin,
        steps=tuple(step.id for step in facts.work.steps),
    )


def _exposed_waits(calls: Calls, open_time: Intervals) -> Intervals:
    """Return the part of each interval of exposed communication up to the last call end in it."""
    if not len(open_time):
        return open_time
    place = np.searchsorted(open_time.start_ns, calls.end_ns, side="left") - 1
    inside = (place >= 0) & (calls.end_ns <= open_time.end_ns[np.maximum(place, 0)])
    last = open_time.start_ns.copy()
    np.maximum.at(last, place[inside], calls.end_ns[inside])
    return union(open_time.start_ns, last)


def _ends_in(waiting: Intervals, times_ns: I64) -> I64:
    """Return which times end a wait: those inside an interval of waiting, or at its end."""
    return np.asarray(waiting.contains(times_ns - 1))


def _queued(calls: Calls, worked_ns: I64) -> tuple[I64, I64]:
    """Return the call that each one was queued behind (-1 for none), and the time between, ns."""
    call_ends = calls.end_ns
    order = np.argsort(call_ends, kind="stable")
    ends = call_ends.take(order)
    place = np.searchsorted(ends, calls.start_ns, side="right") - 1
    before = np.where(place >= 0, order.take(np.maximum(place, 0)), MISSING)
    ended = call_ends.take(np.maximum(before, 0))
    gap = calls.start_ns - ended
    worked = np.searchsorted(worked_ns, calls.start_ns, side="right") - 1
    latest = np.append(worked_ns, np.iinfo(np.int64).min).take(worked)
    queued = (before >= 0) & (gap <= QUEUED_NS) & (latest <= ended)
    return np.where(queued, before, MISSING), np.where(queued, gap, 0)


def _posts(facts: RankFacts, calls: Calls, waiting: Intervals, behind: I64) -> tuple[I64, I64, I64]:
    """Return the post of each call, the delay from post to start, and its launch, ns.

    A call that is not queued is posted when it begins; one that begins during a wait is posted at
    the start of the wait, with the delay between. A queued call was posted when all work launched
    before it had ended.
    """
    all_launched = facts.launched_ns
    launched = all_launched.take(calls.rows.of("gpu"))
    unknown = launched == np.iinfo(np.int64).min
    post, delay = calls.start_ns.copy(), np.zeros(len(calls), np.int64)
    free = (behind < 0) & waiting.contains(calls.start_ns)
    if free.any():
        place = np.searchsorted(waiting.start_ns, calls.start_ns[free], side="right") - 1
        delay[free] = calls.start_ns[free] - waiting.start_ns[place]
        post[free] = waiting.start_ns[place]
    queued = np.flatnonzero((behind >= 0) & ~unknown)
    post[queued] = np.minimum(_ready(facts, all_launched, launched[queued]), calls.start_ns[queued])
    without = np.flatnonzero((behind >= 0) & unknown)
    post[without] = calls.start_ns[behind[without]]
    return post, delay, np.where(unknown, calls.start_ns, launched)


def _ready(facts: RankFacts, launches_ns: I64, launched_ns: I64) -> I64:
    """Return when all work launched before each launch had ended, at least the launch itself.

    ``launches_ns`` are those of all rows of ``gpu``.
    """
    gpu = facts.trace.group("gpu")
    rows = np.flatnonzero((facts.classes != COMM) & (launches_ns > np.iinfo(np.int64).min))
    launches = launches_ns.take(rows)
    by_launch = np.argsort(launches, kind="stable")
    order = rows.take(by_launch)
    reach = np.maximum.accumulate(gpu.start_ns.take(order) + gpu.dur_ns.take(order))
    place = np.searchsorted(launches.take(by_launch), launched_ns) - 1
    done = (
        np.where(place >= 0, reach.take(np.maximum(place, 0)), launched_ns)
        if len(reach)
        else launched_ns
    )
    return np.asarray(np.maximum(done, launched_ns))
