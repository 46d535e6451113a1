"""Keep the times of device events that can be true, and say what was wrong with the others.

    launch - start > TOLERANCE                    begins before the call that launched it
    start outside of the host's events            by more than their extent, or at time 0
    next start on its stream < end - TOLERANCE    work of one stream is serial

So do copies of events, and events that never ended. Causes are known: clocks of devices that jump,
records that were never filled in, durations that overflow (CUPTI and ROCm). Of 107 public
recordings of seven years none has a kernel more than 102 us before its launch, two kernels of a
stream that overlap by more than 13 us, or copies.

Every trace passes through here once it is read. An event with an impossible time is still an event:
it moves to a group of its own, where it counts in counts, and belongs to the step of its launch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, overload

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field, structs

from ccltui.parsers.array_types import I64, U32, Bool
from ccltui.parsers.columns import MISSING, UNTIMED, Events, Group, Note, RankTrace

DEAD_CLOCK: Final = "device_clock"
MESSAGES: Final = {
    DEAD_CLOCK: "the clock of the device was not recorded or is wrong: there are no device times",
    "at_zero": "device events at time 0, which means not measured, are counted, not timed",
    "before_launch": (
        "device events that begin more than 1 ms before their own launch are counted, not timed"
    ),
    "outside": "device events outside of the recorded time are counted, not timed",
    "overlong": (
        "device events that last more than 1 ms past the next start on their stream end there"
    ),
    "copies": "exact copies of device events are counted once",
    "call_copies": "exact copies of calls of the runtime are counted once",
}
"""Message of each code of a note; all but the first are fields of `Impossible`."""
DROPPED: Final = frozenset({"negative_duration", "bad_time"})
"""Codes of notes on events that readers left out because of their times."""


def lost_times(trace: RankTrace) -> int:
    """Return the number of device events of a rank that are not timed as they are recorded.

    Those that readers left out because of their times count too.
    """
    return sum(note.count for note in trace.notes if note.code in _OF_EVENTS)


_OF_EVENTS: Final = (MESSAGES.keys() | DROPPED) - {DEAD_CLOCK, "call_copies"}


_PIECE_ROWS: Final = 1 << 18


def aligned(events: Events, names: Sequence[str]) -> Iterator[tuple[npt.NDArray[Any], ...]]:
    """Yield the same rows of each column, in pieces that are valid until the next.

    Columns in memory come whole. Those on disk come in pieces of their own lengths, and one of a
    single value in one piece.
    """
    if not events.comes_in_pieces:
        yield tuple(getattr(events, name) for name in names)
        return
    readers = [_Reader(events.pieces(name)) for name in names]
    for begin in range(0, len(events), _PIECE_ROWS):
        count = min(_PIECE_ROWS, len(events) - begin)
        yield tuple(reader.take(count) for reader in readers)


class _Reader:
    def __init__(self, pieces: Iterator[npt.NDArray[Any]]) -> None:
        self._pieces = pieces
        self._piece: npt.NDArray[Any] = np.empty(0)
        self._done = 0

    def take(self, count: int) -> npt.NDArray[Any]:
        """Return the next rows; a copy, as the piece that they are in may be overwritten."""
        parts = []
        while count:
            if self._done == len(self._piece):
                self._piece, self._done = next(self._pieces), 0
            part = self._piece[self._done : self._done + count]
            self._done += len(part)
            count -= len(part)
            parts.append(part.copy())
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


UNKNOWN_NS: Final = np.iinfo(np.int64).min
"""Launch time of work without a launch record."""
_MAX_TABLE_RATIO: Final = 8
"""A table of ids is quicker than a search up to so many ids in its range per call."""
_NONE: Final = np.uint32(0xFFFF_FFFF)


class LaunchTable(Struct, frozen=True):
    """Start of the first call with each correlation id.

    Ids are consecutive numbers in most files: ``ticks`` has an entry for each number from ``low``
    on, in units of 2**``shift`` ns after ``base_ns``. Elsewhere it has one for each of ``ids``.
    """

    low: int
    base_ns: int
    shift: int
    ticks: U32
    ids: I64 | None = None

    @classmethod
    def of(cls, calls: Events) -> LaunchTable:
        """Return the table of the calls of a rank, read piece by piece."""
        low, high, count = _range(calls)
        if not count:
            return cls(0, 0, 0, np.empty(0, np.uint32))
        base = calls.first_ns
        last = max(int(piece[-1]) for piece in calls.pieces("start_ns") if len(piece))
        shift = max((last - base).bit_length() - 31, 0)  # about 1 us in a recording of an hour
        if high - low > _MAX_TABLE_RATIO * count:
            return cls._searched(calls, base, shift)
        ticks = np.full(high - low + 1, _NONE, np.uint32)
        for start, correlation in aligned(calls, ("start_ns", "correlation")):
            known = np.flatnonzero(correlation >= 0)[::-1]
            where, when = correlation[known] - low, _ticks(start[known], base, shift)
            # Calls are in order of their starts, and the last value that is assigned remains: of
            # several calls with one id the first, here and over pieces.
            is_new = ticks[where] == _NONE
            ticks[where[is_new]] = when[is_new]
        return cls(low, base, shift, ticks)

    @classmethod
    def _searched(cls, calls: Events, base: int, shift: int) -> LaunchTable:
        correlation = np.asarray(calls.correlation)
        rows = np.flatnonzero(correlation >= 0)
        ids, first = np.unique(correlation[rows], return_index=True)
        when = _ticks(np.asarray(calls.start_ns)[rows[first]], base, shift)
        return cls(0, base, shift, when, ids)

    def launched_ns(self, correlation: I64) -> I64:
        """Return the launch of each id, at most 2**shift ns early; `UNKNOWN_NS` where none is."""
        if not len(self.ticks):
            return np.full(len(correlation), UNKNOWN_NS)
        if self.ids is None:
            # Ids outside of the table wrap around to large numbers.
            offset = (correlation - self.low).view(np.uint64)
            known = offset < len(self.ticks)
            place = np.minimum(offset, len(self.ticks) - 1).view(np.int64)
        else:
            place = np.minimum(np.searchsorted(self.ids, correlation), len(self.ids) - 1)
            known = self.ids[place] == correlation
        ticks = self.ticks.take(place)
        known &= ticks != _NONE
        times = (ticks.astype(np.int64) << self.shift) + self.base_ns
        return np.where(known, times, UNKNOWN_NS)


def _range(calls: Events) -> tuple[int, int, int]:
    """Return the lowest and the highest id, and the number of calls with one."""
    low, high, count = np.iinfo(np.int64).max, -1, 0
    for piece in calls.pieces("correlation"):
        known = piece[piece >= 0]
        if len(known):
            low, high = min(low, int(known.min())), max(high, int(known.max()))
            count += len(known)
    return int(low), high, count


def _ticks(start_ns: I64, base_ns: int, shift: int) -> U32:
    return np.asarray((start_ns - base_ns) >> shift).astype(np.uint32)


TOLERANCE_NS: Final = 1_000_000
"""Ten times what is seen in sound recordings, far below the damage that faults do."""
_SHORTEST_EXTENT_NS: Final = 20_000_000
"""Extent of the host's events at least: work of one short launch may outlast the recording."""
_HOST: Final[tuple[Group, ...]] = ("runtime", "cpu_ops", "annotations", "python")
_WRONG_CLOCK: Final = 0.5
"""Share of the launched work with a time that begins before its launch, above which the clock is
wrong and nothing is timed: the times of the rest are as far off, by chance after their launch."""
_DEAD: Final = 0.9
"""Share of the launched work without a usable time, above which the rest tells nothing."""
_FAR_NS: Final = 1_000_000_000
"""Time without device work that does not follow the first event of a recording."""
_ENDLESS: Final = np.iinfo(np.int64).max


