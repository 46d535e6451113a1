"""The late arrivals that cost most waiting, each with what the ranks did around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ccltui.metrics.arrays.intervals import Intervals, union
from ccltui.metrics.arrays.statistics import microseconds
from ccltui.metrics.findings.causes.instance_report import Instance, describe
from ccltui.metrics.findings.causes.roots import late_arrivals_of, most_waiting

if TYPE_CHECKING:
    from ccltui.metrics.collectives.arrivals import GroupArrivals
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView

RESOLUTION: Final = 400
"""Parts of a moment; gaps shorter than one of them are closed, which bounds the intervals."""
_CANDIDATES: Final = 2_000


class Lane(Struct, frozen=True, eq=False):
    """One rank at a moment, times in ns since the origin of the job, on its clock.

    ``communication``, ``compute`` and ``copies`` may overlap; of a rank without device work the
    communication is what its host recorded of collectives. ``arrival_ns`` is when it begins the
    collective and ``until_ns`` when its wait ends; None where the rank is no member.
    """

    label: str
    communication: Intervals
    compute: Intervals
    copies: Intervals
    arrival_ns: int | None
    until_ns: int | None


class Moment(Struct, frozen=True, eq=False):
    """A late arrival and its surroundings, from ``start_ns`` to ``end_ns`` since the origin.

    ``last`` is the label of the rank that the others waited for; of a broadcast it is the sender.
    ``caused_wait_ns`` is the sum of the waits of its members. ``lanes`` are at most as many ranks
    as were asked for, in the order of the job, of ``num_ranks``. ``on_one_clock`` is False where
    the clocks of these ranks are not known against each other: their times are then as recorded.
    """

    instance: Instance
    last: str
    caused_wait_ns: int
    start_ns: int
    end_ns: int
    lanes: tuple[Lane, ...]
    num_ranks: int
    on_one_clock: bool

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers of the moment, times in us."""
        found = self.instance
        return {
            "lag_us": None if found.lag_ns is None else microseconds(found.lag_ns),
            "caused_wait_us": microseconds(self.caused_wait_ns),
            "start_us": microseconds(self.start_ns),
            "end_us": microseconds(self.end_ns),
            "message_bytes": found.message_bytes,
            "step": found.step,
        }


def worst_moments(view: View, *, count: int, examined: int, most_ranks: int) -> list[Moment]:
    """Return late arrivals with most waiting that do not overlap in time, the worst first.

    Those of another group, operation or latest rank precede repetitions of the same.

    Args:
        view: the job.
        count: largest number of moments.
        examined: number of late arrivals that are compared, as of `late_arrivals_of`.
        most_ranks: largest number of lanes: the latest rank, the links of the blame chain and the
            earliest members come first.

    Raises:
        Refusal: see `late_arrivals_of`.
    """
    found = late_arrivals_of(view, examined)
    waits = {
        (one.part.number, int(row)): int(wait)
        for one in found
        for row, wait in zip(one.rows, one.caused_wait_ns, strict=True)
    }
    places = _apart(view, most_waiting(found, _CANDIDATES), count)
    shown = [_begin(view, place, waits[place], most_ranks) for place in places]
    lanes: list[dict[str, Lane]] = [{} for _ in shown]
    for rank in view.ranks:
        for (number, row), (moment, labels), mine in zip(places, shown, lanes, strict=True):
            if rank.label in labels:
                arrived = view.arrivals.groups[number]
                mine[rank.label] = _lane(view, rank, moment, arrived, row)
        if view.facts.is_large:  # the intervals of all ranks do not fit into memory
            rank.forget_intervals()
    return [
        replace(moment, lanes=tuple(mine.values()))
        for (moment, _), mine in zip(shown, lanes, strict=True)
    ]


