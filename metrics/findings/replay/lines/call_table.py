"""One table of the calls of all lines of a job: what they are, and which are one collective.

A line is one rank in one step. Calls are ordered by line, then by what they are (operation, kind of
group, direction), then by start, so that calls of ranks that run one program have the same places
in their lines.

Numbers along lines, of their calls or of what lies between these, take 4 bytes each where all of
them fit. Lines that have the same numbers, as what is typical of a program in a step, share them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from operator import is_
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from ccltui.metrics.arrays.compiled import available
from ccltui.metrics.arrays.reductions import (
    counts_up,
    distinct_values,
    extremes_by,
    stable_order,
    unique_inverse,
)
from ccltui.metrics.collectives.matching.match import LOW, RECV, SEND, Matches, MatchInput, Pairs
from ccltui.metrics.findings.replay.lines.stage_order import Stages
from ccltui.metrics.findings.replay.lines.step_lines import StepCalls, StepLines
from ccltui.metrics.model.classify import TYPES
from ccltui.parsers.array_types import F64, I8, I32, I64, Bool

if TYPE_CHECKING:
    from ccltui.metrics.model.communicator_groups import CommGroup

Whole: TypeAlias = I32 | I64

MOST_IN_FOUR: Final = (1 << 30) - 1
"""Largest number that is kept in 4 bytes: the sum of two fits as well."""


class Whole4:
    """Whole numbers, filled in part by part, in 4 bytes each as long as every one fits."""

    def __init__(self, *shape: int) -> None:
        self.values: Whole = np.empty(shape, np.int32)

    def fill(self, here: slice, found: I64) -> None:
        """Set some numbers; the first that needs 8 bytes gives all of them 8."""
        most = max(int(found.max(initial=0)), -int(found.min(initial=0)))
        if most > MOST_IN_FOUR and self.values.dtype == np.int32:
            self.values = self.values.astype(np.int64)
        self.values[here] = found


class Along(NamedTuple):
    """Numbers along lines.

    Attributes:
        values: those of row i from ``edges[i]`` on, or pairs of them, [n, 2].
        edges: the first number of each row, and the number of all.
        row: row of each line; None: line i has row i.
        scale: factor of each unit that the numbers are multiplied by, the last one of segments that
            are of none; None: of no unit.
    """

    values: Whole | F64
    edges: I64
    row: I64 | None = None
    scale: F64 | None = None

    @property
    def first(self) -> I64:
        """First number of each line."""
        return self.edges[:-1] if self.row is None else self.edges[self.row]

    def sums(self) -> F64:
        """Return the sum of the numbers of each line, of pairs that of the first of each."""
        column = self.values[:, 0] if self.values.ndim == 2 else self.values
        found = sums_by_line(column, self.edges)
        return found if self.row is None else found[self.row]

    def of_all(self) -> Whole | F64:
        """Return the numbers of all lines, those of a line one after another."""
        count = len(self.edges) - 1 if self.row is None else len(self.row)
        return self.of_lines(slice(0, count))

    def of_lines(self, lines: slice) -> Whole | F64:
        """Return the numbers of lines one after another."""
        if self.row is None:
            return self.values[self.edges[lines.start] : self.edges[lines.stop]]
        edges = self.edges.tolist()
        found: npt.NDArray[Any] = np.concatenate(
            [self.values[:0], *(self.values[edges[i] : edges[i + 1]] for i in self.row[lines])]
        )
        return found


Segments: TypeAlias = Along | Whole | F64
"""Times of all segments: numbers along lines, or those of all lines one after another."""


def sums_by_line(values: Whole | F64, first: I64) -> F64:
    """Return the sum of the values of each line, which lie one after another from ``first`` on.

    Compiled code takes a fifth of the time: it makes no line of each value.
    """
    if not available():
        return _sums_in_arrays(values, first)
    from ccltui.metrics.arrays import _passes  # noqa: PLC0415

    found: F64 = _passes.sums_by_line(values, first)
    return found


def _sums_in_arrays(values: Whole | F64, first: I64) -> F64:
    """Return the result of `sums_by_line` without compiled code."""
    line = np.repeat(np.arange(len(first) - 1), np.diff(first))
    return np.bincount(line, values[first[0] : first[-1]], len(first) - 1).astype(np.float64)


_Columns: TypeAlias = tuple[I64, I64, I64, I64, F64]
_DIRECTIONS = 4
_ALL_TO_ALL = TYPES.index("AllToAll")


class CallTable(Struct, frozen=True):
    """Calls of all lines; arrays by line, by call, or by instance.

    By line: ``rank`` (index of the input), ``step`` (index into ``step_ids``), ``first_call``. By
    call: ``line``, ``token`` (what it is), ``kind`` and ``direction``, its positions (see
    `StepCalls`), ``row`` among all calls of its rank, ``start_ns`` from the origin of its line,
    ``dur_ns``, ``behind`` and ``instance``, -1 for none. By instance: ``transfer_ns`` (shortest
    duration of its members: the last one to arrive waits for nobody), ``group`` (index, -1 for a
    transfer), ``pair`` (inputs of a transfer, -1), ``alike``, equal for instances of one operation,
    size and span, ``bytes`` (-1: unknown) and ``uneven``, the largest share of its data on one
    member over the mean share, 1 where that is not known. Exchanges whose sizes differ are alike
    within a factor of about 2. ``doubtful`` is the share of the time in collectives that is matched
    with low confidence.
    """

    step_ids: I64
    rank: I64
    step: I64
    first_call: I64
    line: I32
    token: I32
    kind: I8
    direction: I8
    posted: I32
    resumed: I32
    waited: Bool
    launched: Bool
    row: I32
    start_ns: Whole
    dur_ns: Whole
    behind: I32
    instance: I32
    transfer_ns: I64
    group: I64
    pair: I64
    alike: I64
    bytes: I64
    uneven: F64
    doubtful: float

    @property
    def num_lines(self) -> int:
        """Number of lines."""
        return len(self.rank)

    def without_positions(self) -> CallTable:
        """Return the table without what only positions and operations are found from."""
        none, flags = np.empty(0, np.int32), np.empty(0, np.bool_)
        return replace(self, posted=none, resumed=none, waited=flags, launched=flags, row=none)


class JoinedCalls:
    """The calls of the lines of all ranks, rank after rank.

    Columns of all take as much memory as those of one rank after another, which are freed at once.
    ``first`` is the first call of each rank, and the number of all; lines are numbered over ranks.
    ``alike`` tells of each rank whether its calls are in the same rows and lines as those of the
    rank before. ``behind`` is among the calls of a rank. For the rest see `StepCalls`.
    """

    def __init__(self, most: int) -> None:
        self.row, self.line, self.posted, self.resumed, self.behind = (
            np.empty(most, np.int32) for _ in range(5)
        )
        self.waited, self.launched = np.empty(most, np.bool_), np.empty(most, np.bool_)
        self.start_ns, self.dur_ns = Whole4(most), Whole4(most)
        self.first, self.alike = [0], list[bool]()
        self.num_lines = 0
        self._added: tuple[I64, I64] | None = None

    def add_none(self) -> None:
        """Add no calls of the next rank."""
        self.first.append(self.first[-1])
        self.alike.append(False)
        self._added = None

    def add(self, calls: StepCalls, num_lines: int) -> None:
        """Add the calls of the next rank."""
        here = slice(self.first[-1], self.first[-1] + len(calls.row))
        for name in ("row", "posted", "resumed", "waited", "launched", "behind"):
            getattr(self, name)[here] = getattr(calls, name)
        np.add(calls.line, self.num_lines, out=self.line[here], casting="unsafe")
        self.start_ns.fill(here, calls.start_ns)
        self.dur_ns.fill(here, calls.dur_ns)
        added = calls.row, calls.line
        self.alike.append(self._added is not None and all(map(is_, added, self._added)))
        self._added = added
        self.first.append(here.stop)
        self.num_lines += num_lines

    def sort(self, here: slice, order: I64, *others: npt.NDArray[Any]) -> I32:
        """Put the calls of a rank, and columns beside them, into order; return their new places."""
        place = np.arange(len(order), dtype=np.int32)
        if not counts_up(order):
            place[order] = np.arange(len(order), dtype=np.int32)
            columns = [getattr(self, name) for name in _COLUMNS]
            for column in (*columns, self.start_ns.values, self.dur_ns.values, *others):
                column[here] = column[here].take(order)
        behind = self.behind[here]
        behind[:] = np.where(behind >= 0, place.take(behind, mode="wrap") + here.start, -1)
        place += here.start
        return place


_COLUMNS: Final = ("row", "line", "posted", "resumed", "waited", "launched", "behind")


def call_table(
    recorded: tuple[Sequence[StepLines], JoinedCalls],
    inputs: Sequence[MatchInput],
    linked: tuple[Matches, Pairs],
    stages: Stages,
    groups: Sequence[CommGroup],
) -> CallTable:
    """Number the instances of the calls of all ranks, whose columns become those of the table."""
    (lines, calls), (matches, pairs) = recorded, linked
    every = slice(0, calls.first[-1])
    classes = _group_classes(groups)
    towards, kind = np.empty((2, every.stop), np.int8)
    token = np.empty(every.stop, np.int32)
    found: list[I32] = []
    known: tuple[I8, I32] | None = None
    for rank, item in enumerate(inputs):
        here, columns = slice(calls.first[rank], calls.first[rank + 1]), _columns_of(item)
        rows, line = calls.row[here].copy(), calls.line[here]
        ascends = not _falls(calls.start_ns.values[here], line)
        if known and ascends and calls.alike[rank] and all(map(is_, columns, known)):
            # The same calls in the same order, which is that of the rank before.
            before = slice(calls.first[rank - 1], here.start)
            for column in (towards, kind, token):
                column[here] = column[before]
            sorted_too = list[npt.NDArray[Any]]()
        else:
            towards[here] = _directions(rank, len(item.calls), pairs, stages)[rows]
            kind[here] = item.calls.kind[rows]
            named = classes[item.calls.group[rows]] * 64 + kind[here]
            token[here] = named * _DIRECTIONS + towards[here]
            order = _in_order(calls.start_ns.values[here], token[here], line)
            sorted_too = [towards, kind, token]
        known = columns if ascends and not len(pairs) else None
        places = np.full(len(item.calls), -1, np.int32)
        places[rows] = calls.sort(here, order, *sorted_too)
        found.append(places)
    step_ids = distinct_values(np.concatenate([one.steps for one in lines]))
    step = np.searchsorted(step_ids, np.concatenate([one.steps for one in lines]))
    line, dur = calls.line[every], calls.dur_ns.values[every]
    of_call = step.astype(np.int32).take(line)
    members = _Instances(found, of_call, inputs, lambda: _ordinals(line, token))
    del of_call
    members.add_matches(matches)
    members.add_pairs(pairs, stages)
    del found
    instance = members.instance
    group, pair, alike, size, uneven = members.columns()
    transfer, _ = extremes_by(dur, instance, members.count)
    total = max(int(dur.sum()), 1)
    return CallTable(
        step_ids=step_ids,
        rank=np.repeat(np.arange(len(lines)), [len(one.steps) for one in lines]),
        step=step,
        first_call=np.searchsorted(line, np.arange(len(step) + 1, dtype=np.int32)),
        line=line,
        token=token,
        kind=kind,
        direction=towards,
        posted=calls.posted[every],
        resumed=calls.resumed[every],
        waited=calls.waited[every],
        launched=calls.launched[every],
        row=calls.row[every],
        start_ns=calls.start_ns.values[every],
        dur_ns=dur,
        behind=calls.behind[every],
        instance=instance,
        transfer_ns=transfer[:-1],
        group=group,
        pair=pair,
        alike=alike,
        bytes=size,
        uneven=uneven,
        doubtful=float(dur[members.is_low].sum()) / total,
    )


def _directions(rank: int, count: int, pairs: Pairs, stages: Stages) -> I8:
    """Direction of each call of a rank, 0 of those that are no transfer of a pipeline."""
    found = np.zeros(count, np.int8)
    sent, received = pairs.sender == rank, pairs.receiver == rank
    found[pairs.send_row[sent]] = stages.direction[sent]
    found[pairs.recv_row[received]] = stages.direction[received]
    return found


def _in_order(start: Whole, token: I32, line: I32) -> I64:
    """Order of calls by line, then by token, then by start."""
    if _falls(start, line):
        return np.asarray(np.lexsort((start, token, line)))
    key = line * np.int64(int(token.max(initial=0)) + 1)
    return stable_order(key + token)  # starts ascend already


def _falls(start: Whole, line: I32) -> bool:
    """Whether a call of a line begins before the one ahead of it."""
    falls = start[1:] < start[:-1]
    return bool(falls.any() and (falls & (line[1:] == line[:-1])).any())


def _columns_of(item: MatchInput) -> tuple[I8, I32]:
    """Columns that the order of the calls of a rank follows from, beside their rows and lines."""
    return item.calls.kind, item.calls.group


def _ordinals(line: I32, token: I32) -> I64:
    """Place of each call among those of its line that are the same, of calls in order."""
    number = np.arange(len(line))
    begins = np.ones(len(line), np.bool_)
    begins[1:] = (line[1:] != line[:-1]) | (token[1:] != token[:-1])
    return number - np.maximum.accumulate(np.where(begins, number, 0))


def _group_classes(groups: Sequence[CommGroup]) -> I64:
    """Number of the kind of each group, equal for groups of one dimension and size; last: none."""
    kinds: dict[tuple[str, str, int], int] = {}
    numbers = [
        kinds.setdefault((group.dim, group.axis, group.size), len(kinds) + 1) for group in groups
    ]
    return np.array([*numbers, 0], np.int64)


class _Instances:
    """Numbers the collectives and transfers whose members are all in lines of one step."""

    def __init__(
        self,
        found: Sequence[I32],
        step: I32,
        inputs: Sequence[MatchInput],
        ordinals: Callable[[], I64],
    ) -> None:
        self.found, self.inputs = found, inputs
        self._step = np.append(step, np.int32(-1))  # the last one of no call
        self._ordinals = ordinals
        self.index = {item.label: number for number, item in enumerate(inputs)}
        self.instance = np.full(len(step), -1, np.int32)
        self.is_low = np.zeros(len(step), np.bool_)
        self.count = 0
        self._parts: list[_Columns] = []

    @cached_property
    def _ordinal(self) -> I64:
        """Place of each call among those of its line that are the same; the last one of no call."""
        return np.append(self._ordinals(), 0)

    def add_matches(self, matches: Matches) -> None:
        for match in matches.groups:
            inputs = [self.index[label] for label in match.labels]
            rows = match.rows if match.usable.all() else match.rows[match.usable]
            calls = self.inputs[inputs[0]].calls
            members = [self.found[i][rows[:, column]] for column, i in enumerate(inputs)]
            # Communicators in step, taken for one, keep their members waiting as one does.
            sure = ((match.confidence > LOW) | match.in_step)[match.usable]
            kept = self._in_one_step(members)
            doubtful = np.flatnonzero(kept & ~sure)
            for one in members if len(doubtful) else ():
                self.is_low[one[doubtful]] = True
            kept &= sure
            # Without sizes, calls at one place in their program are of one size.
            sent = calls.message_bytes[rows[:, 0]]
            is_exchange = (calls.kind[rows[:, 0]] == _ALL_TO_ALL) & (sent > 0)
            size = np.where(is_exchange, np.rint(np.log2(np.maximum(sent, 1))), sent)
            if (size < 0).any():
                size = np.where(size >= 0, size, -2 - self._ordinal[members[0]])
            hosts = {self.inputs[i].host for i in inputs}
            alike = np.stack(
                [
                    calls.kind[rows[:, 0]].astype(np.int64),
                    size,
                    np.full(len(rows), len(inputs)),
                    np.full(len(rows), len(hosts) > 1),
                ]
            )
            none, uneven = np.full((len(rows), 2), -1), self._unevenness(inputs, rows)
            self._add(members, kept, match.group, (none, alike, sent, uneven))

    def add_pairs(self, pairs: Pairs, stages: Stages) -> None:
        members = np.full((2, len(pairs)), -1, np.int32)
        size = np.full(len(pairs), -1, np.int64)
        for index, item in enumerate(self.inputs):
            sent, received = pairs.sender == index, pairs.receiver == index
            members[0, sent] = self.found[index][pairs.send_row[sent]]
            members[1, received] = self.found[index][pairs.recv_row[received]]
            size[sent] = item.calls.message_bytes[pairs.send_row[sent]]
        host = unique_inverse(np.array([item.host for item in self.inputs] or [""]))[1]
        away = host[pairs.sender] != host[pairs.receiver]
        alike = np.stack(
            [np.full(len(pairs), -1 - stages.direction), size, np.full(len(pairs), 2), away]
        )
        kept = self._in_one_step(list(members))
        sides = np.stack([pairs.sender, pairs.receiver], axis=1)
        self._add(list(members), kept, -1, (sides, alike, size, np.ones(len(pairs))))

    def _unevenness(self, inputs: Sequence[int], rows: I64) -> F64:
        """Largest share of the data of each instance on one member over the mean share."""
        found = np.ones(len(rows))
        for name in ("in_elems", "out_elems"):
            total, most = np.zeros((2, len(rows)))
            known = np.ones(len(rows), np.bool_)
            for column, i in enumerate(inputs):
                count = getattr(self.inputs[i].calls, name)[rows[:, column]]
                known &= count > 0
                total += count
                np.maximum(most, count, out=most)
            mean = np.where(known, total / len(inputs), 1.0)
            found = np.where(known, np.maximum(found, most / mean), found)
        return found

    def _in_one_step(self, members: Sequence[I32]) -> Bool:
        """Instances whose members are all in lines of one step; a call of each by member."""
        step, *others = (self._step[one] for one in members)
        found = np.asarray(step >= 0)
        for other in others:
            found &= other == step
        return found

    def _add(
        self,
        members: Sequence[I32],
        kept: Bool,
        group: int,
        about: tuple[I64, I64, I64, F64],
    ) -> None:
        """Add the instances in a mask; ``about`` are their pair, alike, bytes and uneven."""
        pair, alike, size, uneven = about
        rows = np.flatnonzero(kept)
        number = self.count + np.arange(len(rows), dtype=np.int32)
        for one in members:
            self.instance[one[rows]] = number
        self.count += len(rows)
        of_group = np.full(len(rows), group, np.int64)
        self._parts.append((of_group, pair[rows], alike.T[rows], size[rows], uneven[rows]))

    def columns(self) -> _Columns:
        """Return group, pair, alike, bytes and uneven of all instances."""
        none = np.empty(0, np.int64)
        empty = none, np.empty((0, 2), np.int64), np.empty((0, 4), np.int64), none, np.empty(0)
        parts = zip(empty, *self._parts, strict=True)
        group, pair, keys, size, uneven = (np.concatenate(one) for one in parts)
        number = np.zeros(len(keys), np.int64)
        for key in keys.T:  # sorting one column after another is far cheaper than sorting rows
            values, place = unique_inverse(np.ascontiguousarray(key, np.int64))
            number = unique_inverse(number * len(values) + place)[1]
        return group, pair.astype(np.int64), number, size, uneven


def is_receive(table: CallTable) -> Bool:
    """Mask of the receives of the pipeline."""
    return np.asarray((table.kind == RECV) & (table.direction > 0))


def is_send(table: CallTable) -> Bool:
    """Mask of the sends of the pipeline."""
    return np.asarray((table.kind == SEND) & (table.direction > 0))
