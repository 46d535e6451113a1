"""Convert a report printed by nsys to typed columns."""

from __future__ import annotations

import numpy as np

from ccltui.metrics.nsys_reports.report import Kind, Report, ReportColumn
from ccltui.parsers.array_types import Bool
from ccltui.parsers.nsys.text_reports.report_names import AVERAGE_COLUMNS
from ccltui.parsers.nsys.text_reports.typed_table import (
    CUT,
    UNKNOWN,
    Column,
    NumberColumn,
    Section,
    TextColumn,
)
from ccltui.parsers.units import COLUMN_UNITS_NS, SIZE_UNITS_BYTES


def report_of_section(section: Section) -> Report:
    """Return the table of a text section; ``notes`` list what nsys cut off or lost."""
    if not section.columns:
        return Report(section.report, section.title, absent=section.absent)
    columns = tuple(map(_column, section.columns))
    notes = [note for column in section.columns if (note := _note(column))]
    return Report(section.report, section.title, columns, notes=tuple(notes))


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
