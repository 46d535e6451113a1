"""Replay every step of a job alone, with any durations, from the operations of its lines.

A line waits for the end of a call, a collective for its last member, a call for the one that it
is queued behind. These dependencies do not change with durations, so the order of all operations is
found once, and a replay with other durations is one pass along it.

Compiled code replays several durations in one pass. For it the events are numbered so that what
they read lies next to each other: calls that end together share a slot, and slots are numbered as
the schedule first uses them. Without it `replay_marks` gives the same, to the bit, one replay at a
time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ccltui.metrics.arrays.compiled import available
from ccltui.metrics.arrays.reductions import stable_order
from ccltui.metrics.findings.replay.lines.line_operations import MARK, POST, WAIT, Operations
from ccltui.parsers.array_types import F64, I8, I32, I64, Bool

if TYPE_CHECKING:
    from ccltui.metrics.findings.replay.lines.call_table import CallTable

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


def ordered(program: Program) -> Schedule:
    """Return an order in which the operations of a program can be executed.

    Collectives in which lines would wait for each other have members that do not belong together:
    their calls become calls of none.

    Raises:
        DeadlockError: The lines wait for each other nevertheless.
    """
    for _ in range(MAX_ROUNDS):
        found = _compiled(program) if available() else _OrderSearch(program).found()
        if found is not None:
            return Schedule(program, *found)
        if len(program.kind) > MAX_SEARCHED:
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
        (program.instance >= 0).view(np.uint8),
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


def replay_marks(
    schedule: Schedule, begin_ns: F64, advance_ns: F64, after_ns: I64, calls: tuple[I64, I64]
) -> F64:
    """Return the time of each mark in the order of the schedule, float64 ns.

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
    ended: list[float] = []
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
                ended.append(now[line])
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
    return np.array(ended, np.float64)


LANES: Final = 4
"""Replays in one pass along the schedule: more of them exceed the caches."""


def _lanes_of(runs: int) -> int:
    """Number of lanes for so many replays: compiled code has 1, 2 and `LANES`."""
    return runs if runs < 3 else LANES


class _Events(Struct, frozen=True):
    """The schedule as compiled code reads it: arrays by event, and ``order`` by slot.

    ``slot`` is that of the call, of PUT_OFF the place where its time is kept until BEGIN, which has
    this place as its ``operation``, and its line as ``line``. ``behind`` is the slot of the call
    before it, -1 for none. ``order`` has the instance of each slot, of a call in none the number of
    instances + its own.
    """

    kind: I8
    line: I32
    operation: I32
    slot: I32
    behind: I32
    call: I32
    order: I32
    num_put_off: int


def _numbered(schedule: Schedule) -> _Events:
    """Return the events of a schedule, whose columns become theirs."""
    from ccltui.metrics.arrays import _passes  # noqa: PLC0415

    kind, line, operation, which = schedule.kind, schedule.line, schedule.operation, schedule.which
    slot, behind, order, put_off = _passes.numbered(
        kind,
        line,
        operation,
        which,
        schedule.program.behind,
        schedule.program.instance,
        len(schedule.program.size),
    )
    return _Events(kind, line, operation, slot, behind, which, order, put_off)


class Times(NamedTuple):
    """What lines take, with the idle time for hosts.

    Attributes:
        advance_ns: time before each operation.
        wait_ns: delay of each call from its post, and its gap behind the one before it, int64
            [calls, 2].
    """

    advance_ns: F64
    wait_ns: I64


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


def stretches(lines: Bool, first: I64) -> list[slice]:
    """Return the places of the lines in a mask, runs of such lines as one slice.

    Whole slices are copied many times faster than a mask is looked up.

    Args:
        lines: mask of the lines.
        first: place of the first of each line, and the number of all.
    """
    edges = np.flatnonzero(np.diff(lines, prepend=False, append=False))
    return [slice(begin, stop) for begin, stop in first[edges].reshape(-1, 2).tolist()]


_Kind = TypeVar("_Kind", bound=np.generic)


def exchanged(
    own: npt.NDArray[_Kind], other: npt.NDArray[_Kind], lines: Bool, first: I64
) -> npt.NDArray[_Kind]:
    """Return the values of lines in a mask from ``other``, and those of all others from ``own``.

    Args:
        own: values of operations or calls, those of a line one after another.
        other: likewise.
        lines: mask of the lines.
        first: place of the first of each line, and the number of all.
    """
    found = own.copy()
    for here in stretches(lines, first):
        found[here] = other[here]
    return found


