"""The operations of all lines in the order of their programs, with the time before each.

Operations are posts of calls, waits for their ends, ends of units and the end of the line. Each has
the time of its segment: what the device computed since the operation before, and how long it idled
in that time for the host. One compiled pass along the operations finds the idle times in a seventh
of the time of the arrays that give the same without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.compiled import available
from ccltui.metrics.arrays.reductions import median_along
from ccltui.metrics.collectives.matching.match import RECV
from ccltui.metrics.findings.replay.lines.call_table import CallTable, is_receive, is_send
from ccltui.metrics.findings.replay.lines.pass_units import (
    PassSizes,
    Transfers,
    Unit,
    labelled_units,
    pass_sizes,
    pipeline_units,
)
from ccltui.metrics.findings.replay.lines.shared_positions import Positions, Program, in_lines
from ccltui.metrics.findings.replay.lines.step_lines import (
    LONG_GAP_NS,
    QUEUED_NS,
    StepLines,
)
from ccltui.metrics.model.calls import ROUNDING_NS
from ccltui.parsers.array_types import F64, I8, I32, I64, Bool

PROMPT_NS: Final = 50_000
"""A call that begins this soon after its launch waited for its host."""
_MOST: Final = np.iinfo(np.int64).max

RESUMED_NS: Final = 200_000
"""A host that waited for a call launches its next kernel this soon after the end of the call. In
the pause of a host that does something else calls end at any time."""
TOGETHER_SHARE: Final = 0.125
"""Share of the difference of their delays by which members of a call without launch records may
differ in duration, and still have begun together: hosts that are late each by its own time do not
make all members begin within so little of each other."""

WAIT, POST, MARK = 0, 1, 2
"""Kinds of operations: wait for the end of a call, post a call, mark the end of a unit or line."""


def begun(own: LineTimes, table: CallTable) -> I64:
    """Return the time from the origin of each line to its first kernel or call."""
    count = table.num_lines
    _, found, _, _ = own.along(np.arange(count), np.zeros(count, np.int64))
    np.minimum.at(found, table.line, table.start_ns)
    return np.where(found < np.iinfo(np.int64).max, np.maximum(found, 0), 0)


def own_delays(
    delay: I64, table: CallTable, tolerance_ns: int, lead_of: Callable[[], I64] | None = None
) -> I64:
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
    longest, most = np.zeros((2, count + 1), np.int64)
    least = np.full(count + 1, _MOST)
    np.maximum.at(longest, instance, table.dur_ns)
    np.minimum.at(least, instance, delay)
    np.maximum.at(most, instance, delay)
    is_told = np.zeros(count + 1, np.bool_)
    is_told[instance[table.launched]] = True
    apart = np.where(is_told, 0, TOGETHER_SHARE * (most - least))
    together = longest[:-1] - table.transfer_ns <= np.maximum(apart[:-1], tolerance_ns)
    together = np.append(together, False)
    own = least.take(instance, mode="wrap")
    late = together & (least > tolerance_ns) & (least < _MOST)
    if late.any() and lead_of is not None:
        own = _of_last(delay, own, lead_of(), instance, late)
    return np.where(together.take(instance, mode="wrap"), own, delay)


def _of_last(delay: I64, own: I64, lead: I64, instance: I32, late: Bool) -> I64:
    """Return the delays of hosts, those of late instances to whoever was launched last of all.

    Where even that launch came long before the begin, or one is not known, nothing tells who it is.
    """
    shortest = np.full(len(late), _MOST)
    np.minimum.at(shortest, instance, lead)
    told = (late & (shortest >= 0) & (shortest <= PROMPT_NS))[instance]
    is_last = lead <= shortest[instance] + PROMPT_NS
    return np.where(told, np.where(is_last, delay, 0), own)


class LineTimes:
    """Times along the lines of all ranks, by line and position."""

    def __init__(self, ranks: Sequence[StepLines], table: CallTable) -> None:
        self.ranks, self.rank = ranks, table.rank
        sizes = [len(one.steps) for one in ranks]
        self.place = np.concatenate([np.arange(count) for count in sizes])
        self.first = np.concatenate([one.first for one in ranks])
        self.size = np.concatenate([one.stop - one.first for one in ranks])
        self.origin = np.concatenate([one.origin_ns for one in ranks])

    def busy(self, line: int, at: I64, out: F64) -> None:
        """Busy time of a line to each position from the one before, or from its begin."""
        busy, first = self.ranks[self.rank[line]].busy_ns, self.first[line]
        np.subtract(busy.take(first + at), busy.take(first + np.append(0, at[:-1])), out=out)

    def along(self, line: I64, at: I32 | I64) -> tuple[I64, I64, I64, I64]:
        """By operation: end of the work before it, start of the kernel at it, idle sums.

        Times are from the origin of the line; the sums are of idle time before the kernel and
        through it. Where no kernel follows, its start is the largest int64.
        """
        before, start = np.zeros(len(at), np.int64), np.full(len(at), np.iinfo(np.int64).max)
        idle, through = np.zeros(len(at), np.int64), np.zeros(len(at), np.int64)
        edges = np.searchsorted(self.rank[line], np.arange(len(self.ranks) + 1))
        for index, one in enumerate(self.ranks):
            here = slice(int(edges[index]), int(edges[index + 1]))
            lines = line[here]
            place, origin = self.first[lines] + at[here], self.origin[lines]
            if not len(one.start_ns):
                continue
            inner = at[here] > 0
            before[here] = np.where(inner, one.reach_ns[np.maximum(place - 1, 0)] - origin, 0)
            held = at[here] < self.size[lines]
            next_start = one.start_ns[np.minimum(place, len(one.start_ns) - 1)] - origin
            start[here] = np.where(held, next_start, start[here])
            idle[here] = one.gap_ns[place]
            through[here] = one.gap_ns[np.minimum(place + 1, len(one.gap_ns) - 1)]
        return before, start, idle, through


HostTimes: TypeAlias = tuple[F64, I64, int, int]
_NEVER: Final = np.iinfo(np.int64).max


def host_times(
    own: LineTimes, table: CallTable, operations: tuple[I64, I8, I32, I32], tolerance_ns: int
) -> HostTimes:
    """Return idle time for the host by segment, and delays of calls, and what began too early.

    Args:
        own: times along the lines.
        table: the calls.
        operations: first operation of each line, and kind, position and call of each operation.
        tolerance_ns: an operation may begin this long before what it depends on has ended.

    Returns:
        Idle time before each operation, float64 ns; of each call the delay from its post and the
        gap behind the call before it, int64 ns [calls, 2]; number of operations that began before
        what they depend on had ended, and of those that were checked.
    """
    run = _compiled if available() else _in_arrays
    host, wait, early, checked = run(own, table, operations, tolerance_ns)
    return host, wait, early - _ahead(table, operations, tolerance_ns), checked


def _ahead(table: CallTable, operations: tuple[I64, I8, I32, I32], tolerance_ns: int) -> int:
    """Number of calls that began before the step before had ended, and depend on no work of theirs.

    A program that fetches ahead communicates for a step while its device still computes another.
    """
    first, kind, at, call = operations
    begin = np.flatnonzero(at == 0)  # positions ascend: all operations before these are here too
    line = np.searchsorted(first, begin, side="right")
    waits = np.cumsum(kind[begin] == WAIT)
    waited = waits - np.append(0, waits)[np.searchsorted(line, line)]
    opening = begin[(kind[begin] == POST) & (waited == 0)]
    return int((table.start_ns[call[opening]] < -tolerance_ns).sum())


def _compiled(
    own: LineTimes, table: CallTable, operations: tuple[I64, I8, I32, I32], tolerance_ns: int
) -> HostTimes:
    from ccltui.metrics.arrays import _passes  # noqa: PLC0415

    first, kind, at, call = operations
    host, wait = np.zeros(len(kind)), np.zeros((len(table.line), 2), np.int64)
    early = checked = 0
    edges = np.searchsorted(own.rank, np.arange(len(own.ranks) + 1))
    for index, one in enumerate(own.ranks):
        here = slice(int(edges[index]), int(edges[index + 1]))
        found = _passes.host_times(
            first[here.start : here.stop + 1],
            (own.first[here], own.size[here], own.origin[here]),
            (one.start_ns, one.reach_ns, one.gap_ns),
            (kind, at, call),
            (table.start_ns, table.dur_ns, table.behind),
            QUEUED_NS,
            tolerance_ns,
            (host, wait),
        )
        early, checked = early + found[0], checked + found[1]
    return host, wait, early, checked


def _in_arrays(
    own: LineTimes, table: CallTable, operations: tuple[I64, I8, I32, I32], tolerance_ns: int
) -> HostTimes:
    """Return the result of `host_times` without compiled code."""
    first, kind, at, call = operations
    line = np.repeat(np.arange(len(first) - 1), np.diff(first))
    before, start, idle, through = own.along(line, at)
    ends = np.append(table.start_ns + table.dur_ns, 0)[call]
    waits = kind == WAIT
    reached = np.maximum(before, 0)
    reached[waits] = np.maximum(reached[waits], ends[waits])
    span = int(reached.max(initial=0)) + 1
    reached = np.maximum.accumulate(reached + line * span) - line * span
    host = np.zeros(len(kind))
    inner = np.flatnonzero((line[1:] == line[:-1]) & (at[1:] > at[:-1])) + 1
    last = inner - 1
    at_first = np.maximum(start[last] - reached[last], 0)
    host[inner] = at_first + idle[inner] - through[last]
    opening = first[:-1][(at[first[:-1]] > 0)]  # first operations behind kernels of their line
    _, begun, _, counted = own.along(line[opening], np.zeros(len(opening), np.int64))
    host[opening] = np.maximum(begun, 0) + idle[opening] - counted
    posts = np.flatnonzero(kind == POST)
    begun = table.start_ns[call[posts]]
    behind = table.behind[call[posts]]
    ended = (table.start_ns + table.dur_ns)[behind]
    queued = (behind >= 0) & (begun - ended <= QUEUED_NS)
    late = begun - reached[posts]
    wait = np.zeros((len(table.line), 2), np.int64)
    wait[call[posts], 0] = np.where(queued, 0, np.maximum(late, 0))
    wait[call[posts], 1] = np.where(queued, np.maximum(begun - ended, 0), 0)
    resumed = start[waits]
    held = resumed < _NEVER
    early = int((late < -tolerance_ns).sum())
    early += int((resumed[held] < ends[waits][held] - tolerance_ns).sum())
    return host, wait, early, len(posts) + int(held.sum())


CALL_SHARE: Final = 0.125
"""Share of a call before whose end another one without a launch record may begin, and still come
after it: the times of some sources are rounded."""


class UnitTable(Struct, frozen=True):
    """Units of work of all lines: ``line``, ``program``, ``type`` and ``number`` of each, int64."""

    line: I64
    program: I64
    type: I64
    number: I64

    def __len__(self) -> int:
        return len(self.line)


class Operations(Struct, frozen=True):
    """Arrays by operation, those of line i from ``first[i]`` on.

    ``call`` is -1 for the end of a unit or a line. ``unit`` is that of the segment before, -1 for
    an empty one. ``compute_ns`` is its compute time, ``host_ns`` the idle time in it that no call
    explains. ``profile_ns`` are by program the typical compute times of the segments of a line.
    ``wait_ns`` [calls, 2] is for the replay with host delays, which reads both together: the delay
    of each call from its post, and its gap behind the call before on its stream. ``begun_ns`` is
    the idle time at the begin of each line, 0 of a first step. ``early`` counts operations that
    began before what they depend on had ended, by more than ``tolerance`` ns, of ``checked``.
    """

    first: I64
    kind: I8
    call: I32
    unit: I32
    compute_ns: F64
    profile_ns: Sequence[F64]
    host_ns: F64
    wait_ns: I64
    begun_ns: I64
    early: int
    checked: int


class _Template(NamedTuple):
    """The operations of lines of one program whose positions are the same."""

    lines: I64
    at: I64
    kind: I8
    call: I64  # place among the calls of the line
    unit: I64  # of the segment before, place among the units of the line
    units: Sequence[Unit]
    program: int
    single: Bool  # [lines, operations]: a wait of other lines alone
    is_usual: bool = True  # False: of a line with another number of kernels


class _Times(NamedTuple):
    """Start and end of the calls of lines, [lines, calls], with what may be wrong with them.

    A call may begin `slack` before the end of one that it waits for, and only ROUNDING_NS where
    its own launch is recorded (``launched``, by call).
    """

    started: I64
    ended: I64
    rounding_ns: int
    launched: Bool

    @classmethod
    def of(cls, table: CallTable, every: I64, rounding_ns: int) -> _Times:
        started = in_lines(table.start_ns, every)
        ended = started + in_lines(table.dur_ns, every)
        launched = np.asarray(in_lines(table.launched, every).any(axis=0))
        return cls(started, ended, max(rounding_ns, ROUNDING_NS), launched)

    def slack(self, line: int, calls: I64) -> F64:
        """How long before the end of calls of a line another one may begin, ns."""
        length = self.ended[line].take(calls) - self.started[line].take(calls)
        found: F64 = np.clip(CALL_SHARE * length, ROUNDING_NS, self.rounding_ns)
        return found


def line_operations(
    ranks: Sequence[StepLines],
    table: CallTable,
    found: Positions,
    num_stages: int,
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
        tolerance_ns: an operation may begin this long before what it depends on has ended.
        rounding_ns: the same where no launch is recorded, and the times tell the order.
        label_of: returns the label of each row of ``gpu`` of a rank (an index).
        lead_of: returns how long before its begin each call was launched, see `own_delays`.
    """
    own = LineTimes(ranks, table)
    templates = _templates(own, table, found, num_stages, label_of, rounding_ns=rounding_ns)
    number_of = np.zeros(table.num_lines + 1, np.int64)
    units_of = np.zeros(table.num_lines + 1, np.int64)
    for one in templates:
        number_of[one.lines + 1] = len(one.at)
        units_of[one.lines + 1] = len(one.units)
    first, first_unit = np.cumsum(number_of), np.cumsum(units_of)
    total = int(first[-1])
    kind, at = np.empty(total, np.int8), np.empty(total, np.int32)
    call, unit = np.empty(total, np.int32), np.empty(total, np.int32)
    compute = np.empty(total)
    units = np.empty((3, int(first_unit[-1])), np.int64)
    typical: dict[int, F64] = {}
    for one in templates:
        of_call, of_unit = one.call >= 0, one.unit >= 0
        for line in one.lines.tolist():
            own.busy(line, one.at, out=compute[first[line] : first[line + 1]])
        if one.is_usual:
            typical[one.program] = _medians_at(compute, first[one.lines], len(one.at))
        for rows in blocks(one.lines):
            lines, single = one.lines[rows], one.single[rows]
            place, shape = slice(int(first[lines[0]]), int(first[lines[-1] + 1])), single.shape
            calls = one.call + table.first_call[lines][:, np.newaxis]
            kind[place].reshape(shape)[:] = np.where(single, MARK, one.kind)
            at[place].reshape(shape)[:] = one.at
            call[place].reshape(shape)[:] = np.where(of_call & ~single, calls, -1)
            numbers = one.unit + first_unit[lines][:, np.newaxis]
            unit[place].reshape(shape)[:] = np.where(of_unit, numbers, -1)
        numbers = first_unit[one.lines][:, np.newaxis] + np.arange(len(one.units))
        for row, values in enumerate(zip(*((u.type, u.number) for u in one.units), strict=True)):
            units[row + 1, numbers] = np.array(values)
        units[0, numbers] = one.program
    line_of_unit = np.repeat(np.arange(table.num_lines), np.diff(first_unit))
    # An end and a begin are compared, and both are off where the source rounds its times.
    apart = tolerance_ns if table.launched.any() else 2 * rounding_ns
    host, wait, early, checked = host_times(own, table, (first, kind, at, call), apart)
    wait[:, 0] = own_delays(wait[:, 0], table, tolerance_ns, lead_of)
    operations = Operations(
        first,
        kind,
        call,
        unit,
        compute,
        [typical[number] for number in range(len(found.programs))],
        host,
        wait,
        begun(own, table),
        early,
        checked,
    )
    return UnitTable(line_of_unit, units[0], units[1], units[2]), operations


