"""Replay every step of a job alone, with any durations, from the operations of its lines.

A line waits for the end of a call, a collective for its last member, a call for the one that it is
queued behind. The order of all operations does not change with durations: it is found once, for all
steps in which the same lines do the same, and a replay with other durations is one pass along it.

Compiled code replays several durations in one pass. For it the events are numbered so that what
they read lies next to each other: calls that end together share a slot, and slots are numbered as
the schedule first uses them. Without it `replay_lines` gives the same, to the bit, one replay at a
time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.compiled import available
from ccltui.metrics.arrays.reductions import stable_order, unique_inverse
from ccltui.metrics.findings.replay.lines.call_table import Along, CallTable, Segments, Whole
from ccltui.metrics.findings.replay.lines.line_operations import Operations
from ccltui.metrics.findings.replay.lines.shared_positions import MARK, POST, WAIT
from ccltui.parsers.array_types import F64, I8, I32, I64, Bool

PUT_OFF, BEGIN, END = 3, 4, 5
"""Events beside them: a post delayed until the end of another call, the start of such a call, and
the end of a collective on all its members."""


MAX_ROUNDS: Final = 20
"""So often collectives that cannot be are taken apart."""
MAX_SEARCHED: Final = 2_000_000
"""Operations of a job in which that is tried: the search takes microseconds for each."""


_Numbers: TypeAlias = I32 | I64


class DeadlockError(ValueError):
    """Exception raised when the ranks wait for each other, so that the matches are wrong."""


class Program(Struct, frozen=True):
    """What the lines of a job do, those of line i from ``first[i]`` on, and the calls of all.

    By operation: ``kind`` is WAIT, POST or MARK, ``which`` its call, of a mark any number. By call:
    ``behind`` is the call that it is queued behind, ``instance`` its collective or transfer, -1 for
    none. By instance: ``size``. The members of instance i are
    ``member[first_member[i]:first_member[i + 1]]``; all of them wait for the last.
    """

    first: I32
    kind: I8
    which: I32
    behind: I32
    instance: I32
    size: I32
    first_member: I32
    member: I32

    @classmethod
    def of(
        cls,
        lines: tuple[_Numbers, I8, _Numbers],
        behind: _Numbers,
        instance: _Numbers,
        instances: int,
    ) -> Program:
        """Create a program from the first, kind and call of operations, and from calls."""
        linked = np.flatnonzero(instance >= 0)
        of_linked = instance.take(linked)
        size = np.bincount(of_linked, minlength=instances).astype(np.int32)
        return cls(
            lines[0].astype(np.int32),
            lines[1],
            lines[2].astype(np.int32, copy=False),
            behind.astype(np.int32),
            instance.astype(np.int32),
            size,
            np.append(0, np.cumsum(size)).astype(np.int32),
            linked.take(stable_order(of_linked)).astype(np.int32),
        )


class Schedule(Struct, frozen=True):
    """The events of a replay in order; arrays of one length.

    ``kind`` is WAIT, POST, MARK, PUT_OFF, BEGIN or END. ``operation`` is the place of the event
    among the operations of all lines, -1 for BEGIN and END, which are on no line. ``which`` is the
    call or, for END, the instance.
    """

    program: Program
    kind: I8
    line: I32
    operation: I32
    which: I32


Order = tuple[I8, I32, I32, I32]
"""Kind, line, operation and which of a `Schedule`."""


def ordered(program: Program, *, is_searched: bool = True) -> Schedule:
    """Return an order in which the operations of a program can be executed.

    Collectives in which lines would wait for each other have members that do not belong together:
    their calls become calls of none, where such collectives are searched for.

    Raises:
        DeadlockError: The lines wait for each other nevertheless.
    """
    for _ in range(MAX_ROUNDS):
        found = _compiled(program) if available() else _OrderSearch(program).found()
        if found is not None:
            return Schedule(program, *found)
        if not is_searched:
            break
        program = _without_circles(program)
    raise DeadlockError("the ranks wait for each other")


def _without_circles(program: Program) -> Program:
    """The program without the collectives that lines wait for for ever."""
    search = _OrderSearch(program)
    search.found()
    waiting = np.array([*search.lines_waiting, *search.calls_waiting], np.int64)
    stuck = program.instance[waiting]
    instance = np.where(np.isin(program.instance, stuck[stuck >= 0]), -1, program.instance)
    lines = program.first, program.kind, program.which
    return Program.of(lines, program.behind, instance, len(program.size))


def _compiled(program: Program) -> Order | None:
    """Return the result of `_OrderSearch`, from compiled code."""
    from ccltui.metrics.arrays import _passes  # noqa: PLC0415

    found: Order | None = _passes.Order(
        program.kind,
        program.which,
        program.behind,
        program.first,
        program.instance,
        program.size,
        program.first_member,
        program.member,
    ).found()
    return found


class _OrderSearch:
    """Search of the order: each line runs until it waits for a call that has not ended."""

    def __init__(self, program: Program) -> None:
        self.first = program.first.tolist()
        self.ops = list(zip(program.kind.tolist(), program.which.tolist(), strict=True))
        self.behind = program.behind.tolist()
        self.at = self.first[:-1]
        self.ended = [False] * len(program.instance)
        self.left = program.size.tolist()
        self.instance = program.instance.tolist()
        self.first_member = program.first_member.tolist()
        self.member = program.member.tolist()
        self.lines_waiting: dict[int, list[int]] = {}
        self.calls_waiting: dict[int, list[int]] = {}
        self.emitted: list[tuple[int, int, int, int]] = []

    def found(self) -> Order | None:
        """Return the order; None where lines wait for each other."""
        runnable = list(range(len(self.at)))
        while runnable:
            runnable += self._advance(runnable.pop())
        if any(at < end for at, end in zip(self.at, self.first[1:], strict=True)):
            return None
        kind, line, operation, which = np.array(self.emitted, np.int32).reshape(-1, 4).T.copy()
        return kind.astype(np.int8), line, operation, which

    def _advance(self, line: int) -> list[int]:
        """Run a line until it waits, and return the lines that can continue because of it."""
        ops, emit = self.ops, self.emitted.append
        freed: list[int] = []
        for at in range(self.at[line], self.first[line + 1]):
            kind, which = ops[at]
            if kind == WAIT and not self.ended[which]:
                self.lines_waiting.setdefault(which, []).append(line)
                self.at[line] = at
                return freed
            if kind == POST and self.behind[which] >= 0 and not self.ended[self.behind[which]]:
                emit((PUT_OFF, line, at, which))
                self.calls_waiting.setdefault(self.behind[which], []).append(which)
                continue
            emit((kind, line, at, which))
            if kind == POST:
                freed += self._begun(which)
        self.at[line] = self.first[line + 1]
        return freed

    def _begun(self, call: int) -> list[int]:
        """Start a call and emit the ends that follow; return the lines that waited for them."""
        freed: list[int] = []
        begun = [call]
        while begun:
            for ended in self._ends_with(begun.pop()):
                self.ended[ended] = True
                freed += self.lines_waiting.pop(ended, ())
                for other in self.calls_waiting.pop(ended, ()):
                    self.emitted.append((BEGIN, -1, -1, other))
                    begun.append(other)
        return freed

    def _ends_with(self, call: int) -> list[int]:
        """Return the calls whose end follows from the start of this one."""
        number = self.instance[call]
        if number < 0:
            return [call]
        self.left[number] -= 1
        if self.left[number]:
            return []
        self.emitted.append((END, -1, -1, number))
        members: list[int] = self.member[self.first_member[number] : self.first_member[number + 1]]
        return members


def replay_lines(
    schedule: Schedule, begin_ns: F64, advance_ns: F64, after_ns: F64, calls: tuple[F64, F64]
) -> F64:
    """Return the end of each line, float64 ns.

    Compiled code for several replays at once is in `StepReplay`.

    Args:
        schedule: the events in order.
        begin_ns: begin of each line.
        advance_ns: progress of the line before each event.
        after_ns: how long each call takes, of members of an instance from the last begin on.
        calls: delay of each call from its post, and gap behind the call before it.
    """
    program, now = schedule.program, begin_ns.tolist()
    behind, (delay, gap) = program.behind.tolist(), (one.tolist() for one in calls)
    after, instance = after_ns.tolist(), program.instance.tolist()
    first_member, members = program.first_member.tolist(), program.member.tolist()
    end, ready = [0.0] * len(after), [0.0] * len(after)
    latest = [float("-inf")] * len(program.size)
    for kind, line, which, passed in zip(
        schedule.kind.tolist(),
        schedule.line.tolist(),
        schedule.which.tolist(),
        advance_ns.tolist(),
        strict=True,
    ):
        if kind == END:
            last = latest[which]
            for member in members[first_member[which] : first_member[which + 1]]:
                end[member] = last + after[member]
            continue
        if kind == BEGIN:
            time = max(ready[which], end[behind[which]] + gap[which])
        else:
            now[line] += passed
            if kind == WAIT:
                now[line] = max(now[line], end[which])
                continue
            if kind == MARK:
                continue
            time = now[line] + delay[which]
            if kind != POST:
                ready[which] = time
                continue
            if behind[which] >= 0:
                time = max(time, end[behind[which]] + gap[which])
        number = instance[which]
        if number < 0:
            end[which] = time + after[which]
        else:
            latest[number] = max(latest[number], time)
    return np.array(now, np.float64)


LANES: Final = 4
"""Replays in one pass along the schedule: more of them exceed the caches."""


def _lanes_of(runs: int) -> int:
    """Number of lanes for so many replays: compiled code has 1, 2 and `LANES`."""
    return runs if runs < 3 else LANES


class _Events(Struct, frozen=True):
    """The schedule as compiled code reads it: arrays by event, and by slot.

    ``segment`` is the one that ends with the event, -1 for none; of BEGIN it is the place where the
    time of its PUT_OFF is kept, and ``line`` the line of that. ``slot`` is that of the call, of
    PUT_OFF this place. ``behind`` is the slot of the call before it, -1 for none. ``of_slot`` is a
    call of each slot, ``slot_line`` its line, and ``is_alone`` tells calls that are in no instance.
    """

    kind: I8
    line: I32
    segment: I32
    slot: I32
    behind: I32
    call: I32
    of_slot: I32
    slot_line: I32
    is_alone: Bool
    num_put_off: int


def _numbered(schedule: Schedule, segment: I32, first_call: I64) -> _Events:
    """Return the events of a schedule, whose columns become theirs."""
    from ccltui.metrics.arrays import _passes  # noqa: PLC0415

    kind, line, which, program = schedule.kind, schedule.line, schedule.which, schedule.program
    place = np.append(segment, np.int32(-1))[schedule.operation]
    instances = len(program.size)
    slot, behind, order, put_off = _passes.numbered(
        kind, line, place, which, program.behind, program.instance, instances
    )
    is_alone = order >= instances
    of_slot = np.where(is_alone, order - instances, 0).astype(np.int32)
    members = program.first_member[order[~is_alone]]
    of_slot[~is_alone] = program.member[members]
    slot_line = np.searchsorted(first_call, of_slot, side="right").astype(np.int32) - np.int32(1)
    return _Events(kind, line, place, slot, behind, which, of_slot, slot_line, is_alone, put_off)


class _Alike(NamedTuple):
    """Steps in which the same lines do the same.

    Attributes:
        schedule: the order of the operations of one of them.
        events: the same as compiled code reads it, None without compiled code.
        segment: segment that ends with each operation, -1 for none.
        first_segment: first segment of each line of a step, and the number of all.
        first_call: likewise of its calls.
        lines: the lines of each step, [steps, lines].
    """

    schedule: Schedule
    events: _Events | None
    segment: I32
    first_segment: I64
    first_call: I64
    lines: I64


class Times(NamedTuple):
    """What lines take with the idle time for hosts.

    Attributes:
        compute_ns: compute time of each segment.
        host_ns: idle time in each segment.
        wait_ns: delay of each call from its post, and its gap behind the one before it.
    """

    compute_ns: Along
    host_ns: Along
    wait_ns: Along


class Runs(NamedTuple):
    """What replays with the idle time for hosts take.

    Attributes:
        own: times of most lines.
        other: times of the lines in the mask; those of other lines are never read.
        is_other: that mask, [runs, lines].
        transfer_ns: transfer time of each instance.
        begin_ns: begin of each line, [runs, lines].
    """

    own: Times
    other: Times
    is_other: Bool
    transfer_ns: I64 | F64
    begin_ns: F64

    def some(self, runs: slice | Bool) -> Runs:
        """Return some of the runs."""
        return self._replace(is_other=self.is_other[runs], begin_ns=self.begin_ns[runs])


class _Work(NamedTuple):
    """Replays in one pass.

    Attributes:
        runs: what lines take with idle times; None: without.
        segments: of each lane the times of segments without idle times.
        transfers: of each lane those of instances, whole numbers.
        begin_ns: begin of each line, [lanes, lines].
    """

    runs: Runs | None
    segments: Sequence[Along]
    transfers: Sequence[F64]
    begin_ns: F64

    def of(self, lane: int, line: int) -> Times | None:
        """Return what a line takes in a lane, None without idle times."""
        runs = self.runs
        if runs is None:
            return None
        return runs.other if runs.is_other[lane, line] else runs.own


class StepReplay:
    """Replays of all steps: the lines of a step wait for each other, steps do not.

    A collective ends on every member its transfer time after the last one has begun. ``unlinked``
    is the share of the time in calls that are matched to none, or in one that cannot be.

    Raises:
        DeadlockError: The lines wait for each other.
    """

    def __init__(self, table: CallTable, operations: Operations) -> None:
        self._table, self._operations = table, operations
        self._num_steps = len(table.step_ids)
        self._alike = _steps_alike(table, operations)
        alone = sum(self._time_alone(one) for one in self._alike)
        self.unlinked = float(alone / max(int(table.dur_ns.sum()), 1))

    def _time_alone(self, one: _Alike) -> int:
        """Time in calls that are in no instance."""
        alone = np.flatnonzero(one.schedule.program.instance < 0)
        if not len(alone):
            return 0
        line = np.searchsorted(one.first_call, alone, side="right") - 1
        first = self._table.first_call[one.lines[:, line]]
        return int(self._table.dur_ns[first + (alone - one.first_call[line])].sum())

    def many(self, runs: Iterable[tuple[Segments, I64 | F64]]) -> F64:
        """Return the ends of the steps of several replays, float64 ns from 0, [runs, steps].

        No line idles for its host.

        Args:
            runs: time of each segment, and transfer time of each instance; few are held at a
                time.
        """
        found = [np.empty((0, self._num_steps))]
        left = iter(runs)
        while chunk := list(islice(left, LANES)):
            ends = np.zeros((len(chunk), self._num_steps))
            segments = [self._along(one) for one, _ in chunk]
            transfers = [np.rint(one, dtype=np.float64) for _, one in chunk]
            begin = np.zeros((len(chunk), self._table.num_lines))
            lines = self._replayed(_Work(None, segments, transfers, begin))
            for row, one in zip(ends, lines, strict=True):
                np.maximum.at(row, self._table.step, one)
            found.append(ends)
        return np.concatenate(found)

    def _along(self, segments: Segments) -> Along:
        """Times of segments by line."""
        if isinstance(segments, Along):
            return segments
        return Along(segments, self._operations.first)

    def ends(self, segment_ns: Segments, transfer_ns: I64 | F64) -> F64:
        """Return the end of each step on its last line, float64 ns from 0; see `many`."""
        found: F64 = self.many([(segment_ns, transfer_ns)])[0]
        return found

    def line_ends(self, runs: Runs) -> F64:
        """Return the ends of the lines, float64 ns from 0 [runs, lines], with idle times."""
        edges = range(0, len(runs.is_other), LANES)
        parts = (runs.some(slice(begin, begin + LANES)) for begin in edges)
        transfer = np.rint(runs.transfer_ns, dtype=np.float64)
        works = (_Work(one, [], [transfer] * len(one.is_other), one.begin_ns) for one in parts)
        return np.concatenate([self._replayed(one) for one in works])

    def _replayed(self, work: _Work) -> F64:
        """Return the ends of the lines in each lane, [lanes, lines]."""
        found = np.empty(work.begin_ns.shape)
        for alike in self._alike:
            if alike.events is not None:
                self._in_lanes(alike, alike.events, work, found)
                continue
            for lane in range(len(found)):
                for lines in alike.lines:
                    found[lane, lines] = self._alone(alike, work, lane, lines)
        return found

    def _in_lanes(self, alike: _Alike, events: _Events, work: _Work, found: F64) -> None:
        """Fill in the ends of the lines of some steps in each lane, from one pass a step."""
        from ccltui.metrics.arrays import _passes  # noqa: PLC0415

        table, operations, runs = self._table, self._operations, work.runs
        count = len(work.transfers)
        filled = np.minimum(np.arange(_lanes_of(count)), count - 1)
        ends = np.ascontiguousarray(work.begin_ns[filled].T, np.float64)
        sides: list[tuple[Along | None, ...]]
        if runs is None:
            others, sides = None, [(work.segments[lane], None, None) for lane in filled]
        else:
            others = np.ascontiguousarray(runs.is_other[filled].T).view(np.uint8)
            sides = [runs.own, runs.other]
        _passes.replay(
            (events.kind, events.line, events.segment, events.slot, events.behind, events.call),
            (events.of_slot, events.slot_line, events.is_alone.view(np.uint8)),
            (alike.first_segment, alike.first_call),
            alike.lines,
            (operations.first, operations.unit, table.first_call, table.instance, table.dur_ns),
            [[_columns(one) for one in side] for side in sides],
            others,
            [work.transfers[lane] for lane in filled],
            ends,
            events.num_put_off,
        )
        lines = alike.lines.ravel()
        found[:, lines] = ends[lines, :count].T

    def _alone(self, alike: _Alike, work: _Work, lane: int, lines: I64) -> F64:
        """Return the end of each line of one step in one replay without compiled code."""
        table, schedule = self._table, alike.schedule
        calls = np.concatenate([np.arange(*edge) for edge in _edges(table, lines)])
        after = table.dur_ns[calls].astype(np.float64)
        linked = np.flatnonzero(schedule.program.instance >= 0)
        after[linked] = work.transfers[lane][table.instance[calls[linked]]]
        taken = [self._of_line(work, lane, line) for line in lines.tolist()]
        segments = np.concatenate([one for one, _ in taken])
        waits = np.concatenate([one for _, one in taken])
        # Events at which no segment ends are those of the last place, 0.
        place = np.append(alike.segment, np.int32(-1))[schedule.operation]
        advance = np.append(segments, 0.0)[place]
        begin = work.begin_ns[lane, lines]
        return replay_lines(schedule, begin, advance, after, (waits[:, 0], waits[:, 1]))

    def _of_line(self, work: _Work, lane: int, line: int) -> tuple[F64, F64]:
        """Time before each segment of a line, and delay and gap of each of its calls."""
        operations, table = self._operations, self._table
        unit = operations.unit[operations.first[line] : operations.first[line + 1]]
        calls = int(table.first_call[line + 1] - table.first_call[line])
        times = work.of(lane, line)
        if times is None:
            return _numbers(work.segments[lane], line, len(unit), unit), np.zeros((calls, 2))
        advance = _numbers(times.compute_ns, line, len(unit), unit)
        advance = advance + _numbers(times.host_ns, line, len(unit), unit)
        return advance, _numbers(times.wait_ns, line, calls, unit)


def _columns(along: Along | None) -> tuple[Whole | F64, I64, F64 | None] | None:
    """Numbers along lines as compiled code reads them."""
    return None if along is None else (along.values.reshape(-1), along.first, along.scale)


def _numbers(along: Along, line: int, size: int, unit: I32) -> F64:
    """Numbers of one line, float64."""
    first = int(along.first[line])
    found = along.values[first : first + size].astype(np.float64)
    return found if along.scale is None else along.scale[unit] * found


def _steps_alike(table: CallTable, operations: Operations) -> list[_Alike]:
    """Return the steps, with an order of their operations, those together that have the same.

    Raises:
        DeadlockError: The lines wait for each other.
    """
    members: dict[tuple[bytes, ...], list[I64]] = {}
    for step in range(len(table.step_ids)):
        lines = np.flatnonzero(table.step == step)
        behind, instance = _shape(table, lines)
        key = operations.layout[lines].tobytes(), behind.tobytes(), instance.tobytes()
        members.setdefault(key, []).append(lines)
    is_searched = operations.count <= MAX_SEARCHED
    return [
        _alike(table, operations, np.stack(lines), is_searched=is_searched)
        for lines in members.values()
        if len(lines[0])
    ]


def _shape(table: CallTable, lines: I64) -> tuple[I32, I32]:
    """Return of the calls of a step the one before each, and the first of its instance.

    Both are places among the calls of the step, -1 for none.
    """
    sizes = table.first_call[lines + 1] - table.first_call[lines]
    first = np.cumsum(sizes) - sizes
    moved = np.repeat((first - table.first_call[lines]).astype(np.int32), sizes)
    behind, instance = (
        np.concatenate([column[:0], *(column[slice(*edge)] for edge in _edges(table, lines))])
        for column in (table.behind, table.instance)
    )
    behind = np.where(behind >= 0, behind + moved, np.int32(-1))
    linked = np.flatnonzero(instance >= 0).astype(np.int32)
    of_linked = instance[linked]
    low = int(of_linked.min(initial=0))
    example = np.full(int(of_linked.max(initial=0)) - low + 1, -1, np.int32)
    example[of_linked[::-1] - low] = linked[::-1]  # of several the first is kept
    instance[linked] = example[of_linked - low]
    return behind, instance


def _edges(table: CallTable, lines: I64) -> list[tuple[int, int]]:
    """Edges of the calls of each line."""
    begin, stop = table.first_call[lines].tolist(), table.first_call[lines + 1].tolist()
    return list(zip(begin, stop, strict=True))


def _alike(table: CallTable, operations: Operations, lines: I64, *, is_searched: bool) -> _Alike:
    """Return steps, [steps, lines], with the order of the operations of the first."""
    behind, instance = _shape(table, lines[0])
    layouts = [operations.layouts[one] for one in operations.layout[lines[0]].tolist()]
    edges = _edges(table, lines[0])
    first_call = np.cumsum([0, *(stop - begin for begin, stop in edges)])
    first = np.cumsum([0, *(len(one.kind) for one in layouts)])
    sizes = operations.first[lines[0] + 1] - operations.first[lines[0]]
    first_segment = np.append(0, np.cumsum(sizes))
    call, segment = np.empty((2, int(first[-1])), np.int32)
    for begin, calls, segments, one in zip(
        first.tolist(), first_call.tolist(), first_segment.tolist(), layouts, strict=False
    ):
        here = slice(begin, begin + len(one.kind))
        call[here] = np.where(one.call >= 0, one.call + calls, 0)
        segment[here] = np.where(one.segment >= 0, one.segment + segments, -1)
    linked = np.flatnonzero(instance >= 0)
    named, number = unique_inverse(instance[linked])
    instance[linked] = number
    kind = np.concatenate([one.kind for one in layouts])
    program = Program.of((first, kind, call), behind, instance, len(named))
    schedule = ordered(program, is_searched=is_searched)
    events = None
    if available():
        events = _numbered(schedule, segment, first_call)
    return _Alike(schedule, events, segment, first_segment, first_call, lines)
