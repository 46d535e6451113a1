"""The calls of one rank in one group, and lines of calls that belong together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ccltui.metrics.model.calls import Calls
from ccltui.metrics.model.classify import TYPES
from ccltui.parsers.array_types import I8, I64, Bool
from ccltui.parsers.columns import MISSING

COMMUNICATOR, SEQUENCE, STEP, ORDER = 1, 2, 3, 4

EQUAL_INPUTS = np.array(
    [name in ("AllReduce", "ReduceScatter", "AllGather", "Broadcast", "Reduce") for name in TYPES]
)
"""Types of which every member gives as many elements as any other."""
EQUAL_OUTPUTS = np.array([name in ("AllReduce", "ReduceScatter", "AllGather") for name in TYPES])


@dataclass(frozen=True)
class Member:
    """The calls of one rank in one group, ascending in time; ``rows`` index its `Calls`."""

    calls: Calls
    rows: I64

    def column(self, name: str) -> I64:
        """One column of the calls, as int64."""
        values = getattr(self.calls, name)
        whole = len(self.rows) == len(values)  # ascending, so these are all rows
        return np.asarray(values if whole else values[self.rows], np.int64)

    @cached_property
    def start_ns(self) -> I64:
        """When each call began, on the rank's own clock."""
        return self.column("start_ns")

    @cached_property
    def end_ns(self) -> I64:
        """When each call ended, on the rank's own clock."""
        return self.start_ns + self.column("dur_ns")

    @cached_property
    def tokens(self) -> I64:
        """One number for what a call is: type, dtype and the sizes its members share."""
        kind = self.column("kind")
        given = np.where(EQUAL_INPUTS[kind], self.column("in_elems"), 0)
        produced = np.where(EQUAL_OUTPUTS[kind], self.column("out_elems"), 0)
        what = self.column("dtype") * len(TYPES) + kind
        return np.asarray((given * 1_000_003 + produced) * 4096 + what, np.int64)


@dataclass(frozen=True, slots=True)
class Line:
    """Positions in the members' rows, int64 [n, m], -1 for none; and the level of each line.

    ``last`` are the positions of the last kernels where a collective has several. ``summed``
    marks lines of which some members have one kernel for several of the others, of one size in
    all.
    """

    positions: I64
    level: I8
    last: I64
    summed: Bool

    @classmethod
    def of(cls, positions: I64, level: I8) -> Line:
        """Lines of one kernel a member."""
        return cls(positions, level, positions, np.zeros(len(positions), np.bool_))

    @classmethod
    def joined(cls, lines: Sequence[Line], members: int) -> Line:
        """Several lines one below the other."""
        empty = cls.of(np.empty((0, members), np.int64), np.empty(0, np.int8))
        every = (empty, *lines)
        return cls(
            *(
                np.concatenate([getattr(line, name) for line in every])
                for name in ("positions", "level", "last", "summed")
            )
        )

    @property
    def has_pieces(self) -> bool:
        """Whether any collective has several kernels on a rank."""
        return self.last is not self.positions and bool((self.last != self.positions).any())


def pick(values: I64, positions: I64) -> I64:
    """``values`` at ``positions``, -1 where the position is."""
    if not len(values):
        return np.full(positions.shape, MISSING, np.int64)
    if positions.min(initial=0) >= 0:
        return values.take(positions)
    return np.where(positions >= 0, values.take(np.maximum(positions, 0)), MISSING)