_COLUMNS: Final = 8
"""Operations whose times are looked at together: those of a line lie in one line of the cache."""
_VALUES: Final = 1 << 13
"""Times that are looked at together at least: of few lines a call for each 8 operations costs more
than its numbers."""


def _medians_at(values: F64, begin: I64, count: int) -> F64:
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


def _templates(
    own: LineTimes,
    table: CallTable,
    found: Positions,
    num_stages: int,
    label_of: Callable[[int], I8],
    *,
    rounding_ns: int,
) -> list[_Template]:
    ranks, sizes, places = own.ranks, own.size, own.place
    sends, receives = is_send(table), is_receive(table)

    def labels_of(line: int) -> I8:
        one, place = ranks[table.rank[line]], places[line]
        mine = one.gpu_row[one.first[place] : one.stop[place]]
        labels: I8 = label_of(int(table.rank[line])).take(mine)
        return labels

    def transfers_of(line: int) -> Transfers:
        mine = np.arange(table.first_call[line], table.first_call[line + 1])
        return Transfers.of(
            table.direction,
            found.posted,
            found.resumed,
            sends=mine[sends[mine]],
            receives=mine[receives[mine]],
        )

    leaders = [int(program.lines[program.same][0]) for program in found.programs]
    share = _forward_share(
        [
            pass_sizes(transfers_of(line), int(sizes[line]), **_ends(program, num_stages))
            for line, program in zip(leaders, found.programs, strict=True)
            if program.stage >= 0 and num_stages > 1
        ]
    )
    templates = []
    for number, program in enumerate(found.programs):
        lines = program.lines[program.same]
        line = int(lines[0])
        transfers = transfers_of(line)
        size = int(sizes[line])
        if program.stage >= 0 and num_stages > 1 and transfers:
            units = pipeline_units(
                transfers,
                size,
                labels_of(line),
                forward_share=share,
                **_ends(program, num_stages),
            )
        else:
            units = labelled_units(labels_of(line))
        usual = _template(own, lines, table, found, (size, units, number), rounding_ns=rounding_ns)
        templates.append(usual)
        for other in program.lines[~program.same].tolist():
            both = (line, size), (other, int(sizes[other]))
            at = _moved_positions(usual, table, found, *both)
            templates.append(
                usual._replace(
                    lines=np.array([other], np.int64),
                    at=at,
                    single=np.asarray(usual.single.any(axis=0, keepdims=True)),
                    is_usual=False,
                )
            )
    return templates


