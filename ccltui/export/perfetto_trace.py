"""Write the ranks of a view for Perfetto: as one trace on the corrected clock, or as a manifest.

In the trace every rank is a process with a track for each stream and thread. Beside them the
collectives of the rank are slices with lag, wait and latest rank, joined by flows to the same
collective on other ranks; delays that a rank caused are instants. Lags are counters of each
communicator. With the manifest Perfetto opens the original files on one clock.

Packets of Perfetto's protobuf format are written by hand: slices are encoded as rows of equal
length in numpy, at 18 to 30 times the rate of the message classes of the `perfetto` package
(`bench/export_rate.py`). A varint may be longer than its value needs, so every field has a fixed
place. Tests read the result with that package.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import orjson
from msgspec import structs

from ccltui.metrics.collectives.matching.match import CONFIDENCES
from ccltui.metrics.view.instances import GroupCalls, matched_calls
from ccltui.parsers.array_types import I32, I64, Bool
from ccltui.parsers.columns import GROUPS, Events, Group, RankTrace
from ccltui.parsers.numbers import duration
from ccltui.parsers.pftrace.packet_scan import PIECES
from ccltui.parsers.pftrace.rank_columns import packed_rank

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView


def places(start_ns: I64, end_ns: I64) -> tuple[I64, I64]:
    """Return the places of the begin and of the end of each slice among all begins and ends.

    At one time ends come first, the innermost first; a slice without length ends right after its
    begin.

    Args:
        start_ns: int64 [n], ascending; of equal ones the longer slice first.
        end_ns: int64 [n], not before the start.

    Returns:
        Two int64 [n]: together a permutation of 0 to 2n - 1.
    """
    empty = end_ns == start_ns
    empty_before = np.cumsum(empty) - empty
    long = np.flatnonzero(~empty)[::-1]  # of equal ends the slice that began last is first
    long = long[np.argsort(end_ns[long], kind="stable")]
    ends = end_ns[long]
    begin = np.arange(len(start_ns)) + np.searchsorted(ends, start_ns, side="right") + empty_before
    end = begin + 1
    begun = np.searchsorted(start_ns, ends, side="left")
    empty_until = np.append(empty_before, empty.sum())
    end[long] = np.arange(len(long)) + begun + empty_until[begun]
    return begin, end


def layers(start_ns: I64, end_ns: I64) -> Iterator[I64]:
    """Yield the rows of slices for as many tracks as it takes for the slices of each to be nested.

    Slices that begin within another one and end after it go to a further track.

    Args:
        start_ns: int64 [n], ascending; of equal ones the longer slice first.
        end_ns: int64 [n], not before the start.
    """
    rows = np.arange(len(start_ns))
    while len(rows):
        kept, left = rows, rows[:0]
        while (outlives := _outlives(start_ns[kept], end_ns[kept])).any():
            left = np.concatenate((left, kept[outlives]))
            kept = kept[~outlives]
        yield kept
        rows = np.sort(left)


def _outlives(start_ns: I64, end_ns: I64) -> Bool:
    """Mask of the slices that end after a slice which they began in.

    Such a slice is open on top of others when it begins, and less deep when it ends.
    """
    begin, end = places(start_ns, end_ns)
    sign = np.empty(2 * len(begin), np.int64)
    sign[begin], sign[end] = 1, -1
    depth = np.cumsum(sign)
    return np.asarray(depth[end] + 1 < depth[begin])


DEVICE_GROUPS: Final[tuple[Group, ...]] = ("gpu", "gpu_annotations")
ALL_GROUPS: Final[tuple[Group, ...]] = tuple(group for group in GROUPS if group != "gpu_sync")

_TRACKS_OF_RANK: Final = 1 << 21
_FIRST_COLLECTIVES: Final = 1 << 20
"""Tracks of a rank from here on are of collectives, `_LAYERS` for each communicator."""
_LAYERS: Final = 64
_JOB_SEQUENCE: Final = 1
_MAX_RANKS: Final = 1 << 14
_CATEGORIES: Final[dict[int, str]] = dict(enumerate(GROUPS, 1))
"""Interned categories: the groups of events."""


def perfetto_trace(
    view: View,
    groups: Sequence[Group] = ALL_GROUPS,
    *,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Iterator[bytes]:
    """Yield the trace in pieces of at most one track of one rank.

    Args:
        view: the job; its window, steps and ranks select the events by their start.
        groups: groups of events to write.
        progress: called with the numbers of ranks that are written and of all.
    """
    places_of = {rank.label: place for place, rank in enumerate(view.ranks)}
    if len(places_of) > _MAX_RANKS:
        raise ValueError(f"{len(places_of)} ranks: a trace has at most {_MAX_RANKS}")
    yield mark_packet()
    for rank in view.ranks:
        yield from _rank(view, rank, places_of[rank.label], groups)
        progress(places_of[rank.label] + 1, len(places_of))
    yield names_packet(_JOB_SEQUENCE, {})
    for number, group in enumerate(matched_calls(view)):
        yield from _collectives(group, number, places_of)


def _process_of(place: int) -> int:
    return (place + 1) * _TRACKS_OF_RANK


def _rank(view: View, rank: RankView, place: int, groups: Sequence[Group]) -> Iterator[bytes]:
    trace, process, sequence = rank.trace, _process_of(place), place + 2
    host = f" ({trace.host})" if trace.host else ""
    yield process_packet(process, place + 1, f"rank {rank.label}{host}")
    found = {group: _selected(rank, trace.group(group)) for group in groups}
    used = [np.unique(events.name) for events in found.values() if len(events)]
    names = {
        int(name) + 2: trace.text(int(name)) if name >= 0 else "unnamed"
        for name in (np.unique(np.concatenate(used)) if used else ())
    }
    yield names_packet(sequence, names, _CATEGORIES)
    next_track = process + 1
    for group, events in found.items():
        for number in np.unique(events.track).tolist():
            some = events.take(events.track == number)
            start = view.on_job_clock(rank.label, some.start_ns) - view.origin_ns
            end = np.maximum(view.on_job_clock(rank.label, some.end_ns) - view.origin_ns, start)
            order = np.lexsort((-end, start))  # a clock that drifts may change the order of ties
            start, end, some = (
                np.maximum(start[order], 0),
                np.maximum(end[order], 0),
                some.take(order),
            )
            for layer, rows in enumerate(layers(start, end)):
                title = _title(trace, number, group) + (f" ({layer + 1})" if layer else "")
                rank_of_track = _ORDER[group] * 100 + layer
                yield track_packet(next_track, title, process, rank_of_track)
                yield slice_packets(
                    start[rows],
                    end[rows],
                    some.name[rows] + 2,
                    GROUPS.index(group) + 1,
                    track=next_track,
                    sequence=sequence,
                    order=places(start[rows], end[rows]),
                ).tobytes()
                next_track += 1
    left_out = set(ALL_GROUPS) - set(groups)
    others = {
        group: _selected(rank, events)
        for group, events in trace.events.items()
        if group not in left_out and group not in found
    }
    yield from _recorded(trace, place, found | others)


_PIECE_BYTES: Final = 1 << 20


def _recorded(trace: RankTrace, place: int, events: Mapping[Group, Events]) -> Iterator[bytes]:
    """Yield the columns of a rank on its own clock, with these of its events."""
    line, columns = packed_rank(structs.replace(trace, events=events))
    for data in chain((line,), columns):
        for begin in range(0, len(data), _PIECE_BYTES):
            yield columns_packet(place, data[begin : begin + _PIECE_BYTES])


_ORDER: Final[dict[Group, int]] = {
    "gpu": 2,
    "gpu_annotations": 3,
    "gpu_sync": 4,
    "annotations": 5,
    "cpu_ops": 6,
    "runtime": 7,
    "python": 8,
    "other": 9,
}
"""Order of the tracks of a rank; collectives come first."""


def _selected(rank: RankView, events: Events) -> Events:
    if not len(events):
        return events
    inside = rank.contains(events.start_ns)
    return events if inside.all() else events.take(inside)


def _title(trace: RankTrace, number: int, group: Group) -> str:
    if number < 0:
        return group
    track = trace.tracks[number]
    if track.kind == "stream":
        device = f"device {track.device} " if track.device >= 0 else ""
        name = f"{device}stream {track.stream if track.stream >= 0 else track.tid}"
    else:
        name = track.label or f"thread {track.tid}"
    return name if group in ("gpu", "cpu_ops") else f"{name}: {group}"


def _collectives(group: GroupCalls, number: int, places_of: dict[str, int]) -> Iterator[bytes]:
    """Yield slices of the calls of a communicator, their flows and delays, and its lag."""
    tracks = {
        member: _process_of(places_of[group.labels[member]]) + _FIRST_COLLECTIVES + number * _LAYERS
        for member in np.unique(group.member).tolist()
    }
    for member, first_track in tracks.items():
        process = _process_of(places_of[group.labels[member]])
        yield from _calls(group, number, member, first_track, process)
    lag_track = number + 1
    title = f"lag of {group.communicator}"
    yield track_packet(lag_track, title, 0, number, counter_unit="ns")
    first = np.unique(group.instance, return_index=True)[1]
    for row in first[np.argsort(group.start_ns[first], kind="stable")].tolist():
        if group.lag_ns[row] >= 0:
            yield event_packet(
                max(int(group.start_ns[row]), 0),
                COUNTER,
                lag_track,
                _JOB_SEQUENCE,
                counter=int(group.lag_ns[row]),
            )


def _calls(
    group: GroupCalls, number: int, member: int, first_track: int, process: int
) -> Iterator[bytes]:
    """Yield the calls of one member; those that overlap are on tracks of their own."""
    ends = group.start_ns + group.dur_ns
    rows = np.flatnonzero(group.member == member)
    rows = rows[np.lexsort((-ends[rows], group.start_ns[rows]))]
    for layer, kept in enumerate(layers(group.start_ns[rows], ends[rows])):
        some, track = rows[kept], first_track + min(layer, _LAYERS - 1)
        title = f"collectives of {group.communicator}" + (f" ({layer + 1})" if layer else "")
        yield track_packet(track, title, process, number % 100)
        begin, end = places(group.start_ns[some], ends[some])
        parts = [b""] * (2 * len(some))
        for place, row in enumerate(some.tolist()):
            parts[begin[place]] = _begin(group, row, number, track)
            parts[end[place]] = event_packet(
                max(int(ends[row]), 0), SLICE_END, track, _JOB_SEQUENCE
            )
        yield b"".join(parts)


def _begin(group: GroupCalls, row: int, number: int, track: int) -> bytes:
    last = group.last_of(row)
    instance = int(group.instance[row])
    is_late = last == group.labels[int(group.member[row])]
    begin = event_packet(
        max(int(group.start_ns[row]), 0),
        SLICE_BEGIN,
        track,
        _JOB_SEQUENCE,
        name=group.type_of(row),
        annotations={
            "instance": instance,
            "dimension": group.dimension_of(row),
            "bytes": _known(group.message_bytes[row]),
            "step": _known(group.step[row]),
            "lag_ns": _known(group.lag_ns[row]),
            "late_ns": _known(group.late_ns[row]),
            "wait_ns": _known(group.wait_ns[row]),
            "latest_rank": last,
            "match_confidence": CONFIDENCES[int(group.confidence[row])],
        },
        flow=(number + 1) << 32 | instance,
    )
    if not is_late:
        return begin
    marker = event_packet(
        max(int(group.start_ns[row]), 0),
        INSTANT,
        track,
        _JOB_SEQUENCE,
        name=f"latest by {duration(int(group.lag_ns[row]))}",
    )
    return marker + begin


def _known(value: np.integer) -> int | None:
    return None if value < 0 else int(value)


class ManifestError(ValueError):
    """The files of a job cannot be described by a manifest; the message says why."""


def manifest(view: View) -> bytes:
    """Return a `perfetto_manifest` with the offset of each file to the first one.

    Perfetto places the events of a JSON trace by their written times, without the base time of the
    file; both the clock and the base time are therefore in the offset. A clock that drifts has the
    offset of the middle of the job.

    Raises:
        ManifestError: a rank has no JSON trace of its own, or two files have one name.
    """
    traces = [rank.trace for rank in view.ranks]
    if not traces:
        raise ManifestError("no rank is selected")
    names = [_member(trace) for trace in traces]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        text = ", ".join(sorted(twice)[:3])
        raise ManifestError(f"several files are named {text}: an archive needs different names")
    first = traces[0]
    files = [
        {"path": name, "machine": {"name": f"rank {trace.label}"}}
        | ({} if trace is first else _clocks(view, trace, first, names[0]))
        for name, trace in zip(names, traces, strict=True)
    ]
    document = {"perfetto_manifest": {"version": 1, "files": files}}
    return orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n"


def _member(trace: RankTrace) -> str:
    if trace.source.format != "kineto" or trace.source.parts != 1 or trace.source.container:
        kind = f"{trace.source.path} ({trace.source.format})"
        raise ManifestError(f"{kind} is no JSON trace that Perfetto opens; use --to perfetto")
    return PurePath(trace.source.path).name


def _clocks(view: View, trace: RankTrace, first: RankTrace, name: str) -> dict[str, object]:
    """State by how much later the events of the first file are read at one time."""
    own, reference = (view.offsets_ns.get(one.label, 0) - one.base_ns for one in (trace, first))
    return {"clocks": {"sync_to": {"file": name}, "offset_ns": reference - own}}


Bytes = npt.NDArray[np.uint8]

SLICE_BEGIN: Final = 1
SLICE_END: Final = 2
INSTANT: Final = 3
COUNTER: Final = 4

_VARINT, _FIXED64, _LENGTH = 0, 1, 2

# Fields by message, from perfetto_trace.proto.
_PACKET: Final = 1
_TIMESTAMP, _SEQUENCE, _TRACK_EVENT, _INTERNED, _FLAGS, _DESCRIPTOR = 8, 10, 11, 12, 13, 60
_CLEARED, _NEEDS_STATE = 1, 2
_EVENT_TYPE, _EVENT_NAME_ID, _EVENT_TRACK, _EVENT_NAME = 9, 10, 11, 23
_EVENT_ANNOTATION, _EVENT_COUNTER, _EVENT_FLOW = 4, 30, 47
_ANNOTATION_INT, _ANNOTATION_DOUBLE, _ANNOTATION_TEXT, _ANNOTATION_NAME = 4, 5, 6, 10
_CATEGORY_TEXTS, _NAMES = 1, 2
_TRACK_ID, _TRACK_NAME, _TRACK_PROCESS, _TRACK_PARENT, _TRACK_COUNTER = 1, 2, 3, 5, 8
_TRACK_ORDERING, _TRACK_RANK, _EXPLICIT = 11, 12, 3
_PROCESS_ID, _PROCESS_NAME = 1, 6
_COUNTER_UNIT_NAME = 6

# A begin and an end in fields of fixed length; zeros are filled in for each slice.
_BEGIN: Final = (
    b"\x0a\x20\x40" + bytes(8) + b"\x50" + bytes(3) + b"\x68\x02"  # time, sequence, flags
    b"\x5a\x0f\x48\x01\x58" + bytes(5) + b"\x50" + bytes(4) + b"\x18\x00"  # track, name, category
)
_END: Final = (
    b"\x0a\x20\x40" + bytes(10) + b"\x50" + bytes(3) + b"\x68\x02\x5a\x0d\x48\x02\x58" + bytes(10)
)
ROW_BYTES: Final = len(_BEGIN)
assert len(_END) == ROW_BYTES

MAX_TIME_NS: Final = 1 << 56
"""Times of slices are below this: eight bytes of seven bits."""


def slice_packets(
    start_ns: I64,
    end_ns: I64,
    name: I32,
    category: int,
    *,
    track: int,
    sequence: int,
    order: tuple[I64, I64],
) -> Bytes:
    """Encode n slices of one track.

    Args:
        start_ns: int64 [n], 0 to `MAX_TIME_NS`.
        end_ns: int64 [n], the same.
        name: interned names, int32 [n], above 0.
        category: interned category, 1 to 127.
        track: id of the track, below 2**35.
        sequence: id of the sequence that interned the names, below 2**21.
        order: places of begins and ends, from `slice_nesting.places`.
    """
    rows = np.empty((2 * len(start_ns), ROW_BYTES), np.uint8)
    begin = np.tile(np.frombuffer(_BEGIN, np.uint8), (len(start_ns), 1))
    _fill(begin, 3, 8, start_ns)
    _fill(begin, 12, 3, sequence)
    _fill(begin, 22, 5, track)
    _fill(begin, 28, 4, name)
    begin[:, 33] = category
    rows[order[0]] = begin
    end = np.tile(np.frombuffer(_END, np.uint8), (len(start_ns), 1))
    _fill(end, 3, 10, end_ns)
    _fill(end, 14, 3, sequence)
    _fill(end, 24, 10, track)
    rows[order[1]] = end
    return rows


def _fill(rows: Bytes, at: int, width: int, value: I64 | I32 | int) -> None:
    """Write varints of exactly ``width`` bytes into columns of ``rows``."""
    for place in range(width):
        more = 0x80 if place < width - 1 else 0
        rows[:, at + place] = ((value >> min(7 * place, 63)) & 0x7F) | more


def names_packet(
    sequence: int, names: Mapping[int, str], categories: Mapping[int, str] | None = None
) -> bytes:
    """Encode the packet that begins a sequence and states the texts of its ids."""
    texts = [(_CATEGORY_TEXTS, id_, text) for id_, text in (categories or {}).items()]
    texts += [(_NAMES, id_, text) for id_, text in names.items()]
    data = b"".join(_message(kind, _number(1, id_) + _text(2, text)) for kind, id_, text in texts)
    state = _number(_SEQUENCE, sequence) + _number(_FLAGS, _CLEARED | _NEEDS_STATE)
    return _message(_PACKET, state + _message(_INTERNED, data))


def process_packet(track: int, number: int, name: str) -> bytes:
    """Encode a track for a process, to which tracks with it as parent belong."""
    stated = _number(_PROCESS_ID, number) + _text(_PROCESS_NAME, name)
    ordered = _number(_TRACK_ORDERING, _EXPLICIT)
    return _descriptor(_number(_TRACK_ID, track) + _message(_TRACK_PROCESS, stated) + ordered)


def track_packet(
    id_: int, name: str, parent: int, rank: int = 0, *, counter_unit: str = ""
) -> bytes:
    """Encode a track below ``parent`` (0: at the top); a lower ``rank`` is shown first."""
    stated = _number(_TRACK_ID, id_) + _text(_TRACK_NAME, name) + _number(_TRACK_RANK, rank)
    if parent:
        stated += _number(_TRACK_PARENT, parent)
    if counter_unit:
        stated += _message(_TRACK_COUNTER, _text(_COUNTER_UNIT_NAME, counter_unit))
    return _descriptor(stated)


def mark_packet() -> bytes:
    """Encode the first packet of an export, by which ccltui recognises it."""
    return _message(_PACKET, _varint(PIECES << 3 | _LENGTH) + _varint(0))


def columns_packet(rank: int, piece: bytes) -> bytes:
    """Encode a piece of the columns of a rank, which Perfetto ignores and ccltui reads back."""
    stated = _number(1, rank) + _message(2, piece)
    return _message(_PACKET, _varint(PIECES << 3 | _LENGTH) + _varint(len(stated)) + stated)


def event_packet(
    time_ns: int,
    kind: int,
    track_id: int,
    sequence: int,
    *,
    name: str = "",
    annotations: Mapping[str, int | float | str | None] | None = None,
    flow: int | None = None,
    counter: int | None = None,
) -> bytes:
    """Encode one event with its annotations; those that are None are left out."""
    stated = _number(_EVENT_TYPE, kind) + _number(_EVENT_TRACK, track_id)
    if name:
        stated += _text(_EVENT_NAME, name)
    if counter is not None:
        stated += _number(_EVENT_COUNTER, counter)
    if flow is not None:
        stated += _TAGS[_EVENT_FLOW << 3 | _FIXED64] + flow.to_bytes(8, "little")
    stated += b"".join(
        [_annotated(key, value) for key, value in (annotations or {}).items() if value is not None]
    )
    around = _number(_TIMESTAMP, time_ns) + _number(_SEQUENCE, sequence)
    return _message(_PACKET, around + _message(_TRACK_EVENT, stated))


@lru_cache(maxsize=1 << 16, typed=True)
def _annotated(key: str, value: int | float | str) -> bytes:
    return _message(_EVENT_ANNOTATION, _text(_ANNOTATION_NAME, key) + _annotation(value))


def _annotation(value: int | float | str) -> bytes:
    if isinstance(value, str):
        return _text(_ANNOTATION_TEXT, value)
    if isinstance(value, int):
        return _number(_ANNOTATION_INT, value)
    return _varint(_ANNOTATION_DOUBLE << 3 | _FIXED64) + struct.pack("<d", value)


def _descriptor(stated: bytes) -> bytes:
    return _message(_PACKET, _message(_DESCRIPTOR, stated))


def _message(field: int, data: bytes) -> bytes:
    return _TAGS[field << 3 | _LENGTH] + _varint(len(data)) + data


def _text(field: int, text: str) -> bytes:
    return _message(field, text.encode("utf-8", "replace"))


def _number(field: int, value: int) -> bytes:
    return _TAGS[field << 3 | _VARINT] + _varint(value & (1 << 64) - 1)


def _varint(value: int) -> bytes:
    if value < 0x80:
        return _SMALL[value]
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


_SMALL: Final = [bytes([value]) for value in range(0x80)]
_TAGS: Final = [_varint(value) for value in range((_DESCRIPTOR + 1) << 3)]
