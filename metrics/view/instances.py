"""Collectives as the job performed them: one row each, however many ranks recorded it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ccltui.metrics.arrays.reductions import (
    distinct_values,
    row_all,
    row_count,
    row_max,
    row_min,
    row_sum,
)
from ccltui.metrics.collectives.matching.p2p import RECV, SEND
from ccltui.metrics.model.classify import TYPES
from ccltui.parsers.array_types import I8, I32, I64, Bool
from ccltui.parsers.columns import MISSING

if TYPE_CHECKING:
    from ccltui.metrics.collectives.matching.match import GroupMatch
    from ccltui.metrics.model.calls import Calls
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView

_BARRIER: Final = TYPES.index("Barrier")


@dataclass(frozen=True, slots=True)
class Instances:
    """The selected collectives of the job; all arrays have one length, -1 is unknown.

    A transfer between two ranks is one row of type Send. ``message_bytes`` is the largest that
    a member states; ``time_ns`` the shortest duration of any member that was recorded, since the
    last to arrive waits for nobody: with ``members`` of 1 it may include waiting. ``trusted``
    is False where members disagree on what they do, so that they are not one collective.
    ``wire_bytes`` is what all recorded members sent together, -1 where one does not tell.
    ``source`` and ``target`` are the global ranks of a transfer.
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
        """The same columns restricted to ``rows`` (mask or indices)."""
        if rows.dtype == np.bool_:
            if rows.all():
                return self
            rows = np.flatnonzero(rows)  # looked at once for all columns
        return Instances(*(getattr(self, field.name).take(rows) for field in fields(self)))

    @property
    def counts_bytes(self) -> Bool:
        """Rows that move bytes: all but barriers."""
        return np.asarray(self.kind != _BARRIER)


def operations(part: Instances) -> list[tuple[int, int]]:
    """Every group and type that occurs, in order."""
    codes = distinct_values((part.group.astype(np.int64) + 1) * len(TYPES) + part.kind)
    return [(code // len(TYPES) - 1, code % len(TYPES)) for code in codes.tolist()]


def instances_of(view: View) -> Instances:
    """All selected collectives of the selected ranks, matched ones once.

    A matched collective belongs where the call of its first recorded member does.
    """
    ranks = {rank.label: rank for rank in view.ranks}
    left = {label: selected_rows(rank) for label, rank in ranks.items()}
    parts = [_matched(view, match, ranks, left) for match in view.matches.groups]
    parts.append(_transfers(view, ranks, left))
    for label, rank in ranks.items():
        rows = np.flatnonzero(left[label] & (rank.calls.kind != RECV))
        parts.append(_alone(view, rank.calls, rows, rank.rank))
    return _joined([part for part in parts if part is not None])


def selected_rows(rank: RankView) -> Bool:
    """Which of all calls of a rank the view selects."""
    if rank.selected_calls is rank.calls:
        return np.ones(len(rank.calls), np.bool_)
    return np.isin(rank.calls.row, rank.selected_calls.row)


def _matched(
    view: View, match: GroupMatch, ranks: dict[str, RankView], left: dict[str, Bool]
) -> Instances | None:
    """The instances of one group; takes their calls out of ``left``."""
    columns = [i for i, label in enumerate(match.labels) if label in ranks]
    if not columns:
        return None
    calls = [ranks[match.labels[i]].calls for i in columns]
    rows = match.rows[:, columns]
    inside = _first_is_selected(rows, [left[match.labels[i]] for i in columns])
    for i, column in enumerate(columns):
        mine = rows[:, i]
        left[match.labels[column]][mine[mine >= 0]] = False
    keep = np.flatnonzero(inside)
    table = {
        name: _gathered(calls, rows[keep], name)
        for name in ("start_ns", "dur_ns", "message_bytes", "wire_bytes")
    }
    present, wire = rows[keep] >= 0, table["wire_bytes"]
    told = row_all((wire >= 0) | ~present)
    group = np.full(len(keep), match.group, np.int32)
    return Instances(
        group=group,
        kind=match.kind[keep],
        dim=_dims(view, calls, rows[keep]),
        step=match.step[keep],
        start_ns=_lowest(table["start_ns"], present),
        time_ns=_lowest(table["dur_ns"], present),
        message_bytes=row_max(table["message_bytes"], MISSING),
        wire_bytes=np.where(told, row_sum(np.where(present, wire, 0)), MISSING),
        members=row_count(present),
        group_size=_sizes(view, group, implied_size(view, match)),
        trusted=match.agrees[keep],
        source=np.full(len(keep), MISSING, np.int64),
        target=np.full(len(keep), MISSING, np.int64),
    )


def _first_is_selected(rows: I64, masks: Sequence[Bool]) -> Bool:
    """Whether the view selects the call of the first column that has one; False without any."""
    inside = np.zeros(len(rows), np.bool_)
    undecided = np.ones(len(rows), np.bool_)
    for column, mask in enumerate(masks):
        here = undecided & (rows[:, column] >= 0)
        inside[here] = mask[rows[here, column]]
        undecided &= ~here
    return inside


def _gathered(calls: Sequence[Calls], rows: I64, column: str) -> I64:
    values = [
        np.append(getattr(of_rank, column), MISSING)[rows[:, i]] for i, of_rank in enumerate(calls)
    ]
    return np.stack(values, axis=1)


def _lowest(values: I64, present: Bool) -> I64:
    never = np.iinfo(np.int64).max
    return row_min(np.where(present, values, never), never)


def _dims(view: View, calls: Sequence[Calls], rows: I64) -> I8:
    """Dimension as the first recorded member tells it."""
    found = np.full(len(rows), MISSING, np.int8)
    for column, of_rank in enumerate(calls):
        here = (found < 0) & (rows[:, column] >= 0)
        if here.any():
            found[here] = view.dims_of(of_rank)[0][rows[here, column]]
    return found


def implied_size(view: View, match: GroupMatch) -> int:
    """Ranks of the one group that a job without any is taken for: all of the job's."""
    return max(len(match.labels) + len(match.missing), view.world_size or 0)


def _sizes(view: View, group: I32, otherwise: int) -> I64:
    known = np.array([g.size for g in view.groups] + [otherwise], np.int64)[group]
    return np.where(known > 0, known, otherwise)


def _transfers(view: View, ranks: dict[str, RankView], left: dict[str, Bool]) -> Instances | None:
    """Paired sends and receives whose sender is selected; takes both out of ``left``."""
    inputs, pairs = view.match_inputs, view.pairs
    parts = []
    for sender in distinct_values(pairs.sender):
        label, mine = inputs[sender].label, np.flatnonzero(pairs.sender == sender)
        if label not in ranks:
            continue
        rows = pairs.send_row[mine]
        keep = left[label][rows]
        left[label][rows] = False
        part = _alone(view, inputs[sender].calls, rows[keep], inputs[sender].rank)
        receiver, received = pairs.receiver[mine[keep]], pairs.recv_row[mine[keep]]
        for other in distinct_values(receiver):
            here = receiver == other
            there = inputs[other].calls.dur_ns[received[here]]
            part.time_ns[here] = np.minimum(part.time_ns[here], there)
            part.target[here] = MISSING if inputs[other].rank is None else inputs[other].rank
        part.members[:] = 2
        parts.append(part)
    return _joined(parts) if parts else None


def _alone(view: View, calls: Calls, rows: I64, rank: int | None) -> Instances:
    """Calls of one rank that no other rank's record belongs to."""
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
        field.name: np.concatenate([getattr(part, field.name) for part in parts])
        for field in fields(Instances)
    }
    return Instances(**columns)