def _moved_positions(
    usual: _Template,
    table: CallTable,
    found: Positions,
    one: tuple[int, int],
    other: tuple[int, int],
) -> I64:
    """Positions of the operations on a line with another number of kernels.

    They are moved in proportion between the positions at which calls were seen on both. ``one`` and
    ``other`` are a usual line and that line with their numbers of kernels.
    """
    (line, size), (odd, odd_size) = one, other
    here = slice(int(table.first_call[line]), int(table.first_call[line + 1]))
    there = slice(int(table.first_call[odd]), int(table.first_call[odd + 1]))
    exact = table.posted[here] == found.posted[here]
    waited = (found.resumed[here] >= 0) & ~found.hidden[here] & table.waited[there]
    known = np.concatenate((found.posted[here][exact], found.resumed[here][waited], [0, size]))
    own = np.concatenate((table.posted[there][exact], table.resumed[there][waited], [0, odd_size]))
    places, number = np.unique(known, return_inverse=True)
    mean = np.bincount(number.reshape(-1), weights=own) / np.bincount(number.reshape(-1))
    mean = np.maximum.accumulate(mean)
    moved = np.rint(np.interp(usual.at, places, mean)).astype(np.int64)
    return np.clip(np.maximum.accumulate(moved), 0, odd_size)


