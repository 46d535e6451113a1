"""Calls of one rank in one group, and lines of calls that form one collective."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.reductions import is_one_value, repeated, taken
from ccltui.metrics.model.calls import Calls
from ccltui.metrics.model.classify import TYPES
from ccltui.parsers.array_types import I8, I64, Bool
from ccltui.parsers.columns import MISSING

COMMUNICATOR, SEQUENCE, STEP, ORDER = 1, 2, 3, 4
"""Levels of evidence of a match, see `match`."""

EQUAL_INPUTS = np.array(
    [name in ("AllReduce", "ReduceScatter", "AllGather", "Broadcast", "Reduce") for name in TYPES]
)
"""Mask of the types with equal input sizes on all members."""
EQUAL_OUTPUTS = np.array([name in ("AllReduce", "ReduceScatter", "AllGather") for name in TYPES])
"""Mask of the types with equal output sizes on all members."""


class Member(Struct, frozen=True, dict=True):
    """The calls of one rank in one group, ascending in time; ``rows`` index its `Calls`."""

    calls: Calls
    rows: I64

    def column(self, name: str) -> I64:
        """Return one column of the calls, as int64."""
        values = getattr(self.calls, name)
        if is_one_value(values) and len(self.rows):
            return repeated(values.astype(np.int64), len(self.rows))
        whole = len(self.rows) == len(values)  # ascending, so these are all rows
        return np.asarray(values if whole else values[self.rows], np.int64)

    @cached_property
    def start_ns(self) -> I64:
        """Start of each call, int64 ns on the rank's own clock."""
        return self.column("start_ns")

    @cached_property
    def end_ns(self) -> I64:
        """End of each call, int64 ns on the rank's own clock."""
        return self.start_ns + self.column("dur_ns")

    @cached_property
    def tokens(self) -> I64:
        """One number per call for its type, dtype and the sizes that are equal on all members."""
        columns = [self.column(name) for name in ("kind", "in_elems", "out_elems", "dtype")]
        if all(map(is_one_value, columns)):  # as in jobs that reduce gradients alone
            return repeated(_tokens(*(column[:1] for column in columns)), len(self.rows))
        return _tokens(*columns)


def _tokens(kind: I64, in_elems: I64, out_elems: I64, dtype: I64) -> I64:
    given = np.where(EQUAL_INPUTS[kind], in_elems, 0)
    produced = np.where(EQUAL_OUTPUTS[kind], out_elems, 0)
    what = dtype * len(TYPES) + kind
    return np.asarray((given * 1_000_003 + produced) * 4096 + what, np.int64)


class Line(Struct, frozen=True):
    """Positions in the members' rows, int64 [n, m], -1 for none; and the level of each line.

    ``last`` are the positions of the last kernels where a collective has several. ``summed``
    marks lines in which some members have one kernel for several kernels of the others, of the
    same total size.
    """

    positions: I64
    level: I8
    last: I64
    summed: Bool

    @classmethod
    def of(cls, positions: I64, level: I8) -> Line:
        """Create lines of one kernel per member."""
        return cls(positions, level, positions, np.zeros(len(positions), np.bool_))

    @classmethod
    def joined(cls, lines: Sequence[Line], members: int) -> Line:
        """Concatenate several sets of lines."""
        empty = cls.of(np.empty((0, members), np.int64), np.empty(0, np.int8))
        every = [empty, *(line for line in lines if len(line.level))]
        if len(every) == 2:
            return every[1]
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
    """Return ``values`` at ``positions``, -1 where the position is -1."""
    if not len(values):
        return np.full(positions.shape, MISSING, np.int64)
    if positions.min(initial=0) >= 0:
        return taken(values, positions)
    return np.where(positions >= 0, values.take(np.maximum(positions, 0)), MISSING)
