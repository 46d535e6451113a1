"""The columnar data model that every reader fills and every metric uses.

Times are int64 nanoseconds since the Unix epoch (or since the file's own zero
where the file states no base), exact to the text of the file. Arrays may be
read-only views of memory-mapped files: do not write to them. `ColumnFile` describes
where the columns of a rank are in such a file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING as NO_DEFAULT
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

import msgspec
import numpy as np
import numpy.typing as npt
from isal import isal_zlib
from msgspec import Struct

from ccltui.parsers.array_types import F32, F64, I8, I32, I64, U64, Bool, SortOrder


class StoredColumn(msgspec.Struct, frozen=True, array_like=True):
    """Place of one column in a file.

    Attributes:
        name: "group/column".
        dtype: Type of the numbers.
        length: Number of rows.
        begin: First byte of the column.
        end: The byte after its last.
        checksum: CRC-32 of these bytes.
        is_same: Every row has one value, which alone is in the file.
        packed: Number of pieces it was packed in, 0 for a plain column; their index is at the end.
        first: Value of the first row, of columns of starts alone: known before the column is read.
    """

    name: str
    dtype: str
    length: int
    begin: int
    end: int
    checksum: int
    is_same: bool = False
    packed: int = 0
    first: int = 0


_decode_places: Final = msgspec.json.Decoder(tuple[StoredColumn, ...], strict=True).decode
_decode_place: Final = msgspec.json.Decoder(StoredColumn, strict=True).decode


class OpenFile:
    """A file that is kept open because it has no name, or will lose it."""

    def __init__(self, descriptor: int) -> None:
        """Own an open descriptor, which is closed with this object."""
        self.descriptor = descriptor

    @classmethod
    def opened(cls, path: Path) -> OpenFile:
        """Open the file of a name. Raises OSError."""
        return cls(os.open(path, os.O_RDONLY | os.O_CLOEXEC))

    def __del__(self) -> None:
        os.close(self.descriptor)


class ColumnFile(msgspec.Struct, frozen=True):
    """A file that holds the columns of a rank.

    Attributes:
        path: Name of the file.
        compressed: `columns` as JSON, compressed: as objects those of a rank take 18 KB, as JSON 3,
            and processes hold thousands of ranks of which they look at few.
        total_bytes: Size of all columns with their padding.
        kept: The open file, where it cannot be opened by name any more.
        begin: First byte of this rank in a file of several, None where the file holds one rank.
        read_again: Returns the `RankTrace` as its trace holds it, for columns that are damaged;
            None where that is not possible.
    """

    path: Path
    compressed: bytes
    total_bytes: int
    kept: OpenFile | None = None
    begin: int | None = None
    read_again: Callable[[], Any] | None = None

    @property
    def columns(self) -> tuple[StoredColumn, ...]:
        """Position of each column, decoded at each call.

        Raises ValueError where they are not encoded.
        """
        return _decode_places(self.encoded)

    @property
    def encoded(self) -> bytes:
        """The same as JSON."""
        return isal_zlib.decompress(self.compressed)


def compressed_places(encoded: bytes) -> bytes:
    """Return positions of columns as `ColumnFile` keeps them."""
    return isal_zlib.compress(encoded, 1)


def place_of(name: str, encoded: bytes) -> StoredColumn | None:
    """Position of one column, without decoding the others; None where there is none.

    ``encoded`` is as msgspec writes it, without spaces.
    """
    begin = encoded.find(f'["{name}",'.encode())
    if begin < 0:
        return None
    return _decode_place(encoded[begin : encoded.index(b"]", begin) + 1])


MISSING = -1
"""Value of every integer column where the file does not state one."""

Group = Literal[
    "gpu",
    "gpu_annotations",
    "gpu_sync",
    "runtime",
    "cpu_ops",
    "annotations",
    "python",
    "other",
    "gpu_untimed",
]
GROUPS: tuple[Group, ...] = (
    "gpu",  # kernels, memcpy, memset: what occupies the device
    "gpu_annotations",  # user annotations repeated on the device's rows
    "gpu_sync",  # synchronisation rows: they carry a stream but are not work
    "runtime",  # CUDA or HIP runtime and driver calls
    "cpu_ops",  # framework operators, record_param_comms among them
    "annotations",  # user annotations on the CPU: ProfilerStep#N, nccl:*, gloo:*
    "python",  # Python frames (with_stack)
    "other",  # every further complete event, its category kept
)
"""Groups that readers fill."""
UNTIMED: Final[Group] = "gpu_untimed"
"""Device events whose times are impossible: ``start_ns`` is that of their launch, ``dur_ns`` 0."""


Columns = tuple[tuple[str, type], ...]
"""Name and type of each column of a table."""
_TYPES: Final[Mapping[Any, type]] = {
    **{"I8": np.int8, "I32": np.int32, "I64": np.int64, "U64": np.uint64},
    **{"F32": np.float32, "F64": np.float64},
}


def _columns(table: Any, *, are_sparse: bool = False) -> Columns:
    """Return the columns that a table declares; ``are_sparse``: those that may be empty."""
    return tuple(
        (one.name, _TYPES[one.type])
        for one in fields(table)
        if (one.default_factory is not NO_DEFAULT) == are_sparse
    )


def _no_rows(columns: Columns) -> dict[str, Any]:
    return {name: np.empty(0, dtype) for name, dtype in columns}


def _unstated() -> F32:
    return np.empty(0, np.float32)


def _no_texts() -> I32:
    return np.empty(0, np.int32)


def _no_ids() -> I64:
    return np.empty(0, np.int64)


class Strings(Sequence[str]):
    """The interned strings of one rank, decoded one by one from a byte blob.

    ``blob`` is uint8, ``offsets`` int64 of length ``len + 1``. Event names are data:
    they may hold markup or escapes and must be escaped before they are printed.
    """

    __slots__ = ("_blob", "_index", "_offsets")

    def __init__(self, blob: npt.NDArray[np.uint8], offsets: I64) -> None:
        self._blob = blob
        self._offsets = offsets
        self._index: dict[str, int] | None = None

    @classmethod
    def of(cls, texts: Sequence[str]) -> Strings:
        """Pack ``texts`` (lone surrogates are kept)."""
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        offsets = np.zeros(len(encoded) + 1, np.int64)
        np.cumsum([len(part) for part in encoded], out=offsets[1:])
        return cls(np.frombuffer(b"".join(encoded), np.uint8), offsets)

    @property
    def blob(self) -> npt.NDArray[np.uint8]:
        """All strings end to end, UTF-8."""
        return self._blob

    @property
    def offsets(self) -> I64:
        """Start offset of each string, followed by the end of the last one."""
        return self._offsets

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, index: int) -> str:  # type: ignore[override]
        """Text of one id; an id of -1 (missing) is an error, not the last string."""
        if not 0 <= index < len(self):
            raise IndexError(index)
        part = self._blob[self._offsets[index] : self._offsets[index + 1]]
        return part.tobytes().decode("utf-8", "surrogatepass")

    def __iter__(self) -> Iterator[str]:
        for index in range(len(self)):
            yield self[index]

    def find(self, text: str) -> int:
        """Id of ``text``, or -1 when no event uses it."""
        if self._index is None:
            self._index = {value: index for index, value in enumerate(self)}
        return self._index.get(text, MISSING)


@dataclass(frozen=True, slots=True)
class Events:
    """Complete events of one group of one rank, sorted by (start, longer first).

    All arrays have one length. ``name`` and ``category`` are ids into the rank's strings,
    ``track`` into its tracks, ``args`` into its collective arguments; -1 means absent.
    Columns of ``SPARSE``, the last ones, are empty in a group where no event states them.
    """

    start_ns: I64
    dur_ns: I64
    name: I32
    category: I32
    track: I32
    correlation: I64  # launch <-> device work; 0 and absent are both -1
    external_id: I64  # the operator that was running; -1 when absent
    args: I32  # row of CollectiveArgs, or -1
    bytes: I64  # memcpy and memset; -1 elsewhere
    blocks_per_sm: F32 = field(default_factory=_unstated)  # blocks of a kernel's grid, an SM
    occupancy_pct: F32 = field(default_factory=_unstated)  # the profiler's estimate; 0: none
    shapes: I32 = field(default_factory=_no_texts)  # JSON text of a matrix product's input shapes
    input_types: I32 = field(default_factory=_no_texts)  # JSON text of the types of those inputs
    input_values: I32 = field(default_factory=_no_texts)  # of some: inputs that are no tensors
    graph_node: I64 = field(default_factory=_no_ids)  # the node of a CUDA or HIP graph; -1: none
    graph: I64 = field(default_factory=_no_ids)  # the graph of that node
    module: I32 = field(default_factory=_no_texts)  # text: the module that the node belongs to

    COLUMNS: ClassVar[Columns]
    SPARSE: ClassVar[Columns]

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def end_ns(self) -> I64:
        """Start plus duration, int64 ns."""
        return self.start_ns + self.dur_ns

    def take(self, rows: npt.NDArray[np.intp] | I64 | Bool) -> Events:
        """The same columns restricted to ``rows`` (mask or indices)."""
        some = {name: column[rows] for name, _ in self.SPARSE if len(column := self._raw(name))}
        return Events(*(getattr(self, name)[rows] for name, _ in self.COLUMNS), **some)

    @property
    def comes_in_pieces(self) -> bool:
        """Whether `pieces` of a column are many, and no column is in memory."""
        return False

    def pieces(self, name: str) -> Iterator[npt.NDArray[Any]]:
        """A column piece by piece, each only valid until the next; here in one."""
        yield self._raw(name)

    @property
    def first_ns(self) -> int:
        """Start of the first event; there is one."""
        return int(self.start_ns[0])

    def later(self, by_ns: int) -> Events:
        """The same events, every start ``by_ns`` later."""
        return self.with_columns(start_ns=self.start_ns + by_ns)

    def with_columns(self, **columns: npt.NDArray[Any]) -> Events:
        """The same events with other values in some columns."""
        kept = {name: self._raw(name) for name, _ in (*self.COLUMNS, *self.SPARSE)}
        return Events(**kept | columns)

    def sparse(self, name: str) -> npt.NDArray[Any]:
        """A column of ``SPARSE`` with a value for every event, -1 where it is not stated."""
        column = self._raw(name)
        return column if len(column) else np.full(len(self), MISSING, column.dtype)

    def _raw(self, name: str) -> npt.NDArray[Any]:
        column: npt.NDArray[Any] = getattr(self, name)
        return column

    @classmethod
    def empty(cls) -> Events:
        """No event."""
        return cls(**_no_rows(cls.COLUMNS))


@dataclass(frozen=True, slots=True)
class CollectiveArgs:
    """Metadata that the profiler wrote about collectives, one row for each distinct event.

    Events refer to rows by ``Events.args``. Sizes are numbers of elements. ``group`` is an
    index into ``RankTrace.process_groups``. Texts are ids into the rank's strings.
    """

    op: I32  # "Collective name" as written: allreduce, _allgather_base, all_to_allv, send, …
    in_elems: I64
    out_elems: I64
    dtype: I32  # "Float", "BFloat16", … or "float", "c10::Half" from operator inputs
    group: I32
    group_size: I64
    seq: I64
    comms_id: U64  # 0 when absent
    src: I64  # global rank of the sender of a p2p, -1 when not stated
    dst: I64
    in_split: I32  # text of the list, as written: "[4, 4]"
    out_split: I32
    is_async: I8  # 1, 0, or -1
    record_id: I64  # the number that execution traces give the operator; 0 and -1: none

    COLUMNS: ClassVar[Columns]

    def __len__(self) -> int:
        return len(self.op)

    @classmethod
    def empty(cls) -> CollectiveArgs:
        """No row."""
        return cls(**_no_rows(cls.COLUMNS))


@dataclass(frozen=True, slots=True)
class Samples:
    """Readings of counters of the rank's device, in order of time, of all counters together."""

    time_ns: I64
    name: I32  # of the counter, an id into the rank's strings: "SMs Active [Throughput %]"
    value: F64

    COLUMNS: ClassVar[Columns]

    def __len__(self) -> int:
        return len(self.time_ns)

    @classmethod
    def empty(cls) -> Samples:
        """No reading."""
        return cls(**_no_rows(cls.COLUMNS))


