"""Test whether calls that were lined up can be one collective, and rate the confidence.

Overlap test, on one clock: max(start) <= min(end) of the members, since no member of a collective
in which every rank needs every other can end before the last one has started. An end may be too
early by what the ends of one collective are apart.

The ends of the members of one such collective differ by their clocks plus a small scatter. That is
also the basis of the clock estimate.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ccltui.metrics.arrays.by_column import together
from ccltui.metrics.arrays.compiled import available
from ccltui.metrics.arrays.reductions import (
    counts_up,
    distinct_values,
    is_one_value,
    median_along,
    repeated,
    row_all,
    taken,
    values_at,
)
from ccltui.metrics.arrays.statistics import rank_place
from ccltui.metrics.arrays.typical import MIN_POINTS, Z_99, condensed, slopes
from ccltui.metrics.confidence import Level
from ccltui.metrics.model.calls import Calls
from ccltui.metrics.model.classify import TYPES
from ccltui.parsers.array_types import F64, I8, I64, Bool
from ccltui.parsers.columns import MISSING

COMMUNICATOR, SEQUENCE, STEP, ORDER = 1, 2, 3, 4
"""Levels of evidence of a match, see `match`."""

EQUAL_INPUTS = np.array(
    [name in ("AllReduce", "ReduceScatter", "AllGather", "Broadcast", "Reduce") for name in TYPES]
)
"""Mask of the types with equal input sizes on all members."""
EQUAL_OUTPUTS = np.array([name in ("AllReduce", "ReduceScatter", "AllGather") for name in TYPES])
"""Mask of the types with equal output sizes on all members."""


class Member(Struct, frozen=True, dict=True):
    """The calls of one rank in one group, ascending in time; ``rows`` index its `Calls`."""

    calls: Calls
    rows: I64

    def column(self, name: str) -> I64:
        """Return one column of the calls, as int64."""
        values = getattr(self.calls, name)
        if is_one_value(values) and len(self.rows):
            return repeated(values[:1].astype(np.int64), len(self.rows))
        whole = len(self.rows) == len(values)  # ascending, so these are all rows
        return np.asarray(values if whole else values[self.rows], np.int64)

    @cached_property
    def start_ns(self) -> I64:
        """Start of each call, int64 ns on the rank's own clock."""
        return self.column("start_ns")

    @cached_property
    def end_ns(self) -> I64:
        """End of each call, int64 ns on the rank's own clock."""
        return self.ends()

    def ends(self) -> I64:
        """Return the same; it is not kept, as where all members are gone through once."""
        return self.start_ns + self.column("dur_ns")

    @cached_property
    def tokens(self) -> I64:
        """One number per call for its type, dtype and the sizes that are equal on all members."""
        columns = [self.column(name) for name in ("kind", "in_elems", "out_elems", "dtype")]
        if all(map(is_one_value, columns)):  # as in jobs that reduce gradients alone
            return repeated(_tokens(*(column[:1] for column in columns)), len(self.rows))
        return _tokens(*columns)


def _tokens(kind: I64, in_elems: I64, out_elems: I64, dtype: I64) -> I64:
    given = np.where(EQUAL_INPUTS[kind], in_elems, 0)
    produced = np.where(EQUAL_OUTPUTS[kind], out_elems, 0)
    what = dtype * len(TYPES) + kind
    return np.asarray((given * 1_000_003 + produced) * 4096 + what, np.int64)


class Line(Struct, frozen=True):
    """Positions in the members' rows, int64 [n, m], -1 for none; and the level of each line.

    ``last`` are the positions of the last kernels where a collective has several. ``summed``
    marks lines in which some members have one kernel for several kernels of the others, of the
    same total size.
    """

    positions: I64
    level: I8
    last: I64
    summed: Bool

    @classmethod
    def of(cls, positions: I64, level: I8) -> Line:
        """Create lines of one kernel per member."""
        return cls(positions, level, positions, np.zeros(len(positions), np.bool_))

    @classmethod
    def in_order(cls, count: int, members: int, level: int) -> Line:
        """Create ``count`` lines of the k-th call of each member, in a few bytes."""
        positions = np.broadcast_to(np.arange(count)[:, np.newaxis], (count, members))
        return cls.of(positions, np.full(count, level, np.int8))

    @classmethod
    def joined(cls, lines: Sequence[Line], members: int) -> Line:
        """Concatenate several sets of lines."""
        empty = cls.of(np.empty((0, members), np.int64), np.empty(0, np.int8))
        every = [empty, *(line for line in lines if len(line.level))]
        if len(every) == 2:
            return every[1]
        return cls(
            *(
                np.concatenate([getattr(line, name) for line in every])
                for name in ("positions", "level", "last", "summed")
            )
        )

    @property
    def is_in_order(self) -> bool:
        """Whether the lines are those of `in_order`."""
        return self.positions.size > 1 and not self.positions.strides[1]

    @property
    def has_pieces(self) -> bool:
        """Whether any collective has several kernels on a rank."""
        return self.last is not self.positions and bool((self.last != self.positions).any())


