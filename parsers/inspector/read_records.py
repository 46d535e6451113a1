"""Read the records of NCCL Inspector, one JSON object a line, into columns of 28 bytes a record.

A line that is damaged or cut off is counted in a note, with the number of the first such line, and
the lines around it are read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import compress
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import msgspec
import numpy as np
from msgspec import Struct, field

from ccltui.parsers.array_types import I32, I64
from ccltui.parsers.columns import Note
from ccltui.parsers.errors import TraceError
from ccltui.parsers.text.compression import TextChunks

LONGEST_LINE: Final = 1 << 20
"""Bytes; a verbose record of 64 channels has 20,000."""
MOST_SERIES: Final = 100_000
"""Communicators times types of operations of one process; real jobs have fewer than a hundred."""
_NO_NUMBER: Final = re.compile(rb":-?(?:nan|inf)(?=[,}])")
_Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 60)]
_Rank = Annotated[int, msgspec.Meta(ge=0, le=1 << 30)]


class Communicator(NamedTuple):
    """A communicator as every rank of it writes it; the hash is cut to 14 digits by the writer."""

    id: str
    name: str
    n_ranks: int
    nnodes: int


class Series(NamedTuple):
    """Records with one numbering: operations of one type of one rank in one communicator.

    ``rank`` is inside the communicator; ``timing`` is where execution times were measured.
    """

    communicator: Communicator
    rank: int
    operation: str
    timing: str
    is_p2p: bool


class Records(Struct, frozen=True):
    """Records in the order of the file; all arrays have one length.

    Attributes:
        series: Index into the series of the file.
        number: Sequence number in its series; of a P2P record a count of the process.
        size: Bytes of the message, of AllGather and ReduceScatter those of one rank.
        exec_us: Execution time in µs, waiting for other ranks included.
        written_us: When the line was written, µs since the epoch: late by one interval at most.
    """

    series: I32
    number: I64
    size: I64
    exec_us: I32
    written_us: I64

    def __len__(self) -> int:
        return len(self.series)


class InspectorFile(Struct, frozen=True):
    """The records of one process.

    Attributes:
        path: For messages.
        version: Of the form, that of the first record.
        host: Name of the host.
        pid: Number of the process.
        series: What records belong to.
        records: The records.
        dropped: Collectives that the writer states as dropped, by communicator; empty where it
            states none: before form v4.1.
        notes: What was left out.
    """

    path: str
    version: str
    host: str
    pid: int
    series: tuple[Series, ...]
    records: Records
    dropped: dict[Communicator, int] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()


class _Header(msgspec.Struct, gc=False):
    id: str
    rank: _Rank
    n_ranks: _Rank
    nnodes: _Rank = 0
    comm_name: str = ""


class _Process(msgspec.Struct, gc=False):
    inspector_output_format_version: str
    hostname: str
    pid: int


class _FirstLine(msgspec.Struct, gc=False):
    metadata: _Process


class _Written(msgspec.Struct, gc=False):
    dump_timestamp_us: _Count


class _Collective(msgspec.Struct, gc=False):
    coll: str
    coll_sn: _Count
    coll_msg_size_bytes: _Count
    coll_exec_time_us: Annotated[int, msgspec.Meta(ge=0, le=(1 << 31) - 1)]
    coll_timing_source: str = ""


class _P2P(msgspec.Struct, gc=False):
    p2p: str
    p2p_sn: _Count
    p2p_msg_size_bytes: _Count
    p2p_exec_time_us: Annotated[int, msgspec.Meta(ge=0, le=(1 << 31) - 1)]
    p2p_timing_source: str = ""


class _Dropped(msgspec.Struct, gc=False):
    coll_dropped_total: _Count = 0


class _Line(msgspec.Struct, gc=False):
    header: msgspec.Raw
    metadata: _Written
    coll_perf: _Collective | None = None
    p2p_perf: _P2P | None = None
    dump_stats: _Dropped | None = None


_LINES: Final = msgspec.json.Decoder(_Line)
_HEADERS: Final = msgspec.json.Decoder(_Header)
_FIRST: Final = msgspec.json.Decoder(_FirstLine)
_HEADER: Final = attrgetter("header")
_WRITTEN: Final = attrgetter("metadata.dump_timestamp_us")
_DAMAGE: Final = (msgspec.MsgspecError, UnicodeError, RecursionError)
_SeriesKey = tuple[bytes, str, str]


class _Fields(NamedTuple):
    """Where a line holds what is the same of collectives and of sends."""

    perf: attrgetter[Any]
    operation: attrgetter[str]
    timing: attrgetter[str]
    number: attrgetter[int]
    size: attrgetter[int]
    exec_us: attrgetter[int]

    @classmethod
    def of(cls, kind: str) -> _Fields:
        """The fields of a kind: "coll" or "p2p"."""
        names = ("timing_source", "sn", "msg_size_bytes", "exec_time_us")
        own = (attrgetter(f"{kind}_{name}") for name in names)
        return cls(attrgetter(f"{kind}_perf"), attrgetter(kind), *own)


_COLLECTIVE: Final = _Fields.of("coll")
_SENT: Final = _Fields.of("p2p")


def read_inspector(path: Path, *, shown: str) -> InspectorFile:
    """Return the records of one file; ``shown`` is its path in messages.

    Raises:
        TraceError: It holds no record.
        OSError: It cannot be read.
    """
    reader = _Reader()
    chunks = TextChunks(path)
    for piece in _whole_lines(chunks, reader):
        reader.take(piece)
    if reader.process is None:
        raise TraceError("holds no record of NCCL Inspector", path=shown)
    process = reader.process
    return InspectorFile(
        path=shown,
        version=process.inspector_output_format_version,
        host=process.hostname,
        pid=process.pid,
        series=tuple(reader.series),
        records=reader.records(),
        dropped=reader.dropped,
        notes=(*chunks.notes, *reader.notes(shown)),
    )


def _whole_lines(chunks: Iterable[bytes], reader: _Reader) -> Iterator[bytes]:
    """Yield pieces that end with a line; what is left at the end, and long lines, are left out."""
    left = b""
    for chunk in chunks:
        text = left + chunk
        end = text.rfind(b"\n") + 1
        if end:
            yield text[:end]
        left = text[end:]
        if len(left) > LONGEST_LINE:
            reader.is_long = True
            left = left[:1]
    if left.strip():
        reader.leave_out("cut", "its last line is cut off or still being written")


class _Reader:
    """Columns of the records so far, in pieces, and what was left out."""

    def __init__(self) -> None:
        self.process: _Process | None = None
        self.series: dict[Series, int] = {}
        self.dropped: dict[Communicator, int] = {}
        self.is_long = False
        self._line = 0
        self._known: dict[_SeriesKey, int] = {}
        self._headers: dict[bytes, tuple[Communicator, int]] = {}
        self._pieces: list[Records] = []
        self._left_out: Counter[str] = Counter()
        self._first: dict[str, tuple[int, str]] = {}

    def take(self, text: bytes) -> None:
        """Add the records of whole lines."""
        if self.is_long:
            self.leave_out("long", f"a line is longer than {LONGEST_LINE >> 20} MiB")
            _, _, text = text.partition(b"\n")
            self.is_long = False
            self._line += 1
        try:
            lines = _LINES.decode_lines(text)
            self._add(lines, text)
        except _DAMAGE:
            for number, line in enumerate(text.split(b"\n")[:-1]):
                self._take_line(line, number)
        self._line += text.count(b"\n")

    def _take_line(self, line: bytes, number: int) -> None:
        if not line.strip():
            return
        line = _NO_NUMBER.sub(b":null", line)
        try:
            self._add([_LINES.decode(line)], line)
        except _DAMAGE as error:
            self.leave_out("damaged", str(error).splitlines()[0][:100], number)

    def leave_out(self, kind: str, why: str, number: int = 0) -> None:
        """Count a line that is not used; the first of a kind is named."""
        self._left_out[kind] += 1
        self._first.setdefault(kind, (self._line + number + 1, why))

    def notes(self, shown: str) -> list[Note]:
        """One note for each kind of lines left out."""
        return [
            Note(f"inspector_{kind}", f"{shown}: line {line:,}: {why}", count=self._left_out[kind])
            for kind, (line, why) in self._first.items()
        ]

    def _add(self, lines: list[_Line], text: bytes) -> None:
        """Add decoded lines. Raises msgspec's errors before anything of them is added."""
        headers = list(map(bytes, map(_HEADER, lines)))
        for header in set(headers):
            self._know(header)
        if self.process is None and lines:
            self.process = _FIRST.decode(text.lstrip().partition(b"\n")[0]).metadata
        collectives = self._columns(headers, lines, _COLLECTIVE)
        sent = self._columns(headers, lines, _SENT)
        self._pieces += [one for one in (collectives, sent) if len(one)]
        for header, line in zip(headers, lines, strict=True):
            if line.dump_stats is not None:
                communicator = self._headers[header][0]
                total = line.dump_stats.coll_dropped_total
                self.dropped[communicator] = max(total, self.dropped.get(communicator, 0))

    def _columns(self, headers: list[bytes], lines: list[_Line], kind: _Fields) -> Records:
        """Columns of the lines that hold one kind of record.

        Each column is one loop in C: a loop in Python over the records takes twice as long.
        """
        perfs = list(map(kind.perf, lines))
        if None in perfs:
            held = [one is not None for one in perfs]
            headers, lines = list(compress(headers, held)), list(compress(lines, held))
            perfs = list(compress(perfs, held))
        keys = list(zip(headers, map(kind.operation, perfs), map(kind.timing, perfs), strict=True))
        for key in set(keys).difference(self._known):
            self._start_series(key, is_p2p=kind is _SENT)
        count = len(perfs)
        return Records(
            series=np.fromiter(map(self._known.__getitem__, keys), np.int32, count),
            number=np.fromiter(map(kind.number, perfs), np.int64, count),
            size=np.fromiter(map(kind.size, perfs), np.int64, count),
            exec_us=np.fromiter(map(kind.exec_us, perfs), np.int32, count),
            written_us=np.fromiter(map(_WRITTEN, lines), np.int64, count),
        )

    def _know(self, header: bytes) -> None:
        if header not in self._headers:
            if len(self._headers) >= MOST_SERIES:
                raise msgspec.ValidationError(f"more than {MOST_SERIES:,} communicators")
            one = _HEADERS.decode(header)
            if one.rank >= one.n_ranks:
                raise msgspec.ValidationError(f"rank {one.rank} of {one.n_ranks} ranks")
            place = Communicator(one.id, one.comm_name, one.n_ranks, one.nnodes)
            self._headers[header] = place, one.rank

    def _start_series(self, key: _SeriesKey, *, is_p2p: bool) -> None:
        if len(self._known) >= MOST_SERIES:
            raise msgspec.ValidationError(f"more than {MOST_SERIES:,} types of records")
        header, operation, timing = key
        one = Series(*self._headers[header], operation, timing, is_p2p)
        self._known[key] = self.series.setdefault(one, len(self.series))

    def records(self) -> Records:
        """All columns, joined."""
        names = ("series", "number", "size", "exec_us", "written_us")
        pieces = self._pieces or [self._columns([], [], _COLLECTIVE)]
        joined = {name: np.concatenate([getattr(one, name) for one in pieces]) for name in names}
        return Records(**joined)
