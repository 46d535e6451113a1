"""The operator of the host that a device waits for most: what is named beside a host that is slow.

Operators count that no other one encloses: what runs inside of them is theirs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.reductions import distinct_values, unique_inverse
from ccltui.metrics.arrays.statistics import milliseconds
from ccltui.metrics.findings.rank_time.idle_causes import LATE_START_NS, idle_gaps, idle_times
from ccltui.metrics.view.words import short_name
from ccltui.parsers.array_types import I64
from ccltui.parsers.numbers import percent, time_text

if TYPE_CHECKING:
    from ccltui.metrics.view.rank_view import RankView
    from ccltui.parsers.columns import Events

MOST_OF_IT: Final = 0.5
"""Share of the idle time from which on an operator is named: it alone is worth a look then."""


class SlowOperator(Struct, frozen=True):
    """An operator in which most of the time passes in which a device waits for its launches.

    Attributes:
        name: its name.
        share: the share of that time.
        longest_ns: the most of that time in one call, 0 where many short calls take it.
    """

    name: str
    share: float
    longest_ns: int

    def text(self, who: str) -> str:
        """Return the sentence, without a full stop; ``who`` is the rank, "" where there is one."""
        each = f", up to {time_text(milliseconds(self.longest_ns))} of it in one call"
        return (
            f"{percent(self.share)} of that is spent in {short_name(self.name)}"
            f"{each if self.longest_ns else ''}{f' on {who}' if who else ''}"
        )

    @property
    def do(self) -> str:
        """What to do, "" where its calls are many and short, as those of any other program."""
        if not self.longest_ns:
            return ""
        return (
            f"Find out why {short_name(self.name)} takes so long: the Timeline shows what runs "
            "inside of it, Python stacks (with_stack=True) what calls it."
        )


def slow_operator(rank: RankView) -> SlowOperator | None:
    """Return the operator that has most of a rank's idle time for operators, None without one."""
    return rank.sum_up(slow_operator, lambda: _slow_operator(rank))


def _slow_operator(rank: RankView) -> SlowOperator | None:
    idle = idle_times(rank, idle_gaps(rank), rank.windows)["operators"]
    events = rank.trace.group("cpu_ops")
    rows = _outermost(rank, events)
    inside = idle.within(events.start_ns[rows], events.end_ns[rows])
    names, place = unique_inverse(events.name[rows])
    total = np.zeros(len(names), np.int64)
    np.add.at(total, place, inside)
    if not len(names) or not idle.total_ns:
        return None
    most = int(total.argmax())
    own = inside[place == most]
    share = min(int(total[most]) / idle.total_ns, 1.0)  # threads may run it at the same time
    if share < MOST_OF_IT or names[most] < 0:
        return None
    is_long = own[own >= LATE_START_NS].sum() >= MOST_OF_IT * total[most]
    longest = int(own.max()) if is_long else 0
    return SlowOperator(rank.trace.text(int(names[most])), share, longest)


def _outermost(rank: RankView, events: Events) -> I64:
    """Rows of the operators that no other one of their thread encloses; markers are no operators.

    Old files have the markers of steps among operators.
    """
    steps = rank.facts.marked_steps[0]
    is_marker = np.isin(events.start_ns, [step.start_ns for step in steps])
    is_marker &= np.isin(events.end_ns, [step.end_ns for step in steps])
    found = [np.empty(0, np.int64)]
    for track in distinct_values(events.track).tolist():
        rows = np.flatnonzero((events.track == track) & ~is_marker)
        ended = np.maximum.accumulate(events.end_ns[rows])
        found.append(rows[np.append(True, events.start_ns[rows][1:] >= ended[:-1])[: len(rows)]])
    return np.concatenate(found)