Events.COLUMNS, Events.SPARSE = _columns(Events), _columns(Events, are_sparse=True)
CollectiveArgs.COLUMNS = _columns(CollectiveArgs)
Samples.COLUMNS = _columns(Samples)
_NO_EVENTS: Final = Events.empty()


class Track(msgspec.Struct, frozen=True):
    """A row of the file: a stream of a device, or a thread of a process."""

    kind: Literal["stream", "thread"]
    pid: str
    tid: str
    device: int = MISSING
    stream: int = MISSING
    label: str = ""


class ProcessGroup(msgspec.Struct, frozen=True):
    """A communicator as this rank states it. ``ranks`` is empty when the file does not say."""

    name: str
    description: str = ""
    ranks: tuple[int, ...] = ()
    size: int = MISSING
    backend: str = ""


class Device(msgspec.Struct, frozen=True):
    """One entry of ``deviceProperties``."""

    index: int
    name: str
    total_memory_bytes: int = MISSING
    num_sms: int = MISSING


class Note(msgspec.Struct, frozen=True):
    """Something a reader dropped, repaired or could not know.

    ``offset`` is the byte in the uncompressed text where it was first met, ``count`` how often.
    """

    code: str  # truncated_trace, malformed_event, bad_time, trailing_data, rank_conflict, …
    message: str
    offset: int | None = None
    count: int = 1


