"""Bandwidth of the selected collectives whose size and duration are known, group by group.

The time of a collective is the shortest duration over its ranks: the last to arrive does not wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.by_column import take_columns, take_rows
from ccltui.metrics.arrays.reductions import distinct_values
from ccltui.metrics.model.bandwidth import matched_bandwidth
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.unavailable import refuse
from ccltui.metrics.view.collective_selection import Part, parts_of
from ccltui.metrics.view.instances import Instances, implied_size, instances_of, require_sized_calls
from ccltui.parsers.columns import MISSING

if TYPE_CHECKING:
    from ccltui.metrics.model.calls import Calls
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.array_types import I64, Bool


def timed_collectives(view: View) -> Instances:
    """Return the collectives whose size and time are known.

    Raises:
        Refusal: There is no such collective.
    """
    require_sized_calls(view)
    every = instances_of(view)
    sized = every.take(every.counts_bytes & (every.message_bytes > 0) & every.trusted)
    if not len(sized):
        raise refuse("no_message_size", f"none of {len(every)} collectives states its size")
    return sized.take(sized.time_ns > 0)


_SEND: Final = TYPES.index("Send")
_RECV: Final = TYPES.index("Recv")


class Measured(Struct, frozen=True):
    """Collectives of one group, arrays of one length; sizes in bytes, times in ns.

    Attributes:
        group: index of the group, -1 where none is named.
        kind: index of the type of each collective.
        message: bytes of the message.
        wire: bytes that one rank sends; as the message where the type has no factor.
        time: shortest duration over the ranks.
        whole: whether the time is that over all ranks of the group that are here, not of one alone.
        across_hosts: whether the group spans several hosts, None where they are not known.
    """

    group: int
    kind: I64
    message: I64
    wire: I64
    time: I64
    whole: bool
    across_hosts: bool | None

    def __len__(self) -> int:
        return len(self.kind)


def measured_bandwidths(view: View) -> Sequence[Measured]:
    """Return the matched collectives of every group, and calls of ranks that match nothing.

    Those without any collective of known size are left out.
    """
    return view.remember(measured_bandwidths, lambda: [one for one in _measured(view) if len(one)])


def _measured(view: View) -> Iterator[Measured]:
    inputs = {item.label: item.calls for item in view.match_inputs}
    parts = parts_of(view)
    for part in parts:
        yield _of_part(view, part, inputs)
    matched = {max(part.arrived.match.group, MISSING) for part in parts}
    for rank in view.ranks:
        calls = rank.named(rank.selected_calls)
        for group, rows in view.of_alike(_measured, calls, partial(_alone, calls, matched)):
            yield _of_rank(calls.take(rows), group)


def _alone(calls: Calls, matched: set[int]) -> list[tuple[int, Bool]]:
    """Return the groups of a rank that are not compared with other ranks, with their calls."""
    alone = ~np.isin(calls.group, list(matched)) & ~np.isin(calls.kind, [_SEND, _RECV])
    return [
        (group, alone & (calls.group == group))
        for group in distinct_values(calls.group[alone]).tolist()
    ]


def _of_part(view: View, part: Part, inputs: dict[str, Calls]) -> Measured:
    match, labels, usable = part.arrived.match, part.labels, part.usable
    rows, dur = (
        take_columns(take_rows(values, usable), part.columns.tolist())
        for values in (match.rows, part.arrived.dur_ns)
    )
    columns = [inputs[label].message_bytes[rows[:, i]] for i, label in enumerate(labels)]
    size = np.array(columns).T
    kind = np.asarray(match.kind[usable], np.int64)
    hosts = {view.facts.ranks[label].trace.host for label in labels}
    across = None if "" in hosts else len(hosts) > 1
    count = view.group(match.group).size if match.group >= 0 else implied_size(view, match)
    found = matched_bandwidth(kind, size, dur, np.full(len(kind), count))
    known = ~np.isnan(found.algbw_gbps) & ~np.isnan(found.busbw_gbps) & (found.message_bytes > 0)
    wire = np.rint(found.busbw_gbps[known] * found.time_ns[known]).astype(np.int64)
    return Measured(
        group=match.group,
        kind=kind[known],
        message=found.message_bytes[known],
        wire=wire,
        time=found.time_ns[known],
        whole=size.shape[1] > 1,
        across_hosts=across,
    )


def _of_rank(calls: Calls, group: int) -> Measured:
    known = calls.take((calls.message_bytes > 0) & (calls.wire_bytes >= 0) & (calls.dur_ns > 0))
    return Measured(
        group=group,
        kind=np.asarray(known.kind, np.int64),
        message=known.message_bytes,
        wire=known.wire_bytes,
        time=known.dur_ns,
        whole=False,
        across_hosts=None,
    )