def pick(values: I64, positions: I64) -> I64:
    """Return ``values`` at ``positions``, -1 where a position is -1.

    ``values`` itself, not a copy, where ``positions`` are all of them in order.
    """
    if not len(values):
        return np.full(positions.shape, MISSING, np.int64)
    if len(positions) == len(values) and counts_up(positions):
        return values
    if positions.min(initial=0) >= 0:
        return taken(values, positions)
    return np.where(positions >= 0, values.take(np.maximum(positions, 0)), MISSING)


ONE_CLOCK_NS = 100_000
"""Largest offset on one clock: ends are up to some tens of µs apart on ranks that share one."""

_DEPENDENT = np.array(
    [name in ("AllReduce", "AllGather", "ReduceScatter", "Barrier") for name in TYPES]
)
_EXCHANGE = np.array([name in ("AllToAll", "SendRecv") for name in TYPES])


MAX_INSTANCES = 4096
"""Largest sample of instances: its median has 1/64 of the scatter of single ends, and more
instances would not improve the clock estimate."""


def evenly(rows: I64) -> I64:
    """Return at most ``MAX_INSTANCES`` of ``rows``, evenly spread."""
    if len(rows) <= MAX_INSTANCES:
        return rows
    return rows[np.linspace(0, len(rows) - 1, MAX_INSTANCES).astype(np.int64)]


def fully_dependent(kind: npt.ArrayLike) -> Bool:
    """Whether no rank can finish before all have started: allreduce, allgather, …, barrier."""
    return np.asarray(_DEPENDENT[np.asarray(kind, np.int64)])


def exchange(kind: npt.ArrayLike) -> Bool:
    """Whether the type is an all-to-all, or a SendRecv kernel that may be one."""
    return np.asarray(_EXCHANGE[np.asarray(kind, np.int64)])


def end_deviation(end_ns: I64) -> F64:
    """Return the deviation of each end from the median end of its instance, float64 ns [n, m].

    ``end_ns`` is int64 [n, m] with every member present. Differences are taken before the
    median, so that times since the epoch lose no precision as floats. Some instances are looked at
    at a time: of all, each of four tables between is as large as the result.
    """
    found = np.empty(end_ns.shape, np.float64)
    for some in together(*end_ns.shape[::-1]):
        end = np.ascontiguousarray(end_ns[some])
        relative = (end - end[:, :1]).astype(np.float64)
        np.subtract(relative, median_along(relative, 1)[:, np.newaxis], out=found[some])
    return found


class Deviations(Struct, frozen=True, dict=True):
    """Deviations of the ends of n instances on m members, and what of them is asked for twice.

    ``values`` is float64 ns [n, m], the result of `end_deviation`.
    """

    values: F64

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def medians(self) -> F64:
        """Median deviation of each member, float64 ns [m]; there is at least one instance."""
        return median_along(self.values)

    def slopes(self, time: F64) -> tuple[F64, F64]:
        """Return the drift of each member and its error, ns per s, as `slopes`."""
        is_short = len(time) < MIN_POINTS
        return slopes(time, self.values, blocks=None if is_short else self._blocks)

    @cached_property
    def _blocks(self) -> F64:
        return condensed(self.values)


class ComparedEnds(Struct, frozen=True):
    """Ends that the overlap test of a group compared: those that its clocks are estimated from.

    ``rows`` [n] are instances, ascending, and ``end_ns`` [n] their ends on the first member.
    """

    rows: I64
    end_ns: I64
    deviation: Deviations


def nearest_rank(values: F64 | I64, share: float) -> float:
    """Return the ceil(share * n)-th smallest of ``values``, which must not be empty."""
    return nearest_rank_of(values.copy(), share)