RankSource = Literal[
    "distributedInfo",
    "NCCL payload",  # nsys: what NCCL wrote with the creation of its communicators
    "environment",  # nsys: the launched process's RANK and the like
    "MPI",
    "rank map",
    "file name",
    "process label",  # of a file with several ranks: what it calls their processes
    "process groups",  # of a file with several ranks: the only rank in all groups that it uses
    "order of processes",  # a guess, of such a file
    "order of devices",  # a guess
    "none",
]


class SourceFile(msgspec.Struct, frozen=True):
    """The file that the columns were read from."""

    path: str  # as found below the directory that was opened; shown to users
    real_path: str
    size_bytes: int
    mtime_ns: int
    text_bytes: int = 0  # uncompressed
    compression: Literal["none", "gzip", "zstd"] = "none"
    format: str = "kineto"
    part: int = 0  # one file may hold several ranks
    parts: int = 1
    part_name: str = ""  # "GPU 1": name of the part within its file
    container: str = ""  # "pftrace": an export of ours, with the columns of a file of ``format``


def later(events: Mapping[Group, Events], by_ns: int) -> dict[Group, Events]:
    """Return the events, every start ``by_ns`` later."""
    return {group: rows.later(by_ns) for group, rows in events.items()}


class RankTrace(msgspec.Struct, frozen=True):
    """All columns of one trace file, and what the file says about itself."""

    source: SourceFile
    rank: int | None
    rank_source: RankSource
    strings: Strings
    events: Mapping[Group, Events]
    collective_args: CollectiveArgs
    tracks: tuple[Track, ...] = ()
    process_groups: tuple[ProcessGroup, ...] = ()
    devices: tuple[Device, ...] = ()
    world_size: int | None = None
    backend: str = ""
    nccl_version: str = ""
    host: str = ""
    base_ns: int = 0
    counts: Mapping[str, int] = {}  # "X:kernel" -> events in the file
    notes: tuple[Note, ...] = ()
    truncated: bool = False
    samples: Samples = msgspec.field(default_factory=Samples.empty)
    label: str = ""  # "3"; the file name where no rank is known; "3 (b.json)" in a conflict
    place: ColumnFile | None = None  # the file that is mapped, if one is
    added_ns: int = 0  # added to every start of that file
    read_share: float = 1.0  # of the file; below 1 while only its beginning is read
    replica: str = ""  # "dp1": of a server whose replicas all number their ranks from 0
    first_rank: int = 0  # of the replica: was added to the ranks that the file states

    def group(self, name: Group) -> Events:
        """Events of one group, empty when the file has none."""
        return self.events.get(name) or _NO_EVENTS

    @property
    def is_of_profiler(self) -> bool:
        """Whether any event is of a category that PyTorch's profiler, or the reader, knows."""
        return any(len(events) for group, events in self.events.items() if group != "other")

    def text(self, string_id: int) -> str:
        """Text of a string id, "" for -1."""
        return "" if string_id < 0 else self.strings[int(string_id)]

    @property
    def first_ns(self) -> int | None:
        """Start of the earliest event that was kept."""
        starts = [events.first_ns for events in self.events.values() if len(events)]
        return min(starts) if starts else None

    @property
    def last_ns(self) -> int | None:
        """End of the latest event that was kept."""
        ends = [int(events.end_ns.max()) for events in self.events.values() if len(events)]
        return max(ends) if ends else None


