"""Read what NCCL Inspector writes: records, one JSON object a line, and text for Prometheus.

A line that is damaged or cut off is counted in a note, with the number of the first such line, and
the lines around it are read. Compiled code (`_line_scanner.pyx`) reads lines that are equal to one
that was decoded here but for their numbers: all but the first of each series. Without it all lines
are decoded here, with equal results.
"""

from __future__ import annotations

import importlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import compress
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, Protocol

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ccltui.parsers.columns import Note
from ccltui.parsers.errors import TraceError
from ccltui.parsers.inspector.record_columns import (
    PART_ROWS,
    Communicator,
    FileRows,
    InspectorFacts,
    InspectorFile,
    MemoryColumns,
    Series,
    part_columns,
)
from ccltui.parsers.machine_limits import wants_compiled_code
from ccltui.parsers.text.compression import TextChunks

_MOST_BYTES: Final = 4 << 20
"""A line has 250 bytes, and a device hundreds of lines."""
_LINE: Final = re.compile(
    r'(nccl_\w++)\{((?:\w++="(?:[^"\\]++|\\.)*+",?+)*+)\}[ \t]++([-+0-9.eE]++)(?:[ \t]++\d++)?+\s*+'
)
_LABEL: Final = re.compile(r'(\w++)="((?:[^"\\]++|\\.)*+)"')


class Gauge(Struct, frozen=True):
    """One value of a device.

    Attributes:
        name: What it is: ``nccl_bus_bandwidth_gbs``, ``nccl_collective_exec_time_microseconds``, ….
        value: In the unit that the name states.
        node: Host of the device.
        gpu: Its name there.
        communicator: Name of the communicator.
        n_ranks: Number of its ranks, as text.
        n_nodes: Number of their hosts, as text.
        operation: AllReduce, Send, ….
        size: Range of message sizes: ``64-65MB``.
    """

    name: str
    value: float
    node: str
    gpu: str
    communicator: str
    n_ranks: str
    n_nodes: str
    operation: str
    size: str


class PrometheusFile(Struct, frozen=True):
    """The values of a file, and how many lines could not be read."""

    gauges: tuple[Gauge, ...]
    unread: int


def read_prometheus(path: Path, *, shown: str) -> PrometheusFile:
    """Return the values of one device; ``shown`` is its path in messages.

    Raises:
        TraceError: It holds no value, or is longer than any that the writer makes.
        OSError: It cannot be read.
    """
    text = b""
    for chunk in TextChunks(path):
        text += chunk
        if len(text) > _MOST_BYTES:
            raise TraceError(f"is longer than {_MOST_BYTES >> 20} MiB of values", path=shown)
    gauges: list[Gauge] = []
    unread = 0
    for line in text.decode("utf-8", "replace").split("\n"):
        if not line.strip() or line.startswith("#"):
            continue
        found = _gauge(line)
        if found is None:
            unread += 1
        else:
            gauges.append(found)
    if not gauges:
        raise TraceError("holds no value of NCCL Inspector", path=shown)
    return PrometheusFile(tuple(gauges), unread)


def _gauge(line: str) -> Gauge | None:
    found = _LINE.fullmatch(line)
    if found is None:
        return None
    try:
        value = float(found[3])
    except ValueError:
        return None
    labels: dict[str, str] = dict(_LABEL.findall(found[2]))
    return Gauge(
        name=found[1],
        value=value,
        node=labels.get("node", ""),
        gpu=labels.get("gpu", ""),
        communicator=labels.get("comm_name", ""),
        n_ranks=labels.get("nranks", ""),
        n_nodes=labels.get("n_nodes", ""),
        operation=labels.get("collective") or labels.get("p2p_operation", ""),
        size=labels.get("message_size", ""),
    )


LONGEST_LINE: Final = 1 << 20
"""Bytes; a verbose record of 64 channels has 20,000."""
_CHUNK_BYTES: Final = 1 << 18
"""Pieces that stay in the cache of a CPU while they are scanned: 1 MiB takes a third more time."""
MOST_SERIES: Final = 100_000
"""Communicators times types of operations of one process; real jobs have fewer than a hundred."""
_NO_NUMBER: Final = re.compile(rb":-?(?:nan|inf)(?=[,}])")
_Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 60)]
_Rank = Annotated[int, msgspec.Meta(ge=0, le=1 << 30)]


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
_FORM: Final = re.compile(
    rb'((?>\{.*?"dump_timestamp_us":))(\d++)((?>.*?_sn":))(\d++)((?>.*?_msg_size_bytes":))(\d++)'
    rb'((?>.*?_exec_time_us":))(\d++)((?>.*?_algobw_gbs":))(-?\d++\.\d++)((?>.*?_busbw_gbs":))'
    rb"(-?\d++\.\d++)(\}\}\n)"
)
"""A record as the writer forms it; numbers are in every second group. Nothing is tried twice."""
_TRIED: Final = (b"1712345678901234", b"271828", b"314159265", b"161803", b"57.721566", b"9.869604")
"""Numbers that hardly any name contains, in the places of those of a record."""


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


