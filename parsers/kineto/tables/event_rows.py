"""Append decoded events to the columns of their group, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from ccltui.parsers.array_types import F32, I32, I64
from ccltui.parsers.columns import MISSING, Events, Group, Track
from ccltui.parsers.event_order import by_start
from ccltui.parsers.kineto.json_text.typed_event import Event, Scalar
from ccltui.parsers.kineto.scanner.text_ids import StringPool, in_order
from ccltui.parsers.kineto.tables.collective_rows import CollectiveRows
from ccltui.parsers.kineto.tables.growing_column import GrowingColumn
from ccltui.parsers.kineto.tables.launch_shapes import LaunchShapes
from ccltui.parsers.kineto.tables.matrix_products import ProductInputs

STREAM_GROUPS = frozenset[Group]({"gpu", "gpu_annotations", "gpu_sync"})
_WITH_ARGS = frozenset[Group]({"gpu", "cpu_ops", "annotations"})

_FIRST_ROWS = 256
_INPUTS = ("shapes", "input_types", "input_values")
_EXTRA: dict[Group, tuple[str, ...]] = {"gpu": ("launch",), "cpu_ops": _INPUTS}
"""Columns of a single group: ids of launches, texts of the inputs of matrix products."""

TrackKey = tuple[str, Scalar, Scalar, Scalar]
"""Kind, device or process, stream or thread; the pid of a stream's rows where it is not the device.