def nearest_rank_of(values: F64 | I64, share: float) -> float:
    """Return the same of values whose order may be lost."""
    index = rank_place(len(values), share)
    values.partition(index)
    return float(values[index])


def middle_and_rank(values: F64 | I64, share: float) -> tuple[float, float]:
    """Return the median and the `nearest_rank` of ``values`` (none is NaN) in one pass."""
    low, high, index = (len(values) - 1) // 2, len(values) // 2, rank_place(len(values), share)
    below, above, at = values_at(values, [low, high, index])
    return (below + above) / 2, at


def member_offsets(deviation: Deviations) -> I64:
    """Return the clock offset of each member against the median of its group, int64 ns [m].

    0 where the offset is at most ``ONE_CLOCK_NS``, which devices on one clock reach too, or at most
    the p95 of the scatter of the ends around it. Without an instance all are 0.
    """
    values = deviation.values
    if not len(values):
        return np.zeros(values.shape[1], np.int64)
    offsets = deviation.medians
    hidden = np.abs(offsets) <= ONE_CLOCK_NS
    for member in np.flatnonzero(~hidden).tolist():
        scatter = np.abs(values[:, member] - offsets[member])
        # fewer lie below the offset than below the p95
        below = np.count_nonzero(scatter < abs(offsets[member]))
        hidden[member] = below <= rank_place(len(scatter), 0.95)
    return np.where(hidden, 0, np.rint(offsets)).astype(np.int64)


class Drifts(Struct, frozen=True):
    """Drift of each member's clock from the median, ns per s, since a time of the first member.

    ``rates`` are 0 where the 99 % interval of the drift includes 0.
    """

    rates: F64
    middle_ns: int

    @classmethod
    def of(cls, end_ns: I64, deviation: Deviations) -> Drifts:
        """Estimate drifts from ends [n, m] and their deviations."""
        if not len(end_ns):
            return cls(np.zeros(end_ns.shape[1]), 0)
        middle = int(median_along(end_ns[:, 0]))
        rates, errors = deviation.slopes((end_ns[:, 0] - middle) / 1e9)
        return cls(np.where(np.abs(rates) > Z_99 * errors, rates, 0.0), middle)

    def since(self, member: int, times_ns: I64) -> I64:
        """Return how far a clock has drifted at times of the first member, int64 ns [t]."""
        drifted = (times_ns - self.middle_ns) / 1e9 * self.rates[member]
        return np.asarray(np.rint(drifted), np.int64)


LOW, MEDIUM, HIGH = 0, 1, 2
CONFIDENCES: Final[tuple[Level, ...]] = ("low", "medium", "high")
"""Names of the three levels of confidence, by level."""
MIN_OVERLAP_SHARE = 0.95
"""Share of the instances of a type that must pass the overlap test for a match by order."""

MIN_CLOCK_TESTS = 3
"""Fewer lines test no clock: with a suitable offset one or two pairs of any calls overlap."""

MIN_COMPLETE_SHARE = 0.9
"""Least share of complete lines, without those at either end, for an implied group of all ranks."""

STRAY_FACTOR = 3
"""Ends more than this many times the p95 of the distances apart are of different collectives."""

TOLERANCE_NS = 20_000
"""An end may be this much too early in the overlap test, or the p95 of the deviation of ends, which
is at most that of devices on one clock: ends of calls that are lined up wrongly deviate by more."""

MISSED_SHARE = 0.125
"""Share of the longest member by which an end may be too early: a short call beside the next one of
the other members fails by more, as all do that are lined up wrongly."""

MIN_LONE_WAIT_NS = 10_000
"""A shorter lone wait is no evidence: durations of calls that start together vary a little."""

_NEVER = np.iinfo(np.int64).max


class Verdict(Struct, frozen=True):
    """Results of the tests of each line, arrays of length n; see `GroupMatch` for the meanings."""

    kind: I8
    step: I64
    agrees: Bool
    overlap: I8
    confidence: I8
    in_step: Bool
    first_start_ns: I64  # earliest start of the members, on the median clock of the group
    ends: ComparedEnds


