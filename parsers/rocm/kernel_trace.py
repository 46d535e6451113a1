"""Read ``kernel_trace.csv`` of rocprofv3, or ``results.csv`` of rocprof, as traces.

There is one rank for each agent of a process.

The rows become the tables of an export of nsys, which its reader then reads. What lies beside the
file with the same beginning of its name is added: calls of HIP, which launched the kernels, copies
of memory, and markers (roctx). Columns are found by the names in the first line: releases add some,
and change their order.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Unpack

from msgspec import Struct, field, structs
from msgspec.structs import replace

from ccltui.parsers.columns import Note, RankTrace
from ccltui.parsers.errors import TraceError
from ccltui.parsers.format import ReadOptions
from ccltui.parsers.nsys.report_export import read_made_export, write_export
from ccltui.parsers.nsys.sqlite import export_schema
from ccltui.parsers.rocm import NEEDED, OLD_NAMES, kernel_name
from ccltui.parsers.text.compression import TextChunks
from ccltui.parsers.text.line_prefixes import Prefixes

_KERNELS: Final = "kernel_trace.csv"
_PROCESS: Final = re.compile(r"(?:^|[_/])(\d{1,9})_kernel_trace\.csv")
_DIGITS: Final = re.compile(r"\d+")
_COPIES: Final = {
    "HOST_TO_DEVICE": 1, "DEVICE_TO_HOST": 2, "DEVICE_TO_DEVICE": 8, "HOST_TO_HOST": 9,
}  # fmt: skip
_MOST: Final = 2**62
_CANCEL_ROWS: Final = 20_000
_TABLES: Final = {
    export_schema.KERNELS: "start end deviceId streamId correlationId globalPid demangledName "
    "gridX gridY gridZ",
    export_schema.COPIES: "start end deviceId streamId correlationId globalPid bytes copyKind",
    export_schema.API_CALLS: "start end globalTid correlationId nameId eventClass",
    export_schema.NVTX: "start end eventType textId globalTid domainId",
}

Row = Mapping[str, str]


def read_kernel_trace(path: Path, **options: Unpack[ReadOptions]) -> Sequence[RankTrace]:
    """Read the kernels of a process and what lies beside them: one trace for each agent.

    Raises:
        TraceError: The file is no such table, or no row of it can be used.
        CancelledError: It was asked for.
    """
    shown, cancelled = options.get("shown", str(path)), options.get("cancelled")
    tables = _Tables(process=_process(shown))
    for row in _rows(path, shown):
        tables.add_kernel(row)
        if cancelled is not None and not tables.num_rows % _CANCEL_ROWS and cancelled():
            break  # the reader of the tables raises
    if not tables.rows[export_schema.KERNELS]:
        raise TraceError("no row of it has a kernel, an agent and two times", path=shown)
    tables.add_beside(path)
    ranks = read_made_export(path, tables.write, **options)
    return [as_rocprof(rank, tables.notes()) for rank in ranks]


def as_rocprof(rank: RankTrace, notes: Sequence[Note]) -> RankTrace:
    """Times of all processes of a host are of one clock, whatever an export of nsys would state."""
    source = structs.replace(rank.source, format="rocprof")
    kept = [note for note in rank.notes if note.code != "no_session_start"]
    return replace(rank, source=source, notes=(*kept, *notes))


def _process(shown: str) -> int:
    """The process that the name states, as rocprofv3 writes it; 1 where it states none."""
    match = _PROCESS.search(shown)
    return int(match[1]) if match else 1


def _rows(path: Path, shown: str, needed: Sequence[str] = NEEDED) -> Iterator[Row]:
    """Yield the rows by the names of the first line. Raises TraceError."""
    lines = _lines(path)
    try:
        first = next(lines, "")
        names = [OLD_NAMES.get(name, name) for name in next(csv.reader([first]), [])]
        missing = [name for name in needed if name not in names]
        if missing:
            raise TraceError(f"no table of rocprof: without {', '.join(missing)}", path=shown)
        for cells in csv.reader(lines):
            if len(cells) == len(names):
                yield dict(zip(names, cells, strict=True))
            elif cells:
                yield {}
    except OSError as error:
        raise TraceError(f"cannot be read: {error.strerror or error}", path=shown) from error
    except csv.Error as error:
        raise TraceError(f"not valid csv: {error}", path=shown) from error


def _lines(path: Path) -> Iterator[str]:
    prefixes: Prefixes | None = None
    for line in _whole_lines(TextChunks(path)):
        prefixes = prefixes or Prefixes(line)
        yield prefixes.split(line)[1] if line[:1] in "[(2" else line


def _whole_lines(chunks: TextChunks) -> Iterator[str]:
    """Yield the lines of a text with their ends, bytes that are no UTF-8 as �."""
    held = b""
    for chunk in chunks:
        *whole, held = (held + chunk).split(b"\n")
        for line in whole:
            yield f"{line.decode('utf-8-sig', 'replace')}\n"
    if held:
        yield held.decode("utf-8-sig", "replace")


class _Tables(Struct):
    """Rows of the tables of an export."""

    process: int
    num_rows: int = 0
    dropped: int = 0
    beside: list[str] = field(default_factory=list)
    rows: dict[str, list[tuple[int | None, ...]]] = field(
        default_factory=lambda: {name: [] for name in _TABLES}
    )
    strings: dict[str, int] = field(default_factory=dict)
    agents: dict[int, str] = field(default_factory=dict)
    processes: dict[str, int] = field(default_factory=dict)

    def add_kernel(self, row: Row) -> None:
        self.num_rows += 1
        times, agent = _times(row), _agent(row.get("Agent_Id", ""))
        if times is None or agent is None or not row.get("Kernel_Name"):
            self.dropped += 1
            return
        self.agents[agent] = f"agent {agent}"
        grid = (_number(row.get(f"Grid_Size_{axis}")) for axis in "XYZ")
        group = (_number(row.get(f"Workgroup_Size_{axis}")) for axis in "XYZ")
        # The grid counts work items, an export of nsys counts groups of them.
        blocks = [
            -(-whole // part) if whole and part else None
            for whole, part in zip(grid, group, strict=True)
        ]
        place = (*times, agent, _stream(row), _number(row.get("Correlation_Id")), self._pid(row))
        name = self._string(kernel_name(row["Kernel_Name"]))
        self.rows[export_schema.KERNELS].append((*place, name, *blocks))

    def _pid(self, row: Row) -> int:
        """The process, told apart by its Guid where one file holds several."""
        guid = row.get("Guid", "")
        number = self.processes.setdefault(guid, self.process + len(self.processes))
        return number << export_schema.PID_BITS

    def _thread(self, row: Row) -> int:
        """Return the thread below its process, in one number."""
        thread = _number(row.get("Thread_Id")) or 0
        return self._pid(row) | thread % (1 << export_schema.PID_BITS)

    def add_beside(self, path: Path) -> None:
        """Add the other tables of the same process; one that cannot be read is noted."""
        for end, add in (
            ("hip_api_trace.csv", self._add_call),
            ("memory_copy_trace.csv", self._add_copy),
            ("marker_api_trace.csv", self._add_marker),
        ):
            beside = path.with_name(path.name.replace(_KERNELS, end))
            if beside == path or not beside.is_file():
                continue
            try:
                for row in _rows(beside, beside.name, ("Start_Timestamp", "End_Timestamp")):
                    add(row)
            except TraceError as error:
                self.beside.append(str(error))

    def _add_call(self, row: Row) -> None:
        times, name = _times(row), row.get("Function")
        if times is not None and name:
            tid = self._thread(row)
            values = (*times, tid, _number(row.get("Correlation_Id")), self._string(name), None)
            self.rows[export_schema.API_CALLS].append(values)

    def _add_marker(self, row: Row) -> None:
        times, name = _times(row), row.get("Function")
        if times is not None and name:
            tid = self._thread(row)
            values = (*times, export_schema.PUSHED, self._string(name), tid, 0)
            self.rows[export_schema.NVTX].append(values)

    def _add_copy(self, row: Row) -> None:
        times = _times(row)
        way = row.get("Direction", "").removeprefix("MEMORY_COPY_")
        ends = [_agent(row.get(f"{end}_Agent_Id", "")) for end in ("Destination", "Source")]
        agent = next((one for one in ends if one in self.agents), None)
        if times is None or agent is None:
            return
        place = (*times, agent, _stream(row), _number(row.get("Correlation_Id")), self._pid(row))
        self.rows[export_schema.COPIES].append((*place, None, _COPIES.get(way, 0)))

    def _string(self, text: str) -> int:
        return self.strings.setdefault(text, len(self.strings) + 1)

    def notes(self) -> list[Note]:
        message = (
            "read from tables of rocprof: without message sizes and process groups; times are "
            "those of the clock of the host"
        )
        notes = [Note("rocprof_trace", message)]
        if self.dropped:
            text = "rows without a kernel, an agent or an end after a start are left out"
            notes.append(Note("rocprof_rows_dropped", text, count=self.dropped))
        notes += [Note("rocprof_beside", text) for text in self.beside]
        return notes

    def write(self, path: Path) -> None:
        """Write the rows as the tables of an export."""
        tables = {name: (_TABLES[name].split(), rows) for name, rows in self.rows.items() if rows}
        write_export(path, tables, self.strings, self.agents)


def _times(row: Row) -> tuple[int, int] | None:
    start, end = _number(row.get("Start_Timestamp")), _number(row.get("End_Timestamp"))
    if start is None or end is None or not 0 < start <= end:
        return None
    return start, end


def _agent(text: str) -> int | None:
    """4 of "4" and of "Agent 4"."""
    match = _DIGITS.search(text)
    return None if match is None else _number(match[0])


def _stream(row: Row) -> int | None:
    """The stream where the release states it, else the queue of the device."""
    stream = _number(row.get("Stream_Id"))
    return _number(row.get("Queue_Id")) if stream is None else stream


def _number(text: str | None) -> int | None:
    if text is None or not text.isdecimal() or len(text) > 19:
        return None
    value = int(text)
    return value if value < _MOST else None
