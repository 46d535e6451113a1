"""List every matched collective call with its lag, wait and latest rank: one row a call and rank.

What leaves the tool (Parquet, csv, Perfetto) is written from these rows; the columns are those of
`ccltui.metrics.collectives.arrivals`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from ccltui.metrics.collectives.arrivals import NO_RANK, GroupArrivals
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.model.dimensions import DIMS
from ccltui.metrics.view.instances import selected_rows
from ccltui.parsers.array_types import I8, I32, I64
from ccltui.parsers.columns import MISSING

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View

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
