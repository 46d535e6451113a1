"""Collectives of one communicator as arrays for charts and for moving between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from ccltui.draw.alignment_chart import ABSENT, Heat, scale_top_ns
from ccltui.parsers.array_types import I8, I32, I64, Bool

NOBODY = -1
_COLUMNS = (
    *("start_ns", "dur_ns", "present", "late_ns", "wait_ns", "lag_ns", "last"),
    *("kind_id", "message_bytes", "step", "confidence", "row", "begins"),
)


class Communicator(Struct, frozen=True, dict=True):
    """n collectives of m ranks in order of time; times in ns since the job's origin.

    ``late_ns`` [n, m] is how long after the first each rank arrived, ``wait_ns`` [n, m] how
    long it waited for the last; both are ``ABSENT`` where that is unknown. ``last`` [n] is
    the rank that is blamed, ``NOBODY`` for a tie. ``begins`` [n] marks the collectives with which
    the recording begins: the cause of a late rank is not recorded for them. ``row`` [n] is the
    place in the arrivals of matched group ``number``; ``clock`` describes how far starts
    can be compared. ``floor_ns`` is the lag up to which no rank is blamed,
    ``drawn_ns`` the one from which a chart draws a rank as late.
    """

    name: str
    labels: tuple[str, ...]
    start_ns: I64
    dur_ns: I64
    present: Bool
    late_ns: I64
    wait_ns: I64
    lag_ns: I64
    last: I32
    kind: tuple[str, ...]
    kind_id: I8
    message_bytes: I64
    step: I64
    confidence: I8
    begins: Bool
    number: int
    row: npt.NDArray[np.intp]
    floor_ns: int
    drawn_ns: int
    clock: str = ""
    group: int = -1  # index among the groups of the job, -1 where none is named

    def __len__(self) -> int:
        return len(self.lag_ns)

    @cached_property
    def heat(self) -> Heat:
        """Lateness as ranks × collectives."""
        return Heat(np.ascontiguousarray(self.late_ns.T))

    @cached_property
    def presence(self) -> Heat:
        """Which ranks take part, without lateness: for matches that the clocks disprove."""
        return Heat(np.ascontiguousarray(np.where(self.present, 0, ABSENT).astype(np.int64).T))

    @cached_property
    def harm_ns(self) -> I64:
        """Time that all ranks together waited, int64 [n]; 0 where no rank is to blame."""
        waits = np.where(self.wait_ns > 0, self.wait_ns, 0).sum(axis=1)
        harm: I64 = np.where(self.last != NOBODY, waits, 0)
        return harm

    @cached_property
    def by_harm(self) -> npt.NDArray[np.intp]:
        """Collectives that caused waits, the longest first; those that begin the trace last."""
        order = np.lexsort((-self.harm_ns, self.begins))
        return order[self.harm_ns[order] > 0]

    @cached_property
    def first_ns(self) -> I64:
        """Arrival of the first rank, int64 [n], ascending but for ties of uncertain clocks."""
        never = np.iinfo(np.int64).max
        first: I64 = np.where(self.present, self.start_ns, never).min(axis=1)
        return first

    def top_ns(self, floor_ns: int, *, even: bool) -> int:
        """Return the top of the scale of lag.

        Of ``even`` steps the largest lag, at least twice the floor; else that of equal factors.
        """
        if even:
            return max(int(self.lag_ns.max(initial=0)), 2 * floor_ns)
        return scale_top_ns(self.lag_ns, floor_ns)

    def moment_ns(self, k: int) -> int:
        """Return the time to show on a timeline: arrival of the last rank, else of the first."""
        last = int(self.last[k])
        return int(self.first_ns[k] if last == NOBODY else self.start_ns[k, last])

    def type_of(self, k: int) -> str:
        """Return the type of a collective."""
        return self.kind[int(self.kind_id[k])]

    def culprit(self, k: int) -> str | None:
        """Return the label of the rank that arrived last, None in a tie."""
        last = int(self.last[k])
        return None if last == NOBODY else self.labels[last]

    def nearest(self, time_ns: int) -> int | None:
        """Return the collective that began last before a time, else the first."""
        if not len(self):
            return None
        return max(int(np.searchsorted(self.first_ns, time_ns, side="right")) - 1, 0)

    def next_over(self, floor_ns: int, k: int | None, forward: bool) -> int | None:
        """Return the next collective in time whose lag is above a floor."""
        over = np.flatnonzero((self.lag_ns >= floor_ns) & (self.last != NOBODY))
        if k is not None:
            over = over[over > k] if forward else over[over < k]
        if not len(over):
            return None
        return int(over[0] if forward else over[-1])

    def records(self) -> Iterator[dict[str, str | int | float | None]]:
        """Yield every collective as a row of an exported table, with the lateness of each rank."""
        for k in range(len(self)):
            late = {
                f"late_ns_{label}": int(self.late_ns[k, i]) for i, label in enumerate(self.labels)
            }
            cells: dict[str, int] = {
                "start_ns": int(self.first_ns[k]),
                "lag_ns": int(self.lag_ns[k]),
                "message_bytes": int(self.message_bytes[k]),
                "step": int(self.step[k]),
                **late,
            }
            known = {
                name: None if value < 0 and name != "start_ns" else value
                for name, value in cells.items()
            }
            yield {
                "communicator": self.name,
                "k": k,
                "type": self.type_of(k),
                "last": self.culprit(k),
                **known,
            }

    def take(self, rows: npt.NDArray[np.intp] | Bool) -> Communicator:
        """Return the same communicator with only some of its collectives."""
        return replace(self, **{name: getattr(self, name)[rows] for name in _COLUMNS})


class WorstFirst(Struct, frozen=True):
    """Collectives of all communicators that caused waits, the longest first; n rows.

    ``communicator`` and ``k`` [n] name each; those that begin the trace are last. ``places`` has
    for each communicator the row of each of its collectives, ``NOBODY`` where no rank waited.
    """

    communicator: I32
    k: I64
    places: tuple[I64, ...] = ()

    def __len__(self) -> int:
        return len(self.k)

    def place_of(self, communicator: int, k: int) -> int | None:
        """Return the row of a collective, None when no rank waited."""
        if communicator >= len(self.places) or k >= len(self.places[communicator]):
            return None
        place = int(self.places[communicator][k])
        return None if place == NOBODY else place


def worst_first(communicators: Sequence[Communicator]) -> WorstFirst:
    """Return the order of all collectives by caused wait."""
    parts = [one.by_harm for one in communicators]
    owner = np.repeat(np.arange(len(parts), dtype=np.int32), [len(part) for part in parts])
    k = np.concatenate([np.empty(0, np.int64), *parts]).astype(np.int64)
    pairs = list(zip(communicators, parts, strict=True))
    harm = np.concatenate([np.empty(0, np.int64), *(one.harm_ns[part] for one, part in pairs)])
    begins = np.concatenate([np.empty(0, np.bool_), *(one.begins[part] for one, part in pairs)])
    order = np.lexsort((-harm, begins))
    owner, k = owner[order], k[order]
    places = tuple(np.full(len(one), NOBODY, np.int64) for one in communicators)
    for index, own in enumerate(places):
        rows = np.flatnonzero(owner == index)
        own[k[rows]] = rows
    return WorstFirst(owner, k, places)


class RankCalls(Struct, frozen=True):
    """Matched collectives of one rank in order of start, over all communicators."""

    start_ns: I64
    communicator: I32
    k: I64

    def after(self, time_ns: int) -> int | None:
        """Return the row of the first collective that starts later."""
        row = int(np.searchsorted(self.start_ns, time_ns, side="right"))
        return row if row < len(self.start_ns) else None

    def before(self, time_ns: int) -> int | None:
        """Return the row of the last collective that starts earlier."""
        row = int(np.searchsorted(self.start_ns, time_ns, side="left")) - 1
        return row if row >= 0 else None


def calls_by_rank(communicators: Sequence[Communicator]) -> dict[str, RankCalls]:
    """Return the collectives of each rank in all communicators."""
    parts: dict[str, list[tuple[I64, I32, I64]]] = {}
    for index, communicator in enumerate(communicators):
        for member, label in enumerate(communicator.labels):
            rows = np.flatnonzero(communicator.present[:, member])
            starts = communicator.start_ns[rows, member]
            owner = np.full(len(rows), index, np.int32)
            parts.setdefault(label, []).append((starts, owner, rows.astype(np.int64)))
    return {label: _sorted_calls(columns) for label, columns in parts.items()}


def _sorted_calls(columns: list[tuple[I64, I32, I64]]) -> RankCalls:
    starts, owners, rows = (np.concatenate(part) for part in zip(*columns, strict=True))
    order = np.argsort(starts, kind="stable")
    return RankCalls(starts[order], owners[order], rows[order])


def harm_by_rank(communicators: Sequence[Communicator]) -> dict[str, int]:
    """Return the time that others waited for each rank, over all communicators."""
    harm: dict[str, int] = {}
    for communicator in communicators:
        for member, label in enumerate(communicator.labels):
            caused = communicator.harm_ns[communicator.last == member].sum()
            harm[label] = harm.get(label, 0) + int(caused)
    return harm


def groups_by_size(communicators: Sequence[Communicator]) -> dict[int, dict[str, int]]:
    """Return for each number of members which communicator of that size a rank is in.

    Communicators of one size are numbered by their first members; a rank that is in several, as
    in overlapping groups, counts with the first.
    """
    found: dict[int, dict[str, int]] = {}
    for one in sorted(communicators, key=lambda one: _natural(one.labels[0] if one.labels else "")):
        places = found.setdefault(len(one.labels), {})
        number = max(places.values(), default=-1) + 1
        for label in one.labels:
            places.setdefault(label, number)
    return found


def _natural(label: str) -> tuple[int, str]:
    """Return a sort key: ranks by number, then other labels by name."""
    return (int(label), "") if label.isdigit() else (1 << 62, label)
