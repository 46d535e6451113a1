"""Keep the times of device events that can be true, and say what was wrong with the others.

Every trace passes through here once it is read. An event with an impossible time is still an event:
it moves to a group of its own, where it counts in counts, and belongs to the step of its launch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, Final, overload

import numpy as np
import numpy.typing as npt

from ccltui.parsers.array_types import I64, Bool
from ccltui.parsers.columns import UNTIMED, Events, Group, Note, RankTrace
from ccltui.parsers.device.impossible_times import Impossible, Limits, find_impossible, limits_of
from ccltui.parsers.device.launch_table import UNKNOWN_NS, LaunchTable
from ccltui.parsers.device.note_codes import DEAD_CLOCK, MESSAGES

_COPIES_OF_DEVICE: Final[tuple[Group, ...]] = ("gpu_annotations", "gpu_sync")
"""Groups whose rows carry times of the device and are no work."""


class BelievedTraces(Sequence[RankTrace]):
    """The ranks of a file, each with its believed times; built on access, as the given ones are."""

    def __init__(self, traces: Sequence[RankTrace], *, streams_are_serial: bool) -> None:
        self._traces = traces
        self._streams_are_serial = streams_are_serial
        self._found: dict[int, Impossible] = {}

    def __len__(self) -> int:
        return len(self._traces)

    @overload
    def __getitem__(self, index: int) -> RankTrace: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[RankTrace]: ...
    def __getitem__(self, index: int | slice) -> RankTrace | Sequence[RankTrace]:
        """Return one rank. Raises OSError where its columns cannot be read back."""
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        place, trace = range(len(self))[index], self._traces[index]
        if place not in self._found:  # columns on disk are built anew on each access
            serial = self._streams_are_serial
            self._found[place] = find_impossible(trace, streams_are_serial=serial)
        return believed(trace, self._found[place])


def believed(trace: RankTrace, found: Impossible) -> RankTrace:
    """Return a trace whose device events have believed times only, the same one where all have.

    Args:
        trace: The columns of a rank, as its file states them.
        found: What `find_impossible` found in it.
    """
    if not found:
        return trace
    gpu = trace.group("gpu")
    untimed, dropped = _rows(found, len(gpu))
    events = dict(trace.events)
    for group in _COPIES_OF_DEVICE:
        _keep(events, group, _plausible(trace, group, found.is_dead, limits_of(trace, gpu)))
    _keep(events, "gpu", ~(untimed | dropped), found)
    apart = _at_their_launch(trace, gpu, np.flatnonzero(untimed & ~dropped))
    if len(apart):
        events[UNTIMED] = apart
    return dataclasses.replace(trace, events=events, notes=(*trace.notes, *_notes(found)))


def _rows(found: Impossible, count: int) -> tuple[Bool, Bool]:
    """Return masks of the rows without a time, and of those that repeat another."""
    untimed, dropped = np.full(count, found.is_dead), np.zeros(count, np.bool_)
    for rows in (found.at_zero, found.before_launch, found.outside):
        untimed[rows] = True
    dropped[found.copies] = True
    return untimed, dropped


def _plausible(trace: RankTrace, group: Group, is_dead: bool, limits: Limits) -> Bool:
    events = trace.group(group)
    if is_dead and group == "gpu_annotations":
        return np.zeros(len(events), np.bool_)
    start, dur = np.asarray(events.start_ns), np.asarray(events.dur_ns)
    wrong = limits.outside(start) | limits.endless(start, dur) | limits.unmeasured(start, dur)
    return np.asarray(~wrong)


def _keep(
    events: dict[Group, Events], group: Group, keep: Bool, found: Impossible | None = None
) -> None:
    """Keep the chosen rows of a group; of ``found`` take the ends of rows that last too long."""
    if group not in events or (keep.all() and found is None):
        return
    if not keep.any():
        del events[group]
        return
    rows = np.empty(0, np.int64) if found is None else found.overlong
    ends = np.empty(0, np.int64) if found is None else found.ends_ns
    kept = KeptEvents(events[group], keep, rows, ends)
    events[group] = kept if events[group].comes_in_pieces else kept.whole()


def _at_their_launch(trace: RankTrace, gpu: Events, rows: I64) -> Events:
    """Return rows of ``gpu`` without a time: with that of their launch, and no duration.

    Rows without a launch record are left out: no step and no window can be said to hold them.
    """
    if not len(rows):
        return Events.empty()
    some = gpu.take(rows)
    launched = LaunchTable.of(trace.group("runtime")).launched_ns(some.correlation)
    known = np.flatnonzero(launched != UNKNOWN_NS)
    order = known[np.argsort(launched[known], kind="stable")]
    return dataclasses.replace(
        some.take(order), start_ns=launched[order], dur_ns=np.zeros(len(order), np.int64)
    )


def _notes(found: Impossible) -> Iterator[Note]:
    if found.is_dead:
        yield Note(DEAD_CLOCK, MESSAGES[DEAD_CLOCK])
    for code in MESSAGES:
        rows = getattr(found, code, None)
        if rows is not None and len(rows):
            yield Note(code, MESSAGES[code], count=len(rows))


class KeptEvents(Events):
    """Some rows of events whose columns stay on disk, with other ends of a few of them."""

    __slots__ = ("_ends_ns", "_keep", "_overlong", "_whole")
    _whole: Events
    _keep: Bool
    _overlong: I64
    _ends_ns: I64

    def __init__(self, whole: Events, keep: Bool, overlong: I64, ends_ns: I64) -> None:
        object.__setattr__(self, "_whole", whole)
        object.__setattr__(self, "_keep", keep)
        object.__setattr__(self, "_overlong", overlong)
        object.__setattr__(self, "_ends_ns", ends_ns)

    def __len__(self) -> int:
        return int(np.count_nonzero(self._keep))

    def __getattr__(self, name: str) -> Any:
        """Read a column; the fields of the base class are never set."""
        if name not in _COLUMNS:
            raise AttributeError(name)
        column = getattr(self._whole, name)
        return column if not len(column) else self._kept(name, column, 0)

    def whole(self) -> Events:
        """Return the same rows with all columns in memory."""
        return Events(**{name: getattr(self, name) for name in _COLUMNS})

    @property
    def comes_in_pieces(self) -> bool:
        """True: every column can be read in pieces."""
        return True

    def pieces(self, name: str) -> Iterator[npt.NDArray[Any]]:
        """Yield a column in pieces, each valid until the next."""
        done = 0
        for piece in self._whole.pieces(name):
            if len(piece):
                yield self._kept(name, piece, done)
            done += len(piece)

    def _kept(self, name: str, piece: npt.NDArray[Any], first: int) -> npt.NDArray[Any]:
        keep = self._keep[first : first + len(piece)]
        if name == "dur_ns" and len(self._overlong):
            inside = (self._overlong >= first) & (self._overlong < first + len(piece))
            rows = self._overlong[inside]
            starts = np.asarray(self._whole.start_ns)[rows]
            piece = piece.copy()
            piece[rows - first] = self._ends_ns[inside] - starts
        return piece[keep]


_COLUMNS: Final = {name for name, _ in (*Events.COLUMNS, *Events.SPARSE)}
