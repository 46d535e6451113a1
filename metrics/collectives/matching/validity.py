"""Whether calls that were lined up can be one collective, and how far to believe it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ccltui.metrics.arrays.reductions import distinct_values, row_all, row_max, row_min
from ccltui.metrics.collectives.matching.end_deviation import (
    ONE_CLOCK_NS,
    drifts,
    ends_after_all_started,
    evenly,
    exchange,
    fully_dependent,
    member_offsets,
    nearest_rank,
)
from ccltui.metrics.collectives.matching.group_member import (
    EQUAL_INPUTS,
    EQUAL_OUTPUTS,
    ORDER,
    STEP,
    Line,
    Member,
    pick,
)
from ccltui.parsers.array_types import I8, I64, Bool
from ccltui.parsers.columns import MISSING

LOW, MEDIUM, HIGH = 0, 1, 2
ENOUGH = 0.95
"""Share of a type's instances that must pass the overlap test before order is believed."""

FEWEST_TO_TEST_A_CLOCK = 3
"""A difference of clocks makes one or two pairs of any calls overlap."""

WHOLE = 0.9
"""Share of the lines, ends left out, on all ranks below which no group of all ranks is implied."""

STRAY = 3
"""Ends so many times as far apart as nearly all others are: another collective."""

HELD_NS = 10_000
"""A wait up to here binds nobody: calls that start together take a little longer or shorter."""

_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is known of each line, arrays of length n; see `GroupMatch` for the meanings."""

    kind: I8
    step: I64
    agrees: Bool
    overlap: I8
    confidence: I8
    first_start_ns: I64  # earliest start of the members, on the middle clock of the group


def judge(members: Sequence[Member], line: Line, *, stated: bool, several: bool = False) -> Verdict:
    """Test each line for agreement and overlap.

    ``stated``: the group's ranks are known. ``several``: they may be more than one communicator,
    which no line is believed of unless a wait binds them together.
    """
    kind = _first_known(members, line.positions, "kind")
    agrees, sized = _agreement(members, line.positions, kind)
    agrees |= line.summed
    usable = agrees & row_all(line.positions >= 0)
    tested = _tested(members, line, kind, usable)
    overlap, stray, offsets = tested.overlap, tested.stray, tested.offsets
    certain, sound = usable & sized, agrees & (overlap == 1)
    sound &= ~_unproven(line.level, usable, offsets)
    confidence = _confidence(line.level, kind, overlap >= 0, certain, sound, stated=stated)
    confidence[~usable] = LOW
    confidence[(line.level == ORDER) & fully_dependent(kind) & (stray | (overlap == 0))] = LOW
    if not stated:
        for one in distinct_values(kind):
            if _gappy(line.positions[kind == one]):
                confidence[kind == one] = LOW
    if several and not tested.bound():
        confidence[:] = LOW
    return Verdict(
        kind=kind.astype(np.int8),
        step=_first_known(members, line.positions, "step"),
        agrees=agrees,
        overlap=overlap,
        confidence=confidence,
        first_start_ns=_first_start(members, line.positions, offsets),
    )


def _gappy(positions: I64) -> bool:
    """Whether many calls that are not at an end of what was recorded are missing on some ranks.

    Where no file names a group, the calls of several communicators are then lined up as one.
    """
    complete = np.flatnonzero(row_all(positions >= 0))
    if not len(complete):
        return True
    span = int(complete[-1] - complete[0]) + 1
    return len(complete) < WHOLE * span


def _first_known(members: Sequence[Member], positions: I64, name: str) -> I64:
    """The first member's value that is not -1."""
    result = np.full(len(positions), MISSING, np.int64)
    for index, member in enumerate(members):
        value = pick(member.column(name), positions[:, index])
        result = np.where(result < 0, value, result)
        if (result >= 0).all():
            break
    return result


def _agreement(members: Sequence[Member], positions: I64, kind: I64) -> tuple[Bool, Bool]:
    """Whether type, dtype and shared sizes are one where stated, and whether a size is stated."""
    agrees = np.ones(len(positions), np.bool_)
    sized = ~(EQUAL_INPUTS[kind] | EQUAL_OUTPUTS[kind])
    everywhere = np.ones(len(kind), np.bool_)
    for name, applies in (
        ("kind", everywhere),
        ("dtype", everywhere),
        ("in_elems", EQUAL_INPUTS[kind]),
        ("out_elems", EQUAL_OUTPUTS[kind]),
    ):
        low, high = _extremes(members, positions, name)
        agrees &= ~applies | (high < 0) | (low == high)
        if name.endswith("_elems"):
            sized |= applies & (high >= 0)
    return agrees, sized