class Impossible(Struct):
    """Rows of ``gpu`` with impossible times, by reason; all row numbers ascend.

    Attributes:
        at_zero: begin at time 0, where profilers write what they did not measure.
        before_launch: begin before their own launch.
        outside: begin or end outside of the recording.
        copies: repeat the row before, exactly.
        call_copies: rows of ``runtime`` that do so: a launch twice looks like that of a graph.
        overlong: last past the next start on their stream.
        ends_ns: that start, by row of ``overlong``.
        is_dead: whether the clock of the device is wrong, so that no row has a usable time.
    """

    at_zero: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    before_launch: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    outside: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    copies: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    call_copies: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    overlong: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    ends_ns: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    is_dead: bool = False

    def __bool__(self) -> bool:
        return any(len(getattr(self, code)) for code in MESSAGES if code != DEAD_CLOCK)


def find_impossible(trace: RankTrace, *, streams_are_serial: bool = True) -> Impossible:
    """Return which rows of ``gpu`` have impossible times, and which of ``runtime`` are copies.

    Args:
        trace: The columns of a rank.
        streams_are_serial: False where tracks of the device hold work that runs side by side.
    """
    gpu = trace.group("gpu")
    if not len(gpu):
        return Impossible()
    limits = limits_of(trace, gpu)
    search = _Search(trace, limits, streams_are_serial=streams_are_serial)
    for piece in aligned(gpu, (*_COMPARED, "category")):
        search.add(*piece[:-1], category=piece[-1])
    found = search.result()
    found.call_copies = _copies_of(trace.group("runtime"))
    return found