def _ends(program: Program, num_stages: int) -> dict[str, bool]:
    return {"is_first": program.stage == 0, "is_last": program.stage == num_stages - 1}


def _forward_share(sizes: Sequence[PassSizes]) -> float:
    known = [(one.forward, one.backward) for one in sizes if one.forward and one.backward]
    forward = sum(one for one, _ in known if one)
    backward = sum(one for _, one in known if one)
    return forward / (forward + backward) if known else 0.5


def _template(
    own: LineTimes,
    lines: I64,
    table: CallTable,
    found: Positions,
    program: tuple[int, Sequence[Unit], int],
    *,
    rounding_ns: int,
) -> _Template:
    """Order the operations of lines that have the positions of the first of them.

    At one position come the end of a unit, then waits in the order of time with the posts that on
    every line came after them, and last waits that few lines saw, and those of single lines.
    """
    size, units, number = program
    begin = int(table.first_call[lines[0]])
    count = int(table.first_call[lines[0] + 1]) - begin
    mine = np.arange(begin, begin + count)
    every = table.first_call[lines][:, np.newaxis] + np.arange(count)
    never = found.resumed[mine] < 0
    at_wait = np.where(never, size, np.clip(found.resumed[mine], 0, size))
    at_post = np.minimum(np.clip(found.posted[mine], 0, size), at_wait)
    before = np.maximum(table.behind[mine] - begin, -1)
    while (too_early := (before >= 0) & (at_wait < at_post[before])).any():
        # Nothing can wait for a call before the one that keeps it is posted.
        at_wait[too_early] = at_post[before[too_early]]
        at_post = np.minimum(np.clip(found.posted[mine], 0, size), at_wait)
    last = np.where(never, 2, found.hidden[mine]).astype(np.int64)
    is_recv = table.kind[mine] == RECV
    times = _Times.of(table, every, rounding_ns)
    level = _followed(times, at_wait, last == 0)
    in_turn = np.lexsort((times.ended.mean(axis=0), is_recv, level, last, at_wait))
    turn = np.empty(count, np.int64)
    turn[in_turn] = np.arange(count) - np.searchsorted(at_wait[in_turn], at_wait[in_turn])
    visible = in_turn[last[in_turn] == 0]
    follows = _waits_before(times, at_post, at_wait, visible)
    # A send does not wait for the next receive of its pipeline, but for one of its ring.
    made = visible[~is_receive(table)[mine][visible]]
    passed = _waits_before(times, at_post, at_wait, made)
    final = made[np.searchsorted(at_wait[made], at_post) + passed - 1] if len(made) else in_turn
    follows = np.where(is_send(table)[mine], np.where(passed > 0, turn[final] + 1, 0), follows)
    edges = np.array([unit.stop for unit in units if unit.stop < size], np.int64)
    early, early_at, shown = _waits_of_lines(own, lines, table, (every, at_wait))
    extra = len(early)
    at = np.concatenate((at_post, at_wait, early_at, edges, [size]))
    kind = np.concatenate(
        (np.full(count, POST), np.full(count + extra, WAIT), np.full(len(edges) + 1, MARK))
    ).astype(np.int8)
    call = np.concatenate((np.arange(count), np.arange(count), early, np.full(len(edges) + 1, -1)))
    place = np.concatenate(
        (
            2 * follows,
            2 * turn + 1,
            np.full(extra, 2 * count + 1),
            np.full(len(edges), -2),
            [2 * count + 2],
        )
    )
    single = np.zeros((len(lines), len(at)), np.bool_)
    single[:, 2 * count : 2 * count + extra] = ~shown
    when = np.concatenate((times.started.mean(axis=0), np.zeros(count + extra + len(edges) + 1)))
    order = np.lexsort((when, place, at))
    at = at[order]
    stops = np.array([unit.stop for unit in units], np.int64)
    unit = np.searchsorted(stops, at, side="left") if len(units) else np.full(len(at), -1)
    unit = np.where(np.diff(at, prepend=0) > 0, unit, -1)
    return _Template(lines, at, kind[order], call[order], unit, units, number, single[:, order])