def _extremes(members: Sequence[Member], positions: I64, name: str) -> tuple[I64, I64]:
    """Least and greatest value over the members that state one; the greatest is -1 if none."""
    low = np.full(len(positions), _NEVER, np.int64)
    high = np.full(len(positions), MISSING, np.int64)
    for index, member in enumerate(members):
        value = pick(member.column(name), positions[:, index])
        np.minimum(low, np.where(value < 0, _NEVER, value), out=low)
        np.maximum(high, value, out=high)
    return low, high


@dataclass(frozen=True, slots=True)
class _Tested:
    """The overlap test of n lines, which of them end too far apart, and the clocks.

    ``offsets`` are the differences of the members' clocks in the middle of all lines. Of the k
    lines of which all members wait for each other, ``dur_ns`` is int64 [k, m], ``spread_ns`` how
    far apart they end, and ``usual_ns`` what few exceed.
    """

    overlap: I8
    stray: Bool
    offsets: I64
    dur_ns: I64
    spread_ns: I64
    usual_ns: float

    def bound(self) -> bool:
        """Whether all members once waited for one of them alone.

        Communicators that end together have each a last member of their own, who come together.
        """
        if not len(self.dur_ns):
            return False
        shortest = np.partition(self.dur_ns, 1, axis=1)
        apart = np.maximum(self.spread_ns, self.usual_ns)
        alone = shortest[:, 1] - shortest[:, 0] > np.maximum(HELD_NS, STRAY * apart)
        return bool(alone.any())


def _tested(members: Sequence[Member], line: Line, kind: I64, usable: Bool) -> _Tested:
    positions = line.positions
    complete = row_all(positions >= 0)
    first, last = positions[complete], line.last[complete]
    start = np.stack([m.start_ns[first[:, i]] for i, m in enumerate(members)]).T
    end = np.stack([m.end_ns[last[:, i]] for i, m in enumerate(members)]).T
    witness = usable[complete]
    dependent = witness & fully_dependent(kind[complete])
    told = np.flatnonzero(dependent if dependent.any() else witness)
    some = evenly(told)
    offsets = member_offsets(end[some])
    apart = offsets + drifts(end[some], end[:, 0])
    result = np.full(len(positions), -1, np.int8)
    on_one_clock = end - apart
    result[complete] = ends_after_all_started(start - apart, on_one_clock)
    spread = row_max(on_one_clock) - row_min(on_one_clock)
    usual = nearest_rank(spread[some], 0.95) if len(some) else 0.0
    stray = np.zeros(len(positions), np.bool_)
    stray[complete] = spread > max(ONE_CLOCK_NS, STRAY * usual)
    waiting = np.flatnonzero(dependent | (witness & exchange(kind[complete])))
    return _Tested(result, stray, offsets, (end - start)[waiting], spread[waiting], usual)


def _unproven(level: I8, usable: Bool, offsets: I64) -> Bool:
    """Lines by order alone that are too few to test the clock differences they gave rise to."""
    few = int(usable.sum()) < FEWEST_TO_TEST_A_CLOCK
    return np.asarray((level == ORDER) & (few and bool(offsets.any())))


def _confidence(
    level: I8, kind: I64, complete: Bool, certain: Bool, sound: Bool, *, stated: bool
) -> I8:
    """A key is believed; order only where enough of what it pairs agrees and overlaps."""
    confidence = np.where(certain, HIGH, MEDIUM).astype(np.int8)
    tested = complete & (level >= STEP)
    dependent = fully_dependent(kind)
    for one in distinct_values(kind[tested]):
        of_kind = tested & (kind == one)
        one_sided = not (dependent[of_kind] | exchange(kind[of_kind])).any()
        witness = tested & dependent if one_sided and (tested & dependent).any() else of_kind
        confidence[of_kind] = MEDIUM if sound[witness].mean() >= ENOUGH else LOW
        if stated:
            confidence[of_kind & (level == STEP) & ~dependent] = MEDIUM
    return confidence


def _first_start(members: Sequence[Member], positions: I64, offsets: I64) -> I64:
    earliest = np.full(len(positions), _NEVER, np.int64)
    for index, member in enumerate(members):
        place = positions[:, index]
        start = pick(member.start_ns, place) - offsets[index]
        np.minimum(earliest, np.where(place < 0, _NEVER, start), out=earliest)
    return earliest
