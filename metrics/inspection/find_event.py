"""Find the event that a name, a place in time or a row stands for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from ccltui.metrics.arrays.reductions import distinct_values
from ccltui.metrics.inspection.event_facts import EventRef
from ccltui.parsers.errors import GrammarError

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.columns import Group


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