PyTorch writes the number of the device as the pid of its rows. Programs that merge the files of
ranks rename pids, and then only the pid tells the devices of two ranks apart.
"""


class Part(NamedTuple):
    """Rows of one group from one batch; ``ordinals`` are their positions in the batch."""

    columns: dict[str, Iterable[int]]
    ordinals: Sequence[int] | I32


class GroupColumns:
    """The columns of one group while the file is read.

    A column whose rows all have one value is stored as that value: in most groups half of the
    columns are.
    """

    def __init__(self, group: Group) -> None:
        self._extra = _EXTRA.get(group, ())
        self._is_joined = group == "gpu"  # `join_kernels` writes to the args of kernels later
        self._kinds: dict[str, type] = dict(Events.COLUMNS)
        self._kinds |= dict.fromkeys(self._extra, np.int32)
        self._constants: dict[str, int] = {}
        self._columns: dict[str, GrowingColumn] = {}
        self._rows = 0
        self._capacity = _FIRST_ROWS

    def append(self, parts: Sequence[Part]) -> None:
        """Add the rows of one batch, sorted by ordinal."""
        order: npt.NDArray[np.intp] | None = None
        if len(parts) > 1:
            ordinals = np.concatenate([np.asarray(part.ordinals, np.int64) for part in parts])
            order = np.argsort(ordinals, kind="stable")
        stop = self._rows + sum(len(part.ordinals) for part in parts)
        self._make_room(stop)
        for name, dtype in self._kinds.items():
            pieces = [_array(part.columns.get(name), dtype, len(part.ordinals)) for part in parts]
            if name not in self._columns and self._is_constant(name, pieces):
                continue
            joined = pieces[0] if order is None else np.concatenate(pieces)[order]
            self._stored_column(name).rows(self._rows, stop)[:] = joined
        self._rows = stop

    def _is_constant(self, name: str, pieces: Sequence[npt.NDArray[Any]]) -> bool:
        """Return whether all rows so far, and those of ``pieces``, have one value."""
        value = self._constants.setdefault(name, int(next(p[0] for p in pieces if len(p))))
        return all(bool((piece == value).all()) for piece in pieces)

    def _stored_column(self, name: str) -> GrowingColumn:
        """Return a column with memory of its own; rows so far are filled with their one value."""
        column = self._columns.get(name)
        if column is None:
            column = self._columns[name] = GrowingColumn(self._kinds[name], self._capacity)
            column.rows(0, self._rows)[:] = self._constants.pop(name)
        return column

    def _make_room(self, rows: int) -> None:
        if rows > self._capacity:
            self._capacity = max(rows, 2 * self._capacity)
            for column in self._columns.values():
                column.make_room(self._capacity)

    def texts(self) -> list[I32]:
        """Return the columns that hold text ids."""
        found = []
        for name in ("name", "category", *_INPUTS):
            if name in self._constants:
                found.append(np.array([self._constants[name]], np.int32))
            elif name in self._columns:
                found.append(self._columns[name].rows(0, self._rows))
        return found

    def finish(
        self,
        base_ns: int,
        renumbered: dict[str, I32],
        launches: Callable[[I32, I32], dict[str, F32]],
    ) -> Events:
        """Return columns sorted by (start, longer first, position in the file).

        Columns with one value are read-only views of that value, except ``args`` where it may
        still be changed by the join of kernels to calls.

        Args:
            base_ns: Added to every start.
            renumbered: New id of each old one, by column name.
            launches: Returns the sparse columns of arrays of launch ids and track ids.
        """
        if self._is_joined or self._constants.get("args", MISSING) != MISSING:
            self._stored_column("args")
        order = by_start(self._values_of("start_ns"), self._values_of("dur_ns"))
        columns: dict[str, Any] = {}
        for name in list(self._kinds):
            ids = renumbered.get(name)
            if name in self._constants:
                value = self._constants[name] if ids is None else int(ids[self._constants[name]])
                columns[name] = _constant_column(value, self._kinds[name], self._rows)
                continue
            column = self._columns.pop(name).rows(0, self._rows)
            column = column if order is None else column.take(order)
            columns[name] = column if ids is None else ids[column]
            del column  # free it before the next column is built
        columns["start_ns"] = _shifted(columns["start_ns"], base_ns)
        return Events(**self._with_sparse(columns, launches))

    def _values_of(self, name: str) -> npt.NDArray[Any]:
        column = self._columns.get(name)
        if column is None:
            return _constant_column(self._constants[name], self._kinds[name], self._rows)
        return column.rows(0, self._rows)

    def _with_sparse(
        self, columns: dict[str, Any], launches: Callable[[I32, I32], dict[str, F32]]
    ) -> dict[str, Any]:
        """Drop extra columns of the group of which all is missing; expand launch ids."""
        for name in self._extra:
            if self._constants.get(name) == MISSING:
                del columns[name]
        launch = columns.pop("launch", None)
        return columns if launch is None else columns | launches(launch, columns["track"])


class EventRows:
    """Converter of typed events to parts, with the ids of texts, tracks and launches."""

    def __init__(self) -> None:
        self.strings = StringPool()
        self.tracks: dict[TrackKey, int] = {}
        self.collectives = CollectiveRows(self.strings)
        self.launches = LaunchShapes()
        self.products = ProductInputs(self.strings)

    def part(
        self,
        group: Group,
        events: list[Event],
        starts: Sequence[int],
        durations: Sequence[int],
        ordinals: Sequence[int],
    ) -> Part:
        """Return the columns of events of one group.

        Args:
            group: The column group.
            events: The events.
            starts: Their starts in ns.
            durations: Their durations in ns.
            ordinals: Their positions in the batch.
        """
        text_id = self.strings.id_of
        args = [event.args for event in events]
        columns: dict[str, Iterable[int]] = {
            "start_ns": starts,
            "dur_ns": durations,
            "name": [text_id(event.name) for event in events],
            "category": [text_id(event.cat) for event in events],
            "track": self._tracks_of(group, events),
            "correlation": [_identifier(a.correlation) or MISSING if a else MISSING for a in args],
            "external_id": [_identifier(a.external_id) if a else MISSING for a in args],
            "bytes": [_identifier(a.bytes) if a else MISSING for a in args],
        }
        if group == "gpu":
            columns["launch"] = self.launches.ids_of(events)
        if group == "cpu_ops":
            columns |= self.products.ids_of(events)
        if group in _WITH_ARGS:
            columns["args"] = self.collectives.rows_of(group, events)
        return Part(columns, ordinals)

    def _tracks_of(self, group: Group, events: list[Event]) -> list[int]:
        tracks = self.tracks
        keys: list[TrackKey] = []
        if group not in STREAM_GROUPS:
            keys = [
                ("thread", _track_part(event.pid), _track_part(event.tid), None) for event in events
            ]
        else:
            for event in events:
                args = event.args
                process = device = _track_part(event.pid)
                if args is not None and args.device is not None:
                    device = _track_part(args.device)
                stream = event.tid if args is None or args.stream is None else args.stream
                own = None if process == device else process
                keys.append(("stream", device, _track_part(stream), own))
        return [tracks.setdefault(key, len(tracks)) for key in keys]

    def finish_tracks(
        self, labels: dict[tuple[str, str], str]
    ) -> tuple[tuple[Track, ...], tuple[str, ...], I32]:
        """Return the tracks in a fixed order, the pid of the rows of each, and their new ids.

        A device that several processes write of has its tracks once for each process.
        """
        keys, renumbered = in_order(self.tracks, len(self.tracks), key=_track_order)
        tracks = tuple(_track(kind, pid, tid, labels) for kind, pid, tid, _ in keys)
        processes = tuple(str(pid if own is None else own) for _, pid, _, own in keys)
        return tracks, processes, renumbered


def _shifted(start: I64, base_ns: int) -> I64:
    if not start.flags.writeable:
        return start + base_ns
    start += base_ns
    return start


def _constant_column(value: int, dtype: type, rows: int) -> npt.NDArray[Any]:
    return np.broadcast_to(np.array(value, dtype), (rows,))


def _track(kind: str, pid: Scalar, tid: Scalar, labels: dict[tuple[str, str], str]) -> Track:
    stream = kind == "stream"
    return Track(
        kind="stream" if stream else "thread",
        pid=str(pid),
        tid=str(tid),
        device=_small(pid) if stream else MISSING,
        stream=_small(tid) if stream else MISSING,
        label=_label(str(pid), str(tid), labels),
    )


def _label(pid: str, tid: str, labels: dict[tuple[str, str], str]) -> str:
    """Return the label of a thread; on a device process, prefixed with the device's name."""
    process, thread = labels.get((pid, ""), ""), labels.get((pid, tid), "")
    return f"{process} {thread}".rstrip() if process.startswith("/device:") else thread


