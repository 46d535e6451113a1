"""Data model of a report: typed columns with the names of nsys, and reports that nsys printed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from ccltui.metrics.nsys_reports.row_filter import Filter
from ccltui.parsers.array_types import I64, Bool
from ccltui.parsers.nsys.report_tables import Part, RawColumns, RawTable, ReportTables
from ccltui.parsers.nsys.typed_table import (
    AVERAGE_COLUMNS,
    CUT,
    UNKNOWN,
    Column,
    NumberColumn,
    Section,
    TextColumn,
)
from ccltui.parsers.numbers import counted
from ccltui.parsers.window import COLUMN_UNITS_NS, SIZE_UNITS_BYTES, Window, format_window

Kind = Literal["text", "count", "percent", "time", "mean_time", "size", "rate", "mean"]
"""Kind of the values of a column, which determines how it is printed.

text: str. count: int64, masked by ``known``. percent: float64. time: int64 ns. mean_time:
float64 ns. size: float64 bytes. rate: float64 bytes/s. mean: float64, one decimal.
"""


class ReportColumn(Struct, frozen=True):
    """One column; ``known`` (bool) is None where every cell has a value."""

    name: str
    kind: Kind
    values: Sequence[str] | npt.NDArray[Any]
    known: npt.NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.values)


class Report(Struct, frozen=True):
    """One report, or the reason why there is none (``absent``, in the wording of nsys)."""

    name: str
    title: str
    columns: tuple[ReportColumn, ...] = ()
    absent: str | None = None
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.columns[0]) if self.columns else 0

    def column(self, name: str) -> ReportColumn:
        """Return a column by name.

        Raises:
            KeyError: There is no such column.
        """
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)


Columns = tuple[ReportColumn, ...] | str
"""The columns of a report, or the reason why there are none."""

Make = Callable[[ReportTables, Filter], Columns]

KernelNames = Literal["base", "mangled", "nvtx-name"]
"""Arguments that choose how kernels are named: short name, symbol, prefixed by their range."""
ANY_KERNEL_NAME: Final[tuple[KernelNames, ...]] = ("nvtx-name", "base", "mangled")


class NumberArgument(Struct, frozen=True):
    """An argument ``name=NUMBER`` of a report, and how the report is made with a value."""

    name: str
    default: int
    make: Callable[[int], Make]


class Recipe(Struct, frozen=True):
    """Function that makes a report, and the parts of a capture that it needs.

    ``single_capture``: not defined for pooled captures. ``keeps_domains``: it selects ranges by
    their domain.
    """

    make: Make
    parts: frozenset[Part] = frozenset()
    raw: tuple[RawColumns, ...] = ()
    kernel_names: tuple[KernelNames, ...] = ()
    number: NumberArgument | None = None
    single_capture: bool = False
    keeps_domains: bool = False

    def usage(self, name: str) -> str:
        """Return the name with its arguments: ``cuda_gpu_kern_sum[:base|:mangled]``."""
        forms = "|".join(f":{one}" for one in self.kernel_names if one != "nvtx-name")
        prefix = "[:nvtx-name]" if "nvtx-name" in self.kernel_names else ""
        number = f"[:{self.number.name}=N]" if self.number else ""
        return name + prefix + (f"[{forms}]" if forms else "") + number


def absent(what: str) -> str:
    """Return the reason for a report without data, in the words of nsys."""
    return f"the capture does not contain {what}."


def is_chosen(chosen: Filter, start: Any, end: Any) -> bool:
    """Whether a row has both times and overlaps the bounds of the filter."""
    return (
        isinstance(start, int)
        and isinstance(end, int)
        and end >= chosen.start_ns
        and start < chosen.end_ns
    )


def events(tables: ReportTables, source: RawColumns, chosen: Filter) -> Iterator[Mapping[str, Any]]:
    """Yield the chosen rows of a table by column, none without the table."""
    table = tables.raw.get(source)
    return iter(()) if table is None else _rows(table, chosen)


def _rows(table: RawTable, chosen: Filter) -> Iterator[Mapping[str, Any]]:
    for cells in zip(*table.columns.values(), strict=True):
        row = dict(zip(table.columns, cells, strict=True))
        if is_chosen(chosen, row["start"], row["end"]):
            yield row


def numbers(rows: Sequence[Mapping[str, Any]], name: str) -> I64:
    """Return a column of whole numbers, 0 for NULL."""
    return np.array([row[name] or 0 for row in rows], np.int64)


def optional(name: str, kind: Kind, values: Sequence[Any]) -> ReportColumn:
    """Return a column of numbers that is blank where a value is None."""
    known = np.array([value is not None for value in values], bool)
    return ReportColumn(name, kind, np.array([value or 0 for value in values]), known)


def report_of_section(section: Section) -> Report:
    """Return the table of a text section; ``notes`` list what nsys cut off or lost."""
    if not section.columns:
        return Report(section.report, section.title, absent=section.absent)
    columns = tuple(map(_column, section.columns))
    notes = [note for column in section.columns if (note := _note(column))]
    return Report(section.report, section.title, columns, notes=tuple(notes))


def filtered_report(section: Section, window: Window) -> Report:
    """Return the rows of a printed trace that touch a window, as ``--filter-time`` selects them.

    A report of totals has no times to select by: it is absent, with the reason. Rows whose start or
    duration nsys cut off before the decimal point are left out, and counted in ``notes``.
    """
    if not section.columns:
        return report_of_section(section)
    start, duration = section.column("Start"), section.column("Duration")
    if not isinstance(start, NumberColumn) or not isinstance(duration, NumberColumn):
        why = "the text has totals of it, which cannot be filtered by time: filter the capture."
        return Report(section.report, section.title, absent=why)
    start_ns = start.ns()
    end_ns = start_ns + duration.ns()
    known = start.known & duration.known
    rows = np.flatnonzero(known & Filter.of(window).rows(start_ns, end_ns))
    notes = tuple(_filter_notes(section, window, start, end_ns, known))
    if not len(rows):
        why = f"no row of it is in {format_window(window)}."
        return Report(section.report, section.title, absent=why, notes=notes)
    columns = tuple(_rows_of(column, rows) for column in section.columns)
    report = report_of_section(replace(section, columns=columns))
    return replace(report, notes=(*report.notes, *notes))


def _rows_of(column: Column, rows: I64) -> Column:
    if isinstance(column, TextColumn):
        texts = tuple(column.values[row] for row in rows.tolist())
        return replace(column, values=texts, cut=column.cut[rows])
    return replace(column, mantissa=column.mantissa[rows], state=column.state[rows])


def _filter_notes(
    section: Section, window: Window, start: NumberColumn, end_ns: I64, known: Bool
) -> Iterator[str]:
    """Sentences on rows that the window may select wrongly, and on what the text never had."""
    lost = int((~known).sum())
    if lost:
        yield f"{counted(lost, 'row')} without start or duration cannot be filtered: left out"
    # A cut start is early by less than one unit; so is the end that it gives.
    unit_ns = COLUMN_UNITS_NS[start.unit]
    cut = known & (start.state == CUT)
    doubtful = 0
    for times_ns, edge_ns in ((end_ns, window.start_ns), (start.ns(), window.end_ns)):
        if edge_ns is not None:
            doubtful += int((cut & (times_ns < edge_ns) & (times_ns + unit_ns > edge_ns)).sum())
    if doubtful:
        what = counted(doubtful, "cut start")
        yield f"{what} less than 1 {start.unit} from the edge of the window: in it or not is unsure"
    own = section.provenance.window
    if own is not None and _exceeds(window, own):
        yield f"the text holds {format_window(own)} only: what the window has beyond is not in it"


def _exceeds(window: Window, own: Window) -> bool:
    """Whether a window reaches beyond another one; None is an open side."""
    before = own.start_ns is not None and (
        window.start_ns is None or window.start_ns < own.start_ns
    )
    after = own.end_ns is not None and (window.end_ns is None or window.end_ns > own.end_ns)
    return before or after


def _column(column: Column) -> ReportColumn:
    if isinstance(column, TextColumn):
        texts = [column.cell(row) for row in range(len(column))]
        return ReportColumn(column.name, "text", texts)
    known = None if column.known.all() else column.known
    if column.unit in COLUMN_UNITS_NS:
        if column.name in AVERAGE_COLUMNS or column.step_ns < 1:
            values = column.floats() * COLUMN_UNITS_NS[column.unit]
            return ReportColumn(column.name, "mean_time", np.nan_to_num(values), known)
        return ReportColumn(column.name, "time", column.ns(), known)
    return _other(column, known)


def _other(column: NumberColumn, known: Bool | None) -> ReportColumn:
    floats = np.nan_to_num(column.floats())
    size, _, per = column.unit.partition("/")
    if size in SIZE_UNITS_BYTES:
        kind: Kind = "rate" if per else "size"
        return ReportColumn(column.name, kind, floats * SIZE_UNITS_BYTES[size], known)
    if column.unit == "%":
        return ReportColumn(column.name, "percent", floats, known)
    if not column.decimals:
        return ReportColumn(column.name, "count", column.mantissa, known)
    if column.decimals == 1:
        return ReportColumn(column.name, "mean", floats, known)
    return ReportColumn(column.name, "text", [column.cell(row) for row in range(len(column))])


def _note(column: Column) -> str:
    """Return a sentence on incomplete cells of a column; "" without any."""
    if isinstance(column, TextColumn):
        count = int(column.cut.sum())
        return f"{column.name}: {count} texts are cut off" if count else ""
    parts = [column.loses] if column.loses else []
    unknown, cut = (int((column.state == state).sum()) for state in (UNKNOWN, CUT))
    if cut:
        parts.append(f"{cut} numbers are cut after the decimal point")
    if unknown:
        parts.append(f"{unknown} numbers are cut off and not known")
    return f"{column.name}: {', '.join(parts)}" if parts else ""