def judge(members: Sequence[Member], line: Line, *, stated: bool, several: bool = False) -> Verdict:
    """Test each line for agreement and overlap.

    ``stated``: the group's ranks are known. ``several``: they may be more than one communicator;
    every line is then LOW unless all members once waited for one of them alone. Lines that are LOW
    for that alone are ``in_step``.
    """
    kind = _first_known(members, line.positions, "kind")
    agrees, sized = _agreement(members, line.positions, kind)
    agrees |= line.summed
    usable = agrees & row_all(line.positions >= 0)
    test = _tested(members, line, kind, usable)
    overlap, stray, offsets = test.overlap, test.stray, test.offsets
    # The others of a lone short member waited for it, whatever an end misses by.
    certain, sound = usable & sized, agrees & ((overlap == 1) | test.lone)
    sound &= ~_unproven(line.level, usable, offsets)
    confidence = _confidence(line.level, kind, test, certain, sound, stated=stated)
    confidence[~usable] = LOW
    confidence[(line.level == ORDER) & fully_dependent(kind) & (stray | (overlap == 0))] = LOW
    if not stated:
        for one in distinct_values(kind):
            if _has_gaps(line.positions[kind == one]):
                confidence[kind == one] = LOW
    in_step = np.zeros(len(kind), np.bool_)
    if several and not test.waited_for_one():
        in_step = (confidence > LOW) & (overlap == 1)
        confidence[:] = LOW
    return Verdict(
        kind=kind.astype(np.int8),
        step=_first_known(members, line.positions, "step"),
        agrees=agrees,
        overlap=overlap,
        confidence=confidence,
        in_step=in_step,
        first_start_ns=_first_start(members, line.positions, offsets),
        ends=test.ends,
    )


def _has_gaps(positions: I64) -> bool:
    """Whether many calls between the first and the last complete line are missing on some ranks.

    Where no file names a group, this shows calls of several communicators lined up as one.
    """
    complete = np.flatnonzero(row_all(positions >= 0))
    if not len(complete):
        return True
    span = int(complete[-1] - complete[0]) + 1
    return len(complete) < MIN_COMPLETE_SHARE * span


def _first_known(members: Sequence[Member], positions: I64, name: str) -> I64:
    """Return the value of the first member that is not -1, int64 [n]."""
    result = np.full(len(positions), MISSING, np.int64)
    for index, member in enumerate(members):
        value = pick(member.column(name), positions[:, index])
        result = np.where(result < 0, value, result)
        if (result >= 0).all():
            break
    return result


def _agreement(members: Sequence[Member], positions: I64, kind: I64) -> tuple[Bool, Bool]:
    """Return the masks of lines that agree in type, dtype and size, and of those with a size.

    Only stated values are compared, and only sizes that are equal on all members.
    """
    agrees = np.ones(len(positions), np.bool_)
    sized = ~(EQUAL_INPUTS[kind] | EQUAL_OUTPUTS[kind])
    everywhere = np.ones(len(kind), np.bool_)
    present = positions.min(initial=0) >= 0
    for name, applies in (
        ("kind", everywhere),
        ("dtype", everywhere),
        ("in_elems", EQUAL_INPUTS[kind]),
        ("out_elems", EQUAL_OUTPUTS[kind]),
    ):
        low, high = _extremes(members, positions, name, present=present)
        agrees &= ~applies | (high < 0) | (low == high)
        if name.endswith("_elems"):
            sized |= applies & (high >= 0)
    return agrees, sized


def _extremes(
    members: Sequence[Member], positions: I64, name: str, *, present: bool
) -> tuple[I64, I64]:
    """Return least and greatest value over the members that state one; greatest -1 if none.

    ``present``: every member has a call in every line. Then members whose calls have one value
    count once for each value.
    """
    low = np.full(len(positions), _NEVER, np.int64)
    high = np.full(len(positions), MISSING, np.int64)
    counted: set[int] = set()
    for index, member in enumerate(members):
        value = member.column(name)
        if present and is_one_value(value):
            if int(value[0]) in counted:
                continue
            counted.add(int(value[0]))
        value = pick(value, positions[:, index])
        np.minimum(low, np.where(value < 0, _NEVER, value), out=low)
        np.maximum(high, value, out=high)
    return low, high


class _Tested(Struct, frozen=True):
    """Overlap test of n lines, mask of the lines that end too far apart, and clock offsets.

    ``offsets`` are the clock offsets of the members in the middle of all lines, ns. ``unsure`` are
    lines too short for the errors of the ends: they fail by less than these. ``lone`` marks
    lines of calls that wait for each other in which all waited for one member alone. ``ends`` are
    of some lines.
    """

    overlap: I8
    unsure: Bool
    stray: Bool
    offsets: I64
    lone: Bool
    ends: ComparedEnds

    def waited_for_one(self) -> bool:
        """Whether all members once waited for one of them alone.

        Several communicators that end together have a last member each, so that two members or
        more are short at the same time.
        """
        return bool(self.lone.any())