def in_replica(args: CollectiveArgs, first_rank: int) -> CollectiveArgs:
    """Return arguments with the numbers that ranks of a replica have in the whole job."""
    columns = {name: getattr(args, name) for name, _ in CollectiveArgs.COLUMNS}
    for name in ("src", "dst"):
        columns[name] = np.where(columns[name] >= 0, columns[name] + first_rank, columns[name])
    return CollectiveArgs(**columns)


FIRST_OF_SEVERAL: Final = " (the first of several; their numbers differ)"
"""Added to a message whose numbers are those of one of the notes that it stands for."""

_NUMBER: Final = re.compile(r"\d[\d,.]*")


class NoteGroup(Struct, frozen=True):
    """A note on the first of several ranks, and all ranks with a note of that kind.

    Notes are of one kind where code and message agree, apart from numbers in the message;
    ``is_uniform``: these agree too.
    """

    note: Note
    traces: tuple[RankTrace, ...]
    count: int
    is_uniform: bool

    @property
    def message(self) -> str:
        """The message of the first, which may state numbers that differ in the others."""
        return self.note.message + ("" if self.is_uniform else FIRST_OF_SEVERAL)


def kind_of(note: Note) -> tuple[str, str]:
    """Return the code and the message without its numbers, which notes of one kind share."""
    return note.code, _NUMBER.sub("#", note.message)


