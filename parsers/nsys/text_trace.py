"""Read the text of ``cuda_gpu_trace`` as a trace: one rank per device.

The rows become the tables of an export, which the reader of exports then reads: a text has device
work only, no calls, no ranges and no processes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Unpack

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ccltui.parsers.array_types import I64
from ccltui.parsers.columns import Note, RankTrace
from ccltui.parsers.errors import TraceError
from ccltui.parsers.format import ReadOptions
from ccltui.parsers.nsys.report_export import read_made_export, write_export
from ccltui.parsers.nsys.sqlite import export_schema
from ccltui.parsers.nsys.stats_text import read_stats_text
from ccltui.parsers.nsys.typed_table import (
    CUT,
    UNKNOWN,
    NumberColumn,
    Section,
    StatsText,
    TextColumn,
)
from ccltui.parsers.window import SIZE_UNITS_BYTES

TRACE: Final = "cuda_gpu_trace"
_NEEDED: Final = (
    ("Start", "when each kernel began"),
    ("Duration", "how long each kernel ran"),
    ("Device", "which device each kernel ran on"),
    ("Name", "what each kernel is"),
)
_DEVICE_NUMBER: Final = re.compile(r"\((\d{1,6})\)\s*$")
_MOST: Final = 2.0**63
_COPY: Final = re.compile(r"\[CUDA (?:Unified Memory )?memcpy (?P<way>[^\]]+)\]")
_FILL: Final = "[CUDA memset]"
_SHORT_WAYS: Final = {"HtoD": 1, "DtoH": 2, "DtoD": 8, "HtoH": 9, "PtoP": 10}
_WAYS: Final = {label: kind for kind, label in export_schema.COPY_KINDS.items()} | _SHORT_WAYS
_PLACE: Final = "start end deviceId streamId correlationId"
_TABLES: Final = {
    export_schema.KERNELS: f"{_PLACE} demangledName gridX gridY gridZ",
    export_schema.COPIES: f"{_PLACE} bytes copyKind",
    export_schema.FILLS: f"{_PLACE} bytes",
}


def read_text_trace(path: Path, **options: Unpack[ReadOptions]) -> Sequence[RankTrace]:
    """Read the ``cuda_gpu_trace`` of a text: one trace per device.

    Raises:
        TraceError: There is no such table, or it lacks a column; the message names what is missing.
        CancelledError: It was asked for.
    """
    shown = options.get("shown", str(path))
    rows = trace_rows(read_stats_text(path, shown=shown), shown)
    ranks = read_made_export(path, lambda target: _write_export(rows, target), **options)
    return [replace(rank, notes=(*rank.notes, *rows.notes)) for rank in ranks]


class TraceRows(Struct, frozen=True):
    """Usable rows of a ``cuda_gpu_trace``; arrays and texts of one length.

    Times in ns; ``further`` has whole numbers by the header of their column, -1 where missing.
    ``devices`` are the names of the devices by number.
    """

    start_ns: I64
    end_ns: I64
    device: I64
    names: Sequence[str]
    further: dict[str, I64]
    devices: dict[int, str]
    notes: tuple[Note, ...]


def trace_rows(stats: StatsText, shown: str) -> TraceRows:
    """Return the rows of the trace in a text.

    Raises:
        TraceError: The text lacks the table or one of its columns; the message says which.
    """
    tables = [section for section in stats.tables if section.report == TRACE]
    if not tables:
        raise TraceError(lacks_trace(stats), path=shown)
    section = tables[0]
    missing = _missing(section)
    if missing:
        raise TraceError(f"its {TRACE} has no column {missing}", path=shown)
    start, duration = section.number("Start"), section.number("Duration")
    labels, names = _texts(section, "Device"), _texts(section, "Name")
    usable = start.known & duration.known & np.array([bool(one) for one in labels], bool)
    places = np.flatnonzero(usable)
    if not len(places):
        raise TraceError(f"no row of its {TRACE} has start, duration and device", path=shown)
    numbers, devices = _devices([labels[place] for place in places.tolist()])
    start_ns = start.ns()[places]
    notes = [*_notes(start, duration, usable), *_further_tables(tables)]
    if section.provenance.command:
        notes.append(_filtered(section.provenance.command))
    return TraceRows(
        start_ns,
        start_ns + duration.ns()[places],
        numbers,
        [names[place] for place in places.tolist()],
        {name: _whole(section, name)[places] for name in ("Strm", "CorrId", "Bytes", *_GRID)},
        devices,
        tuple(notes),
    )


_GRID: Final = ("GrdX", "GrdY", "GrdZ")


def lacks_trace(stats: StatsText) -> str:
    """Say what a text lacks to be read as a trace: the table, or columns of it."""
    traces = [section for section in stats.tables if section.report == TRACE]
    if traces:
        return f"text of nsys stats whose {TRACE} has no column {_missing(traces[0])}"
    reports = sorted({section.report or "a table of no known report" for section in stats.tables})
    has = f"it has {', '.join(reports)}, which are totals" if reports else "it has no table"
    return (
        f"text of nsys stats without a {TRACE}: {has}, and no start of any kernel; "
        f"`nsys stats -r {TRACE}` prints one"
    )


def _missing(section: Section) -> str:
    """Return the columns that a trace lacks, each with what it would tell; "" without any."""
    return ", ".join(f"{name} ({why})" for name, why in _NEEDED if section.column(name) is None)


def _texts(section: Section, name: str) -> Sequence[str]:
    column = section.column(name)
    if isinstance(column, TextColumn):
        return column.values
    return [column.cell(row) for row in range(len(column))] if column is not None else ()


def _whole(section: Section, name: str) -> I64:
    """Return a column as whole numbers: sizes in bytes; -1 where missing."""
    column = section.column(name)
    if not isinstance(column, NumberColumn):
        return np.full(len(section), -1, np.int64)
    scale = SIZE_UNITS_BYTES.get(column.unit.partition("/")[0], 1)
    values = np.rint(np.nan_to_num(column.floats()) * scale)
    known = column.known & (np.abs(values) < _MOST)
    return np.where(known, np.where(known, values, 0).astype(np.int64), -1)


def _devices(labels: Sequence[str]) -> tuple[I64, dict[int, str]]:
    """Return the number of each device, from ``NVIDIA A100 (1)``, and their names.

    Labels without a number are numbered in their order, after the others.
    """
    names: dict[int, str] = {}
    number_of: dict[str, int] = {}
    for label in sorted(set(labels)):
        match = _DEVICE_NUMBER.search(label)
        number = int(match[1]) if match else max(names, default=-1) + 1
        while number in names and names[number] != label:
            number += 1
        number_of[label] = number
        names[number] = label
    plain = {number: _DEVICE_NUMBER.sub("", label).strip() for number, label in names.items()}
    return np.array([number_of[label] for label in labels], np.int64), plain


def _notes(start: NumberColumn, duration: NumberColumn, usable: np.ndarray[Any, Any]) -> list[Note]:
    notes = [
        Note(
            "text_trace",
            "read from the text of cuda_gpu_trace: device work only, without calls, ranges, "
            "message sizes and process groups; times count from the start of the session of nsys",
        )
    ]
    dropped = int(len(usable) - usable.sum())
    if dropped:
        unknown = int((start.state == UNKNOWN).sum() + (duration.state == UNKNOWN).sum())
        why = f", {unknown} numbers are cut off" if unknown else ""
        message = f"rows without start, duration or device are left out{why}"
        notes.append(Note("text_rows_dropped", message, count=dropped))
    cut = int(((start.state == CUT) & usable).sum())
    if cut:
        message = "starts are cut after the decimal point: they are early by less than one digit"
        notes.append(Note("text_cut_starts", message, count=cut))
    step_ns = max(start.step_ns, duration.step_ns)
    if step_ns > 1:
        message = f"times are printed in steps of {step_ns:.0f} ns: clocks and lags are as coarse"
        notes.append(Note("text_coarse_times", message))
    return notes


def _further_tables(tables: Sequence[Section]) -> Iterator[Note]:
    if len(tables) > 1:
        message = f"the file holds several {TRACE}: only the first is read"
        yield Note("text_further_traces", message, count=len(tables) - 1)


def _filtered(command: str) -> Note:
    message = f"the rows were filtered by {command[:80]}: other work of the devices is missing"
    return Note("text_filtered", message)


def _write_export(rows: TraceRows, path: Path) -> None:
    """Write the rows as the tables of an export."""
    strings = {name: number for number, name in enumerate(dict.fromkeys(rows.names), 1)}
    tables: dict[str, list[tuple[int | None, ...]]] = {name: [] for name in _TABLES}
    further = (rows.further[name] for name in ("Strm", "CorrId", "Bytes"))
    columns = (rows.start_ns, rows.end_ns, rows.device, *further)
    grids = zip(*(rows.further[name].tolist() for name in _GRID), strict=True)
    for name, grid, *cells in zip(
        rows.names, grids, *(column.tolist() for column in columns), strict=True
    ):
        start, end, device, stream, correlation, size = cells
        place = (start, end, device, _known(stream), _known(correlation))
        copy = _COPY.fullmatch(name)
        if copy:
            tables[export_schema.COPIES].append((*place, _known(size), _WAYS.get(copy["way"], 0)))
        elif name == _FILL:
            tables[export_schema.FILLS].append((*place, _known(size)))
        else:
            kernel = (*place, strings[name], *map(_known, grid))
            tables[export_schema.KERNELS].append(kernel)
    listed = {name: (columns.split(), tables[name]) for name, columns in _TABLES.items()}
    write_export(path, listed, strings, rows.devices)


def _known(value: int) -> int | None:
    return None if value < 0 else value
