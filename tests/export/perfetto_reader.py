"""Read a Perfetto trace with the message classes of the `perfetto` package."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct, field

pytest.importorskip("perfetto")
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto


class Slice(Struct):
    """One slice; ``end_ns`` is set when its end is read."""

    name: str
    category: str
    start_ns: int
    notes: dict[str, Any]
    flows: tuple[int, ...]
    end_ns: int = -1


class Read(Struct):
    """Contents of a trace by track."""

    names: dict[int, str] = field(default_factory=dict)
    parents: dict[int, int] = field(default_factory=dict)
    slices: dict[int, list[Slice]] = field(default_factory=dict)
    instants: dict[int, list[str]] = field(default_factory=dict)
    counters: dict[int, list[tuple[int, int]]] = field(default_factory=dict)

    def process_of(self, track: int) -> str:
        """Name of the process that a track belongs to."""
        return self.names[self.parents[track]]

    def on(self, process: str, title: str) -> list[Slice]:
        """Slices of the track of that name."""
        (track,) = (
            one
            for one, name in self.names.items()
            if name == title and one in self.parents and self.process_of(one) == process
        )
        return self.slices[track]


def read(path: Path) -> Read:
    """Read every packet; every end must close the innermost open slice of its track, in order."""
    data = path.read_bytes()
    trace = proto.Trace.FromString(gzip.decompress(data) if path.suffix == ".gz" else data)
    found, at = Read(), Counter[int]()
    open_slices: dict[int, list[Slice]] = {}
    names: dict[int, dict[int, str]] = {}
    categories: dict[int, dict[int, str]] = {}
    for packet in trace.packet:
        sequence = packet.trusted_packet_sequence_id
        if packet.HasField("track_descriptor"):
            _describe(found, packet.track_descriptor)
        elif packet.HasField("interned_data"):
            assert packet.sequence_flags & 1
            names[sequence] = {one.iid: one.name for one in packet.interned_data.event_names}
            categories[sequence] = {
                one.iid: one.name for one in packet.interned_data.event_categories
            }
        elif packet.HasField("track_event"):
            event, time = packet.track_event, packet.timestamp
            track = event.track_uuid
            assert packet.sequence_flags & 2 or event.name or event.type in (2, 4)
            assert time >= at[track]
            at[track] = time
            if event.type == proto.TrackEvent.TYPE_SLICE_BEGIN:
                name = event.name or names[sequence][event.name_iid]
                kinds = [categories[sequence][one] for one in event.category_iids]
                notes = {one.name: _value(one) for one in event.debug_annotations}
                one = Slice(name, ",".join(kinds), time, notes, tuple(event.flow_ids))
                found.slices.setdefault(track, []).append(one)
                open_slices.setdefault(track, []).append(one)
            elif event.type == proto.TrackEvent.TYPE_SLICE_END:
                open_slices[track].pop().end_ns = time
            elif event.type == proto.TrackEvent.TYPE_INSTANT:
                found.instants.setdefault(track, []).append(event.name)
            else:
                found.counters.setdefault(track, []).append((time, event.counter_value))
    assert not any(open_slices.values())
    return found


def _describe(found: Read, track: Any) -> None:
    is_process = track.HasField("process")
    found.names[track.uuid] = track.process.process_name if is_process else track.name
    if track.parent_uuid:
        found.parents[track.uuid] = track.parent_uuid


def _value(note: Any) -> Any:
    return getattr(note, note.WhichOneof("value"))
