"""The job replayed from its dependencies: when would steps end if some work took another time.

Every rank advances along its line; a collective ends on all members as long after the last of
them began it as it did. Nothing is taken from the clock but how the lines lie to each other at
the start, and how far apart the members of one collective end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from metrics.collectives.main_line import MARK, POST, WAIT
from metrics.collectives.schedule import BEGIN, END, Schedule

F64 = npt.NDArray[np.float64]


class Replay:
    """A schedule made ready to be replayed, as often as other times are to be tried."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._columns = _Columns.of(schedule)

    def run(self, begin_ns: Sequence[int], progress: Sequence[F64]) -> list[Mapping[int, float]]:
        """When each rank's work of each step ends, in ns, by step id; by rank.

        ``begin_ns`` is when each line begins on one clock that counts from near 0, so that floats
        are exact; ``progress`` the progress at each of its operations: that of the line, or a
        changed one.
        """
        longer = np.concatenate([np.diff(one, prepend=0.0) for one in progress])
        # Operations on no line (place -1) advance nobody: what they pick here is not used.
        advance = np.append(longer, 0.0)[self._schedule.operation].tolist()
        now = [float(begin) for begin in begin_ns]
        return _run(self._schedule, self._columns, now, advance)


def _run(
    schedule: Schedule, columns: _Columns, now: list[float], advance: list[float]
) -> list[Mapping[int, float]]:
    """One pass along the schedule; the hot loop of every replay, so nothing in it is a call."""
    after, instance, waits = columns.after, columns.instance, columns.waits
    end, ready = [0.0] * len(after), [0.0] * len(after)
    latest = [float("-inf")] * len(schedule.links.size)
    ended: list[dict[int, float]] = [{} for _ in now]
    for kind, rank, which, passed, delay, behind, gap in zip(
        columns.kind,
        columns.rank,
        columns.which,
        advance,
        columns.delay,
        columns.behind,
        columns.gap,
        strict=True,
    ):
        if kind == END:
            last = latest[which]
            for member in schedule.members[which]:
                end[member] = last + after[member]
            continue
        if kind == BEGIN:
            time = max(ready[which], end[behind] + gap)
        else:
            now[rank] += passed
            if kind == WAIT:
                now[rank] = max(now[rank], end[which])
                continue
            if kind == MARK:
                ended[rank][schedule.lines[rank].steps[which]] = now[rank]
                continue
            time = now[rank] + delay
            if kind != POST:
                ready[which] = time
                continue
            if behind >= 0:
                time = max(time, end[behind] + gap)
        number = instance[which]
        if number < 0 or not waits[which]:
            end[which] = time + after[which]
        if number >= 0 and time > latest[number]:
            latest[number] = time
    return list(ended)


@dataclass(frozen=True, slots=True)
class _Columns:
    """The schedule as lists, with what its calls need: a Python loop reads lists fastest.

    The last three are by call, the others by place in the schedule.
    """

    kind: list[int]
    rank: list[int]
    which: list[int]
    delay: list[float]
    behind: list[int]
    gap: list[float]
    after: list[int]
    instance: list[int]
    waits: list[bool]

    @classmethod
    def of(cls, schedule: Schedule) -> _Columns:
        """``delay``, ``behind`` and ``gap`` of the post of each call."""
        lines, first = schedule.lines, schedule.links.first
        kinds = np.concatenate([line.kind for line in lines])
        calls = np.concatenate([line.which + at for line, at in zip(lines, first, strict=True)])
        posts = kinds == POST
        count = len(schedule.links.instance)
        placed = []
        for values in (
            np.concatenate([line.delay_ns for line in lines]),
            np.concatenate(
                [
                    np.where(line.behind >= 0, line.behind + at, -1)
                    for line, at in zip(lines, first, strict=True)
                ]
            ),
            np.concatenate([line.gap_ns for line in lines]),
        ):
            column = np.zeros(count, np.int64)
            column[calls[posts]] = values[posts]
            of_call = (schedule.kind != MARK) & (schedule.kind != END)
            placed.append(column[np.where(of_call, schedule.which, 0)] if count else column)
        delay, behind, gap = placed
        return cls(
            schedule.kind.tolist(),
            schedule.rank.tolist(),
            schedule.which.tolist(),
            delay.tolist(),
            behind.tolist(),
            gap.tolist(),
            schedule.links.after_ns.tolist(),
            schedule.links.instance.tolist(),
            schedule.links.waits.tolist(),
        )
