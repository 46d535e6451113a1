"""Sum the calls, bytes and time of communication of a part of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from ccltui.metrics.arrays.intervals import union
from ccltui.metrics.arrays.statistics import milliseconds

if TYPE_CHECKING:
    from ccltui.metrics.model.calls import Calls
    from ccltui.metrics.view.rank_view import RankView
    from ccltui.parsers.array_types import Bool


class Traffic(Struct):
    """Sums over ranks of one dimension, one of its parts, one type or one group."""

    calls: int = 0
    countable: int = 0  # calls that count bytes
    sized: int = 0  # of these, those that state their size
    wired: int = 0  # of these, those whose group size is known
    summed_bytes: int = 0
    wire_bytes: int = 0
    time_ns: int = 0  # union per rank, summed over ranks
    ranks: set[str] = field(default_factory=set)

    def add(self, rank: RankView, calls: Calls, rows: Bool) -> None:
        """Take the calls of one rank; a transfer counts its bytes where it is sent.

        One that began before the window counts its time in it, and nothing else.
        """
        began = rows & (calls.start_ns >= rank.selection.start_ns)
        countable = began & calls.counts_bytes
        known = countable & (calls.message_bytes >= 0)
        wired = known & (calls.wire_bytes >= 0)
        busy = union(calls.start_ns[rows], calls.end_ns[rows])
        clipped = busy.clip(rank.selection.start_ns, rank.selection.end_ns)
        self.calls += int(began.sum())
        self.countable += int(countable.sum())
        self.sized += int(known.sum())
        self.wired += int(wired.sum())
        self.summed_bytes += int(calls.message_bytes[known].sum())
        self.wire_bytes += int(calls.wire_bytes[wired].sum())
        self.time_ns += clipped.total_ns
        self.ranks.add(rank.label)

    @property
    def message_bytes(self) -> int | None:
        """Message bytes of the calls that state their size, None where none of them does."""
        return None if self.countable and not self.sized else self.summed_bytes

    def row(self) -> dict[str, Any]:
        """JSON form; the bytes on the wire are null unless they are known of every sized call."""
        message = self.message_bytes
        return {
            "calls": self.calls,
            "message_bytes": message,
            "wire_bytes": None if message is None or self.wired < self.sized else self.wire_bytes,
            "time_ms": milliseconds(self.time_ns) / len(self.ranks),
            "ranks": sorted(self.ranks, key=lambda label: (len(label), label)),
        }
