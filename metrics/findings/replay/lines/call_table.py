"""One table of the calls of all lines of a job: what they are, and which are one collective.

A line is one rank in one step. Calls are ordered by line, then by what they are (operation, kind of
group, direction), then by start, so that calls of ranks that run one program have the same places
in their lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.reductions import distinct_values, row_all, stable_order, unique_inverse
from ccltui.metrics.collectives.matching.match import LOW, RECV, SEND, Matches, MatchInput, Pairs
from ccltui.metrics.findings.replay.lines.stage_order import Stages
from ccltui.metrics.findings.replay.lines.step_lines import StepLines
from ccltui.metrics.model.classify import TYPES
from ccltui.parsers.array_types import F64, I8, I32, I64, Bool

if TYPE_CHECKING:
    from ccltui.metrics.model.communicator_groups import CommGroup

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
    line: I64
    token: I64
    kind: I8
    direction: I8
    posted: I64
    resumed: I64
    waited: Bool
    launched: Bool
    row: I32
    start_ns: I64
    dur_ns: I64
    behind: I64
    instance: I64
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
    line = np.concatenate([one.line + offset[i] for i, one in enumerate(lines)])
    towards = np.concatenate([direction[i][one.row] for i, one in enumerate(lines)])
    kind = np.concatenate([inputs[i].calls.kind[one.row] for i, one in enumerate(lines)])
    number = np.concatenate(
        [classes[inputs[i].calls.group[one.row]] for i, one in enumerate(lines)]
    )
    token = (number * 64 + kind) * _DIRECTIONS + towards
    origin = np.concatenate([one.origin_ns for one in lines])
    start = np.concatenate([one.call_start_ns for one in lines]) - origin[line]
    order = _in_order(start, token, line)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    first = np.concatenate(([0], np.cumsum([len(one.row) for one in lines])))
    behind = np.concatenate([_moved(one.behind, first[i]) for i, one in enumerate(lines)])
    behind = np.where(behind >= 0, np.append(place, -1)[behind], -1)
    found = [np.full(len(item.calls), -1, np.int64) for item in inputs]
    for i, one in enumerate(lines):
        found[i][one.row] = place[first[i] : first[i + 1]]
    step = np.searchsorted(step_ids, np.concatenate([one.steps for one in lines]))
    dur = np.concatenate([one.call_dur_ns for one in lines])[order]
    members = _Instances(found, step[line[order]], inputs, _ordinals(line[order], token[order]))
    members.add_matches(matches)
    members.add_pairs(pairs, stages)
    instance = members.instance
    group, pair, alike, size, uneven = members.columns()
    transfer = np.full(members.count, np.iinfo(np.int64).max)
    part = instance >= 0
    np.minimum.at(transfer, instance[part], dur[part])
    total = max(int(dur.sum()), 1)
    return CallTable(
        step_ids=step_ids,
        rank=np.repeat(np.arange(len(lines)), np.diff(offset)),
        step=step,
        first_call=np.searchsorted(line[order], np.arange(offset[-1] + 1)),
        line=line[order],
        token=token[order],
        kind=kind[order],
        direction=towards[order],
        posted=np.concatenate([one.posted for one in lines])[order],
        resumed=np.concatenate([one.resumed for one in lines])[order],
        waited=np.concatenate([one.waited for one in lines])[order],
        launched=np.concatenate([one.launched for one in lines])[order],
        row=np.concatenate([one.row for one in lines])[order].astype(np.int32),
        start_ns=start[order],
        dur_ns=dur,
        behind=behind[order],
        instance=instance,
        transfer_ns=transfer,
        group=group,
        pair=pair,
        alike=alike,
        bytes=size,
        uneven=uneven,
        doubtful=float(dur[members.is_low].sum()) / total,
    )


def _in_order(start: I64, token: I64, line: I64) -> I64:
    """Order of calls by line, then by token, then by start."""
    inside = line[1:] == line[:-1]
    if (inside & (start[1:] < start[:-1])).any():
        return np.asarray(np.lexsort((start, token, line)))
    return stable_order(line * (int(token.max(initial=0)) + 1) + token)  # starts ascend already


def _ordinals(line: I64, token: I64) -> I64:
    """Place of each call among those of its line that are the same, of calls in order."""
    number = np.arange(len(line))
    begins = np.ones(len(line), np.bool_)
    begins[1:] = (line[1:] != line[:-1]) | (token[1:] != token[:-1])
    return number - np.maximum.accumulate(np.where(begins, number, 0))


def _moved(values: I64, by: int) -> I64:
    return np.where(values >= 0, values + by, -1)


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
        self, found: Sequence[I64], step: I64, inputs: Sequence[MatchInput], ordinal: I64
    ) -> None:
        self.found, self.step, self.inputs = found, step, inputs
        self.ordinal = np.append(ordinal, 0)
        self.index = {item.label: number for number, item in enumerate(inputs)}
        self.instance = np.full(len(step), -1, np.int64)
        self.is_low = np.zeros(len(step), np.bool_)
        self.count = 0
        self._parts: list[_Columns] = []

    def add_matches(self, matches: Matches) -> None:
        for match in matches.groups:
            inputs = [self.index[label] for label in match.labels]
            rows = match.rows[match.usable]
            calls = self.inputs[inputs[0]].calls
            members = np.stack(
                [self.found[i][rows[:, column]] for column, i in enumerate(inputs)], axis=1
            )
            # Communicators in step, taken for one, keep their members waiting as one does.
            sure = ((match.confidence > LOW) | match.in_step)[match.usable]
            kept = self._in_one_step(members)
            self.is_low[members[kept & ~sure].ravel()] = True
            kept &= sure
            # Without sizes, calls at one place in their program are of one size.
            sent = calls.message_bytes[rows[:, 0]]
            is_exchange = (calls.kind[rows[:, 0]] == _ALL_TO_ALL) & (sent > 0)
            size = np.where(is_exchange, np.rint(np.log2(np.maximum(sent, 1))), sent)
            size = np.where(size >= 0, size, -2 - self.ordinal[members[:, 0]])
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
        members = np.full((len(pairs), 2), -1, np.int64)
        size = np.full(len(pairs), -1, np.int64)
        for index, item in enumerate(self.inputs):
            sent, received = pairs.sender == index, pairs.receiver == index
            members[sent, 0] = self.found[index][pairs.send_row[sent]]
            members[received, 1] = self.found[index][pairs.recv_row[received]]
            size[sent] = item.calls.message_bytes[pairs.send_row[sent]]
        host = unique_inverse(np.array([item.host for item in self.inputs] or [""]))[1]
        away = host[pairs.sender] != host[pairs.receiver]
        alike = np.stack(
            [np.full(len(pairs), -1 - stages.direction), size, np.full(len(pairs), 2), away]
        )
        kept = self._in_one_step(members)
        sides = np.stack([pairs.sender, pairs.receiver], axis=1)
        self._add(members, kept, -1, (sides, alike, size, np.ones(len(pairs))))

    def _unevenness(self, inputs: Sequence[int], rows: I64) -> F64:
        """Largest share of the data of each instance on one member over the mean share."""
        found = np.ones(len(rows))
        for name in ("in_elems", "out_elems"):
            count = np.stack(
                [
                    getattr(self.inputs[i].calls, name)[rows[:, column]]
                    for column, i in enumerate(inputs)
                ]
            ).astype(np.float64)
            known = (count > 0).all(axis=0)
            mean = np.where(known, count.mean(axis=0), 1.0)
            found = np.where(known, np.maximum(found, count.max(axis=0) / mean), found)
        return found

    def _in_one_step(self, members: I64) -> Bool:
        step = self.step.take(members, mode="clip") if len(self.step) else members
        return row_all((members >= 0) & (step == step[:, :1]))

    def _add(self, members: I64, kept: Bool, group: int, about: tuple[I64, I64, I64, F64]) -> None:
        """Add the instances in a mask; ``about`` are their pair, alike, bytes and uneven."""
        pair, alike, size, uneven = about
        members = members[kept]
        number = self.count + np.arange(len(members))
        self.instance[members] = number[:, np.newaxis]
        self.count += len(members)
        of_group = np.full(len(members), group, np.int64)
        self._parts.append((of_group, pair[kept], alike.T[kept], size[kept], uneven[kept]))

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
