"""Replay a job from its dependencies to find when steps would end with other durations.

Every rank advances along its timeline. A collective ends on each member as long after the last
start of all members as it was recorded to:

    end[member] = max(start of all members) + recorded end[member] - recorded max(start)

Clock offsets enter only through the starts of the timelines and through the distances between the
ends of the members of one collective.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ccltui.metrics.arrays.compiled import available
from ccltui.metrics.collectives.replay.rank_timeline import MARK, POST, WAIT
from ccltui.metrics.collectives.replay.replay_order import BEGIN, END, Schedule
from ccltui.parsers.array_types import F64


class Replay:
    """Replays of one schedule with different durations."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        marks = schedule.kind == MARK
        self._marks = [
            (rank, schedule.operations.steps[rank][step])
            for rank, step in zip(
                schedule.rank[marks].tolist(), schedule.which[marks].tolist(), strict=True
            )
        ]

    def run(self, begin_ns: Sequence[int], progress: Sequence[F64]) -> list[Mapping[int, float]]:
        """Replay the job once.

        Args:
            begin_ns: Start of each timeline, on one clock that counts from near 0, so that floats
                are exact.
            progress: Progress at each operation of each rank, ns: recorded or changed.

        Returns:
            End of each step in ns by step id, for each rank.
        """
        # Operations on no timeline (place -1) advance no rank: the value they take is not used.
        longer = np.concatenate([*(np.diff(one, prepend=0.0) for one in progress), [0.0]])
        advance = longer.take(self._schedule.operation)
        times = replay_marks(self._schedule, np.array(begin_ns, np.float64), advance)
        ended: list[dict[int, float]] = [{} for _ in begin_ns]
        for (rank, step), time in zip(self._marks, times.tolist(), strict=True):
            ended[rank][step] = time
        return list(ended)


def replay_marks(schedule: Schedule, begin_ns: F64, advance_ns: F64) -> F64:
    """Return the time of each mark in the order of the schedule, float64 ns.

    Args:
        schedule: The events in order.
        begin_ns: Begin of each timeline, overwritten.
        advance_ns: Progress of the timeline before each event.
    """
    run = _compiled if available() else _run
    return run(schedule, begin_ns, advance_ns)


def _compiled(schedule: Schedule, now: F64, advance: F64) -> F64:
    """Return the result of `_run`, from compiled code."""
    from ccltui.metrics.arrays import _passes  # noqa: PLC0415

    links, operations = schedule.links, schedule.operations
    ended: F64 = _passes.replay(
        schedule.kind,
        schedule.rank,
        schedule.which,
        advance,
        operations.delay_ns,
        operations.behind,
        operations.gap_ns,
        links.after_ns,
        links.instance,
        links.waits.view(np.uint8),
        links.first_waiting,
        links.waiting,
        now,
    )
    return ended


def _run(schedule: Schedule, begin: F64, advance: F64) -> F64:
    """Return the end of each step, in order of the marks, from one pass along the schedule.

    The inner loop of every replay: it reads lists and avoids function calls for speed.
    """
    links, calls, now = schedule.links, schedule.operations, begin.tolist()
    delay, behind, gap = calls.delay_ns.tolist(), calls.behind.tolist(), calls.gap_ns.tolist()
    after, instance, waits = links.after_ns.tolist(), links.instance.tolist(), links.waits.tolist()
    first_waiting, waiting = links.first_waiting.tolist(), links.waiting.tolist()
    end, ready = [0.0] * len(after), [0.0] * len(after)
    latest = [float("-inf")] * len(links.size)
    ended: list[float] = []
    for kind, rank, which, passed in zip(
        schedule.kind.tolist(),
        schedule.rank.tolist(),
        schedule.which.tolist(),
        advance.tolist(),
        strict=True,
    ):
        if kind == END:
            last = latest[which]
            for member in waiting[first_waiting[which] : first_waiting[which + 1]]:
                end[member] = last + after[member]
            continue
        if kind == BEGIN:
            time = max(ready[which], end[behind[which]] + gap[which])
        else:
            now[rank] += passed
            if kind == WAIT:
                now[rank] = max(now[rank], end[which])
                continue
            if kind == MARK:
                ended.append(now[rank])
                continue
            time = now[rank] + delay[which]
            if kind != POST:
                ready[which] = time
                continue
            if behind[which] >= 0:
                time = max(time, end[behind[which]] + gap[which])
        number = instance[which]
        if number < 0 or not waits[which]:
            end[which] = time + after[which]
        if number >= 0 and time > latest[number]:
            latest[number] = time
    return np.array(ended, np.float64)