def _waits_of_lines(
    own: LineTimes, lines: I64, table: CallTable, calls: tuple[I64, I64]
) -> tuple[I64, I64, Bool]:
    """Waits for calls that single lines show at an earlier position than their program has them.

    A host that waits for a call launches nothing: its device idles before work that runs beside
    the call elsewhere. Most of such a long idle time is one in which the call waits for a member.

    Args:
        own: times along the lines.
        lines: those of one program.
        table: their calls.
        calls: the calls of the lines, [lines, calls], and the position of the wait for each.

    Returns:
        Places of calls, positions of waits, and which lines show each, [lines, waits].
    """
    every, at_wait = calls
    shown_early = in_lines(table.waited, every) & (in_lines(table.resumed, every) < at_wait)
    row, nth = np.nonzero(shown_early)
    one = every[row, nth]
    at, instance = table.resumed[one], table.instance[one]
    before, start, _, _ = own.along(lines[row], at)
    begun, length = table.start_ns[one], table.dur_ns[one]
    covered = np.minimum(start, begun + length) - np.maximum(before, begun)
    waited = np.minimum(covered, length - np.append(table.transfer_ns, 0)[instance])
    gap = start - before
    shows = (instance >= 0) & (gap >= LONG_GAP_NS) & (2 * waited >= gap) & (at > 0)
    shows &= start - (begun + length) <= RESUMED_NS
    wide = int(at_wait.max(initial=0)) + 1
    key, number = np.unique((nth * wide + at)[shows], return_inverse=True)
    shown = np.zeros((len(lines), len(key)), np.bool_)
    shown[row[shows], number.reshape(-1)] = True
    return key // wide, key % wide, shown