def waits_for_one(dur_ns: I64, spread_ns: I64, usual_ns: float) -> Bool:
    """Mask of the lines in which one member alone is short, by more than ends are apart.

    ``dur_ns`` is int64 [k, m], ``spread_ns`` [k] last minus first end, ``usual_ns`` its p95.
    """
    if not len(dur_ns):
        return np.zeros(0, np.bool_)
    shortest = np.partition(dur_ns, 1, axis=1)
    return _is_lone(shortest[:, 0], shortest[:, 1], spread_ns, usual_ns)


def _is_lone(shortest_ns: I64, second_ns: I64, spread_ns: I64, usual_ns: float) -> Bool:
    apart = np.maximum(spread_ns, usual_ns)
    waits = second_ns - shortest_ns
    return np.asarray(waits > np.maximum(MIN_LONE_WAIT_NS, STRAY_FACTOR * apart))


def _tested(members: Sequence[Member], line: Line, kind: I64, usable: Bool) -> _Tested:
    complete = row_all(line.positions >= 0)
    whole = bool(complete.all())
    first, last = (one if whole else one[complete] for one in (line.positions, line.last))
    witness, mutual = usable[complete], fully_dependent(kind[complete])
    dependent = witness & mutual
    mutual |= exchange(kind[complete])
    tested = np.flatnonzero(dependent if dependent.any() else witness)
    some = evenly(tested)
    by_member = np.empty((len(members), len(some)), np.int64)
    are_all = first is last and _are_all_in_order(members, last)
    for index, member in enumerate(members):
        if are_all:
            np.add(member.start_ns[some], member.column("dur_ns")[some], out=by_member[index])
        else:
            by_member[index] = pick(member.ends(), last[some, index])
    end = by_member.T
    deviation = Deviations(end_deviation(end) if len(end) else end.astype(np.float64))
    offsets, drifts = member_offsets(deviation), Drifts.of(end, deviation)
    edges = _edges(members, first, last, offsets, drifts)
    spread = edges.last_end_ns - edges.first_end_ns
    usual = nearest_rank(spread[some], 0.95) if len(some) else 0.0
    missed, error = edges.last_start_ns - edges.first_end_ns, 0.0
    if (missed > 0).any():  # else no end is too early
        is_one_clock = not offsets.any() and not drifts.rates.any()
        rest = deviation.values if is_one_clock else _corrected(end, offsets, drifts)
        error = _error_of_ends(rest)
    allowed = np.where(mutual, np.minimum(error, MISSED_SHARE * edges.longest_ns), 0)
    result = np.full(len(complete), -1, np.int8)
    result[complete] = missed <= allowed
    unsure, stray, lone = np.zeros((3, len(complete)), np.bool_)
    unsure[complete] = mutual & (missed > allowed) & (missed <= error)
    stray[complete] = spread > max(ONE_CLOCK_NS, STRAY_FACTOR * usual)
    lone[complete] = witness & mutual & _is_lone(edges.shortest_ns, edges.second_ns, spread, usual)
    ends = ComparedEnds(np.flatnonzero(complete)[some], end[:, 0].copy(), deviation)
    return _Tested(result, unsure, stray, offsets, lone, ends)


class _Edges(Struct, frozen=True):
    """First and last start and end of n lines on one clock, and durations of members; int64 ns."""

    last_start_ns: I64
    first_end_ns: I64
    last_end_ns: I64
    longest_ns: I64
    shortest_ns: I64
    second_ns: I64  # the last but one in length, of two members or more


def _edges(
    members: Sequence[Member], first: I64, last: I64, offsets: I64, drifts: Drifts
) -> _Edges:
    """Find the edges of complete lines, member by member: tables of all take memory and time.

    The overlap test is last start - first end: above 0 a member ended before the last one started.
    """
    add = _add_edges_compiled if available() else add_edges
    edges = np.empty((6, len(first)), np.int64)
    edges[[0, 2, 3]], edges[[1, 4, 5]] = np.iinfo(np.int64).min, _NEVER
    time = pick(members[0].end_ns, last[:, 0])
    are_all = first is last and _are_all_in_order(members, last)
    for index, member in enumerate(members):
        if are_all:
            start, dur = member.start_ns, member.column("dur_ns")
        else:
            start = pick(member.start_ns, first[:, index])
            dur = pick(member.ends(), last[:, index]) - start
        apart: I64 = offsets[index : index + 1]
        if drifts.rates[index]:
            apart = apart + drifts.since(index, time)
        add(start, dur, np.broadcast_to(apart, len(first)), edges)
    return _Edges(*edges)