def note_groups(traces: Iterable[RankTrace]) -> list[NoteGroup]:
    """Return the notes on ranks in the order in which their kinds first occur."""
    found: dict[tuple[str, str], list[tuple[RankTrace, Note]]] = {}
    for trace in traces:
        for note in trace.notes:
            found.setdefault(kind_of(note), []).append((trace, note))
    return [
        NoteGroup(
            note=group[0][1],
            traces=tuple({id(trace): trace for trace, _ in group}.values()),
            count=sum(note.count for _, note in group),
            is_uniform=len({note.message for _, note in group}) == 1,
        )
        for group in found.values()
    ]


def by_start(start_ns: I64, dur_ns: I64) -> SortOrder | None:
    """Rows by (start, longer first, place), None where they are sorted already.

    Files have their rows nearly in order, which a stable sort makes quick. Only rows that start
    together are sorted by their duration: sorting all of them by it would dominate the cost.
    """
    kind: type[np.signedinteger] = np.int32 if len(start_ns) < 1 << 31 else np.int64
    order: SortOrder | None = None
    ordered = start_ns
    if (start_ns[1:] < start_ns[:-1]).any():
        order = np.argsort(start_ns, kind="stable").astype(kind)
        ordered = start_ns[order]
    ties = ordered[1:] == ordered[:-1]
    if not ties.any():
        return order
    tied = np.zeros(len(start_ns), np.bool_)
    tied[1:] |= ties
    tied[:-1] |= ties
    rows = np.flatnonzero(tied) if order is None else order[tied]
    settled = rows[np.lexsort((-dur_ns[rows], start_ns[rows]))]
    if order is None:
        if (settled == rows).all():
            return None
        order = np.arange(len(start_ns), dtype=kind)
    order[tied] = settled
    return order