def _track_order(track: TrackKey) -> tuple[str, ...]:
    kind, pid, tid, own = track
    texts = (str(pid).rjust(12), str(tid).rjust(12), type(pid).__name__, type(tid).__name__)
    return (kind, *texts, str(own).rjust(12), type(own).__name__)


def _array(values: Iterable[int] | None, dtype: type, count: int) -> npt.NDArray[Any]:
    """Return a column of a part as an array, all -1 where the part lacks the column."""
    if values is None:
        return np.full(count, MISSING, dtype)
    if isinstance(values, np.ndarray):
        return values
    return np.fromiter(values, dtype, count)


def _identifier(value: object) -> int:
    """Return an id as int64: unsigned ids above 2**63 keep their bits, non-integers are -1."""
    if not isinstance(value, int) or isinstance(value, bool):
        return MISSING
    if -(1 << 63) <= value < 1 << 63:
        return value
    return value - (1 << 64) if 0 < value < 1 << 64 else MISSING


def _track_part(value: object) -> Scalar:
    """Return a pid, tid, device or stream as a part of a key: neither floats nor booleans.

    0 and 0.0, or 1 and true, are equal keys; the track would be named after the one read first.
    """
    is_key = value is None or type(value) in (str, int)
    return cast("Scalar", value) if is_key else str(value)


def _small(value: Scalar) -> int:
    """Return a device or stream number, -1 where the file has something else."""
    try:
        number = int(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return MISSING
    return number if -(1 << 31) <= number < 1 << 31 else MISSING