def _followed(times: _Times, at_wait: I64, visible: Bool) -> I64:
    """Number of the waits at its position whose calls each call began after, on every line."""
    found = np.zeros(len(at_wait), np.int64)
    order = np.flatnonzero(visible)[np.argsort(at_wait[visible], kind="stable")]
    edges = np.flatnonzero(np.diff(at_wait[order], prepend=-1, append=-1))
    begin, size = edges[:-1], np.diff(edges)
    place = np.repeat(begin, size)  # first call at the position of each
    left = np.flatnonzero(np.repeat(size, size) > 1)
    stop = np.repeat(begin + size, size)
    turn = 0
    while len(left):  # the n-th wait of all positions at once
        found[order[left]] += _after(times, order[left], order[place[left] + turn])
        turn += 1
        left = left[place[left] + turn < stop[left]]
    return found


def _after(times: _Times, calls: I64, waits: I64) -> Bool:
    """Whether each call began after the end of a wait on every line."""
    found = np.ones(len(calls), np.bool_)
    launched = times.launched[calls]
    is_told = bool(launched.all())
    allowed: F64 | int = ROUNDING_NS
    for line, (start, end) in enumerate(zip(times.started, times.ended, strict=True)):
        if not is_told:
            allowed = np.where(launched, ROUNDING_NS, times.slack(line, waits))
        found &= start.take(calls) >= end.take(waits) - allowed
        if not found.any():
            break
    return found


def _waits_before(times: _Times, at_post: I64, at_wait: I64, waits: I64) -> I64:
    """Number of the waits at its position that each call began after, on every line.

    ``waits`` are calls in the order of their waits.
    """
    found = np.zeros(len(at_post), np.int64)
    places = at_wait[waits]
    low = np.searchsorted(places, at_post, side="left")
    high = np.searchsorted(places, at_post, side="right")
    left = np.flatnonzero(high > low)
    while len(left):  # the next wait of all calls at once
        wait = waits[low[left] + found[left]]
        left = left[(wait != left) & _after(times, left, wait)]
        found[left] += 1
        left = left[low[left] + found[left] < high[left]]
    return found