def _apart(view: View, candidates: Sequence[tuple[int, int]], count: int) -> list[tuple[int, int]]:
    """Return the first candidates of each kind that do not overlap, then the others.

    One fault is late in every step: the same group, operation and rank again tell nothing new.
    """
    kinds: set[tuple[int, int, int]] = set()
    again: list[tuple[int, int]] = []
    chosen: list[tuple[int, int]] = []
    spans: list[tuple[int, int]] = []

    def add(place: tuple[int, int]) -> bool:
        first, last = _extent(view.arrivals.groups[place[0]], place[1])
        is_free = all(last <= begin or end <= first for begin, end in spans)
        if is_free and len(chosen) < count:
            chosen.append(place)
            spans.append((first, last))
        return is_free

    for number, row in candidates:
        arrived = view.arrivals.groups[number]
        kind = (number, int(arrived.match.kind[row]), int(arrived.delaying[row]))
        if kind in kinds or not add((number, row)):
            again.append((number, row))
        else:
            kinds.add(kind)
    for place in again:
        add(place)
    return sorted(chosen, key=candidates.index)


def _begin(
    view: View, place: tuple[int, int], wait_ns: int, most_ranks: int
) -> tuple[Moment, frozenset[str]]:
    """Return a moment without lanes, and the labels of the ranks to show."""
    first, last = _extent(view.arrivals.groups[place[0]], place[1])
    first, last = first - view.origin_ns, last - view.origin_ns
    # What made the rank late comes before, so that is where most of the surroundings are.
    start, end = first - (last - first) // 2, last + (last - first) // 8
    instance = describe(view, *place, doing=False)
    arrived = view.arrivals.groups[place[0]]
    last_rank = arrived.labels[arrived.delaying[place[1]]]
    order = [
        last_rank,
        *(link.label for link in instance.chain),
        *(member.label for member in reversed(instance.members)),
        *(rank.label for rank in view.ranks),
    ]
    here = {rank.label for rank in view.ranks}
    labels = [label for label in dict.fromkeys(order) if label in here][:most_ranks]
    # Several clocks that nothing compares cannot be drawn on one.
    is_one = not view.options.raw_clocks and view.clocks.comparable(labels)
    moment = Moment(instance, last_rank, wait_ns, start, end, (), len(view.ranks), is_one)
    return moment, frozenset(labels)


def _extent(arrived: GroupArrivals, row: int) -> tuple[int, int]:
    """Return the first arrival and the last end at an instance, ns on the job's clock."""
    present = arrived.match.rows[row] >= 0
    starts = arrived.start_ns[row][present]
    return int(starts.min()), int((starts + arrived.dur_ns[row][present]).max())


def _lane(view: View, rank: RankView, moment: Moment, arrived: GroupArrivals, row: int) -> Lane:
    limits = np.array([moment.start_ns, moment.end_ns], np.int64) + view.origin_ns
    start, end = view.on_own_clock(rank.label, limits).tolist()
    least = max((end - start) // RESOLUTION, 1)

    def shown(part: Intervals) -> Intervals:
        inside = _without_short_gaps(part.clip(start, end), least)
        ends = np.stack([inside.start_ns, inside.end_ns])
        since = view.on_job_clock(rank.label, ends) - view.origin_ns
        return Intervals(since[0], since[1])

    comm, comp, mem = rank.facts.busy
    if not rank.facts.has_device:
        comm = union(rank.recorded_calls.start_ns, rank.recorded_calls.end_ns)
    arrival, until = None, None
    if rank.label in arrived.labels:
        member = arrived.labels.index(rank.label)
        if arrived.match.rows[row, member] >= 0:
            arrival = int(arrived.start_ns[row, member]) - view.origin_ns
            until = arrival + max(int(arrived.wait_ns[row, member]), 0)
    return Lane(rank.label, shown(comm), shown(comp), shown(mem), arrival, until)


def _without_short_gaps(part: Intervals, least_ns: int) -> Intervals:
    if len(part) < 2:
        return part
    apart = part.start_ns[1:] - part.end_ns[:-1] >= least_ns
    begins, ends = np.append(True, apart), np.append(apart, True)
    return Intervals(part.start_ns[begins], part.end_ns[ends])
