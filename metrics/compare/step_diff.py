"""Compare the kernels of two ranks or two steps: match them, and compare their durations.

Divide the difference in time of two ranks or two steps completely into parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.reductions import distinct_values, unique_inverse
from ccltui.metrics.arrays.sequence_diff import difference
from ccltui.metrics.device.device_time import device_ranks
from ccltui.metrics.findings.rank_time.partition import Named, in_order, named_parts, partition
from ccltui.parsers.array_types import I8, I64

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.columns import Events, RankTrace


OTHER_GROUPS: Final[Named] = ("communication", "other groups")
"""Time in collectives of groups that the view does not select."""


class Waterfall(Struct, frozen=True):
    """Time of two sides by part, in ns; absent parts take no time.

    The values of a side sum to its time, so that the changes sum to the whole difference.
    """

    one: Mapping[Named, int]
    other: Mapping[Named, int]

    @property
    def total_ns(self) -> tuple[int, int]:
        """Time of each side."""
        return sum(self.one.values()), sum(self.other.values())

    @property
    def difference_ns(self) -> int:
        """Time of the second side less that of the first."""
        return self.total_ns[1] - self.total_ns[0]

    @property
    def changes_ns(self) -> list[tuple[Named, int]]:
        """Every part whose time differs, with the change; by kind, the largest first."""
        change = {
            part: self.other.get(part, 0) - self.one.get(part, 0)
            for part in {**self.one, **self.other}
        }
        changed = [part for part, ns in change.items() if ns]
        size = {part: abs(ns) for part, ns in change.items()}
        return [(part, change[part]) for part in in_order(size, changed)]


def step_waterfall(view: View, one: Side, other: Side) -> Waterfall:
    """Divide the time of two sides, each a rank in a step or in all its measured time.

    Raises:
        KeyError: a rank has no device work in its step.
        Refusal: no rank has device work there.
    """
    return Waterfall(_divided(view, one), _divided(view, other))


def _divided(view: View, side: Side) -> Counter[Named]:
    """Return the parts of a side."""
    chosen = view
    if side.step is not None:
        chosen = view.with_options(steps=(side.step, side.step), window=None)
    ranks = {rank.label: rank for rank in device_ranks(chosen)}
    rank = ranks.get(side.label)
    if rank is None or not rank.window_ns:
        where = "its measured time" if side.step is None else f"step {side.step}"
        raise KeyError(f"rank {side.label} has no device work in {where}")
    parts = named_parts(chosen)[side.label]
    for part in partition(chosen).parts:
        if part.kind == "other_groups" and part.by_rank.get(side.label):
            parts[OTHER_GROUPS] += part.by_rank[side.label]
    return parts


MISSING_HERE: Final = -1
MATCHED: Final = 0
ADDED: Final = 1
ABSENT: Final = -1


class Side(Struct, frozen=True):
    """One rank in one step, or in all its measured time where ``step`` is None."""

    label: str
    step: int | None = None


class StepDiff(Struct, frozen=True, eq=False):
    """Pieces of device work of two sides, matched in order on each stream; n rows.

    Attributes:
        sides: the sides.
        origin_ns: start of the first work of each side on the job's clock.
        op: MATCHED, ADDED (only the second side has it) or MISSING_HERE (only the first has it).
        start_ns: int64 [2, n], starts since the first work of the side, ABSENT without a kernel.
        dur_ns: int64 [2, n], durations, ABSENT without a kernel.
        name: index into ``names``.
        names: names of the kernels.
        stream: index into ``streams``.
        streams: labels of the streams.
    """

    sides: tuple[Side, Side]
    origin_ns: tuple[int, int]
    op: I8
    start_ns: I64
    dur_ns: I64
    name: I64
    names: tuple[str, ...]
    stream: I64
    streams: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.op)

    @property
    def change_ns(self) -> I64:
        """Duration on the second side minus that on the first, int64 [n]; absent counts 0."""
        return np.asarray(np.maximum(self.dur_ns[1], 0) - np.maximum(self.dur_ns[0], 0))

    @property
    def largest_first(self) -> I64:
        """Rows in descending order of the size of their change, int64 [n]."""
        return np.argsort(-np.abs(self.change_ns), kind="stable")

    def count(self, op: int) -> int:
        """Count the rows of one kind."""
        return int((self.op == op).sum())

    def total_ns(self, op: int) -> int:
        """Sum the changes of all rows of one kind."""
        return int(self.change_ns[self.op == op].sum())

    def extent_ns(self, side: int) -> int:
        """Return the time from the first start to the last end of a side."""
        there = self.dur_ns[side] >= 0
        return int((self.start_ns[side] + self.dur_ns[side])[there].max(initial=0))


def step_diff(view: View, one: Side, other: Side) -> StepDiff:
    """Match the device work of two sides by the difference of their sequences of names.

    Streams are paired by their number, the remaining ones in order of their number of kernels.

    Raises:
        KeyError: a rank does not exist.
        TooDifferentError: the sequences are not versions of each other.
    """
    sides = _Side.of(view, one), _Side.of(view, other)
    names: dict[str, int] = {}
    parts: list[I64] = []
    streams: list[str] = []
    for label, rows in _paired(*sides):
        ids = [side.names(chosen, names) for side, chosen in zip(sides, rows, strict=True)]
        found = difference(*ids)
        parts.append(_rows(sides, rows, (found.one, found.other), len(streams), ids))
        streams.append(label)
    columns = np.concatenate([np.empty((7, 0), np.int64), *parts], axis=1)
    columns = columns[:, np.argsort(columns[6], kind="stable")]
    return StepDiff(
        sides=(one, other),
        origin_ns=(_on_job_clock(view, sides[0]), _on_job_clock(view, sides[1])),
        op=columns[0].astype(np.int8),
        start_ns=columns[1:3],
        dur_ns=columns[3:5],
        name=columns[5] // _STREAMS,
        names=tuple(names),
        stream=columns[5] % _STREAMS,
        streams=tuple(streams),
    )


def _on_job_clock(view: View, side: _Side) -> int:
    return int(view.on_job_clock(side.trace.label, np.array(side.first_ns, np.int64)))


_STREAMS: Final = 1 << 20


class _Side(Struct, frozen=True):
    trace: RankTrace
    gpu: Events
    rows: I64

    @classmethod
    def of(cls, view: View, side: Side) -> _Side:
        facts = view.facts.ranks[side.label]
        gpu = facts.trace.group("gpu")
        if side.step is not None:
            rows = np.flatnonzero(facts.work.ids == side.step)
        else:
            rank = next(rank for rank in view.ranks if rank.label == side.label)
            rows = np.flatnonzero(rank.starts_inside)
        return cls(facts.trace, gpu, rows)

    @property
    def first_ns(self) -> int:
        """Start of the first work, 0 without work."""
        return int(self.gpu.start_ns[self.rows[0]]) if len(self.rows) else 0

    def streams(self) -> dict[str, I64]:
        """Rows by stream, the stream with the most rows first."""
        tracks = self.gpu.track[self.rows]
        found: dict[str, I64] = {}
        for track in distinct_values(tracks).tolist():
            name = self.trace.tracks[track].tid if track >= 0 else ""
            found[name] = np.concatenate(
                (found.get(name, self.rows[:0]), self.rows[tracks == track])
            )
        return dict(sorted(found.items(), key=lambda item: (-len(item[1]), item[0])))

    def names(self, rows: I64, known: dict[str, int]) -> I64:
        """Ids of names, shared by both sides."""
        distinct, place = unique_inverse(self.gpu.name[rows])
        ids = [known.setdefault(self.trace.text(one), len(known)) for one in distinct.tolist()]
        return np.array(ids, np.int64)[place] if ids else np.empty(0, np.int64)


def _paired(one: _Side, other: _Side) -> Iterator[tuple[str, tuple[I64, I64]]]:
    left, right = one.streams(), other.streams()
    for name in [name for name in left if name in right]:
        yield name, (left.pop(name), right.pop(name))
    nothing = np.empty(0, np.int64)
    for index in range(max(len(left), len(right))):
        names = [list(side)[index] if index < len(side) else "" for side in (left, right)]
        rows = (left.get(names[0], nothing), right.get(names[1], nothing))
        yield "/".join(dict.fromkeys(name for name in names if name)), rows


def _rows(
    sides: tuple[_Side, _Side],
    rows: tuple[I64, I64],
    matched: tuple[I64, I64],
    stream: int,
    ids: list[I64],
) -> I64:
    """Columns of one pair of streams: op, starts, durations, name with stream, sort key."""
    only = [
        np.setdiff1d(np.arange(len(row)), found) for row, found in zip(rows, matched, strict=True)
    ]
    sizes = len(matched[0]), len(only[0]), len(only[1])
    at = np.full((2, sum(sizes)), ABSENT, np.int64)
    at[0, : sizes[0]], at[1, : sizes[0]] = matched
    at[0, sizes[0] : sizes[0] + sizes[1]] = only[0]
    at[1, sizes[0] + sizes[1] :] = only[1]
    start, dur = np.full(at.shape, ABSENT, np.int64), np.full(at.shape, ABSENT, np.int64)
    name = np.zeros(sum(sizes), np.int64)
    for index, side in enumerate(sides):
        there = at[index] >= 0
        chosen = rows[index][at[index, there]]
        start[index, there] = side.gpu.start_ns[chosen] - side.first_ns
        dur[index, there] = side.gpu.dur_ns[chosen]
        name[there] = ids[index][at[index, there]]
    op = np.repeat((MATCHED, MISSING_HERE, ADDED), sizes)
    return np.stack((op, *start, *dur, name * _STREAMS + stream, _order(at, start, matched)))


def _order(at: I64, start: I64, matched: tuple[I64, I64]) -> I64:
    """Start of each row on the first side; an added row has that of the match it follows."""
    key: I64 = start[0].copy()
    added = at[0] < 0
    before = np.searchsorted(matched[1], at[1, added]) - 1
    starts = start[0, : len(matched[0])]
    key[added] = np.where(before >= 0, np.append(starts, 0)[before], 0)
    return key
