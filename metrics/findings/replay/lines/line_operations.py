"""The operations of all lines in the order of their programs, with the time before each.

Operations are posts of calls, waits for their ends, ends of units and the end of the line. A
segment is what lies before an operation at a later position than the one before it: it has what the
device computed in it, and how long it idled in that time for the host.

One compiled pass along the operations finds these times in a seventh of the time of the arrays that
give the same without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.compiled import available
from ccltui.metrics.arrays.reductions import extremes_by, median_along, rows_by_value
from ccltui.metrics.findings.replay.lines.call_table import CallTable, Whole, Whole4
from ccltui.metrics.findings.replay.lines.shared_positions import (
    MARK,
    POST,
    WAIT,
    Positions,
    Template,
    templates_of,
)
from ccltui.metrics.findings.replay.lines.step_lines import QUEUED_NS, Kernels, LineTimes, StepLines
from ccltui.parsers.array_types import F64, I8, I32, I64, Bool

PROMPT_NS: Final = 50_000
"""A call that begins this soon after its launch waited for its host."""
_MOST: Final = np.iinfo(np.int64).max
TOGETHER_SHARE: Final = 0.125
"""Share of the difference of their delays by which members of a call without launch records may
differ in duration, and still have begun together: hosts that are late each by its own time do not
make all members begin within so little of each other."""


def begun(own: LineTimes, table: CallTable) -> I64:
    """Return the time from the origin of each line to its first kernel or call."""
    count = table.num_lines
    found = np.minimum(own.begun(), extremes_by(table.start_ns, table.line, count)[0][:-1])
    return np.where(found < np.iinfo(np.int64).max, np.maximum(found, 0), 0)


def own_delays(
    delay: Whole, table: CallTable, tolerance_ns: int, lead_of: Callable[[], I64] | None = None
) -> Whole:
    """Return the delays of calls without what they wait for each other outside of the call.

    Copies to other ranks begin when all are ready: no member is longer than the others then. Where
    the launches tell who was last, the delay is of that host alone, else the least delay of all.
    What a rank without launch records waits beyond that is nobody's host.

    Args:
        delay: of each call, ns.
        table: the calls.
        tolerance_ns: by which the durations of members may differ.
        lead_of: returns how long before its begin each call was launched, ns, -1 where not known;
            None where no launch is known.
    """
    instance, count = table.instance, len(table.transfer_ns)
    # The last place is that of calls in no instance, which keep their delays.
    longest = np.maximum(extremes_by(table.dur_ns, instance, count)[1], 0)
    least, most = extremes_by(delay, instance, count)
    is_told = np.zeros(count + 1, np.bool_)
    is_told[instance[table.launched]] = True
    apart = np.where(is_told, 0, TOGETHER_SHARE * (np.maximum(most, 0) - least))
    together = longest[:-1] - table.transfer_ns <= np.maximum(apart[:-1], tolerance_ns)
    together = np.append(together, False)
    late = together & (least > tolerance_ns) & (least < _MOST)
    found = delay.copy()
    if late.any() and lead_of is not None:
        of_last = _of_last(delay, least[instance], lead_of(), instance, late)
        inside = together[instance]
        found[inside] = of_last[inside]
        return found
    for begin in range(0, len(found), _CALLS):
        here = slice(begin, begin + _CALLS)
        mine = instance[here]
        are_together = together.take(mine, mode="wrap")
        found[here] = np.where(are_together, least.take(mine, mode="wrap"), delay[here])
    return found


_CALLS: Final = 1 << 16
"""Calls whose delays are looked at together: their columns fit into a cache."""


def _of_last(delay: Whole, own: I64, lead: I64, instance: I32, late: Bool) -> I64:
    """Return the delays of hosts, those of late instances to whoever was launched last of all.

    Where even that launch came long before the begin, or one is not known, nothing tells who it is.
    """
    shortest = np.full(len(late), _MOST)
    np.minimum.at(shortest, instance, lead)
    told = (late & (shortest >= 0) & (shortest <= PROMPT_NS))[instance]
    is_last = lead <= shortest[instance] + PROMPT_NS
    return np.where(told, np.where(is_last, delay, 0), own)


class Layouts(NamedTuple):
    """What lines do, for each way of doing it: those of layout i from ``edges[i]`` on.

    By operation: ``kind``, its position ``at``, its ``call``, place among those of the line, -1 for
    none, and the ``segment`` that ends with it, place among those of the line, -1 for none.
    """

    edges: I64
    kind: I8
    at: I32
    call: I32
    segment: I32

    def of(self, layout: int) -> tuple[I8, I32, I32, I32]:
        """Return kind, position, call and segment of the operations of one."""
        here = slice(int(self.edges[layout]), int(self.edges[layout + 1]))
        return self.kind[here], self.at[here], self.call[here], self.segment[here]


class Taken(NamedTuple):
    """What lines take.

    Attributes:
        compute_ns: compute time of each segment.
        host_ns: idle time for the host in it.
        wait_ns: of each call the delay from its post, and the gap behind the call before it.
        early: number of operations that began before what they depend on had ended.
        checked: number of those that were checked.
    """

    compute_ns: Whole
    host_ns: Whole
    wait_ns: Whole
    early: int
    checked: int


class _Job(NamedTuple):
    """The lines of all ranks: layout of each, and first segment of each, and the number of all."""

    own: LineTimes
    table: CallTable
    layouts: Layouts
    layout: I64
    first: I64
    tolerance_ns: int


_Found: TypeAlias = tuple[I64, I64, I64]
"""Compute and host of segments, and delay and gap of calls, [calls, 2]."""


def times_taken(
    own: LineTimes, table: CallTable, layouts: Layouts, lines: tuple[I64, I64], tolerance_ns: int
) -> Taken:
    """Return what the segments and calls of all lines take.

    Args:
        own: times along the lines.
        table: the calls.
        layouts: what lines do.
        lines: layout of each line; edges of the segments of all.
        tolerance_ns: an operation may begin this long before what it depends on has ended.
    """
    of_rank = _compiled if available() else _in_arrays
    layout, first = lines
    job = _Job(own, table, layouts, layout, first, tolerance_ns)
    compute, host = Whole4(int(first[-1])), Whole4(int(first[-1]))
    wait = Whole4(len(table.line), 2)
    early = checked = 0
    edges = np.searchsorted(own.rank, np.arange(len(own.ranks) + 1)).tolist()
    for rank in range(len(own.ranks)):
        here = slice(edges[rank], edges[rank + 1])
        if here.start == here.stop:
            continue
        segments = slice(int(first[here.start]), int(first[here.stop]))
        calls = slice(int(table.first_call[here.start]), int(table.first_call[here.stop]))
        size, count = segments.stop - segments.start, calls.stop - calls.start
        found = (
            np.zeros(size, np.int64),
            np.zeros(size, np.int64),
            np.zeros((count, 2), np.int64),
        )
        counted = of_rank(job, rank, here, found)
        early, checked = early + counted[0], checked + counted[1]
        compute.fill(segments, found[0])
        host.fill(segments, found[1])
        wait.fill(calls, found[2])
    early -= _ahead(table, layouts, layout, tolerance_ns)
    return Taken(compute.values, host.values, wait.values, early, checked)


def _ahead(table: CallTable, layouts: Layouts, layout: I64, tolerance_ns: int) -> int:
    """Number of calls that began before the step before had ended, and depend on no work of theirs.

    A program that fetches ahead communicates for a step while its device still computes another.
    """
    found = 0
    for one, lines in rows_by_value(layout):
        kind, at, call, _ = layouts.of(one)
        begin = (at == 0) & (np.cumsum(kind == WAIT) == 0) & (kind == POST)
        opening = table.first_call[lines][:, np.newaxis] + call[begin]
        found += int((table.start_ns[opening] < -tolerance_ns).sum())
    return found


def _compiled(job: _Job, rank: int, here: slice, found: _Found) -> tuple[int, int]:
    """Fill in what the lines of a rank take; return how many were early, and how many checked."""
    from ccltui.metrics.arrays import _passes  # noqa: PLC0415

    own, table = job.own, job.table
    start, reach, busy, gap = own.kernels(rank)
    first = table.first_call[here.start]
    calls = slice(int(first), int(table.first_call[here.stop]))
    behind = table.behind[calls] - np.int32(first)  # below 0 for none
    lines = own.first, own.size, own.origin, table.first_call - first, job.first
    counted: tuple[int, int] = _passes.line_times(
        tuple(job.layouts),
        (job.layout[here], *(column[here] for column in lines)),
        (start, reach, busy, gap),
        (table.start_ns[calls].astype(np.int64), table.dur_ns[calls].astype(np.int64), behind),
        QUEUED_NS,
        job.tolerance_ns,
        found,
    )
    return counted


def _in_arrays(job: _Job, rank: int, here: slice, found: _Found) -> tuple[int, int]:
    """Return the result of `_compiled`, line by line, without compiled code."""
    own, table, layouts, layout, first, tolerance_ns = job
    early = checked = 0
    first_call = int(table.first_call[here.start])
    started = table.start_ns.astype(np.int64)
    for line in range(here.start, here.stop):
        kind, at, place, segment = layouts.of(int(layout[line]))
        call = np.where(place >= 0, table.first_call[line] + place, -1)
        before, start, idle, through = own.along(np.full(len(at), line), at)
        ends = np.append(started + table.dur_ns, 0)[call]
        waits = kind == WAIT
        reached = np.maximum(before, 0)
        reached[waits] = np.maximum(reached[waits], ends[waits])
        reached = np.maximum.accumulate(reached)
        spent = np.zeros(len(at), np.int64)
        inner = np.flatnonzero(at[1:] > at[:-1]) + 1
        spent[inner] = np.maximum(start[inner - 1] - reached[inner - 1], 0)
        spent[inner] += idle[inner] - through[inner - 1]
        if at[0] > 0:
            _, begun, _, counted = own.along(np.array([line]), np.zeros(1, np.int64))
            spent[0] = max(int(begun[0]), 0) + idle[0] - counted[0]
        kernel, busy_ns = own.first[line] + at, own.kernels(rank).busy_ns
        computed = busy_ns[kernel] - busy_ns[np.append(own.first[line], kernel[:-1])]
        held = segment >= 0
        places = int(first[line] - first[here.start]) + segment[held]
        found[0][places], found[1][places] = computed[held], spent[held]
        posts = np.flatnonzero(kind == POST)
        behind = table.behind[call[posts]]
        gap = started[call[posts]] - (started + table.dur_ns)[behind]
        queued = (behind >= 0) & (gap <= QUEUED_NS)
        late = started[call[posts]] - reached[posts]
        found[2][call[posts] - first_call, 0] = np.where(queued, 0, np.maximum(late, 0))
        found[2][call[posts] - first_call, 1] = np.where(queued, np.maximum(gap, 0), 0)
        resumed = start[waits]
        known = resumed < _MOST
        early += int((late < -tolerance_ns).sum())
        early += int((resumed[known] < ends[waits][known] - tolerance_ns).sum())
        checked += len(posts) + int(known.sum())
    return early, checked


class UnitTable(Struct, frozen=True):
    """Units of work of all lines: ``line``, ``program``, ``type`` and ``number`` of each, int64."""

    line: I64
    program: I64
    type: I64
    number: I64

    def __len__(self) -> int:
        return len(self.line)


class Layout(NamedTuple):
    """What some lines do: by operation its kind, its call and the segment that ends with it.

    ``call`` is its place among those of the line, ``segment`` likewise; -1 for none.
    """

    kind: I8
    call: I32
    segment: I32


class Operations(Struct, frozen=True):
    """What all lines do, and what it takes, by segment: those of line i from ``first[i]`` on.

    ``layouts`` are the ways in which lines do things, ``layout`` is that of each line. ``unit`` is
    that of each segment, -1 for none, ``compute_ns`` its compute time, ``host_ns`` the idle time in
    it that no call explains. ``profile_ns`` are by program the typical compute times of the
    segments of a line. ``wait_ns`` [calls, 2] is for the replay with host delays, which reads both
    together: the delay of each call from its post, and its gap behind the call before on its
    stream. ``begun_ns`` is the idle time at the begin of each line, 0 of a first step. ``early``
    counts operations that began before what they depend on had ended, by more than ``tolerance``
    ns, of ``checked``.
    """

    first: I64
    unit: I32
    compute_ns: Whole
    host_ns: Whole
    profile_ns: Sequence[F64]
    wait_ns: Whole
    layouts: Sequence[Layout]
    layout: I64
    begun_ns: I64
    early: int
    checked: int

    @property
    def edges(self) -> I64:
        """First operation of each line, and the number of all."""
        sizes = np.array([len(one.kind) for one in self.layouts], np.int64)
        return np.append(0, np.cumsum(sizes[self.layout]))

    @property
    def count(self) -> int:
        """Number of operations."""
        return int(self.edges[-1])

    def each(self, first_call: I64) -> Each:
        """Return all operations; few questions need them.

        Args:
            first_call: first call of each line.
        """
        lines = [self.layouts[one] for one in self.layout.tolist()]
        begins = zip(lines, self.edges.tolist(), first_call.tolist(), strict=False)
        calls, held = zip(
            *(
                (
                    np.where(one.call >= 0, one.call + np.int64(first), -1),
                    np.flatnonzero(one.segment >= 0) + begin,
                )
                for one, begin, first in begins
            ),
            strict=True,
        )
        kind = np.concatenate([one.kind for one in lines])
        return Each(kind, np.concatenate(calls), np.concatenate(held))


class Each(NamedTuple):
    """All operations: kind and call of each, -1 for none, and at which each segment ends."""

    kind: I8
    call: I64
    of_segment: I64


def line_operations(
    ranks: Sequence[StepLines],
    table: CallTable,
    found: Positions,
    num_stages: int,
    kernels_of: Callable[[int], Kernels],
    *,
    tolerance_ns: int,
    rounding_ns: int,
    label_of: Callable[[int], I8],
    lead_of: Callable[[], I64] | None = None,
) -> tuple[UnitTable, Operations]:
    """Return the units and the operations of all lines.

    Args:
        ranks: the lines of each rank.
        table: their calls.
        found: the positions of the calls.
        num_stages: number of pipeline stages.
        kernels_of: returns the kernels of a rank (an index).
        tolerance_ns: an operation may begin this long before what it depends on has ended.
        rounding_ns: the same where no launch is recorded, and the times tell the order.
        label_of: returns the label of each row of ``gpu`` of a rank (an index).
        lead_of: returns how long before its begin each call was launched, see `own_delays`.
    """
    own = LineTimes(ranks, table.rank, kernels_of)
    templates = templates_of(own, table, found, num_stages, label_of, rounding_ns=rounding_ns)
    sizes = np.zeros((2, table.num_lines + 1), np.int64)
    for one in templates:
        sizes[0, one.lines + 1], sizes[1, one.lines + 1] = len(one.unit), len(one.units)
    first, first_unit = np.cumsum(sizes, axis=1)
    unit = np.empty(int(first[-1]), np.int32)
    for one in templates:
        for rows in blocks(one.lines):
            lines = one.lines[rows]
            numbers = np.where(one.unit >= 0, one.unit + first_unit[lines][:, np.newaxis], -1)
            unit[first[lines[0]] : first[lines[-1] + 1]] = numbers.ravel()
    layouts, layout = _layouts(templates, table.num_lines)
    # An end and a begin are compared, and both are off where the source rounds its times.
    apart = tolerance_ns if table.launched.any() else 2 * rounding_ns
    taken = times_taken(own, table, layouts, (layout, first), apart)
    taken.wait_ns[:, 0] = own_delays(taken.wait_ns[:, 0], table, tolerance_ns, lead_of)
    typical = {
        one.program: _medians_at(taken.compute_ns, first[one.lines], len(one.unit))
        for one in templates
        if one.is_usual
    }
    distinct, number = _distinct(layouts)
    operations = Operations(
        first,
        unit,
        taken.compute_ns,
        taken.host_ns,
        [typical[one] for one in range(len(found.programs))],
        taken.wait_ns,
        distinct,
        number[layout],
        begun(own, table),
        taken.early,
        taken.checked,
    )
    return _units(templates, first_unit), operations


def _units(templates: Sequence[Template], first_unit: I64) -> UnitTable:
    """Return the units of all lines; ``first_unit`` is that of each, and the number of all."""
    units = np.empty((3, int(first_unit[-1])), np.int64)
    for one in templates:
        numbers = first_unit[one.lines][:, np.newaxis] + np.arange(len(one.units))
        for row, values in enumerate(zip(*((u.type, u.number) for u in one.units), strict=True)):
            units[row + 1, numbers] = np.array(values)
        units[0, numbers] = one.program
    line = np.repeat(np.arange(len(first_unit) - 1), np.diff(first_unit))
    return UnitTable(line, units[0], units[1], units[2])


def _layouts(templates: Sequence[Template], num_lines: int) -> tuple[Layouts, I64]:
    """Return what lines do, in each way of doing it, and the layout of each line.

    Lines of one template differ by the waits that single ones show.
    """
    found: list[tuple[I8, I32, I32, I32]] = []
    layout = np.zeros(num_lines, np.int64)
    for one in templates:
        at, segment = one.at.astype(np.int32), one.segment.astype(np.int32)
        for number, row in _rows(one.single):
            layout[one.lines[row]] = len(found)
            left_out = one.single[number]
            kind = np.where(left_out, MARK, one.kind).astype(np.int8)
            call = np.where(left_out, -1, one.call).astype(np.int32)
            found.append((kind, at, call, segment))
    edges = np.cumsum([0, *(len(one[0]) for one in found)])
    kinds, ats, calls, segments = (np.concatenate(column) for column in zip(*found, strict=True))
    return Layouts(edges, kinds, ats, calls, segments), layout


def _rows(flags: Bool) -> list[tuple[int, I64]]:
    """Return the first of each kind of row, and all rows of that kind."""
    if not flags.any():
        return [(0, np.arange(len(flags)))]
    rows: dict[bytes, list[int]] = {}
    for number, one in enumerate(flags):
        rows.setdefault(one.tobytes(), []).append(number)
    return [(found[0], np.array(found)) for found in rows.values()]


def _distinct(layouts: Layouts) -> tuple[list[Layout], I64]:
    """Return what lines do wherever its positions are, and which of these each layout is."""
    numbers: dict[tuple[bytes, ...], int] = {}
    found, number = list[Layout](), list[int]()
    for one in range(len(layouts.edges) - 1):
        kind, _, call, segment = layouts.of(one)
        key = kind.tobytes(), call.tobytes(), segment.tobytes()
        if key not in numbers:
            numbers[key] = len(found)
            found.append(Layout(kind, call, segment))
        number.append(numbers[key])
    return found, np.array(number, np.int64)


_COLUMNS: Final = 8
"""Operations whose times are looked at together: those of a line lie in one line of the cache."""
_VALUES: Final = 1 << 13
"""Times that are looked at together at least: of few lines a call for each 8 operations costs more
than its numbers."""


def _medians_at(values: Whole, begin: I64, count: int) -> F64:
    """Median over some lines, whose operations begin at ``begin``, of the values at each place."""
    wide = max(_COLUMNS, _VALUES // len(begin))
    places = [np.arange(at, min(at + wide, count)) for at in range(0, count, wide)]
    return np.concatenate(
        [median_along(values[begin + one[:, np.newaxis]], axis=1) for one in places]
    )


_TOGETHER: Final = 64
"""Lines that are filled in together: their columns fit into a cache."""


def blocks(lines: I64) -> list[slice]:
    """Divide ascending lines into runs of consecutive ones, of at most `_TOGETHER`."""
    edges = np.flatnonzero(np.diff(lines, prepend=-2, append=-2) != 1)
    return [
        slice(begin, min(begin + _TOGETHER, stop))
        for first, stop in pairwise(edges.tolist())
        for begin in range(first, stop, _TOGETHER)
    ]
