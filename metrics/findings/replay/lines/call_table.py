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
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from ccltui.metrics.arrays.compiled import available
from ccltui.metrics.arrays.reductions import (
    distinct_values,
    extremes_by,
    stable_order,
    unique_inverse,
)
from ccltui.metrics.collectives.matching.match import LOW, RECV, SEND, Matches, MatchInput, Pairs
from ccltui.metrics.findings.replay.lines.stage_order import Stages
from ccltui.metrics.findings.replay.lines.step_lines import StepLines
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
        if self.row is None:
            return self.values
        rows = np.split(self.values, self.edges[1:-1])
        return np.concatenate([rows[one] for one in self.row.tolist()] or [self.values])


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
    `StepLines`), ``row`` among all calls of its rank, ``start_ns`` from the origin of its line,
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
    start_ns: I64
    dur_ns: I64
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
        return replace(self, posted=none, resumed=none, waited=flags, launched=flags)


def call_table(
    lines: Sequence[StepLines],
    inputs: Sequence[MatchInput],
    linked: tuple[Matches, Pairs],
    stages: Stages,
    groups: Sequence[CommGroup],
) -> CallTable:
    """Collect the calls of all ranks and number their instances."""
    matches, pairs = linked
    step_ids = distinct_values(np.concatenate([one.steps for one in lines]))
    offset = np.concatenate(([0], np.cumsum([len(one.steps) for one in lines])))
    direction = [np.zeros(len(item.calls), np.int8) for item in inputs]
    for index in range(len(inputs)):
        sent, received = pairs.sender == index, pairs.receiver == index
        direction[index][pairs.send_row[sent]] = stages.direction[sent]
        direction[index][pairs.recv_row[received]] = stages.direction[received]
    classes = _group_classes(groups)

    def joined(name: str) -> npt.NDArray[Any]:
        """A column of the lines of all ranks."""
        return np.concatenate([getattr(one, name) for one in lines])

    # A column of all calls takes tens of MB in a large job: those that are in no order yet are
    # replaced one by one.
    line = np.concatenate([one.line + offset[i] for i, one in enumerate(lines)], dtype=np.int32)
    towards = np.concatenate([direction[i][one.row] for i, one in enumerate(lines)])
    kind = np.concatenate([inputs[i].calls.kind[one.row] for i, one in enumerate(lines)])
    token = np.concatenate(
        [classes[inputs[i].calls.group[one.row]] for i, one in enumerate(lines)], dtype=np.int32
    )
    token = (token * 64 + kind) * _DIRECTIONS + towards
    start = joined("call_start_ns")
    start -= joined("origin_ns").take(line)
    order = _in_order(start, token, line)
    line, towards, kind = line.take(order), towards.take(order), kind.take(order)
    token, start = token.take(order), start.take(order)
    place = np.empty(len(order) + 1, np.int32)
    place[order] = np.arange(len(order))
    place[-1] = -1  # of no call
    first = np.concatenate(([0], np.cumsum([len(one.row) for one in lines])))
    behind = np.concatenate([_moved(one.behind, first[i]) for i, one in enumerate(lines)])
    behind = place.take(behind.take(order))
    found = [np.full(len(item.calls), -1, np.int32) for item in inputs]
    for i, one in enumerate(lines):
        found[i][one.row] = place[first[i] : first[i + 1]]
    del place
    step = np.searchsorted(step_ids, joined("steps"))
    dur = joined("call_dur_ns").take(order)
    members = _Instances(found, step.take(line), inputs, lambda: _ordinals(line, token))
    members.add_matches(matches)
    members.add_pairs(pairs, stages)
    del found
    instance = members.instance
    group, pair, alike, size, uneven = members.columns()
    transfer, _ = extremes_by(dur, instance, members.count)
    total = max(int(dur.sum()), 1)
    return CallTable(
        step_ids=step_ids,
        rank=np.repeat(np.arange(len(lines)), np.diff(offset)),
        step=step,
        first_call=np.searchsorted(line, np.arange(offset[-1] + 1, dtype=np.int32)),
        line=line,
        token=token,
        kind=kind,
        direction=towards,
        posted=joined("posted").take(order),
        resumed=joined("resumed").take(order),
        waited=joined("waited").take(order),
        launched=joined("launched").take(order),
        row=joined("row").take(order),
        start_ns=start,
        dur_ns=dur,
        behind=behind,
        instance=instance,
        transfer_ns=transfer[:-1],
        group=group,
        pair=pair,
        alike=alike,
        bytes=size,
        uneven=uneven,
        doubtful=float(dur[members.is_low].sum()) / total,
    )


def _in_order(start: I64, token: I32, line: I32) -> I64:
    """Order of calls by line, then by token, then by start."""
    inside = line[1:] == line[:-1]
    if (inside & (start[1:] < start[:-1])).any():
        return np.asarray(np.lexsort((start, token, line)))
    key = line * np.int64(int(token.max(initial=0)) + 1)
    return stable_order(key + token)  # starts ascend already


def _ordinals(line: I32, token: I32) -> I64:
    """Place of each call among those of its line that are the same, of calls in order."""
    number = np.arange(len(line))
    begins = np.ones(len(line), np.bool_)
    begins[1:] = (line[1:] != line[:-1]) | (token[1:] != token[:-1])
    return number - np.maximum.accumulate(np.where(begins, number, 0))


def _moved(values: I32, by: int) -> I32:
    return np.where(values >= 0, values + np.int32(by), np.int32(-1))


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
        step: I64,
        inputs: Sequence[MatchInput],
        ordinals: Callable[[], I64],
    ) -> None:
        self.found, self.inputs = found, inputs
        self._step = np.append(step.astype(np.int32), np.int32(-1))  # the last one of no call
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