def add_edges(start_ns: I64, dur_ns: I64, apart_ns: I64, edges: I64) -> None:
    """Add the calls of one member to the columns of `_Edges`, int64 [6, n].

    ``apart_ns`` is how far its clock is ahead at each of them.
    """
    last_start, first_end, last_end, longest, shortest, second = edges
    np.maximum(longest, dur_ns, out=longest)
    np.minimum(second, np.maximum(shortest, dur_ns), out=second)
    np.minimum(shortest, dur_ns, out=shortest)
    start = start_ns - apart_ns
    end = start + dur_ns
    np.maximum(last_start, start, out=last_start)
    np.maximum(last_end, end, out=last_end)
    np.minimum(first_end, end, out=first_end)


def _add_edges_compiled(start_ns: I64, dur_ns: I64, apart_ns: I64, edges: I64) -> None:
    from ccltui.metrics.arrays import _passes  # noqa: PLC0415

    _passes.add_edges(start_ns, dur_ns, apart_ns, edges)


def _are_all_in_order(members: Sequence[Member], positions: I64) -> bool:
    """Return whether the k-th line has the k-th call of each member, and there are no others."""
    return (
        positions.size > 1
        and not positions.strides[1]
        and all(len(member.rows) == len(positions) for member in members)
        and counts_up(positions[:, 0])
    )


def _corrected(end_ns: I64, offsets: I64, drifts: Drifts) -> F64:
    """Return the `end_deviation` of ends [n, m] on one clock."""
    if not len(end_ns):
        return end_ns.astype(np.float64)
    ends = end_ns - offsets
    for member in np.flatnonzero(drifts.rates).tolist():
        ends[:, member] -= drifts.since(member, end_ns[:, 0])
    return end_deviation(ends)


def _error_of_ends(deviation: F64) -> float:
    """Return by how much an end may be too early on one clock, ns, by the deviations of ends."""
    if not len(deviation):
        return TOLERANCE_NS
    usual = nearest_rank_of(np.abs(deviation).ravel(), 0.95)
    return min(max(usual, TOLERANCE_NS), ONE_CLOCK_NS)


def _unproven(level: I8, usable: Bool, offsets: I64) -> Bool:
    """Mask of lines by order alone that are too few to test the clock offsets derived from them."""
    few = int(usable.sum()) < MIN_CLOCK_TESTS
    return np.asarray((level == ORDER) & (few and bool(offsets.any())))


def _confidence(
    level: I8, kind: I64, test: _Tested, certain: Bool, sound: Bool, *, stated: bool
) -> I8:
    """Rate the lines: a key is trusted, order only where enough of its lines agree and overlap."""
    confidence = np.where(certain, HIGH, MEDIUM).astype(np.int8)
    tested = (test.overlap >= 0) & (level >= STEP)
    dependent = fully_dependent(kind)
    for one in distinct_values(kind[tested]):
        of_kind = tested & (kind == one)
        one_sided = not (dependent[of_kind] | exchange(kind[of_kind])).any()
        witness = tested & dependent if one_sided and (tested & dependent).any() else of_kind
        told = witness & (~test.unsure | test.lone)  # what may pass or fail by chance tells nothing
        enough = sound[told].mean() >= MIN_OVERLAP_SHARE if told.any() else False
        confidence[of_kind] = MEDIUM if enough else LOW
        if stated:
            confidence[of_kind & (level == STEP) & ~dependent] = MEDIUM
    return confidence


def _first_start(members: Sequence[Member], positions: I64, offsets: I64) -> I64:
    earliest = np.full(len(positions), _NEVER, np.int64)
    present = positions.min(initial=0) >= 0
    are_all = _are_all_in_order(members, positions)
    for index, member in enumerate(members):
        place = positions[:, index]
        start = member.start_ns if are_all else pick(member.start_ns, place)
        if offsets[index]:
            start = start - offsets[index]
        start = start if present else np.where(place < 0, _NEVER, start)
        np.minimum(earliest, start, out=earliest)
    return earliest