PutColumn = Callable[[str, npt.NDArray[Any]], object]
"""Takes a column of a part: its name, and the values."""


def read_inspector(path: Path, *, shown: str) -> InspectorFile:
    """Return the records of one file in memory; ``shown`` is its path in messages.

    Raises:
        TraceError: It holds no record.
        OSError: It cannot be read.
    """
    columns: dict[str, npt.NDArray[Any]] = {}
    facts = read_records(path, columns.__setitem__, shown=shown)
    return InspectorFile(shown, facts, MemoryColumns(columns))


def read_records(path: Path, put: PutColumn, *, shown: str) -> InspectorFacts:
    """Hand the columns of a file to ``put``, a part at a time, and return what else it states.

    Raises:
        TraceError: It holds no record.
        OSError: It cannot be read, or ``put`` raises it.
    """
    reader = _Reader(put)
    chunks = TextChunks(path, _CHUNK_BYTES)
    for piece in _whole_lines(chunks, reader):
        reader.take(piece)
    reader.end_part()
    if reader.process is None:
        raise TraceError("holds no record of NCCL Inspector", path=shown)
    process = reader.process
    return InspectorFacts(
        version=process.inspector_output_format_version,
        host=process.hostname,
        pid=process.pid,
        series=tuple(reader.series),
        num_parts=reader.num_parts,
        num_records=reader.num_records,
        first_us=reader.first_us or 0,
        last_us=reader.last_us,
        dropped=tuple(reader.dropped.items()),
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


class _Scanner(Protocol):
    """Interface of the compiled scanner; see ``_line_scanner.pyx``."""

    def learn(self, pieces: tuple[bytes, ...], series: int) -> bool:
        """Add the template of a series; return whether there was room for it."""

    def scan(self, text: bytes, start: int, row: int, rows: FileRows) -> tuple[int, int]:
        """Scan lines from ``start`` on into ``rows``, from ``row`` on.

        Returns where it stopped, and the row after the last.
        """


_VERSION: Final = 1
"""That of ``_line_scanner.pyx``."""


def _new_scanner() -> _Scanner | None:
    """Return a compiled scanner, None where there is none or it is not in use."""
    if not wants_compiled_code():
        return None
    try:
        module = importlib.import_module("ccltui.parsers.inspector._line_scanner")
    except ImportError:
        return None
    scanner: _Scanner | None = module.LineScanner() if module.VERSION == _VERSION else None
    return scanner


class _Reader:
    """Records of the part that is being filled, and what was left out."""

    def __init__(self, put: PutColumn) -> None:
        self.process: _Process | None = None
        self.series: dict[Series, int] = {}
        self.dropped: dict[Communicator, int] = {}
        self.is_long = False
        self.num_parts = self.num_records = 0
        self.first_us: int | None = None
        self.last_us = 0
        self._put = put
        self._scanner = _new_scanner()
        self._line = 0
        self._known: dict[_SeriesKey, int] = {}
        self._headers: dict[bytes, tuple[Communicator, int]] = {}
        self._rows = FileRows(
            np.empty(PART_ROWS, np.int32),
            np.empty(PART_ROWS, np.int64),
            np.empty(PART_ROWS, np.int64),
            np.empty(PART_ROWS, np.int32),
            np.empty(PART_ROWS, np.int64),
        )
        self._used = 0
        self._left_out: Counter[str] = Counter()
        self._first: dict[str, tuple[int, str]] = {}

    def take(self, text: bytes) -> None:
        """Add the records of whole lines."""
        if self.is_long:
            self.leave_out("long", f"a line is longer than {LONGEST_LINE >> 20} MiB")
            _, _, text = text.partition(b"\n")
            self.is_long = False
            self._line += 1
        start = 0
        while start < len(text) and self._scanner is not None:
            start, used = self._scanner.scan(text, start, self._used, self._rows)
            self._line += used - self._used
            self._used = used
            if used == PART_ROWS:
                self.end_part()
            elif start < len(text):
                end = text.index(b"\n", start) + 1
                line = text[start:end]
                if self._decode(line) and not self._learned(line):
                    start = end
                    break
                start = end
        if start < len(text):
            self._decode(text[start:] if start else text)

    def _decode(self, text: bytes) -> bool:
        """Add the records of whole lines by the general decoder; whether all were read at once."""
        before = self._line
        self._line += text.count(b"\n")
        try:
            self._add(_LINES.decode_lines(text), text)
        except _DAMAGE:
            for number, line in enumerate(text.split(b"\n")[:-1]):
                self._take_line(line, before + number + 1)
            return False
        return True

    def _take_line(self, line: bytes, number: int) -> None:
        if not line.strip():
            return
        line = _NO_NUMBER.sub(b":null", line)
        try:
            self._add([_LINES.decode(line)], line)
        except _DAMAGE as error:
            self.leave_out("damaged", str(error).splitlines()[0][:100], number)

    def leave_out(self, kind: str, why: str, number: int = 0) -> None:
        """Count a line that is not used; the first of a kind is named. By default the next one."""
        self._left_out[kind] += 1
        self._first.setdefault(kind, (number or self._line + 1, why))

    def notes(self, shown: str) -> list[Note]:
        """One note for each kind of lines left out."""
        return [
            Note(f"inspector_{kind}", f"{shown}: line {line:,}: {why}", count=self._left_out[kind])
            for kind, (line, why) in self._first.items()
        ]

    def _learned(self, line: bytes) -> bool:
        """Teach the scanner the form of a line that was just decoded; whether it goes on with it.

        A form is used only where other numbers in the same places are decoded as those of the
        same series, so that nothing in a name can be taken for a number.
        """
        found = _FORM.fullmatch(line)
        if found is None:
            return b'"dump_stats"' in line  # between the records of two dumps
        pieces = found.group(1, 3, 5, 7, 9, 11, 13)
        tried = b"".join(part for pair in zip(pieces, (*_TRIED, b""), strict=True) for part in pair)
        try:
            one, other = _LINES.decode(line), _LINES.decode(tried)
        except _DAMAGE:
            return False
        kind = _COLLECTIVE if other.p2p_perf is None else _SENT
        perf, before = kind.perf(other), kind.perf(one)
        if perf is None or before is None or other.dump_stats is not None:
            return False
        if other.coll_perf is not None and other.p2p_perf is not None:
            return False
        values = _WRITTEN(other), kind.number(perf), kind.size(perf), kind.exec_us(perf)
        key = bytes(other.header), kind.operation(perf), kind.timing(perf)
        if key != (bytes(one.header), kind.operation(before), kind.timing(before)):
            return False
        if values != tuple(map(int, _TRIED[:4])) or self._scanner is None:
            return False
        return self._scanner.learn(pieces, self._known[key])

    def _add(self, lines: list[_Line], text: bytes) -> None:
        """Add decoded lines. Raises msgspec's errors before anything of them is added."""
        headers = list(map(bytes, map(_HEADER, lines)))
        for header in set(headers):
            self._know(header)
        if self.process is None and lines:
            self.process = _FIRST.decode(text.lstrip().partition(b"\n")[0]).metadata
        collectives = self._columns(headers, lines, _COLLECTIVE)
        sent = self._columns(headers, lines, _SENT)
        self._keep(collectives)
        self._keep(sent)
        for header, line in zip(headers, lines, strict=True):
            if line.dump_stats is not None:
                communicator = self._headers[header][0]
                total = line.dump_stats.coll_dropped_total
                self.dropped[communicator] = max(total, self.dropped.get(communicator, 0))

    def _keep(self, rows: FileRows) -> None:
        """Write rows into the part that is being filled, and into further ones."""
        done = 0
        while done < len(rows.series):
            taken = min(PART_ROWS - self._used, len(rows.series) - done)
            for column, values in zip(self._rows, rows, strict=True):
                column[self._used : self._used + taken] = values[done : done + taken]
            self._used += taken
            done += taken
            if self._used == PART_ROWS:
                self.end_part()

    def end_part(self) -> None:
        """Hand the columns of the part over, and begin the next one."""
        if not self._used:
            return
        rows = FileRows(*(column[: self._used] for column in self._rows))
        is_sent = np.array([one.is_p2p for one in self.series], np.bool_)
        times = rows.written_us[~is_sent[rows.series]]
        if len(times):
            first = int(times.min())
            self.first_us = first if self.first_us is None else min(self.first_us, first)
            self.last_us = max(self.last_us, int(times.max()))
        for name, values in part_columns(rows, len(self.series)):
            self._put(f"{self.num_parts}/{name}", values)
        self.num_parts += 1
        self.num_records += self._used
        self._used = 0

    def _columns(self, headers: list[bytes], lines: list[_Line], kind: _Fields) -> FileRows:
        """Columns of the lines that hold one kind of record.

        Each column is one loop in C: a loop in Python over the records takes twice as long.
        """
        perfs = list(map(kind.perf, lines))
        if None in perfs:
            held = [one is not None for one in perfs]
            headers, lines = list(compress(headers, held)), list(compress(lines, held))
            perfs = list(compress(perfs, held))
        keys = list(zip(headers, map(kind.operation, perfs), map(kind.timing, perfs), strict=True))
        for key in dict.fromkeys(keys):
            if key not in self._known:
                self._start_series(key, is_p2p=kind is _SENT)
        count = len(perfs)
        return FileRows(
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