class StepReplay:
    """Replays of all steps at once: the lines of a step wait for each other, steps do not.

    A collective ends on every member its transfer time after the last one has begun. ``unlinked``
    is the share of the time in calls that are matched to none, or in one that cannot be.

    Raises:
        DeadlockError: The lines wait for each other.
    """

    def __init__(self, table: CallTable, operations: Operations) -> None:
        self._step, self._first_call = table.step, table.first_call
        self._first = operations.first
        self._num_steps = len(table.step_ids)
        self._own = table.dur_ns
        self._num_instances = len(table.transfer_ns)
        marks = np.flatnonzero(operations.kind == MARK)
        lines = operations.first, operations.kind, operations.call
        schedule = ordered(Program.of(lines, table.behind, table.instance, self._num_instances))
        instance = schedule.program.instance
        self.unlinked = float(self._own[instance < 0].sum() / max(int(self._own.sum()), 1))
        in_order = np.searchsorted(marks, schedule.operation[schedule.kind == MARK])
        turn = np.empty(len(marks), np.int64)
        turn[in_order] = np.arange(len(marks))
        # The last mark of each line, in the order of the schedule.
        self._last_mark = turn[np.searchsorted(marks, operations.first[1:] - 1)]
        self._events = _numbered(schedule) if available() else schedule

    def many(self, runs: Iterable[tuple[F64, I64 | F64]]) -> F64:
        """Return the ends of the steps of several replays, float64 ns from 0, [runs, steps].

        No line idles for its host.

        Args:
            runs: time of each operation, and transfer time of each instance; few are held at a
                time.
        """
        found = [np.empty((0, self._num_steps))]
        left = iter(runs)
        while chunk := list(islice(left, LANES)):
            ends = np.zeros((len(chunk), self._num_steps))
            events = self._events
            if isinstance(events, Schedule):
                lines = np.stack([self._alone(events, *one) for one in chunk])
            else:
                lines = self._in_lanes(events, chunk)
            for row, one in zip(ends, lines, strict=False):
                np.maximum.at(row, self._step, one)
            found.append(ends)
        return np.concatenate(found)

    def ends(self, segment_ns: F64, transfer_ns: I64 | F64) -> F64:
        """Return the end of each step on its last line, float64 ns from 0; see `many`."""
        found: F64 = self.many([(segment_ns, transfer_ns)])[0]
        return found

    def line_ends(self, runs: Runs) -> F64:
        """Return the ends of the lines, float64 ns from 0 [runs, lines], with idle times."""
        events = self._events
        if isinstance(events, Schedule):
            return self._with_hosts_alone(events, runs)
        after = self._after(events.order, runs.transfer_ns)
        edges = range(0, len(runs.is_other), LANES)
        parts = (runs.some(slice(begin, begin + LANES)) for begin in edges)
        return np.concatenate([self._with_hosts(events, part, after) for part in parts])

    def _after(self, order: I32, transfer_ns: I64 | F64) -> F64:
        """How long the calls of each slot take, float64; ``order`` as in `_Events`."""
        found, linked = np.empty(len(order)), order < self._num_instances
        alone = order[~linked] - self._num_instances
        found[linked], found[~linked] = np.rint(transfer_ns).take(order[linked]), self._own[alone]
        return found

    def _in_lanes(self, events: _Events, runs: Sequence[tuple[F64, I64 | F64]]) -> F64:
        """Return the end of each line in each lane, [lanes, lines], from one pass."""
        from ccltui.metrics.arrays import _passes  # noqa: PLC0415

        lanes = _lanes_of(len(runs))
        filled = [*runs, *[runs[0]] * (lanes - len(runs))]
        marks: F64 = _passes.replay_lanes(
            events.kind,
            events.line,
            events.operation,
            events.slot,
            events.behind,
            events.call,
            [np.ascontiguousarray(one, np.float64) for one, _ in filled],
            np.stack([self._after(events.order, one) for _, one in filled], axis=1),
            np.zeros((len(self._step), lanes)),
            events.num_put_off,
        )
        return np.asarray(marks[self._last_mark].T)

    def _with_hosts(self, events: _Events, runs: Runs, after: F64) -> F64:
        """Return the end of each line in each lane, [lanes, lines], from one pass."""
        from ccltui.metrics.arrays import _passes  # noqa: PLC0415

        count = len(runs.is_other)
        filled = np.minimum(np.arange(_lanes_of(count)), count - 1)
        marks: F64 = _passes.replay_hosts(
            events.kind,
            events.line,
            events.operation,
            events.slot,
            events.behind,
            events.call,
            runs.own,
            runs.other,
            np.ascontiguousarray(runs.is_other[filled].T).view(np.uint8),
            np.repeat(after[:, np.newaxis], len(filled), axis=1),
            np.ascontiguousarray(runs.begin_ns[filled].T, np.float64),
            events.num_put_off,
        )
        return np.asarray(marks[self._last_mark, :count].T)

    def _with_hosts_alone(self, schedule: Schedule, runs: Runs) -> F64:
        """Return the result of `line_ends` without compiled code."""
        own, other, found = runs.own, runs.other, []
        for is_other, begin in zip(runs.is_other, runs.begin_ns, strict=True):
            advance = exchanged(own.advance_ns, other.advance_ns, is_other, self._first)
            calls = exchanged(own.wait_ns, other.wait_ns, is_other, self._first_call)
            delay_gap = calls[:, 0], calls[:, 1]
            found.append(self._alone(schedule, advance, runs.transfer_ns, begin, delay_gap))
        return np.stack(found)

    def _alone(
        self,
        schedule: Schedule,
        segment_ns: F64,
        transfer_ns: I64 | F64,
        begin_ns: F64 | None = None,
        calls: tuple[I64, I64] | None = None,
    ) -> F64:
        """Return the end of each line of one replay without compiled code."""
        after = self._own.copy()
        whole = np.rint(transfer_ns).astype(np.int64)
        linked = np.flatnonzero(schedule.program.instance >= 0)
        after[linked] = whole.take(schedule.program.instance[linked])
        none = np.zeros(len(self._own), np.int64)
        begin = np.zeros(len(self._step)) if begin_ns is None else begin_ns
        advance = np.append(segment_ns, 0.0).take(schedule.operation)
        marks = replay_marks(schedule, begin, advance, after, calls or (none, none))
        return np.asarray(marks[self._last_mark])