_COMPARED: Final = ("start_ns", "dur_ns", "track", "correlation", "name")


def _copies_of(events: Events) -> I64:
    """Return the rows of a group that repeat another one."""
    copies, done, found = _Copies(), 0, [np.empty(0, np.int64)]
    for piece in aligned(events, _COMPARED) if len(events) else ():
        rows = np.arange(done, done + len(piece[0]))
        found.append(copies.rows_of(_Rows(rows, *piece)))
        done += len(rows)
    return np.concatenate(found)


class Limits(Struct, frozen=True):
    """Times outside of which no event of the device can be.

    Attributes:
        first_ns: Earliest start.
        last_ns: Latest start and end.
        zero_ns: The zero of the file's times.
        after_zero_ns: Time from it to the first event of the device that begins later.
        extent_ns: Time from that to the last start.
    """

    first_ns: int = -_ENDLESS
    last_ns: int = _ENDLESS
    zero_ns: int = 0
    after_zero_ns: int = 0
    extent_ns: int = 0

    def outside(self, start_ns: I64) -> Bool:
        """Return which events begin outside."""
        return np.asarray((start_ns < self.first_ns) | (start_ns > self.last_ns))

    def endless(self, start_ns: I64, dur_ns: I64) -> Bool:
        """Return which events begin inside and end outside."""
        return np.asarray((dur_ns > self.last_ns - start_ns) & ~self.outside(start_ns))

    def unmeasured(self, start_ns: I64, dur_ns: I64) -> Bool:
        """Return which events at time 0 were not measured, rather than are the first ones.

        The recording began at another time where all others begin long after.
        """
        zero = start_ns == self.zero_ns
        if not zero.any():
            return np.asarray(zero)
        far = self.after_zero_ns > max(self.extent_ns, _FAR_NS)
        is_empty = (dur_ns == 0) & (self.after_zero_ns > TOLERANCE_NS)
        return np.asarray(zero & (far | is_empty))


def limits_of(trace: RankTrace, gpu: Events) -> Limits:
    """Return the limits that the host's events set, none where there are no such events.

    Calls of the runtime alone are looked at where all device work lies within their extent.
    """
    first, last, longest = _extent_of_starts(gpu)
    after = first if first != trace.base_ns else _first_after(gpu, trace.base_ns)
    if after == _ENDLESS and len(gpu) == 1:
        after = first  # the only event may begin the recording
    zero = (trace.base_ns, after - trace.base_ns, last - after)
    choices = (_HOST[:1], _HOST) if len(trace.group("runtime")) else (_HOST,)
    limits = Limits(-_ENDLESS, _ENDLESS, *zero)
    for groups in choices:
        host = _host_extent(trace, groups)
        if host is None:
            break
        extent = max(host[1] - host[0], _SHORTEST_EXTENT_NS)
        if groups == _HOST:
            # Hosts that wait for nothing are done long before their devices, and ranges may mark a
            # part of the work only.
            extent = max(extent, 3 * _middle_extent(gpu))
        limits = Limits(host[0] - extent, host[1] + extent, *zero)
        if limits.first_ns <= first and last + longest <= limits.last_ns:
            break
    return limits


def _first_after(events: Events, time_ns: int) -> int:
    """Return the first start after a time, the largest time where there is none."""
    for (start,) in aligned(events, ("start_ns",)):
        place = int(np.searchsorted(start, time_ns, side="right"))
        if place < len(start):
            return int(start[place])
    return _ENDLESS


def _extent_of_starts(events: Events) -> tuple[int, int, int]:
    """Return the first and the last start, and the longest duration."""
    first, last, longest = _ENDLESS, -_ENDLESS, 0
    for start, dur in aligned(events, ("start_ns", "dur_ns")):
        first, last = min(first, int(start[0])), max(last, int(start[-1]))
        longest = max(longest, int(dur.max()))
    return first, last, longest


def _host_extent(trace: RankTrace, groups: Iterable[Group]) -> tuple[int, int] | None:
    """Return the first start and the last end of host events, None without any."""
    found = []
    for group in groups:
        events = trace.group(group)
        for start, dur in aligned(events, ("start_ns", "dur_ns")) if len(events) else ():
            found.append((int(start[0]), int((start + dur).max())))
    if not found:
        return None
    return min(first for first, _ in found), max(last for _, last in found)


