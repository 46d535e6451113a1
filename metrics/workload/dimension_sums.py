"""Sum communication by parallel dimension and, within each, by group.

The keys of all sums are a dimension and the index of a group; for a whole dimension the index is
`WHOLE`. The group -1 are calls that name none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from ccltui.metrics.collectives import lag_tables
from ccltui.metrics.collectives.blame import TIMES_EVEN_SHARE, Chosen
from ccltui.metrics.collectives.lag_tables import wait_and_transfer
from ccltui.metrics.view.collective_selection import chosen_of, parts_of, require_ranks
from ccltui.metrics.view.exposed_waits import ExposedWaits, exposed_waits
from ccltui.metrics.view.match_quality import require_possible
from ccltui.metrics.workload.call_parts import (
    by_dim,
    by_dim_and_group,
    dims_of_matched,
    exposed_parts,
    hidden_by,
)
from ccltui.metrics.workload.call_traffic import Traffic
from ccltui.metrics.workload.measured_bandwidth import Measured, measured_bandwidths

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView
    from ccltui.parsers.array_types import I64, Bool

WHOLE: Final = -2
"""In the place of a group: all groups of the dimension."""

Key = tuple[str, int]
"""Dimension, and index of a group, -1 for none named, `WHOLE` for all."""


@dataclass(slots=True)
class Bandwidth:
    """Bytes on the wire of a rank and shortest durations in ns, over collectives.

    ``alone_*`` are those of calls that no other rank matches: their durations include waiting.
    """

    wire_bytes: int = 0
    time_ns: int = 0
    alone_bytes: int = 0
    alone_ns: int = 0

    def add(self, one: Measured, rows: Bool) -> None:
        """Add some collectives (mask)."""
        wire, time = int(one.wire[rows].sum()), int(one.time[rows].sum())
        if one.whole:
            self.wire_bytes += wire
            self.time_ns += time
        else:
            self.alone_bytes += wire
            self.alone_ns += time

    @property
    def busbw_gbps(self) -> float | None:
        """Bus bandwidth in decimal GB/s, a lower bound where `is_bound`; None without any."""
        if self.time_ns:
            return self.wire_bytes / self.time_ns
        return self.alone_bytes / self.alone_ns if self.alone_ns else None

    @property
    def is_bound(self) -> bool:
        """Whether the bandwidth is a lower bound, from calls of single ranks."""
        return not self.time_ns and bool(self.alone_ns)


@dataclass(slots=True)
class Waits:
    """Waiting at the matched collectives of a key.

    Attributes:
        wait_ns: waiting of all members.
        transfer_ns: transfer over all members.
        lags_ns: lags of the collectives, arrays to be joined.
        due_ns: waiting, while nothing computes, beyond the next latest rank, by label of the last.
        members: labels of the ranks that take part.
        worst: matched group, its instance and the rank that was last, of the most waiting.
        worst_ns: waiting of all members at that instance.
    """

    wait_ns: int = 0
    transfer_ns: int = 0
    lags_ns: list[I64] = field(default_factory=list)
    due_ns: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    members: set[str] = field(default_factory=set)
    worst: tuple[int, int, str] | None = None
    worst_ns: int = 0

    def add(self, one: Chosen, waited: ExposedWaits, rows: Bool, labels: Sequence[str]) -> None:
        """Add some collectives (mask) of a group; ``waited`` covers the same and more."""
        wait, transfer = wait_and_transfer(one, rows)
        self.wait_ns += wait
        self.transfer_ns += transfer
        self.lags_ns.append(one.lateness.lag_ns[rows])
        own = [labels[index] for index in one.members.tolist()]
        self.members |= set(own)
        late = np.flatnonzero(rows & (one.lateness.last >= 0))
        if not len(late):
            return
        last = one.lateness.last[late]
        due = np.zeros(len(own), np.int64)
        np.add.at(due, last, waited.beyond_ns[waited.eligible][late])
        for label, amount in zip(own, due.tolist(), strict=True):
            self.due_ns[label] += amount
        caused = one.lateness.wait_ns[late].sum(axis=1)
        at = int(caused.argmax())
        if int(caused[at]) > self.worst_ns:
            place = int(waited.rows[waited.eligible][late[at]])
            self.worst = waited.part.number, place, own[int(last[at])]
            self.worst_ns = int(caused[at])

    @property
    def worst_rank(self) -> str | None:
        """The rank that more waiting is due to than chance brings, None where there is none.

        waiting due to it > 1.5 * (waiting due to all ranks) / (number of ranks)
        """
        whole = sum(self.due_ns.values())
        if not whole:
            return None
        first = max(self.due_ns, key=lambda label: self.due_ns[label])
        least = TIMES_EVEN_SHARE * whole / len(self.members)
        return first if self.due_ns[first] > least else None


def traffic_of(view: View) -> dict[Key, Traffic]:
    """Return calls and bytes of the selected collectives of all ranks."""
    found: defaultdict[Key, Traffic] = defaultdict(Traffic)
    for rank in view.ranks:
        calls = rank.counted(rank.named(rank.running_calls))
        for dim, rows in by_dim(view, calls):
            found[dim, WHOLE].add(rank, calls, rows)
        for key, rows in by_dim_and_group(view, calls):
            found[key].add(rank, calls, rows)
    return dict(found)


def exposed_of(
    view: View, ranks: Sequence[RankView]
) -> tuple[dict[Key, dict[str, tuple[int, int]]], dict[str, tuple[int, int]]]:
    """Return time in collectives and the exposed part of it, ns by rank label.

    Returns:
        Those of each key, and those of all collectives of a rank.
    """
    found: dict[Key, dict[str, tuple[int, int]]] = {}
    total: dict[str, tuple[int, int]] = {}
    for rank in ranks:
        for dim, times in exposed_parts(view, [rank], by_dim, named=True).items():
            found.setdefault((dim, WHOLE), {}).update(times)
        for key, times in exposed_parts(view, [rank], by_dim_and_group, named=True).items():
            found.setdefault(key, {}).update(times)
        total[rank.label] = rank.comm.total_ns, (rank.comm - hidden_by(rank)).total_ns
        if view.facts.is_large:  # the intervals of all ranks do not fit into memory
            rank.forget_intervals()
    return found, total


def bandwidths_of(view: View) -> dict[Key, Bandwidth]:
    """Return the bandwidth of the selected collectives of known size."""
    found: defaultdict[Key, Bandwidth] = defaultdict(Bandwidth)
    for one in measured_bandwidths(view):
        for key, rows in _keys(view, one.group, one.kind):
            found[key].add(one, rows)
    return dict(found)


def waits_of(view: View) -> dict[Key, Waits]:
    """Return the waiting at the selected collectives that all ranks of a group wait for.

    Raises:
        Refusal: fewer than two ranks, no such collective, or matches that the clocks disprove.
    """
    require_ranks(view)
    chosen = chosen_of(view)
    pairs = [(part.arrived, part.rows) for part in parts_of(view)]
    require_possible(lag_tables.match_table(chosen, pairs))
    waited = [one for one in exposed_waits(view) if one.eligible.any()]
    labels = [rank.label for rank in view.ranks]
    found: defaultdict[Key, Waits] = defaultdict(Waits)
    for one, its in zip(chosen, waited, strict=True):
        for key, rows in _keys(view, one.group, np.asarray(one.kind, np.int64)):
            found[key].add(one, its, rows, labels)
    return dict(found)


def _keys(view: View, group: int, kind: I64) -> Iterator[tuple[Key, Bool]]:
    """Yield each key of the matched collectives of a group with a mask of them."""
    for dim, rows in dims_of_matched(view, group, kind).items():
        yield (dim, WHOLE), rows
        yield (dim, max(group, -1)), rows
