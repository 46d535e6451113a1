"""Table of the selected collectives of the job, one row each however many ranks recorded it.

What leaves the tool (Parquet, csv, Perfetto) is written from these rows; the columns are those of
`ccltui.metrics.collectives.arrivals`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.by_column import take_columns, take_rows
from ccltui.metrics.arrays.reductions import distinct_values, row_count, rows_by_value
from ccltui.metrics.collectives.arrivals import NO_RANK, GroupArrivals
from ccltui.metrics.collectives.matching.match import RECV, SEND
from ccltui.metrics.collectives.matching.validity import pick
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.model.dimensions import DIMS
from ccltui.metrics.unavailable import refuse, unknown_wire_bytes
from ccltui.parsers.array_types import I8, I32, I64, Bool
from ccltui.parsers.columns import MISSING

if TYPE_CHECKING:
    from ccltui.metrics.collectives.matching.match import GroupMatch
    from ccltui.metrics.model.calls import Calls
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView


_BARRIER: Final = TYPES.index("Barrier")


class Instances(Struct, frozen=True):
    """The selected collectives of the job; arrays of one length, -1 where unknown.

    A transfer between two ranks is one row of type Send.

    Attributes:
        group: index of the group.
        kind: index into TYPES.
        dim: index into DIMS.
        step: id of the step.
        start_ns: first start of any recorded member.
        time_ns: shortest duration of any recorded member, selected or not, since the last one to
            arrive does not wait; with ``members`` of 1 it may include waiting.
        message_bytes: largest message that a member states.
        wire_bytes: bytes that all recorded members send in total, -1 where one of them is unknown.
        members: number of recorded members that are selected.
        group_size: number of ranks of the group.
        trusted: False where members disagree on the operation, so that the match is wrong.
        source: global rank that sends a transfer.
        target: global rank that receives a transfer.
    """

    group: I32
    kind: I8
    dim: I8
    step: I64
    start_ns: I64
    time_ns: I64
    message_bytes: I64
    wire_bytes: I64
    members: I64
    group_size: I64
    trusted: Bool
    source: I64
    target: I64

    def __len__(self) -> int:
        return len(self.kind)

    def take(self, rows: Bool | I64) -> Instances:
        """Return the same columns restricted to ``rows`` (mask or indices)."""
        if rows.dtype == np.bool_:
            if rows.all():
                return self
            rows = np.flatnonzero(rows)  # converted once for all columns
        return Instances(*(getattr(self, field).take(rows) for field in self.__struct_fields__))

    @property
    def counts_bytes(self) -> Bool:
        """Mask of the rows that move bytes: all but barriers."""
        return np.asarray(self.kind != _BARRIER)


def operations(part: Instances) -> list[tuple[int, int, I64]]:
    """Return the distinct pairs of group and type, ascending, with the rows of each."""
    codes = (part.group.astype(np.int64) + 1) * len(TYPES) + part.kind
    return [
        (code // len(TYPES) - 1, code % len(TYPES), rows) for code, rows in rows_by_value(codes)
    ]


def require_sized_calls(view: View) -> None:
    """Check that any selected collective states its size, before groups are inferred to match them.

    Raises:
        Refusal: nothing is selected, or nothing selected states its size.
    """
    selected = [rank.selected_calls for rank in view.ranks]
    if not any(map(len, selected)):
        raise refuse("no_collectives", "no collective in the selection")
    if not any((calls.message_bytes[calls.counts_bytes] >= 0).any() for calls in selected):
        raise unknown_wire_bytes(sized=False)


def instances_of(view: View) -> Instances:
    """Return all selected collectives of the selected ranks, matched ones once.

    A matched collective is selected where the call of its first recorded member is.
    """
    return view.remember(instances_of, lambda: _instances(view))


def _instances(view: View) -> Instances:
    ranks = {rank.label: rank for rank in view.ranks}
    left = {label: selected_rows(rank) for label, rank in ranks.items()}
    matched = [_matched_instances(view, match, ranks, left) for match in view.matches.groups]
    parts = [part for part in (*matched, _transfers(view, ranks, left)) if part is not None]
    for label, rank in ranks.items():
        calls = rank.named_calls
        rows = np.flatnonzero(left[label] & (calls.kind != RECV))
        if len(rows) or not parts:
            parts.append(_unmatched_instances(view, calls, rows, rank.rank))
    return _joined(parts)


def selected_rows(rank: RankView) -> Bool:
    """Return a mask of the calls of a rank that the view selects."""
    every, selected = rank.recorded_calls, rank.selected_calls
    if len(every) == len(selected):
        return np.ones(len(every), np.bool_)
    return np.isin(every.rows.numbers, selected.rows.numbers)


def _matched_instances(
    view: View, match: GroupMatch, ranks: dict[str, RankView], left: dict[str, Bool]
) -> Instances | None:
    """Instances of one group; clears their calls in the masks ``left``."""
    columns = [i for i, label in enumerate(match.labels) if label in ranks]
    if not columns:
        return None
    calls = [ranks[match.labels[i]].named_calls for i in columns]
    rows = take_columns(match.rows, columns)
    inside = _first_is_selected(rows, [left[match.labels[i]] for i in columns])
    for i, column in enumerate(columns):
        mine = rows[:, i]
        left[match.labels[column]][mine[mine >= 0]] = False
    keep = np.flatnonzero(inside)
    rows = take_rows(rows, keep)
    message_bytes = np.full(len(keep), MISSING, np.int64)
    for sent, _ in _by_member(calls, rows, "message_bytes"):
        np.maximum(message_bytes, sent, out=message_bytes)
    group = np.full(len(keep), max(match.group, MISSING), np.int32)
    return Instances(
        group=group,
        kind=match.kind[keep],
        dim=_dims(view, calls, rows),
        step=match.step[keep],
        start_ns=_lowest(calls, rows, "start_ns"),
        time_ns=_transfer_times(view, match, keep),
        message_bytes=message_bytes,
        wire_bytes=_total(calls, rows, "wire_bytes"),
        members=row_count(rows >= 0),
        group_size=_sizes(view, group, implied_size(view, match)),
        trusted=match.agrees[keep],
        source=np.full(len(keep), MISSING, np.int64),
        target=np.full(len(keep), MISSING, np.int64),
    )


def _transfer_times(view: View, match: GroupMatch, keep: I64) -> I64:
    """Shortest duration of any member, also of ranks that are not selected.

    Those may be the last to arrive, and all selected members may wait for them.
    """
    calls = view.facts.named_calls
    rows = take_rows(match.rows, keep)
    return _lowest([calls[label] for label in match.labels], rows, "dur_ns")


def _first_is_selected(rows: I64, masks: Sequence[Bool]) -> Bool:
    """Mask of the rows in which the view selects the call of the first column that has one."""
    inside = np.zeros(len(rows), np.bool_)
    undecided = np.ones(len(rows), np.bool_)
    for column, mask in enumerate(masks):
        here = undecided & (rows[:, column] >= 0)
        inside[here] = mask[rows[here, column]]
        undecided &= ~here
    return inside


def _by_member(calls: Sequence[Calls], rows: I64, column: str) -> Iterator[tuple[I64, Bool]]:
    """Yield a column of each member of collectives, -1 where it has no call, and where it has one.

    One member after another: a table of all, of a thousand ranks, takes ten times as long to fill
    and to go through as the columns do.
    """
    for of_rank, mine in zip(calls, rows.T, strict=True):
        yield pick(getattr(of_rank, column), mine), mine >= 0


def _lowest(calls: Sequence[Calls], rows: I64, column: str) -> I64:
    """Return the lowest number of any member."""
    found = np.full(len(rows), np.iinfo(np.int64).max)
    for values, present in _by_member(calls, rows, column):
        np.minimum(found, values, out=found, where=present)
    return found


def _total(calls: Sequence[Calls], rows: I64, column: str) -> I64:
    """Return the sum over all members that have a call, -1 where one of them is unknown."""
    found, is_known = np.zeros(len(rows), np.int64), np.ones(len(rows), np.bool_)
    for values, present in _by_member(calls, rows, column):
        is_known &= (values >= 0) | ~present
        np.add(found, values, out=found, where=present)
    return np.where(is_known, found, MISSING)


def _dims(view: View, calls: Sequence[Calls], rows: I64) -> I8:
    """Dimension that the first recorded member has."""
    found = np.full(len(rows), MISSING, np.int8)
    for column, of_rank in enumerate(calls):
        here = (found < 0) & (rows[:, column] >= 0)
        if here.any():
            found[here] = view.dims_of(of_rank)[0][rows[here, column]]
    return found


def implied_size(view: View, match: GroupMatch) -> int:
    """Return the size of the implied group: all ranks, in a job whose files state no group."""
    return max(len(match.labels) + len(match.missing), view.world_size or 0)


def _sizes(view: View, group: I32, otherwise: int) -> I64:
    sizes = view.remember(
        _sizes, lambda: np.array([g.size for g in view.groups] + [MISSING], np.int64)
    )
    known = np.where(group >= 0, sizes[group], otherwise)
    return np.where(known > 0, known, otherwise)


def _transfers(view: View, ranks: dict[str, RankView], left: dict[str, Bool]) -> Instances | None:
    """Paired sends and receives whose sender is selected; clears the sends in ``left``."""
    inputs, pairs = view.match_inputs, view.pairs
    parts = []
    for sender, mine in rows_by_value(pairs.sender):
        label = inputs[sender].label
        if label not in ranks:
            continue
        rows = pairs.send_row[mine]
        keep = left[label][rows]
        left[label][rows] = False
        part = _unmatched_instances(view, inputs[sender].calls, rows[keep], inputs[sender].rank)
        receiver, received = pairs.receiver[mine[keep]], pairs.recv_row[mine[keep]]
        for other in distinct_values(receiver):
            here = receiver == other
            there = inputs[other].calls.dur_ns[received[here]]
            part.time_ns[here] = np.minimum(part.time_ns[here], there)
            part.target[here] = MISSING if inputs[other].rank is None else inputs[other].rank
        part.members[:] = 2
        parts.append(part)
    return _joined(parts) if parts else None


def _unmatched_instances(view: View, calls: Calls, rows: I64, rank: int | None) -> Instances:
    """Calls of one rank that match no call of another rank."""
    group = calls.group[rows]
    sends = (calls.kind[rows] == SEND) & (rank is not None)
    return Instances(
        group=group,
        kind=calls.kind[rows],
        dim=view.dims_of(calls)[0][rows],
        step=calls.step[rows],
        start_ns=calls.start_ns[rows],
        time_ns=calls.dur_ns[rows],
        message_bytes=calls.message_bytes[rows],
        wire_bytes=calls.wire_bytes[rows],
        members=np.ones(len(rows), np.int64),
        group_size=_sizes(view, group, MISSING),
        trusted=np.ones(len(rows), np.bool_),
        source=np.where(sends, MISSING if rank is None else rank, MISSING),
        target=np.where(sends, calls.dst[rows], MISSING),
    )


def _joined(parts: Sequence[Instances]) -> Instances:
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in Instances.__struct_fields__
    }
    return Instances(**columns)


ALL_RANKS = "all ranks"
"""Name of the communicator of collectives that name no group."""


class GroupCalls(Struct, frozen=True):
    """Calls of one communicator, in order of instance and member; all arrays have one length.

    Attributes:
        communicator: label of the group.
        labels: labels of the members.
        instance: number of the collective within the communicator.
        member: index into ``labels``.
        kind: index into TYPES.
        dim: index into DIMS.
        start_ns: start on the corrected clock, ns since the origin of the view.
        dur_ns: duration.
        message_bytes: message size S, -1 where not stated.
        step: id of the step, -1 outside of all.
        seq: sequence number in the communicator, -1 where not recorded.
        late_ns: arrival after the first member, -1 where unknown.
        wait_ns: wait for the last member, -1 where unknown.
        lag_ns: lag of the collective, -1 where unknown.
        last: index into ``labels`` of the rank that is blamed, -1 in a tie or where none can be.
        confidence: LOW, MEDIUM or HIGH, of the match.
    """

    communicator: str
    labels: tuple[str, ...]
    instance: I64
    member: I64
    kind: I8
    dim: I8
    start_ns: I64
    dur_ns: I64
    message_bytes: I64
    step: I64
    seq: I64
    late_ns: I64
    wait_ns: I64
    lag_ns: I64
    last: I32
    confidence: I8

    def type_of(self, row: int) -> str:
        """Return the type of the collective of a row."""
        return TYPES[int(self.kind[row])]

    def dimension_of(self, row: int) -> str:
        """Return the parallel dimension of the collective of a row."""
        return DIMS[int(self.dim[row])]

    def last_of(self, row: int) -> str | None:
        """Return the label of the rank that is blamed for the lag of a row, None for nobody."""
        last = int(self.last[row])
        return None if last == NO_RANK else self.labels[last]


def matched_calls(view: View) -> Iterator[GroupCalls]:
    """Yield the matched calls of each communicator that the view selects.

    A call belongs to the selection by its own start, step, rank and group.
    """
    for group in view.arrivals.groups:
        rows = _rows_of(view, group)
        if len(rows.instance):
            yield rows


def _rows_of(view: View, group: GroupArrivals) -> GroupCalls:
    match = group.match
    chosen = {rank.label: rank for rank in view.ranks}
    selected = np.zeros(match.rows.shape, np.bool_)
    stated = {
        name: np.full(match.rows.shape, MISSING, np.int64) for name in ("message_bytes", "seq")
    }
    dims = np.full(match.rows.shape, DIMS.index("unknown"), np.int8)
    for member, label in enumerate(group.labels):
        if label not in chosen:
            continue
        rows, calls = match.rows[:, member], view.facts.named_calls[label]
        here = np.flatnonzero(rows >= 0)
        taken = rows[here]
        selected[here, member] = selected_rows(chosen[label])[taken]
        stated["message_bytes"][here, member] = calls.message_bytes[taken]
        stated["seq"][here, member] = calls.seq[taken]
        dims[here, member] = view.dims_of(calls)[0][taken]
    instance, member_of = np.nonzero(selected)
    return GroupCalls(
        communicator=ALL_RANKS if match.group < 0 else view.groups[match.group].label,
        labels=group.labels,
        instance=instance,
        member=member_of,
        kind=match.kind[instance],
        dim=dims[selected],
        start_ns=group.start_ns[selected] - view.origin_ns,
        dur_ns=group.dur_ns[selected],
        message_bytes=stated["message_bytes"][selected],
        step=match.step[instance],
        seq=stated["seq"][selected],
        late_ns=group.late_ns[selected],
        wait_ns=group.wait_ns[selected],
        lag_ns=group.lag_ns[instance],
        last=group.last[instance],
        confidence=group.confidence[instance],
    )