def _middle_extent(gpu: Events) -> int:
    """Return the time from the start of the first quarter of the work to that of the last one.

    Half of the time of even work, whatever the times of a few events are.
    """
    start = np.asarray(gpu.start_ns)
    return int(start[len(start) * 3 // 4] - start[len(start) // 4])


class _Search:
    """Looks at the rows of ``gpu`` piece by piece."""

    def __init__(self, trace: RankTrace, limits: Limits, *, streams_are_serial: bool) -> None:
        self._limits = limits
        self._launches = LaunchTable.of(trace.group("runtime"))
        # Without a number of the stream a track may hold the work of several.
        self._is_serial = np.array([track.stream != MISSING for track in trace.tracks], np.bool_)
        self._is_serial &= streams_are_serial
        self._is_serial = np.append(self._is_serial, False)  # of track -1
        self._found: dict[str, list[I64]] = {}
        self._launched = np.zeros(4, np.int64)  # all, at time 0, before their launch, not believed
        self._kernel = trace.strings.find("kernel")
        self._num_kernels = self._num_bad_kernels = self._num_bad = 0
        self._done = 0
        self._open = _Rows.none()  # may last into the next piece
        self._copies = _Copies()

    def add(
        self, start: I64, dur: I64, track: I64, correlation: I64, name: I64, *, category: I64
    ) -> None:
        """Look at the next rows."""
        rows = np.arange(self._done, self._done + len(start))
        piece = _Rows(rows, start, dur, track, correlation, name)
        self._done += len(start)
        bad = self._misplaced(piece)
        kernel = category == self._kernel
        self._num_kernels += int(kernel.sum())
        self._num_bad_kernels += int((kernel & bad).sum())
        copies = self._copies.rows_of(piece)
        if len(copies):
            self._note("copies", copies)
            bad[copies - rows[0]] = True
        self._find_overlong(piece, bad)

    def _note(self, reason: str, rows: I64) -> None:
        if len(rows):
            self._found.setdefault(reason, []).append(rows)

    def _misplaced(self, piece: _Rows) -> Bool:
        """Note rows at time 0, before their launch and outside of the recording; return them."""
        launched = self._launches.launched_ns(piece.correlation)
        # What has no launch counts as launched at the lowest number, which must not wrap around.
        early = piece.start < np.maximum(launched, UNKNOWN_NS + TOLERANCE_NS) - TOLERANCE_NS
        outside = self._limits.outside(piece.start)
        zero = self._limits.unmeasured(piece.start, piece.dur)
        zero |= (piece.start == self._limits.zero_ns) & (early | outside)
        is_launched = launched != UNKNOWN_NS
        bad = zero | early | outside
        counted = (is_launched, is_launched & zero, early & ~zero, is_launched & bad)
        self._launched += [np.count_nonzero(mask) for mask in counted]
        self._num_bad += int(bad.sum())
        endless = self._limits.endless(piece.start, piece.dur) & ~bad
        self._note("endless", piece.row[endless])
        if bad.any():
            self._note("at_zero", piece.row[zero])
            self._note("before_launch", piece.row[early & ~zero])
            self._note("outside", piece.row[outside & ~early & ~zero])
        return np.asarray(bad)

    def _find_overlong(self, piece: _Rows, bad: Bool) -> None:
        """Note rows that last past the next start on their stream; keep what may last longer."""
        long = piece.dur > TOLERANCE_NS
        if not long.any() and not len(self._open.row):
            return
        believed = piece if not bad.any() else piece.take(np.flatnonzero(~bad))
        rows = self._open.joined(believed) if len(self._open.row) else believed
        if not len(rows.row):
            return
        long = (rows.dur > TOLERANCE_NS) & self._is_serial[rows.track]
        later = []
        for track in np.unique(rows.track[long]).tolist():
            on_track = np.flatnonzero(rows.track == track)
            chosen = np.flatnonzero(long[on_track])
            self._clip(rows, on_track, chosen)
            later.append(on_track[chosen])
        kept = np.sort(np.concatenate([np.empty(0, np.int64), *later]))
        kept = kept[rows.start[kept] > int(rows.start[-1]) - rows.dur[kept] + TOLERANCE_NS]
        clipped = np.concatenate([np.empty(0, np.int64), *self._found.get("overlong", [])])
        kept = kept[~np.isin(rows.row[kept], clipped)] if len(clipped) else kept
        self._open = rows.take(kept)

    def _clip(self, rows: _Rows, on_track: I64, chosen: I64) -> None:
        """Note which of the ``chosen`` rows of a stream last past the next start on it.

        A graph is launched by one call, and its branches may run side by side.
        """
        start, correlation = rows.start[on_track], rows.correlation[on_track]
        other = (correlation[1:] != correlation[:-1]) | (correlation[1:] == MISSING)
        changes = np.append(np.flatnonzero(other) + 1, len(on_track))
        following = changes[np.searchsorted(changes, chosen, side="right")]
        next_ns = np.append(start, _ENDLESS)[following]
        clipped = next_ns - start[chosen] < rows.dur[on_track[chosen]] - TOLERANCE_NS
        self._note("overlong", rows.row[on_track[chosen[clipped]]])
        self._note("ends_ns", next_ns[clipped])

    def result(self) -> Impossible:
        """Return what was found in all rows."""
        rows = {name: np.concatenate(parts) for name, parts in self._found.items()}
        endless = rows.pop("endless", np.empty(0, np.int64))
        found = Impossible()
        for name, parts in rows.items():
            setattr(found, name, parts)
        order = np.argsort(found.overlong)
        found.overlong, found.ends_ns = found.overlong[order], found.ends_ns[order]
        # What lasts past the end of the recording, and has nothing after it that bounds it.
        endless = endless[~np.isin(endless, found.overlong)]
        found.outside = np.sort(np.concatenate([found.outside, endless]))
        found.is_dead = self._is_dead()
        return found

    def _is_dead(self) -> bool:
        if self._num_kernels and self._num_bad_kernels == self._num_kernels:
            return True
        launched, zero, early, bad = self._launched.tolist()
        is_wrong = early > _WRONG_CLOCK * (launched - zero) or bad > _DEAD * launched
        return bool(is_wrong if launched else self._num_bad == self._done)


_MOST_TIED: Final = 1 << 12
"""Rows of one start that are compared with the next piece."""


class _Rows(Struct, frozen=True):
    row: I64
    start: I64
    dur: I64
    track: I64
    correlation: I64
    name: I64

    @classmethod
    def none(cls) -> _Rows:
        return cls(*(np.empty(0, np.int64) for _ in range(6)))

    def _columns(self) -> Iterator[I64]:
        yield from (self.row, self.start, self.dur, self.track, self.correlation, self.name)

    def take(self, places: I64) -> _Rows:
        return _Rows(*(column[places] for column in self._columns()))

    def joined(self, later: _Rows) -> _Rows:
        pairs = zip(self._columns(), later._columns(), strict=True)
        return _Rows(*(np.concatenate(pair) for pair in pairs))


class _Copies:
    """Finds rows that repeat another one, piece by piece."""

    def __init__(self) -> None:
        self._last = _Rows.none()  # rows that start when the last one does

    def rows_of(self, piece: _Rows) -> I64:
        """Return the rows of a piece that repeat another one of it, or of the piece before."""
        joined = piece if not len(self._last.row) else self._last.joined(piece)
        ties = joined.start[1:] == joined.start[:-1]
        self._last = piece.take(np.flatnonzero(piece.start == piece.start[-1])[-_MOST_TIED:])
        if not ties.any():
            return np.empty(0, np.int64)
        ties &= joined.dur[1:] == joined.dur[:-1]
        tied = joined.take(np.flatnonzero(np.append(False, ties) | np.append(ties, False)))
        columns = (tied.name, tied.correlation, tied.track, tied.dur, tied.start)
        order = np.lexsort((tied.row, *columns))
        same = np.ones(max(len(order) - 1, 0), np.bool_)
        for column in columns:
            same &= column[order[1:]] == column[order[:-1]]
        # Without a duration and a launch nothing tells copies from short events of one name.
        same &= ((tied.correlation >= 0) | (tied.dur > 0))[order[1:]]
        repeated: I64 = np.sort(tied.row[order[1:][same]])
        mine: I64 = repeated[repeated >= piece.row[0]]
        return mine


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
    if len(found.call_copies):
        once = np.ones(len(trace.group("runtime")), np.bool_)
        once[found.call_copies] = False
        _keep(events, "runtime", once)
    apart = _at_their_launch(trace, gpu, np.flatnonzero(untimed & ~dropped))
    if len(apart):
        events[UNTIMED] = apart
    return structs.replace(trace, events=events, notes=(*trace.notes, *_notes(found)))


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
    return some.take(order).with_columns(
        start_ns=launched[order], dur_ns=np.zeros(len(order), np.int64)
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
