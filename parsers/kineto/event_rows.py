"""Append decoded events to the columns of their group, batch by batch, with launch arguments.

A file has few distinct launches, so that their arguments are stored once as text, and kernels hold
ids; blocks per SM and occupancy of kernels are computed from them.

`GrowingColumn` is hand-written because of peak memory: eight int64 columns of 4.3 million rows
(275 MB) take 1.00 times their size here, 1.95 times with ``ndarray.resize``, which writes zeros to
all the room that it adds, and 2.01 times as lists of blocks that are concatenated. Each column has
an anonymous mapping of its own, not memory of the C library: blocks that the library frees while
columns grow stay with the process in pieces of many sizes.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import msgspec
import numpy as np
import numpy.typing as npt

from ccltui.parsers.array_types import F64, I32, I64
from ccltui.parsers.columns import MISSING, Device, Events, Group, Track, by_start
from ccltui.parsers.kineto.collective_rows import CollectiveRows, ProductInputs
from ccltui.parsers.kineto.scanner.typed_event import (
    DECODE_ERRORS,
    Event,
    Scalar,
    StringPool,
    in_order,
)


class GrowingColumn:
    """Rows of one ``dtype``, appended in blocks; ``room`` is the capacity in rows."""

    def __init__(self, dtype: type, room: int) -> None:
        self._dtype = np.dtype(dtype)
        self._mapping = _mapping(room * self._dtype.itemsize)

    def make_room(self, rows: int) -> None:
        """Extend the capacity to ``rows``; pages are allocated when they are written.

        No view returned by :meth:`rows` may exist during the call.
        """
        size = rows * self._dtype.itemsize
        if size <= len(self._mapping):
            return
        try:
            self._mapping.resize(size)
        except SystemError:  # the system cannot move a mapping (no mremap)
            moved = _mapping(size)
            moved[: len(self._mapping)] = self._mapping[:]
            self._mapping = moved

    def rows(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Return a writable view of the rows from ``start`` to ``stop``."""
        size = self._dtype.itemsize
        return np.frombuffer(self._mapping, self._dtype, stop - start, start * size)


def _mapping(size: int) -> mmap.mmap:
    return mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


_MAX_VALUE = 1e12  # larger numbers are corrupt
_BLOCK_ROWS = 1 << 16  # rows computed at a time, to keep temporary arrays small


class LaunchShapes:
    """Ids of distinct launches: JSON texts of grid, blocks per SM and occupancy.

    Of kernels of a CUDA or HIP graph also of their node, their graph and their module
    (``module_fqn``), and the name that `torch.cuda` gives them by ``mark_kernels``.
    """

    def __init__(self, pool: StringPool) -> None:
        self._pool = pool
        self._ids: dict[tuple[bytes, ...], int] = {}
        self._modules: list[int] = []

    def id_of(
        self,
        grid: bytes,
        blocks_per_sm: bytes,
        occupancy: bytes,
        *of_graph: bytes,
    ) -> int:
        """Return the id of a launch; b"" for absent values, -1 if all are absent.

        ``of_graph`` are node, graph, module, and the name as plain text.
        """
        key = (grid, blocks_per_sm, occupancy, *of_graph)
        if not any(key[:6]):
            return MISSING
        found = self._ids.get(key)
        if found is None:
            found = self._ids[key] = len(self._ids)
            self._modules.append(self._module_of(of_graph))
        return found

    def _module_of(self, of_graph: tuple[bytes, ...]) -> int:
        """Return the text id of the module of a kernel of a graph, else of its name, else -1."""
        if len(of_graph) < 4 or not (of_graph[0] or of_graph[2]):
            return MISSING
        module = _json(of_graph[2]) if of_graph[2] else None
        if not isinstance(module, str) or not module:
            module = of_graph[3].decode("utf-8", "replace")
        return self._pool.id_of(module[:_LONGEST_MODULE]) if module else MISSING

    def text_ids(self) -> I32:
        """Return the text ids that are used."""
        return np.array(self._modules or [MISSING], np.int32)

    def ids_of(self, events: list[Event]) -> list[int]:
        """Return the launch id of each event."""
        return [
            MISSING
            if event.args is None
            else self.id_of(
                bytes(event.args.grid),
                bytes(event.args.blocks_per_sm),
                bytes(event.args.occupancy),
                bytes(event.args.graph_node),
                bytes(event.args.graph),
                bytes(event.args.module),
                event.args.name.encode("utf-8", "surrogatepass")
                if isinstance(event.args.name, str)
                else b"",
            )
            for event in events
        ]

    def columns(
        self,
        ids: I32,
        track: I32,
        text_ids: I32,
        tracks: tuple[Track, ...],
        devices: tuple[Device, ...],
    ) -> dict[str, npt.NDArray[Any]]:
        """Return the columns that launches state of events, without columns of no value.

        They are ``blocks_per_sm``, ``occupancy_pct``, and of graphs ``graph_node``, ``graph`` and
        ``module``. ``text_ids`` is the new id of each text.

        Where a file states the grid alone, its blocks are divided by the SMs of the device. A
        device that is not listed is assumed to have the SMs of the listed ones, if these agree:
        a process may renumber the devices that it sees.
        """
        stated = [(_number(b), _blocks(g), _number(o)) for g, b, o, *_ in self._ids]
        table = np.array([*stated, (MISSING,) * 3], np.float64)
        sms = {device.index: device.num_sms for device in devices if device.num_sms > 0}
        common = set(sms.values()).pop() if len(set(sms.values())) == 1 else MISSING
        of_track = np.array([sms.get(t.device, common) for t in tracks] + [MISSING], np.float64)
        found = {
            "blocks_per_sm": np.empty(len(ids), np.float32),
            "occupancy_pct": np.empty(len(ids), np.float32),
        }
        for start in range(0, len(ids), _BLOCK_ROWS):
            some = slice(start, start + _BLOCK_ROWS)
            direct, blocks, occupancy = table[ids[some]].T
            found["blocks_per_sm"][some] = _shares(direct, blocks, of_track[track[some]])
            found["occupancy_pct"][some] = occupancy
        shapes = {name: column for name, column in found.items() if (column >= 0).any()}
        return {**shapes, **self._of_graphs(ids, text_ids)}

    def _of_graphs(self, ids: I32, text_ids: I32) -> dict[str, npt.NDArray[Any]]:
        stated = [(*key[3:5], b"", b"")[:2] for key in self._ids]
        nodes, graphs = (
            np.array([*(_node(one[place]) for one in stated), MISSING], np.int64)
            for place in (0, 1)
        )
        modules = text_ids[np.array([*self._modules, MISSING], np.int32)]
        found: dict[str, npt.NDArray[Any]] = {}
        for name, table in (("graph_node", nodes), ("graph", graphs), ("module", modules)):
            if (table != MISSING).any():
                found[name] = table[ids]
        return found


