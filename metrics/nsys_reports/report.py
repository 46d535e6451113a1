"""Data model of a report: typed columns with the names of nsys, and its declaration."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ccltui.metrics.nsys_reports.row_filter import Filter
from ccltui.parsers.array_types import I64
from ccltui.parsers.nsys.report_tables import Part, RawColumns, RawTable, ReportTables

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
