"""Rows of tables that are read as they are written: the chosen ones, as columns of a report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ccltui.metrics.nsys_reports.rows.report import Kind, ReportColumn
from ccltui.metrics.nsys_reports.rows.row_filter import Filter
from ccltui.parsers.array_types import I64
from ccltui.parsers.nsys.report_tables import RawColumns, RawTable, ReportTables


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