_LONGEST_MODULE = 500
"""Characters of a module that are kept; those of models have fewer than a hundred."""


def _node(text: bytes) -> int:
    """Return the id of a node or graph, -1 where it is absent, 0 or no integer.

    Work outside of graphs has node 0.
    """
    return (_identifier(_json(text)) or MISSING) if text else MISSING


def _shares(direct: F64, blocks: F64, sms: F64) -> F64:
    """Return blocks per SM: as stated, else blocks of the grid over SMs, else -1."""
    is_known = (blocks >= 0) & (sms > 0)
    computed = np.where(is_known, blocks / np.where(is_known, sms, 1.0), MISSING)
    return np.where(direct >= 0, direct, computed)


def _json(text: bytes) -> Any:
    try:
        return msgspec.json.decode(text)
    except DECODE_ERRORS:
        return None


def _number(text: bytes) -> float:
    """Return a number of at least 0, -1 for anything else."""
    value = _json(text) if text else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return MISSING
    return float(value) if 0 <= value < _MAX_VALUE else MISSING  # float() fails on huge integers


def _blocks(text: bytes) -> float:
    """Return the number of blocks of a grid of three integers, -1 for anything else."""
    sizes = _json(text) if text else None
    if not isinstance(sizes, list) or len(sizes) != 3:
        return MISSING
    if not all(
        isinstance(n, int) and not isinstance(n, bool) and 0 < n < _MAX_VALUE for n in sizes
    ):
        return MISSING
    return float(math.prod(sizes))


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

    columns: Mapping[str, Iterable[int]]
    ordinals: Sequence[int] | npt.NDArray[np.signedinteger[Any]]


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
        launches: Callable[[I32, I32], dict[str, npt.NDArray[Any]]],
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
            columns[name] = column if ids is None else ids.take(column)
            del column  # free it before the next column is built
        columns["start_ns"] = _shifted(columns["start_ns"], base_ns)
        return Events(**self._with_sparse(columns, launches))

    def _values_of(self, name: str) -> npt.NDArray[Any]:
        column = self._columns.get(name)
        if column is None:
            return _constant_column(self._constants[name], self._kinds[name], self._rows)
        return column.rows(0, self._rows)

    def _with_sparse(
        self,
        columns: dict[str, Any],
        launches: Callable[[I32, I32], dict[str, npt.NDArray[Any]]],
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
        self.launches = LaunchShapes(self.strings)
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
    is_xla = process.rpartition(" ")[2].startswith("/device:")  # of several hosts, their name first
    return f"{process} {thread}".rstrip() if is_xla else thread


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
